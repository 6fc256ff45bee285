"""What other packages say of the same samples: cleanlab and aum, which are installed for studies only."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actionflow.errors import SettingsError

PACKAGES = ("aum", "cleanlab")
# cleanlab's ways to judge a label by probabilities, and what a row of the study's table is called for them.
METHODS = {"self_confidence": "", "normalized_margin": "_margin"}


def check_installed() -> None:
    """Say before a long study what it will need at its end."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise SettingsError(
            f"this study needs {' and '.join(missing)}, not installed here: type `pip install {' '.join(missing)}`."
        )


def by_cleanlab(
    name: str, labels: NDArray[np.integer[Any]], probabilities: NDArray[np.floating[Any]]
) -> dict[str, NDArray[np.float64]]:
    """How suspicious cleanlab finds each label, by each of its ways to judge probabilities (n, classes)."""
    from cleanlab.rank import get_label_quality_scores

    whole = probabilities.astype(np.float64)
    whole /= whole.sum(axis=1, keepdims=True)
    return {
        f"cleanlab_{name}{ending}": -np.asarray(get_label_quality_scores(labels, whole, method=method), np.float64)
        for method, ending in METHODS.items()
    }


class AumPackage:
    """Watches the batches of a training with the package `aum`."""

    def __init__(self) -> None:
        from aum import AUMCalculator

        self._calculator = AUMCalculator("", compressed=True)

    def __call__(self, sample_ids: Any, logits: Any, targets: Any) -> None:
        """See a batch."""
        self._calculator.update(logits.cpu(), targets.cpu(), sample_ids.tolist())

    def suspicion(self, sample_ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """How suspicious it finds the labels of these samples: the lower the area under the margin, the more."""
        sums, counts = self._calculator.sums, self._calculator.counts
        return np.array([-sums[each] / counts[each] for each in sample_ids.tolist()])
