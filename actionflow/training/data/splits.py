"""Which samples train and which are held out: class by class, the same on every machine and in every version."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from actionflow.errors import DataError, SettingsError
from actionflow.training.data.dataset import ImageDataset, Integers, Samples

HELD_OUT = 0.2
# The draw of data without official parts. It is a promise: another number would make old and new runs incomparable.
FIXED_DRAW = 0


def make_splits(dataset: ImageDataset, validation: str, seed: int = 0) -> dict[str, Samples]:
    """The splits of one training.

    `validation="test"` takes the official test part as `val`, as in the paper. A fraction takes that share of the
    training part, drawn by the seed, as `val`; the test part then is the split `test`.
    """
    train, test = dataset.parts["train"], dataset.parts["test"]
    if validation == "test":
        return {"train": train, "val": test}
    fraction = _fraction(validation)
    held_out = _draw(train, fraction, seed)
    # Every class lends at least one sample, but a share of less than half a sample cannot be meant.
    wanted = round(len(train) * fraction)
    if wanted in (0, len(train)) or not held_out.any():
        empty = "train" if wanted == len(train) else "val"
        raise SettingsError(
            f"validation={validation} of {len(train)} training samples leaves {empty} empty: type -P validation=0.1."
        )
    return {"train": train.take(np.flatnonzero(~held_out)), "val": train.take(np.flatnonzero(held_out)), "test": test}


def fixed_split(samples: Samples) -> dict[str, Samples]:
    """Divide data that has no official parts: a fifth of every class is the test part, whatever the seed."""
    held_out = _draw(samples, HELD_OUT, FIXED_DRAW)
    if not held_out.any():
        raise DataError(
            f"no class has more than one of the {len(samples)} samples: to hold some out, give at least two to a class."
        )
    return {"train": samples.take(np.flatnonzero(~held_out)), "test": samples.take(np.flatnonzero(held_out))}


def _fraction(validation: str) -> float:
    try:
        fraction = float(validation)
    except ValueError:
        fraction = np.nan
    if not 0 < fraction < 1:
        raise SettingsError(
            f"validation={validation} is neither 'test' nor a fraction: type -P validation=test or -P validation=0.1."
        )
    return fraction


def _draw(samples: Samples, fraction: float, seed: int) -> NDArray[np.bool_]:
    """Mark this fraction of every class; a class with more than one sample is found on both sides."""
    lots = _lots(samples.sample_ids, seed)
    drawn = np.zeros(len(samples), np.bool_)
    for label in np.unique(samples.labels):
        members = np.flatnonzero(samples.labels == label)
        count = min(max(round(len(members) * fraction), 1), len(members) - 1)
        drawn[members[np.argsort(lots[members], kind="stable")[:count]]] = True
    return drawn


def _lots(sample_ids: Integers, seed: int) -> NDArray[np.uint64]:
    """A random-looking number for every id: splitmix64, written out because numpy's generators may change."""
    return _mixed(_mixed(np.full(1, seed, np.uint64)) + sample_ids.astype(np.uint64))


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
