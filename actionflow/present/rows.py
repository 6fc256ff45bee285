"""Rows for people and for programs: the same Arrow table as a text table, csv, json or Parquet."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from actionflow.errors import QueryError

FORMATS = ("table", "csv", "json", "parquet")
# The widest column where there is no terminal to fit, the narrowest where there is, and no text is longer than this.
WIDEST, NARROWEST, LONGEST = 60, 16, 400
RUN_ID = re.compile(r"[0-9a-f]{32}")

AsText = Callable[[pa.Table], str]


def write(table: pa.Table, form: str | None = None, output: str | None = None, as_text: AsText | None = None) -> None:
    """Write rows to a file or to stdout; a terminal gets a table, a pipe csv, a file what its name ends in.

    `as_text` makes the table for people where the rows as they are would not be read.
    """
    form = form or _form_of(output)
    if output:
        with Path(output).open("wb") as file:
            _encode(table, form, file, as_text or text_table)
    elif form == "parquet" and sys.stdout.isatty():
        raise QueryError("parquet is not for a terminal: type --output rows.parquet")
    else:
        _encode(table, form, sys.stdout.buffer, as_text or text_table)
        sys.stdout.flush()
    if not table.num_rows and not (form == "table" and as_text):
        print("No rows.", file=sys.stderr)


def text_table(table: pa.Table) -> str:
    """Rows as a person reads them: numbers to the right, pictures as their size, long texts cut to what has room."""
    columns = [[name, *(_cell(value) for value in table[name].to_pylist())] for name in table.column_names]
    widths = _fitted([max(map(len, column)) for column in columns], shutil.get_terminal_size((0, 0)).columns)
    columns = [[_cut(cell, width) for cell in column] for column, width in zip(columns, widths, strict=True)]
    right = [_is_number(field.type) for field in table.schema]
    lines = [_line(row, widths, right) for row in zip(*columns, strict=True)]
    rule = "  ".join("─" * width for width in widths)
    return "\n".join([lines[0], rule, *lines[1:]]) if lines else ""


def _fitted(widths: list[int], room: int) -> list[int]:
    """Widths that fit into the room of a terminal, the widest columns cut to one width; room 0 means no terminal.

    >>> _fitted([4, 60, 50], 60)
    [4, 26, 26]
    """
    widest = max(widths, default=0) if room else WIDEST
    while room and sum(min(width, widest) + 2 for width in widths) - 2 > room and widest > NARROWEST:
        widest -= 1
    return [min(width, widest) for width in widths]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def is_for_people(form: str | None, output: str | None) -> bool:
    """Whether `write` writes a table to be read."""
    return (form or _form_of(output)) == "table"


def _form_of(output: str | None) -> str:
    if output:
        ending = Path(output).suffix.removeprefix(".")
        return ending if ending in FORMATS else "csv"
    return "table" if sys.stdout.isatty() else "csv"


def _encode(table: pa.Table, form: str, file: BinaryIO, as_text: AsText) -> None:
    if form == "parquet":
        pq.write_table(table, file)
    elif form == "csv":
        pyarrow.csv.write_csv(_flat(table), file)
    elif form == "json":
        file.write((json.dumps(table.to_pylist(), default=_plain, indent=1) + "\n").encode())
    else:
        file.write((as_text(table) + "\n").encode())


def _flat(table: pa.Table) -> pa.Table:
    """Csv knows neither dictionaries nor lists nor pictures: names become texts, the rest json."""
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(place, field.name, table[field.name].cast(pa.string()))
        elif pa.types.is_nested(field.type) or pa.types.is_binary(field.type):
            texts = [
                None if value is None else json.dumps(value, default=_plain) for value in table[field.name].to_pylist()
            ]
            table = table.set_column(place, field.name, pa.array(texts, pa.string()))
    return table


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else str(value)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e6 else f"{value:.3e}"
    if isinstance(value, bytes):
        return f"<{len(value):,} bytes>"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    text = " ".join(str(value).split())  # a line break would end the row
    if RUN_ID.fullmatch(text):
        return text[:8]  # enough to tell runs apart, and to type
    return _cut(text, LONGEST)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _line(cells: tuple[str, ...], widths: list[int], right: list[bool]) -> str:
    aligned = [
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    ]
    return "  ".join(aligned).rstrip()
