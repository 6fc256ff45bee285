"""Picture files in a folder per class, with or without a folder per part around them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from actionflow.training.data.dataset import Samples, first_samples, train_then_test
from actionflow.training.data.forms import Contents, Form, Trace, choose_parts, is_part_name, subfolders
from actionflow.training.data.known_sets import KnownSet
from actionflow.training.data.pictures import ENDINGS, Picture, decoded_as


def trace(place: Path, known: KnownSet) -> Trace:
    """Look for the folders of both parts."""
    parts = part_folders(place)
    return Trace([path.name for path in parts.values()], [part for part in ("train", "test") if part not in parts])


def read(place: Path, known: KnownSet) -> Contents:
    """Read both parts, class by class in the order of the labels."""
    parts = part_folders(place)
    left_aside = [path.name for path in subfolders(place) if path not in parts.values()]
    return Contents(train_then_test(*(_part(parts[part], place, known) for part in ("train", "test"))), left_aside)


FORM = Form(trace, read)


def part_folders(place: Path) -> dict[str, Path]:
    """The folders of the parts `train` and `test`; a folder with pictures of its own is a class and no part."""
    named = {folder.name: folder for folder in subfolders(place) if is_part_name(folder.name)}
    holders = {name: folder for name, folder in named.items() if _holds_classes(folder)}
    return {part: holders[name] for part, name in choose_parts(list(holders)).items()}


def files_by_class(folder: Path) -> dict[str, list[Path]]:
    """The pictures of every class folder that has any."""
    found = {path.name: list(picture_files(path)) for path in subfolders(folder)}
    return {name: paths for name, paths in found.items() if paths}


def picture_files(folder: Path) -> Iterator[Path]:
    """All pictures in and below a folder, sorted, without hidden ones."""
    for path, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(path, name) for name in sorted(names) if _is_picture(name))


def pictures_of(paths: Iterable[Path]) -> Iterator[Picture]:
    """The files as pictures to decode."""
    return (Picture(str(path), path) for path in paths)


def _holds_classes(folder: Path) -> bool:
    if any(_is_picture(path.name) for path in folder.iterdir()):
        return False
    return any(True for inner in subfolders(folder) for _ in picture_files(inner))


def _is_picture(name: str) -> bool:
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in ENDINGS


def _part(folder: Path, place: Path, known: KnownSet) -> Samples:
    by_label: dict[int, list[Path]] = {}
    for name, paths in files_by_class(folder).items():
        by_label.setdefault(known.label_of(name, folder), []).extend(paths)
    files = [(path, label) for label in sorted(by_label) for path in by_label[label]]
    images = decoded_as(known, pictures_of(path for path, _ in files), len(files))
    labels = np.array([label for _, label in files], np.int64)
    return first_samples(images, labels, [path.relative_to(place).as_posix() for path, _ in files])
