"""Plain lines with a separator, where quotation marks mean nothing: `text;label`, and the TSV of MNLI and SNLI."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from actionflow.errors import DataError
from actionflow.training.data.trouble import read_as
from actionflow.training.texts.known_texts import KnownTexts
from actionflow.training.texts.tables import refuse_empty


def read_lines(path: Path, known: KnownTexts) -> tuple[pa.Table, int]:
    """The table in a file of plain lines, and the number of its first line; a blank line is a row without a text."""
    refuse_empty(path)
    with read_as("UTF-8 text", path, OSError, UnicodeError):
        lines = path.read_text("utf-8-sig").rstrip("\r\n").split("\n")
    separator = known.separators[path.suffix.lower()]
    names, first_line = lines[0].rstrip("\r").split(separator), 2
    if not _is_header(names, known):
        names, first_line = _usual_columns(known), 1
    kept = [place for place, name in enumerate(names) if name in _kept(known)]
    # Only the last separator counts where there are two columns: a text may hold it too.
    cuts = 1 if len(names) == 2 else -1
    rows: list[list[str | None]] = []
    for number, line in enumerate(lines[first_line - 1 :], first_line):
        cells = line.rstrip("\r").rsplit(separator, cuts)
        if len(cells) <= kept[-1]:
            _refuse_unless_blank(line, f"{path}, line {number},", len(cells), kept[-1] + 1, separator)
            rows.append([None] * len(kept))
        else:
            rows.append([cells[place] for place in kept])
    columns = zip(*rows, strict=True) if rows else [()] * len(kept)
    return pa.table(dict(zip((names[place] for place in kept), columns, strict=True))), first_line


def _is_header(cells: Sequence[str], known: KnownTexts) -> bool:
    return all(any(name in cells for name in names) for names in known.wanted.texts.values())


def _kept(known: KnownTexts) -> set[str]:
    """Parse trees and single votes are many times as long as the texts: they are let go line by line."""
    return {*known.wanted.names, *known.wanted.metadata}


def _usual_columns(known: KnownTexts) -> list[str]:
    """The order without a header: what is read first, what is judged beside it, the label."""
    wanted = known.wanted
    return [wanted.texts[name][0] for name in sorted(wanted.texts)] + [wanted.label[0]]


def _refuse_unless_blank(line: str, where: str, found: int, needed: int, separator: str) -> None:
    if line.strip():
        raise DataError(
            f"{where} has too few columns ({found}, at least {needed} are needed), separated by {separator!r}: correct "
            "the line or leave it out."
        )
