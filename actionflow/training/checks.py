"""What cannot be trained on is said before training starts."""

from __future__ import annotations

import numpy as np

from actionflow.errors import DataError, SettingsError
from actionflow.training.data import Samples
from actionflow.training.settings import Settings


def check_trainable(splits: dict[str, Samples], settings: Settings) -> None:
    """Refuse a batch larger than the data, and data of a single class."""
    train = splits["train"]
    if settings.batch_size > len(train):
        raise SettingsError(
            f"batch_size {settings.batch_size} is larger than the data: there are {len(train)} training samples. "
            f"Type -P batch_size={max(1, len(train) // 4)}, or a larger -P limit."
        )
    classes = np.unique(train.labels)
    if len(classes) < 2:
        raise DataError(
            f"the {len(train)} training samples are all of class {classes[0]}: a classifier needs two at least. "
            "Type a larger -P limit, or check the labels."
        )
