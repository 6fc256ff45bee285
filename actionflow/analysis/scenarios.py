"""Failure scenarios: a mixture of normal distributions over the codes of counterexamples, as Defuse distils them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# A mixture needs two codes to have a spread.
FEWEST = 2
# Rows of codes that are looked at together when each is given to its component.
AT_ONCE = 50_000


@dataclass(frozen=True)
class Scenarios:
    """The components that were kept, the heaviest first, and whose each code is; -1: of one that was dropped."""

    weights: Floats  # (n)
    means: Floats  # (n, d)
    covariances: Floats  # (n, d, d)
    members: NDArray[np.int64]
    dropped: int = 0
    fitted: int = 0  # codes that the mixture was fitted to
    converged: bool = True

    def __len__(self) -> int:
        return len(self.weights)

    def draw(self, scenario: int, samples: int, diversity: float, random: np.random.Generator) -> NDArray[np.float32]:
        """Codes of a scenario: of its normal distribution, the covariance multiplied by `diversity`."""
        drawn = random.multivariate_normal(self.means[scenario], diversity * self.covariances[scenario], samples)
        return drawn.astype(np.float32)


def distil(codes: NDArray[np.float32], components: int, least_weight: float, most: int, seed: int) -> Scenarios:
    """Group codes (n, d) by a Dirichlet-process mixture of at most so many components, with full covariances.

    More than `most` codes are drawn from, by the seed. Components below `least_weight` are dropped, but never all.
    """
    chosen = codes
    if len(codes) > most:
        chosen = codes[np.sort(np.random.default_rng(seed).choice(len(codes), most, replace=False))]
    model = _fitted(chosen.astype(np.float64), min(components, len(chosen)), seed)
    kept = np.flatnonzero(model.weights_ >= min(least_weight, model.weights_.max()))
    kept = kept[np.argsort(-model.weights_[kept], kind="stable")]
    numbers = np.full(len(model.weights_), -1)
    numbers[kept] = np.arange(len(kept))
    starts = range(0, len(codes), AT_ONCE)
    members = np.concatenate([model.predict(codes[start : start + AT_ONCE].astype(np.float64)) for start in starts])
    return Scenarios(
        weights=model.weights_[kept],
        means=model.means_[kept],
        covariances=model.covariances_[kept],
        members=numbers[members],
        dropped=len(numbers) - len(kept),
        fitted=len(chosen),
        converged=bool(model.converged_),
    )


def _fitted(codes: Floats, components: int, seed: int) -> Any:
    """The paper's: scikit-learn's defaults with full covariances."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import BayesianGaussianMixture

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # told by `converged`
        return BayesianGaussianMixture(
            n_components=components,
            covariance_type="full",
            weight_concentration_prior_type="dirichlet_process",
            random_state=seed,
        ).fit(codes)


def majority(labels: NDArray[np.int64]) -> tuple[int, float]:
    """The most frequent label and its share; of labels that are even the smallest.

    >>> majority(np.array([3, 1, 3, 1, 3]))
    (3, 0.6)
    """
    values, counts = np.unique(labels, return_counts=True)
    best = int(counts.argmax())
    return int(values[best]), float(counts[best] / counts.sum())


def counted(labels: NDArray[np.int64]) -> list[dict[str, int]]:
    """How often each label is there, the most frequent first.

    >>> counted(np.array([3, 1, 3]))
    [{'label': 3, 'samples': 2}, {'label': 1, 'samples': 1}]
    """
    values, counts = np.unique(labels, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return [{"label": int(values[place]), "samples": int(counts[place])} for place in order]
