"""Answers as they are sent: json, csv, Arrow or Parquet, batch by batch, until the answer is long enough."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from actionflow.errors import QueryError

# The form of an answer by its media type; the first is for whoever takes anything.
MEDIA_TYPES = {
    "application/json": "json",
    "text/csv": "csv",
    "application/vnd.apache.arrow.stream": "arrow",
    "application/vnd.apache.parquet": "parquet",
}


@dataclass(frozen=True)
class Encoded:
    """An answer ready to be sent; `cut` says at what it was cut: rows, bytes, or nothing."""

    body: bytes
    rows: int
    cut: str


def encode(
    batches: Iterable[pa.RecordBatch], columns: pa.Schema, form: str, most_rows: int, most_bytes: int
) -> Encoded:
    """Encode rows until there are too many of them, or too many bytes."""
    kept, rows, cut = _kept(batches, most_rows, most_bytes)
    table = pa.Table.from_batches(kept, columns)
    body = ENCODERS[form](table, cut)
    if len(body) <= most_bytes or not rows:
        return Encoded(body, rows, cut)
    # As text it is longer than in memory: as many rows as then fit, with a little to spare.
    fitting = int(rows * most_bytes / len(body) * 0.9)
    if not fitting:
        raise QueryError(_too_long(most_bytes))
    return Encoded(ENCODERS[form](table.slice(0, fitting), "bytes"), fitting, "bytes")


def _kept(batches: Iterable[pa.RecordBatch], most_rows: int, most_bytes: int) -> tuple[list[pa.RecordBatch], int, str]:
    kept: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if rows + batch.num_rows > most_rows:
            return [*kept, batch.slice(0, most_rows - rows)], most_rows, "rows"
        if size + batch.nbytes > most_bytes:
            fitting = int(batch.num_rows * (most_bytes - size) / batch.nbytes)
            if not rows + fitting:
                raise QueryError(_too_long(most_bytes))
            return [*kept, batch.slice(0, fitting)], rows + fitting, "bytes"
        kept.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    return kept, rows, ""


def _too_long(most: int) -> str:
    return f"a single row is longer than an answer may be ({most:,} bytes): select fewer columns."


def _json(table: pa.Table, cut: str) -> bytes:
    names = _unique(table.column_names)
    columns = [[_plain(value) for value in column.to_pylist()] for column in table.columns]
    content = {
        "columns": [{"name": name, "type": str(field.type)} for name, field in zip(names, table.schema, strict=True)],
        "rows": [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)],
        "truncated": bool(cut),
    }
    return json.dumps(content, ensure_ascii=False, allow_nan=False).encode(errors="replace")


def _unique(names: list[str]) -> list[str]:
    """Names that may be keys: `a, a` becomes `a, a_2`."""
    seen: dict[str, int] = {}
    told = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        told.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return told


def _plain(value: Any) -> Any:
    """What json knows: a picture as base64, no number that is none, everything else as text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return str(value)


def _csv(table: pa.Table, cut: str) -> bytes:
    sink = pa.BufferOutputStream()
    pyarrow.csv.write_csv(_flat(table), sink)
    return bytes(sink.getvalue())


def _flat(table: pa.Table) -> pa.Table:
    """Csv knows numbers, times and texts; the rest becomes json."""
    for place, field in enumerate(table.schema):
        if pa.types.is_nested(field.type) or pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
            texts = [None if value is None else json.dumps(_plain(value)) for value in table.column(place).to_pylist()]
            table = table.set_column(place, field.name, pa.array(texts, pa.string()))
        elif pa.types.is_dictionary(field.type) or pa.types.is_interval(field.type) or pa.types.is_duration(field.type):
            texts = [None if value is None else str(value) for value in table.column(place).to_pylist()]
            table = table.set_column(place, field.name, pa.array(texts, pa.string()))
    return table


def _arrow(table: pa.Table, cut: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def _parquet(table: pa.Table, cut: str) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())


ENCODERS = {"json": _json, "csv": _csv, "arrow": _arrow, "parquet": _parquet}
