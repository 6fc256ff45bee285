"""The user's own pictures: a folder per class, or Parquet files with pictures and labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from actionflow.errors import DataError, SettingsError
from actionflow.training.data import folder, parquet
from actionflow.training.data.dataset import Column, ImageDataset, Integers, first_samples
from actionflow.training.data.forms import named_source, subfolders
from actionflow.training.data.pictures import Picture, common_size, decoded, grey_if_all_are
from actionflow.training.data.splits import fixed_split

NAME = "images"
WHAT_TO_TYPE = "-P data_dir=<folder with a folder of pictures per class, or with Parquet files>"


@dataclass(frozen=True)
class Gathered:
    """All samples of a data set, the training part first, before a picture is decoded."""

    class_names: tuple[str, ...]
    labels: Integers
    pictures: Callable[[], Iterable[Picture]]
    keys: list[str]
    trained: int  # how many of them are the training part; 0 where nobody divided them
    metadata: dict[str, Column] = field(default_factory=dict)
    left_aside: list[str] = field(default_factory=list)


def load(data_dir: str, image_size: int, told_apart: bool = True) -> ImageDataset:
    """Read the pictures under `data_dir`; if they differ in size or are large, scale them to `image_size` or 64."""
    if not data_dir:
        raise SettingsError(f"the data set images is your own, and no place was given: type {WHAT_TO_TYPE}.")
    place = Path(data_dir).expanduser()
    if not place.exists():
        raise DataError(f"{place} does not exist: type {WHAT_TO_TYPE}.")
    gathered = _gathered(place)
    _check_classes(gathered, place, told_apart)
    size = (image_size, image_size) if image_size else common_size(gathered.pictures())
    images = grey_if_all_are(decoded(gathered.pictures(), len(gathered.labels), size))
    samples = first_samples(images, gathered.labels, gathered.keys, gathered.metadata)
    if gathered.trained:
        parts = {"train": samples.first(gathered.trained), "test": samples.after(gathered.trained)}
    else:
        parts = fixed_split(samples)
    return ImageDataset(NAME, gathered.class_names, parts, named_source(place, gathered.left_aside))


def _gathered(place: Path) -> Gathered:
    if place.is_file():
        return _from_tables([place], [])
    for tables in (place, place / "data"):
        found = parquet.all_files(tables)
        if found:
            return _from_parquet_folder(tables, found)
    return _from_folder(place)


def _from_parquet_folder(place: Path, found: dict[str, list[Path]]) -> Gathered:
    parts = parquet.part_files(place)
    paths = [path for paths in found.values() for path in paths]
    missing = parquet.missing_shards(paths)
    if missing:
        raise DataError(f"{place} lacks {', '.join(missing)}: complete it, or type -P data_dir=<one file>.")
    if len(parts) < 2:
        return _from_tables(paths, [])
    used = [*parts["train"], *parts["test"]]
    return _from_tables(parts["train"], parts["test"], [path.name for path in paths if path not in used])


def _from_tables(train: list[Path], test: list[Path], left_aside: list[str] | None = None) -> Gathered:
    table = parquet.PictureTable([*train, *test])
    class_names, labels = table.labels()
    return Gathered(
        class_names=class_names,
        labels=labels,
        pictures=table.pictures,
        keys=table.keys(),
        trained=table.rows(*train) if test else 0,
        metadata=table.metadata(),
        left_aside=left_aside or [],
    )


def _from_folder(place: Path) -> Gathered:
    parts = folder.part_folders(place)
    if len(parts) == 2:
        left_aside = [path.name for path in subfolders(place) if path not in parts.values()]
        return _from_class_folders(place, parts["train"], parts["test"], left_aside)
    # Not even a test folder beside it: then the one folder is only a wrapping around the classes.
    if len(parts) == 1 and [*parts.values()] == subfolders(place):
        return _from_class_folders(place, subfolders(place)[0])
    return _from_class_folders(place, place)


def _from_class_folders(
    place: Path, train: Path, test: Path | None = None, left_aside: list[str] | None = None
) -> Gathered:
    parts = [folder.files_by_class(part) for part in (train, test) if part]
    class_names = tuple(sorted({name for part in parts for name in part}))
    labelled = list(enumerate(class_names))
    files = [(path, label) for part in parts for label, name in labelled for path in part.get(name, [])]
    paths = [path for path, _ in files]
    return Gathered(
        class_names=class_names,
        labels=np.array([label for _, label in files], np.int64),
        pictures=lambda: folder.pictures_of(paths),
        keys=[path.relative_to(place).as_posix() for path in paths],
        trained=sum(map(len, parts[0].values())) if test else 0,
        left_aside=left_aside or [],
    )


def _check_classes(gathered: Gathered, place: Path, told_apart: bool) -> None:
    """There must be something to tell apart, and nothing to test that was never trained on.

    Who does not tell classes apart needs one, and may be tested on others.
    """
    present = [gathered.class_names[label] for label in np.unique(gathered.labels)]
    if len(present) < 1 + told_apart:
        needs = "a classifier needs at least two classes" if told_apart else "an autoencoder needs at least one class"
        found = f"only '{present[0]}' in {place}" if present else f"none in {place} ({_count(place)} pictures)"
        raise DataError(f"{needs}, found {found}: give each class a folder of its own, or type {WHAT_TO_TYPE}.")
    if not told_apart:
        return
    trained = gathered.trained or len(gathered.labels)
    strangers = np.setdiff1d(gathered.labels[trained:], gathered.labels[:trained])
    if len(strangers):
        names = ", ".join(gathered.class_names[label] for label in strangers)
        raise DataError(
            f"{place} has test pictures of {names} but no training pictures: add some, or leave the class out."
        )


def _count(place: Path) -> int:
    return sum(1 for _ in folder.picture_files(place)) if place.is_dir() else 0
