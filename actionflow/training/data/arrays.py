"""Pairs of files that hold the images and the labels of a part as plain arrays."""

from __future__ import annotations

from pathlib import Path

from actionflow.errors import DataError
from actionflow.training.data.dataset import Images, Integers, Samples, first_samples
from actionflow.training.data.known_sets import KnownSet
from actionflow.training.data.trouble import check_labels


def paired(part: str, images: tuple[Path, Images], labels: tuple[Path, Integers], known: KnownSet) -> Samples:
    """The samples of one part, once the two files are known to belong together."""
    (images_file, pixels), (labels_file, numbers) = images, labels
    if pixels.shape[1:] != known.size:
        raise DataError(
            f"{images_file} holds arrays of shape {pixels.shape}, but the pictures of {known.name} are "
            f"{known.side}x{known.side}: put a copy of {known.name} in its place."
        )
    if numbers.shape != pixels.shape[:1]:
        raise DataError(
            f"{images_file} has {len(pixels)} images but {labels_file} has {numbers.size} labels: put whole copies of "
            "both in their place."
        )
    check_labels(numbers, len(known.class_names), labels_file)
    return first_samples(pixels[:, None], numbers, part_keys(part, len(numbers)))


def part_keys(part: str, count: int) -> list[str]:
    """What samples without a name of their own are called."""
    return [f"{part}/{place}" for place in range(count)]
