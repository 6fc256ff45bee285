"""Which samples are held out together, for predictions by models that never saw them."""

from __future__ import annotations

import numpy as np

from actionflow.errors import SettingsError
from actionflow.training.data.dataset import Integers
from actionflow.training.data.splits import Divisible, lots

# The split takes the seed's first draw, label noise the two after it.
DRAW = 3


def fold_numbers(samples: Divisible, folds: int, seed: int) -> Integers:
    """The fold of every sample, from 0: drawn by the seed, each class spread evenly over all folds."""
    if not 2 <= folds <= len(samples):
        raise SettingsError(f"folds must be from 2 to the {len(samples)} training samples, found {folds}.")
    by_class = np.lexsort((lots(samples.sample_ids, seed, DRAW), samples.labels))
    numbers = np.empty(len(samples), np.int64)
    numbers[by_class] = np.arange(len(samples)) % folds
    return numbers
