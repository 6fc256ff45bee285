"""What cannot be trained on is said before training starts."""

from __future__ import annotations

import numpy as np

from actionflow.errors import DataError, SettingsError
from actionflow.training.data.splits import Divisible
from actionflow.training.settings import Settings


def check_trainable(train: Divisible, settings: Settings, classes: bool = True) -> None:
    """Refuse a batch larger than the data, data of a single class, and what needs classes where there are none."""
    if settings.batch_size > len(train):
        raise SettingsError(
            f"batch_size {settings.batch_size} is larger than the data: there are {len(train)} training samples. "
            f"Type -P batch_size={max(1, len(train) // 4)}, or a larger -P limit."
        )
    if not classes:
        if settings.gradient_scores:
            raise SettingsError(
                f"gradients={','.join(settings.gradient_scores)} needs samples with classes, and those of "
                f"{settings.dataset} have none: leave -P gradients out."
            )
        if settings.keeps_probabilities:
            raise SettingsError("probabilities are of classes, and this task has none: leave out -P probabilities.")
        return
    there = np.unique(train.labels)
    if len(there) < 2:
        raise DataError(
            f"the {len(train)} training samples are all of class {there[0]}: a classifier needs two at least. "
            "Type a larger -P limit, or check the labels."
        )
