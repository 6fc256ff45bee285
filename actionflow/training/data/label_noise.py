"""Labels that are wrong on purpose: drawn by the seed, or taken from a file; the right ones stay beside them.

Only training labels change, never those of the test part. What a validation fraction holds out of the training part
stays noisy: who trains on wrong labels has no right ones to validate with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from actionflow.errors import DataError
from actionflow.training.data.dataset import ImageDataset, Integers, Samples
from actionflow.training.data.splits import lots
from actionflow.training.data.trouble import check_labels, read_as
from actionflow.training.settings import VisionSettings

# The label before, in the view `samples`.
CLEAN_LABEL = "clean_label"
# Draws of the seed: the split takes the first, so noise and split have nothing to do with one another.
WHO, WHAT = 1, 2

# From labels, numbers drawn for each sample, and the number of classes to other labels.
Flip = Callable[[Integers, NDArray[np.uint64], int], Integers]


def symmetric(labels: Integers, drawn: NDArray[np.uint64], classes: int) -> Integers:
    """Each label becomes one of the others, all equally likely.

    >>> symmetric(np.array([0, 0, 2]), np.array([0, 1, 0], np.uint64), 3).tolist()
    [1, 2, 0]
    """
    return (labels + 1 + (drawn % np.uint64(classes - 1)).astype(np.int64)) % classes


def pairs(labels: Integers, drawn: NDArray[np.uint64], classes: int) -> Integers:
    """Each label becomes the next one, the last the first: as when two classes are mistaken for one another."""
    return (labels + 1) % classes


FLIPS: dict[str, Flip] = {"symmetric": symmetric, "pairs": pairs}


def with_label_noise(dataset: ImageDataset, settings: VisionSettings) -> ImageDataset:
    """The data set with the training labels that the settings ask for; as it is where they ask for none."""
    train, classes = dataset.parts["train"], len(dataset.class_names)
    if settings.noise_kind == "file":
        path = Path(settings.noise_file).expanduser()
        labels = _from_file(path, settings.noise_column, len(train), classes, limited=settings.limit > 0)
        told = " ".join(filter(None, ["by", path.name, settings.noise_column]))
    elif settings.noise:
        labels = flipped(train, settings.noise, FLIPS[settings.noise_kind], classes, settings.seed)
        told = f"{settings.noise_kind}, seed {settings.seed}"
    else:
        return dataset
    parts = {name: _remembering(part) for name, part in dataset.parts.items()}
    parts["train"] = replace(parts["train"], labels=labels)
    changed = f"{(labels != train.labels).sum():,} of {len(train):,} training labels changed ({told})"
    return replace(dataset, parts=parts, source=f"{dataset.source}, {changed}")


def flipped(samples: Samples, share: float, flip: Flip, classes: int, seed: int) -> Integers:
    """The labels, of which this share, rounded to whole samples, is another than before."""
    chosen = np.argsort(lots(samples.sample_ids, seed, WHO), kind="stable")[: round(share * len(samples))]
    labels = samples.labels.copy()
    labels[chosen] = flip(labels[chosen], lots(samples.sample_ids[chosen], seed, WHAT), classes)
    return labels


def _remembering(samples: Samples) -> Samples:
    return replace(samples, metadata={**samples.metadata, CLEAN_LABEL: samples.labels})


def _from_file(path: Path, column: str, count: int, classes: int, limited: bool) -> Integers:
    """One label for each training sample, in the data set's own order; of limited data the first ones."""
    if not path.is_file():
        raise DataError(
            f"there is no file {path}: type -P noise_file=<a label for each training sample, as csv or npy>."
        )
    labels = _array(path) if path.suffix.lower() == ".npy" else _column(path, column)
    if len(labels) < count or (len(labels) > count and not limited):
        raise DataError(
            f"{path} has {len(labels):,} labels for {count:,} training samples: it needs one for each, in the data "
            "set's own order" + (", or type a smaller -P limit." if len(labels) < count else ".")
        )
    labels = labels[:count]
    check_labels(labels, classes, path)
    return labels


def _array(path: Path) -> Integers:
    with read_as("an array", path, OSError, ValueError, EOFError):
        return _whole(np.load(path, allow_pickle=False), str(path))


def _column(path: Path, name: str) -> Integers:
    from actionflow.training.texts.tables import read_table

    table = read_table(path, ())
    found = table.column_names
    name = name or (found[0] if len(found) == 1 else "")
    if name not in found:
        asked = f"has no column {name}" if name else "has more than one column"
        raise DataError(f"{path} {asked} (found: {', '.join(found)}): type -P noise_column=<one of them>.")
    return _whole(table[name].to_numpy(zero_copy_only=False), f"column {name} of {path}")


def _whole(values: NDArray[np.generic], where: str) -> Integers:
    if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
        raise DataError(
            f"{where} must be one row of whole numbers, found {values.dtype} of shape {list(values.shape)}: give "
            "every training sample the number of a class."
        )
    return values.astype(np.int64)
