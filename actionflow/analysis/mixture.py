"""Tell wrong labels from right ones by a score: normal distributions over it, fitted without knowing any label.

Scores are taken as trust: the higher, the more the model agrees with the label, and 0 where the label and its rival
are even. One distribution starts where labels lose, and stands for wrong labels; two start where they win, for right
ones, of which some are easier than others. Samples that are only hard hover around 0, and wrong labels lose clearly:
unless the lowest distribution ends far enough below 0 and apart from the others, nothing says that labels are wrong.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

Floats = NDArray[np.float64]

# How many standard deviations of the hard ones lie between their mean and that of the wrong ones: fewer make one hump.
APART = 2.5
# How clearly wrong labels lose, as a share of how clearly right ones win. Digits without a wrong label have a tail of
# hard ones that comes to a tenth; with one in a hundred wrong it is a third and more.
CLEARLY = 0.25
# A distribution fitted to fewer is a distribution of a few samples; a fit to more says the same and takes longer.
FEWEST, MOST = 50, 100_000
# A distribution does not shrink to a few samples that are nearly alike: its variance is at least this share of all.
LEAST_VARIANCE = 0.01
# A model judges labels by those that it could learn from: nine in ten are not wrong.
MOST_WRONG = 0.9


@dataclass(frozen=True)
class Normal:
    """A normal distribution, and its share of all samples."""

    share: float
    mean: float
    spread: float

    def density(self, trust: Floats) -> Floats:
        """How dense its samples lie at a trust, as a share of all samples."""
        height = self.share / (self.spread * np.sqrt(2 * np.pi))
        return np.asarray(height * np.exp(-0.5 * ((trust - self.mean) / self.spread) ** 2))


@dataclass(frozen=True)
class Mixture:
    """What is probably labelled wrong, and the rest: the harder and the easier of the right ones."""

    wrong: Normal
    hard: Normal
    easy: Normal

    @property
    def separation(self) -> float:
        """How far the mean of the wrong ones lies below that of the hard ones, in standard deviations of these.

        Not of the wrong ones: few of them are widely spread.
        """
        return (self.hard.mean - self.wrong.mean) / self.hard.spread

    @property
    def clarity(self) -> float:
        """How clearly the lowest lose, as a share of how clearly the others win.

        Where these do not win either, as by the mean probability of a label among many wrong ones, all is clear.
        """
        return -self.wrong.mean / self.right_mean if self.right_mean > 0 else math.inf

    @property
    def is_of_wrong_labels(self) -> bool:
        """Whether the lowest distribution is a thing of its own, of labels that clearly lose."""
        return self.clarity > CLEARLY and self.separation > APART

    @property
    def threshold(self) -> float:
        """Where a label is as likely wrong as right."""
        low, high = self.wrong.mean, self.right_mean
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if self.chance(np.array([middle]))[0] > 0.5 else (low, middle)
        return (low + high) / 2

    def right_density(self, trust: Floats) -> Floats:
        """How dense right labels lie at a trust."""
        return self.hard.density(trust) + self.easy.density(trust)

    def chance(self, trust: Floats) -> Floats:
        """The chance that a label is wrong.

        Of normal distributions the widest would win in both tails: beyond either mean a sample has the chance at the
        mean, so that nobody's label gets likelier wrong because the model trusts it more.
        """
        inside = np.clip(trust, self.wrong.mean, self.right_mean)
        wrong = self.wrong.density(inside)
        return wrong / (wrong + self.right_density(inside))

    @property
    def right_mean(self) -> float:
        """The mean of the hard and the easy ones together."""
        return (self.hard.share * self.hard.mean + self.easy.share * self.easy.mean) / (
            self.hard.share + self.easy.share
        )


def fit(trust: Floats) -> Mixture | None:
    """Fit the distributions to finite values; None where there is nothing to tell apart: no label loses, or none wins.

    It starts from what is known, and so comes to the same end every time.
    """
    values = _fewer(trust)
    starts = _starts(values)
    if starts is None:
        return None
    model = GaussianMixture(
        3,
        weights_init=np.array([each.share for each in starts]),
        means_init=np.array([[each.mean] for each in starts]),
        precisions_init=np.array([[[each.spread**-2]] for each in starts]),
        reg_covar=LEAST_VARIANCE * float(values.var()),
        init_params="random",
        random_state=0,
        max_iter=1000,
    )
    # Sums that several threads share depend on who comes first.
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(values.reshape(-1, 1))
    found = zip(model.weights_, model.means_[:, 0], np.sqrt(model.covariances_[:, 0, 0]), strict=True)
    mixture = Mixture(*sorted((Normal(*map(float, each)) for each in found), key=lambda each: each.mean))
    return mixture if mixture.wrong.share < MOST_WRONG else None


def _starts(values: Floats) -> tuple[Normal, Normal, Normal] | None:
    """Labels that lose, and those that win, halved at their median."""
    losing, winning = values[values < 0], np.sort(values[values >= 0])
    if not len(losing) or len(winning) < 2:
        return None
    groups = losing, winning[: len(winning) // 2], winning[len(winning) // 2 :]
    least = float(np.sqrt(LEAST_VARIANCE * values.var()))
    wrong, hard, easy = (
        Normal(len(each) / len(values), float(each.mean()), max(float(each.std()), least)) for each in groups
    )
    return wrong, hard, easy


def _fewer(values: Floats) -> Floats:
    """As many as a fit needs, evenly from the lowest to the highest."""
    if len(values) <= MOST:
        return values
    return np.sort(values)[np.linspace(0, len(values) - 1, MOST).round().astype(np.int64)]
