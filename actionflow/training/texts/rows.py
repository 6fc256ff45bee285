"""One part of a data set as it lies in its files, before anything is left aside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from actionflow.errors import DataError
from actionflow.training.texts.known_texts import KnownTexts, Wanted
from actionflow.training.texts.lines import read_lines
from actionflow.training.texts.part_files import PartFiles
from actionflow.training.texts.squad import is_nested, read_nested
from actionflow.training.texts.tables import read_table


@dataclass(frozen=True)
class Rows:
    """All rows of a part in one table, and which file each is from.

    `part` is "train", "validation" or "test", `called` the word that its files call it by. Files of plain lines are
    told of by their line numbers: `first_line` is that of the first row, 0 where rows are no lines.
    """

    part: str
    called: str
    table: pa.Table
    files: tuple[tuple[str, int], ...]  # each file with the number of its rows
    first_line: int = 0

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def file(self) -> str:
        """The file, or the first of several, for a person."""
        return self.files[0][0]

    def where(self, row: int) -> str:
        """The place of a row, for a person."""
        for file, count in self.files:
            if row < count:
                return f"{file}, line {row + self.first_line}," if self.first_line else f"{file}, row {row},"
            row -= count
        raise IndexError(row)

    def column(self, names: Sequence[str]) -> str:
        """The first of these columns that is there, or nothing."""
        return next((name for name in names if name in self.table.column_names), "")


Reader = Callable[[Path], tuple[pa.Table, int]]


def known_rows(files: PartFiles, known: KnownTexts) -> Rows:
    """Read a part of a known data set, in whichever form it is."""
    return _rows(files, lambda path: _known_table(path, known))


def own_rows(files: PartFiles, wanted: Wanted) -> Rows:
    """Read a part of the user's own data set."""
    return _rows(files, lambda path: (read_table(path, wanted.names), 0))


def _known_table(path: Path, known: KnownTexts) -> tuple[pa.Table, int]:
    if path.suffix.lower() in known.separators:
        return read_lines(path, known)
    if known.wanted.answers and is_nested(path):
        return read_nested(path), 0
    return read_table(path, known.wanted.names), 0


def _rows(files: PartFiles, read: Reader) -> Rows:
    tables = [read(path) for path in files.paths]
    for path, (table, _) in zip(files.paths, tables, strict=True):
        _refuse_useless(path, table, tables[0][0], files.paths[0])
    counted = tuple((str(path), table.num_rows) for path, (table, _) in zip(files.paths, tables, strict=True))
    return Rows(files.part, files.called, pa.concat_tables([table for table, _ in tables]), counted, tables[0][1])


def _refuse_useless(path: Path, table: pa.Table, first: pa.Table, first_path: Path) -> None:
    if not table.num_rows:
        raise DataError(f"{path} has no rows: put a whole copy in its place.")
    twice = [name for name in dict.fromkeys(table.column_names) if table.column_names.count(name) > 1]
    if twice:
        raise DataError(f"{path} has more than one column {twice[0]}: give each column a name of its own.")
    if not table.schema.equals(first.schema):
        raise DataError(
            f"{path} has the columns {', '.join(table.column_names)}, but {first_path.name} has "
            f"{', '.join(first.column_names)}, or they differ in type: save both alike."
        )
