"""From the name of a text data set to its samples: a local copy in any form, else the hub, else a line with why."""

from __future__ import annotations

import os
from pathlib import Path

from actionflow.errors import DataError, SettingsError, nearest
from actionflow.training.data.places import places
from actionflow.training.texts import own_texts
from actionflow.training.texts.assembling import assemble
from actionflow.training.texts.dataset import TextDataset
from actionflow.training.texts.hub import HubError, hub_rows
from actionflow.training.texts.known_texts import KNOWN_TEXTS, KnownTexts
from actionflow.training.texts.own_texts import OwnColumns
from actionflow.training.texts.part_files import PartFiles, find_parts, other_files
from actionflow.training.texts.rows import Rows, known_rows

# Folders that the hub puts around the files.
WRAPPINGS = ("data", "split", "plain_text", "default")


def text_dataset_names() -> list[str]:
    """The data sets that `load_texts` knows; they are the entry points too."""
    return [*KNOWN_TEXTS, own_texts.NAME]


def load_texts(name: str, data_dir: str = "", own: OwnColumns | None = None) -> TextDataset:
    """Read a text data set from `data_dir`, by default $ACTIONFLOW_DATA or ./data; `text` is read as `own` says.

    A known data set that is not there is taken from the hub. Ids are places in the files: the training part first.
    """
    if name not in text_dataset_names():
        raise SettingsError(f"there is no text data set {name!r}. {nearest(name, text_dataset_names())}")
    if name == own_texts.NAME:
        return own_texts.load(own)
    known = KNOWN_TEXTS[name]
    folder = _folder(known, data_dir)
    for place in places(folder, known.named, WRAPPINGS):
        if parts := find_parts(place, known.suffixes):
            return _local(known, place, parts)
    return _from_hub(known, folder)


def _folder(known: KnownTexts, data_dir: str) -> Path:
    folder = Path(data_dir or os.environ.get("ACTIONFLOW_DATA") or "data").expanduser()
    if folder.is_file():
        raise DataError(f"{folder} is a file: type -P data_dir={folder.parent}, the folder that holds {known.name}.")
    if data_dir and not folder.exists():
        raise DataError(f"{folder} does not exist: type -P data_dir=<folder with {known.files}>.")
    return folder


def _local(known: KnownTexts, place: Path, parts: list[PartFiles]) -> TextDataset:
    left_aside = [path.name for path in other_files(place, known.suffixes)]
    return _assembled(known, [known_rows(part, known) for part in parts], str(place), left_aside)


def _from_hub(known: KnownTexts, folder: Path) -> TextDataset:
    try:
        rows, left_aside = hub_rows(known)
    except HubError as error:
        raise DataError(
            f"{known.name} was not found in {folder} or {folder / known.name}, and {known.hub[0]} could not be had "
            f"from the hub ({error}): type -P data_dir=<folder with {known.files}>, or run once with a network."
        ) from error
    return _assembled(known, rows, f"{known.hub[0]} from the hub", left_aside)


def _assembled(known: KnownTexts, rows: list[Rows], place: str, left_aside: list[str]) -> TextDataset:
    return assemble(known.name, known.task, rows, known.wanted, known.class_names, place, left_aside)
