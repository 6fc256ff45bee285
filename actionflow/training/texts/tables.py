"""Tables of texts as people keep them: CSV, TSV, JSON Lines, a JSON array, Parquet."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from actionflow.errors import DataError
from actionflow.training.data.trouble import read_as

# A row has to fit into a block: a long document does.
BLOCK = 64 * 1024 * 1024
KINDS = {
    ".csv": "CSV",
    ".tsv": "TSV",
    ".jsonl": "JSON Lines",
    ".ndjson": "JSON Lines",
    ".json": "JSON",
    ".parquet": "Parquet",
}


def read_table(path: Path, texts: Sequence[str]) -> pa.Table:
    """The table in a file; the columns `texts` stay as they are written even where they look like numbers or dates."""
    kind = KINDS.get(path.suffix.lower())
    if kind is None:
        raise DataError(f"{path} is of no kind that is known here ({', '.join(KINDS)}): save it as one of them.")
    refuse_empty(path)
    with read_as(kind, path, OSError, ValueError, pa.ArrowException):
        if kind == "Parquet":
            return pq.ParquetFile(path).read()
        return _csv(path, texts) if kind in ("CSV", "TSV") else _json(path, texts)


def refuse_empty(path: Path) -> None:
    """A file without a byte holds nothing to learn from."""
    if not path.stat().st_size:
        raise DataError(f"{path} is empty: put a whole copy in its place.")


def _csv(path: Path, texts: Sequence[str]) -> pa.Table:
    from pyarrow import csv

    return csv.read_csv(
        path,
        read_options=csv.ReadOptions(block_size=BLOCK),
        parse_options=csv.ParseOptions(
            delimiter="\t" if path.suffix.lower() == ".tsv" else ",", newlines_in_values=True
        ),
        convert_options=csv.ConvertOptions(column_types=dict.fromkeys(texts, pa.string())),
    )


def _json(path: Path, texts: Sequence[str]) -> pa.Table:
    if is_json_array(path):
        return _json_array(path)
    table = _json_lines(path)
    # Texts that all look like dates would become dates, and not be the same text again.
    dates = [name for name in texts if name in table.column_names and pa.types.is_timestamp(table[name].type)]
    return _json_lines(path, dates) if dates else table


def is_json_array(path: Path) -> bool:
    """Whether a JSON file holds one array, not an object per line."""
    with path.open("rb") as file:
        return file.read(1024).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")


def _json_lines(path: Path, texts: Sequence[str] = ()) -> pa.Table:
    from pyarrow import json as lines

    return lines.read_json(
        path,
        read_options=lines.ReadOptions(block_size=BLOCK),
        parse_options=lines.ParseOptions(explicit_schema=pa.schema([(name, pa.string()) for name in texts])),
    )


def _json_array(path: Path) -> pa.Table:
    rows = json.loads(path.read_text("utf-8-sig"))
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("not every element of the array is an object")
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: [row.get(name) for row in rows] for name in names})
