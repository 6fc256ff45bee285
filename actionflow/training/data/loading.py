"""From the name of a data set to its arrays: a local copy in any form, else a download, else a line that says why."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from actionflow.errors import DataError, SettingsError, nearest
from actionflow.training.data import digits, own_images
from actionflow.training.data.dataset import ImageDataset
from actionflow.training.data.download import DownloadError, download
from actionflow.training.data.forms import named_source
from actionflow.training.data.known_sets import KNOWN_SETS, KnownSet
from actionflow.training.data.pictures import scaled
from actionflow.training.data.search import Found, find
from actionflow.training.data.splits import fixed_split

DIGITS = "digits"
ALWAYS_THERE = "or try the digits that are always there with -e digits"


def dataset_names() -> list[str]:
    """The data sets that `load_dataset` knows; they are the entry points too."""
    return [DIGITS, *KNOWN_SETS, own_images.NAME]


def load_dataset(name: str, data_dir: str = "", image_size: int = 0, told_apart: bool = True) -> ImageDataset:
    """Read a data set from `data_dir`, by default $ACTIONFLOW_DATA or ./data, and scale it to `image_size` unless 0.

    A known data set that is not there is downloaded. Ids count the training samples first, then the test samples.
    `told_apart=False` also takes data of a single class.
    """
    if name not in dataset_names():
        raise SettingsError(f"there is no data set {name!r}. {nearest(name, dataset_names())}")
    if image_size < 0:
        raise SettingsError(f"image_size={image_size} cannot be meant: type -P image_size=32, or 0 to keep the size.")
    if name == own_images.NAME:
        return own_images.load(data_dir, image_size, told_apart)
    dataset = _digits() if name == DIGITS else _known(KNOWN_SETS[name], data_dir)
    return _scaled(dataset, image_size) if image_size else dataset


def _digits() -> ImageDataset:
    return ImageDataset(DIGITS, digits.CLASS_NAMES, fixed_split(digits.read()), "scikit-learn")


def _scaled(dataset: ImageDataset, side: int) -> ImageDataset:
    parts = {name: replace(part, images=scaled(part.images, (side, side))) for name, part in dataset.parts.items()}
    return replace(dataset, parts=parts)


def _known(known: KnownSet, data_dir: str) -> ImageDataset:
    folder = Path(data_dir or os.environ.get("ACTIONFLOW_DATA") or "data").expanduser()
    if folder.is_file():
        raise DataError(f"{folder} is a file: type -P data_dir={folder.parent}, the folder that holds {known.name}.")
    found = find(known, folder)
    if found and found.trace.complete:
        return _read(known, found)
    # A folder that somebody named is theirs: it is not filled up behind their back.
    if found and (data_dir or not known.torchvision):
        raise DataError(f"{_lacking(found)}: complete it, or type -P data_dir=<folder with {known.files}>.")
    if not known.torchvision:
        raise DataError(
            f"{_not_found(known, folder)}, and it can only be had by registering (fer2013.csv at kaggle.com, "
            f"fer2013new.csv at github.com/microsoft/FERPlus): type -P data_dir=<folder with {known.files}>, "
            f"{ALWAYS_THERE}."
        )
    return _downloaded(known, folder, _lacking(found) if found else _not_found(known, folder))


def _downloaded(known: KnownSet, folder: Path, why: str) -> ImageDataset:
    try:
        download(known, folder)
    except DownloadError as error:
        raise DataError(
            f"{why}, and its download failed ({error}): type -P data_dir=<folder with {known.files}>, {ALWAYS_THERE}."
        ) from error
    found = find(known, folder)
    if not found or not found.trace.complete:
        raise DataError(f"torchvision downloaded {known.name} to {folder}, but not in a form that is known here.")
    dataset = _read(known, found)
    return replace(dataset, source=f"torchvision download to {dataset.source}")


def _read(known: KnownSet, found: Found) -> ImageDataset:
    contents = found.form.read(found.place, known)
    for part, samples in contents.parts.items():
        if not len(samples):
            raise DataError(
                f"{known.name} has no {part} samples in {found.place}: type -P data_dir=<folder with {known.files}>."
            )
    return ImageDataset(known.name, known.class_names, contents.parts, named_source(found.home, contents.left_aside))


def _not_found(known: KnownSet, folder: Path) -> str:
    return f"{known.name} was not found in {folder} or {folder / known.name}"


def _lacking(found: Found) -> str:
    return f"{found.place} has {', '.join(found.trace.found)} but lacks {', '.join(found.trace.missing)}"
