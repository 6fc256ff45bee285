"""Tables to Parquet files and back: encodings that suit training dynamics, files that appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from actionflow.errors import StoreError

# zstd's fastest level: at 1.28 million samples it costs a tenth more time than no compression, and level 3 saves nothing.
COMPRESSION_LEVEL = 1


def write(table: pa.Table, path: Path) -> None:
    """Write `table` to `path`; the file appears whole or not at all."""
    half = path.with_name(f".{path.name}.half-{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(table, half)
        os.replace(half, path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}. Nothing of this file was kept.") from error
    finally:
        half.unlink(missing_ok=True)


def read(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Read a Parquet file, or say which one is damaged."""
    try:
        return pq.read_table(path, columns=columns)
    except (pa.ArrowInvalid, OSError) as error:
        raise StoreError(f"{path} is not a whole Parquet file: {first_line(error)}") from error


def read_schema(path: Path) -> pa.Schema:
    """Read only a file's schema: cheap, and enough to tell a whole file from a torn one."""
    try:
        return pq.read_schema(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise StoreError(f"{path} is not a whole Parquet file: {first_line(error)}") from error


def is_whole(path: Path) -> bool:
    """Tell a whole file from one that was cut off while it was written."""
    try:
        read_schema(path)
    except StoreError:
        return False
    return True


def first_line(error: BaseException) -> str:
    """The first line of an error's message: what a person needs of it."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _write(table: pa.Table, path: Path) -> None:
    names = [field.name for field in table.schema if _is_name(field)]
    pq.write_table(
        table,
        path,
        compression="zstd",
        compression_level=COMPRESSION_LEVEL,
        use_dictionary=names,
        column_encoding={field.name: _encoding(field) for field in table.schema if _encoding(field)} or None,
        # Statistics let engines skip whole files; on losses they would only cost time.
        write_statistics=[*names, *(field.name for field in table.schema if pa.types.is_integer(field.type))],
    )


def _is_name(field: pa.Field) -> bool:
    return pa.types.is_dictionary(field.type) or field.name == "epoch"


def _encoding(field: pa.Field) -> str | None:
    if _is_name(field):
        return None
    if pa.types.is_floating(field.type):
        return "BYTE_STREAM_SPLIT"
    if pa.types.is_integer(field.type):
        return "DELTA_BINARY_PACKED"
    return None
