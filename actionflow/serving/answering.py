"""Answers one question, in a process that was made for it and ends with it.

Order is everything here: first the files are opened and the views made, by us; then everything is locked; and only then
is the stranger's SQL looked at.
"""

from __future__ import annotations

import json
import pickle
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

from actionflow.errors import ActionFlowError, QueryError
from actionflow.questions.engine import Engine
from actionflow.questions.files import Value
from actionflow.serving import channel
from actionflow.serving.confining import confine
from actionflow.serving.forms import Encoded, encode
from actionflow.serving.limits import Limits

PARQUET = pyarrow.dataset.ParquetFileFormat()
# What asks, by DuckDB's own reckoning. A COPY inside a WITH counts as SELECT too: that is stopped by the locks.
QUESTIONS = {"SELECT", "EXPLAIN", "RELATION"}

LISTS = {pa.float32(): "FLOAT", pa.float64(): "DOUBLE", pa.int32(): "INTEGER", pa.int64(): "BIGINT"}


@dataclass(frozen=True)
class View:
    """A view's files, its rows that are in no file, and the columns that it has in any case."""

    files: tuple[str, ...]
    rows: pa.Table | None
    columns: pa.Schema


@dataclass(frozen=True)
class Question:
    """A question and all that its process needs to know."""

    sql: str
    form: str
    limits: Limits
    parameters: dict[str, Value] = field(default_factory=dict)
    views: dict[str, View] = field(default_factory=dict)


def serve_one(line: socket.socket) -> None:
    """Wait for a question, answer it, end. Everything that can be made before it is known is made before."""
    engine = _warm_engine()
    asked = channel.receive(line)
    if not asked:
        return
    question: Question = pickle.loads(asked)  # it comes from our own server
    try:
        told, body = _answered(engine, question)
    except ActionFlowError as error:
        told, body = {"error": str(error)}, b""
    except MemoryError:
        told, body = {"error": too_much_memory(question.limits)}, b""
    except Exception as error:
        # Engines have more errors than anyone has listed; to the person each is a question that failed.
        told, body = {"error": f"the question failed: {_first_line(error)}"}, b""
    channel.send(line, json.dumps(told).encode())
    channel.send(line, body)


def too_much_memory(limits: Limits) -> str:
    """What to say to a question that wants more memory than it may have."""
    return f"the question needs more than {limits.megabytes:,} MB of memory: ask for fewer rows or runs."


def _answered(engine: Engine, question: Question) -> tuple[dict[str, Any], bytes]:
    started = time.perf_counter()
    for name, view in question.views.items():
        _show(engine, name, view)
    engine.lock(f"{question.limits.megabytes * 6 // 10}MiB")
    confine(question.limits)
    ready = time.perf_counter()
    answer = _ask(engine, question)
    told = {
        "rows": answer.rows,
        "cut": answer.cut,
        "opened_ms": 1000 * (ready - started),
        "asked_ms": 1000 * (time.perf_counter() - ready),
    }
    return told, answer.body


def _ask(engine: Engine, question: Question) -> Encoded:
    limits = question.limits
    _check(engine, question.sql)
    try:
        reader = engine.read(question.sql, question.parameters)
        return encode(reader, reader.schema, question.form, limits.rows, limits.answer_bytes)
    except (QueryError, duckdb.Error, pa.ArrowException) as error:
        if isinstance(error.__cause__ or error, duckdb.OutOfMemoryException):
            raise QueryError(too_much_memory(limits)) from error
        raise error if isinstance(error, QueryError) else QueryError(_first_line(error)) from error


def _check(engine: Engine, sql: str) -> None:
    """One statement, and one that asks: the locks hold without this, it only tells people sooner and plainer."""
    try:
        statements = engine.connection.extract_statements(sql)
    except duckdb.Error:
        return  # asking it tells the mistake with its line
    if len(statements) != 1:
        raise QueryError(f"ask one question at a time, found {len(statements)} statements.")
    kind = statements[0].type.name
    if kind not in QUESTIONS:
        raise QueryError(f"only questions are answered here (SELECT, WITH, DESCRIBE, EXPLAIN), found {kind}.")


def _warm_engine() -> Engine:
    """An engine that has started its threads and met Arrow: the first question does not wait for either."""
    engine = Engine(threads=2)
    engine.connection.execute("set timezone = 'UTC'")
    engine.view_table("warming", pa.table({"n": [1]}))
    engine.read("select n, now() as t from warming").read_all().to_pylist()
    engine.connection.unregister("warming")
    return engine


def _show(engine: Engine, name: str, view: View) -> None:
    """Make a view over files that are mapped into memory now: nothing opens a file afterwards."""
    groups = _grouped(view.files)
    tables = [view.rows] if view.rows is not None else []
    # What no file has is NULL and not an error.
    parts = [*groups, *tables, view.columns.empty_table()]
    for number, part in enumerate(parts):
        engine.connection.register(f"{name}_part_{number}", part)
    selects = [f"select {_columns(part.schema)} from {name}_part_{number}" for number, part in enumerate(parts)]
    engine.connection.execute(f"create view {name} as {' union all by name '.join(selects)}")


def _columns(columns: pa.Schema) -> str:
    """Vectors of a fixed length as lists, as DuckDB reads them from Parquet: runs may differ in that length."""
    fixed = [each for each in columns if pa.types.is_fixed_size_list(each.type) and each.type.value_type in LISTS]
    lists = [f'"{each.name}"::{LISTS[each.type.value_type]}[] as "{each.name}"' for each in fixed]
    return f"* replace ({', '.join(lists)})" if lists else "*"


def _grouped(paths: Sequence[str]) -> list[pyarrow.dataset.Dataset]:
    """The files as data sets, those with equal columns together."""
    groups: dict[str, list[Any]] = {}
    schemas: dict[str, pa.Schema] = {}
    for path in paths:
        buffer = pa.memory_map(path).read_buffer()
        columns = pq.read_schema(pa.BufferReader(buffer)).remove_metadata()
        groups.setdefault(str(columns), []).append(PARQUET.make_fragment(buffer))
        schemas[str(columns)] = columns
    return [pyarrow.dataset.FileSystemDataset(files, schemas[key], PARQUET) for key, files in groups.items()]


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
