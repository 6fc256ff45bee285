"""The user's own texts: a CSV, TSV, JSON Lines or Parquet file, or a folder with one per part."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from actionflow.errors import DataError, SettingsError
from actionflow.training.texts.assembling import assemble, refuse_strangers
from actionflow.training.texts.dataset import CLASSIFICATION, TEXT_TO_TEXT, TextDataset
from actionflow.training.texts.known_texts import TABLES, Wanted
from actionflow.training.texts.part_files import PartFiles, find_parts, other_files, part_word
from actionflow.training.texts.rows import own_rows

NAME = "text"
WHAT_TO_TYPE = "-P data=<file.csv, .tsv, .jsonl or .parquet, or a folder with train and test files>"


@dataclass(frozen=True)
class OwnColumns:
    """Where the user's own texts are, and what their columns are called.

    `data` is a file, or a folder with files called train, validation and test. A `target` column makes it a
    text-to-text task; without one `label` holds the classes. `context` is read beside the text.
    """

    data: str
    text: str = "text"
    context: str = ""
    label: str = "label"
    target: str = ""

    @property
    def wanted(self) -> Wanted:
        """The columns to read."""
        named = {"text": self.text, "context": self.context, "target_text": self.target}
        texts = {name: (column,) for name, column in named.items() if column}
        return Wanted(texts, label=() if self.target else (self.label,), own=True)


def load(own: OwnColumns | None) -> TextDataset:
    """Read the user's texts; the classes are the labels that are found, in order."""
    if own is None or not own.data:
        raise SettingsError(f"the data set text is your own, and no place was given: type {WHAT_TO_TYPE}.")
    _check_columns(own)
    place = Path(own.data).expanduser()
    if not place.exists():
        raise DataError(f"{place} does not exist: type {WHAT_TO_TYPE}.")
    parts = _parts(place)
    used = {path for part in parts for path in part.paths}
    left_aside = [path.name for path in other_files(place, TABLES) if path not in used]
    rows = [own_rows(part, own.wanted) for part in parts]
    task = TEXT_TO_TEXT if own.target else CLASSIFICATION
    dataset = assemble(NAME, task, rows, own.wanted, place=str(place), left_aside=left_aside)
    refuse_strangers(dataset, place)
    return dataset


def _check_columns(own: OwnColumns) -> None:
    if not own.text:
        raise SettingsError("the column of the texts has no name: type -P text_column=<column>.")
    if not own.label and not own.target:
        raise SettingsError(
            "there is neither a label nor a target column: type -P label_column=<column> or -P target_column=<column>."
        )
    columns = [name for name in (own.text, own.context, own.target or own.label) if name]
    twice = [name for name in columns if columns.count(name) > 1]
    if twice:
        raise SettingsError(
            f"the column {twice[0]} cannot be two things at once: type -P text_column=, -P label_column= … apart."
        )


def _parts(place: Path) -> list[PartFiles]:
    if place.is_file():
        return [_alone(place)]
    parts = find_parts(place, TABLES)
    if parts:
        return parts
    files = other_files(place, TABLES)
    if len(files) == 1:
        return [_alone(files[0])]
    found = ", ".join(path.name for path in files) or f"nothing of {', '.join(TABLES)}"
    raise DataError(f"{place} has no files called train and test (found: {found}): type {WHAT_TO_TYPE}.")


def _alone(path: Path) -> PartFiles:
    return PartFiles("train", part_word(path.stem) or path.stem, (path,))
