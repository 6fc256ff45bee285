"""Which samples train and which are held out: class by class, the same on every machine and in every version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from actionflow.errors import DataError, SettingsError
from actionflow.training.data.dataset import Integers

HELD_OUT = 0.2
# The draw of data without official parts. It is a promise: another number would make old and new runs incomparable.
FIXED_DRAW = 0


class Divisible(Protocol):
    """Samples of any kind that can be divided: they have ids, and labels that are all alike where there are none."""

    @property
    def sample_ids(self) -> Integers:
        """int64 (n), ascending."""

    @property
    def labels(self) -> Integers:
        """int64 (n)."""

    def __len__(self) -> int: ...

    def take(self, places: Integers) -> Self:
        """The samples at these places."""


SamplesT = TypeVar("SamplesT", bound=Divisible)
SamplesT_co = TypeVar("SamplesT_co", bound=Divisible, covariant=True)


class Parted(Protocol[SamplesT_co]):
    """A data set of any kind with its parts `train`, `test` and, where it has one, `validation`."""

    @property
    def parts(self) -> Mapping[str, SamplesT_co]:
        """The samples of each part."""


def make_splits(dataset: Parted[SamplesT], validation: str, seed: int = 0) -> dict[str, SamplesT]:
    """The splits of one training.

    `validation="test"` takes the official test part as `val`, as in the paper. `"official"` takes the validation part,
    if there is one, and the test part then is the split `test`; else it is the same as "test". A fraction takes that
    share of the training part, drawn by the seed, as `val`; the test part then is the split `test`.
    """
    train, test = dataset.parts["train"], dataset.parts["test"]
    official = dataset.parts.get("validation")
    if validation == "official" and official is not None:
        return {"train": train, "val": official, "test": test}
    if validation in ("official", "test"):
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


def halves(samples: SamplesT, seed: int) -> tuple[SamplesT, SamplesT]:
    """Half of every class and the rest, drawn by the seed."""
    drawn = _draw(samples, 0.5, seed)
    return samples.take(np.flatnonzero(~drawn)), samples.take(np.flatnonzero(drawn))


def fixed_split(samples: SamplesT, groups: Sequence[str] = ()) -> dict[str, SamplesT]:
    """Divide data that has no official parts: a fifth of every class is the test part, whatever the seed.

    Where `groups` names the group of every sample, whole groups are held out instead, until they make about a fifth.
    """
    held_out = _draw_groups(samples, groups) if groups else _draw(samples, HELD_OUT, FIXED_DRAW)
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
            f"validation={validation} is neither 'official' nor 'test' nor a fraction: type -P validation=official, "
            "-P validation=test or -P validation=0.1."
        )
    return fraction


def _draw(samples: Divisible, fraction: float, seed: int) -> NDArray[np.bool_]:
    """Mark this fraction of every class; a class with more than one sample is found on both sides."""
    drawn_lots = lots(samples.sample_ids, seed)
    drawn = np.zeros(len(samples), np.bool_)
    for label in np.unique(samples.labels):
        members = np.flatnonzero(samples.labels == label)
        count = min(max(round(len(members) * fraction), 1), len(members) - 1)
        drawn[members[np.argsort(drawn_lots[members], kind="stable")[:count]]] = True
    return drawn


def _draw_groups(samples: Divisible, groups: Sequence[str]) -> NDArray[np.bool_]:
    """Mark whole groups, in the order of their lots, up to the number of samples that is nearest to a fifth."""
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    _, firsts, members = np.unique([numbers[group] for group in groups], return_index=True, return_inverse=True)
    order = np.argsort(lots(samples.sample_ids[firsts], FIXED_DRAW), kind="stable")
    collected = np.cumsum(np.bincount(members)[order])
    nearest = int(np.abs(collected - HELD_OUT * len(samples)).argmin()) + 1
    return np.isin(members, order[: min(nearest, len(order) - 1)])


def lots(sample_ids: Integers, seed: int, draw: int = 0) -> NDArray[np.uint64]:
    """A random-looking number for every id, another one in every draw of a seed.

    It is splitmix64, written out because numpy's generators may change.
    """
    drawn = _mixed(_mixed(np.full(1, seed, np.uint64)) + sample_ids.astype(np.uint64))
    for _ in range(draw):
        drawn = _mixed(drawn)
    return drawn


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
