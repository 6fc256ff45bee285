"""Threshold samples, as in AUM (Pleiss et al., 2020): training samples whose label is known to be wrong.

Some are given a class of their own. No picture looks like it, so a model has to learn them by heart, as it has to learn
wrong labels: what their margins come to is how a wrong label looks in this training.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from actionflow.errors import SettingsError
from actionflow.training.data import Samples
from actionflow.training.data.splits import lots

# Of the draws of a seed the split has the first, noise two, folds one.
DRAW = 4


@dataclass(frozen=True)
class ThresholdSamples:
    """Training samples of which some were given the class `label`, one beyond those of the data set."""

    train: Samples
    label: int
    count: int

    def facts(self) -> dict[str, Any]:
        """What a run is told of them; which they are is told by their label."""
        return {"threshold_samples": {"class": self.label, "samples": self.count}}


def draw_threshold_samples(train: Samples, classes: int, seed: int) -> ThresholdSamples:
    """Give one in (classes + 1) training samples, drawn by the seed, a class of their own."""
    count = len(train) // (classes + 1)
    if not count:
        raise SettingsError(
            f"one in {classes + 1} of {len(train)} training samples is none: train on more, or leave out "
            "-P threshold_samples."
        )
    drawn = np.argsort(lots(train.sample_ids, seed, DRAW), kind="stable")[:count]
    labels = train.labels.copy()
    labels[drawn] = classes
    return ThresholdSamples(replace(train, labels=labels), classes, count)
