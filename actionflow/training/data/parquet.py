"""Parquet files as the hub lays them out: a column of encoded pictures, a column of labels, and whatever else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from actionflow.errors import DataError
from actionflow.training.data.arrays import part_keys
from actionflow.training.data.dataset import Column, Integers, Samples, first_samples, train_then_test
from actionflow.training.data.forms import Contents, Form, Trace, choose_parts, is_part_name, subfolders
from actionflow.training.data.known_sets import KnownSet
from actionflow.training.data.pictures import Picture, decoded_as
from actionflow.training.data.trouble import check_labels, read_as

PICTURE_COLUMNS = ("image", "img", "picture")
LABEL_COLUMNS = ("label", "labels", "class", "target", "fine_label")
NO_LETTER = re.compile("[^A-Za-z]")
SHARD = re.compile(r"^(?P<name>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})")
# Rows decoded at a time: what is in memory beside the images themselves stays small.
ROWS_AT_A_TIME = 1024
# Numbers above this are no labels but something else: an id, a date.
MOST_CLASSES = 100_000


def trace(place: Path, known: KnownSet) -> Trace:
    """Look for both parts, each with all its shards."""
    chosen = part_files(place)
    found = [path for paths in chosen.values() for path in paths]
    missing_parts = [f"{part} files" for part in ("train", "test") if part not in chosen]
    return Trace([path.name for path in found], missing_shards(found) + missing_parts)


def read(place: Path, known: KnownSet) -> Contents:
    """Read both parts."""
    chosen = part_files(place)
    return Contents(train_then_test(*(_part(part, chosen[part], known) for part in ("train", "test"))))


FORM = Form(trace, read)


def all_files(place: Path) -> dict[str, list[Path]]:
    """The Parquet files of a folder by the part that they or their folder are called by; "" for those of no part."""
    found: dict[str, list[Path]] = {}
    for path in sorted(place.glob("*.parquet")):
        word = NO_LETTER.split(path.name, maxsplit=1)[0]
        found.setdefault(word if is_part_name(word) else "", []).append(path)
    for folder in subfolders(place):
        if is_part_name(folder.name) and (paths := sorted(folder.glob("*.parquet"))):
            found.setdefault(folder.name, []).extend(paths)
    return found


def part_files(place: Path) -> dict[str, list[Path]]:
    """The files of the parts `train` and `test`, as far as they are there."""
    found = all_files(place)
    return {part: found[name] for part, name in choose_parts(list(found)).items()}


def missing_shards(paths: Sequence[Path]) -> list[str]:
    """Of files that count themselves (train-00000-of-00002), the ones that are not there."""
    there: dict[tuple[str, int], set[int]] = {}
    for path in paths:
        if shard := SHARD.match(path.name):
            there.setdefault((shard["name"], int(shard["count"])), set()).add(int(shard["number"]))
    return [
        f"{name}-{number:05d}-of-{count:05d}.parquet"
        for (name, count), numbers in there.items()
        for number in range(count)
        if number not in numbers
    ]


class PictureTable:
    """Parquet files that hold one table of pictures, in this order."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = list(paths)
        self.schema = _common_schema(self.paths)
        self._picture = _picture_column(self.schema, self.paths[0])
        self._label = _label_column(self.schema, self.paths[0])

    def labels(self, unnamed: Sequence[str] = ()) -> tuple[tuple[str, ...], Integers]:
        """The names of the classes, and every row's label.

        Texts are their own names; numbers are named by the schema, else by `unnamed`, else by themselves.
        """
        columns = [self._whole_labels(path) for path in self.paths]
        kind = self.schema.field(self._label).type
        if pa.types.is_integer(kind):
            return self._numbered(columns, tuple(named_classes(self.schema, self._label) or unnamed))
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
            return _encoded(pa.concat_arrays(columns))
        raise DataError(
            f"{self.paths[0]} has labels of type {kind} in column {self._label}: save them as whole numbers or as text."
        )

    def pictures(self) -> Iterator[Picture]:
        """Every row's picture."""
        for path in self.paths:
            row = 0
            for column in _batches(path, self._picture):
                for content in _encoded_pictures(column).to_pylist():
                    yield Picture(f"{path}, row {row}", content)
                    row += 1

    def keys(self) -> list[str]:
        """The paths that the pictures had, where they tell the rows apart; else file and row."""
        kind = self.schema.field(self._picture).type
        if pa.types.is_struct(kind) and kind.get_field_index("path") >= 0:
            paths = self._read([f"{self._picture}.path"]).column(0)
            keys: list[str] = pc.struct_field(paths, "path").to_pylist()
            if None not in keys and len(set(keys)) == len(keys):
                return keys
        return [key for path in self.paths for key in part_keys(path.stem, self.rows(path))]

    def metadata(self) -> dict[str, Column]:
        """The further columns that hold one value per row."""
        own = {self._picture, self._label}
        names = [field.name for field in self.schema if field.name not in own and is_plain(field.type)]
        table = self._read(names)
        return {name: as_column(table[name]) for name in names}

    def rows(self, *paths: Path) -> int:
        """How many rows these files have."""
        return sum(int(_parquet(path).metadata.num_rows) for path in paths)

    def _read(self, columns: list[str]) -> pa.Table:
        return pa.concat_tables(_table(path, columns) for path in self.paths)

    def _whole_labels(self, path: Path) -> pa.Array:
        labels = _table(path, [self._label]).column(0).combine_chunks()
        if labels.null_count:
            row = int(np.flatnonzero(labels.is_null())[0])
            raise DataError(f"{path}, row {row}, has no label: label it or leave the row out.")
        return labels

    def _numbered(self, columns: list[pa.Array], names: tuple[str, ...]) -> tuple[tuple[str, ...], Integers]:
        numbers = [column.cast(pa.int64()).to_numpy() for column in columns]
        if not names:
            names = tuple(str(label) for label in range(self._count_classes(numbers)))
        for path, labels in zip(self.paths, numbers, strict=True):
            check_labels(labels, len(names), path)
        return names, np.concatenate(numbers)

    def _count_classes(self, numbers: list[Integers]) -> int:
        highest = max((int(labels.max()) for labels in numbers if len(labels)), default=-1)
        if highest >= MOST_CLASSES:
            raise DataError(
                f"{self.paths[0]} has labels up to {highest} in column {self._label}: count the classes from 0, or "
                "save them as text."
            )
        return highest + 1


def named_classes(schema: pa.Schema, column: str) -> list[str]:
    """The class names that the hub writes into a schema's metadata, if it did."""
    try:
        features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
        return [str(name) for name in features[column]["names"]]
    except (TypeError, KeyError, ValueError):
        return []


def _part(part: str, paths: list[Path], known: KnownSet) -> Samples:
    table = PictureTable(paths)
    names, labels = table.labels(unnamed=known.class_names)
    known_labels = np.array([known.label_of(name, paths[0]) for name in names], np.int64)
    images = decoded_as(known, table.pictures(), len(labels))
    return first_samples(images, known_labels[labels], part_keys(part, len(labels)))


def _parquet(path: Path) -> pq.ParquetFile:
    with _read_as_parquet(path):
        return pq.ParquetFile(path)


def _table(path: Path, columns: list[str]) -> pa.Table:
    with _read_as_parquet(path):
        return _parquet(path).read(columns)


def _batches(path: Path, column: str) -> Iterator[pa.Array]:
    with _read_as_parquet(path):
        for batch in _parquet(path).iter_batches(ROWS_AT_A_TIME, columns=[column]):
            yield batch.column(0)


def _read_as_parquet(path: Path) -> AbstractContextManager[None]:
    return read_as("Parquet", path, OSError, pa.ArrowException)


def _common_schema(paths: list[Path]) -> pa.Schema:
    schemas = [_parquet(path).schema_arrow for path in paths]
    for path, schema in zip(paths, schemas, strict=True):
        if not schema.equals(schemas[0]):
            raise DataError(
                f"{path} has the columns {_described(schema)}, but {paths[0].name} has {_described(schemas[0])}: keep "
                "data sets in folders of their own, or type -P data_dir=<one file>."
            )
    return schemas[0]


def _picture_column(schema: pa.Schema, path: Path) -> str:
    pictures = [field.name for field in schema if _holds_pictures(field.type)]
    if not pictures:
        raise DataError(f"{path} has no picture column (found: {_described(schema)}): call one {PICTURE_COLUMNS[0]}.")
    return next((name for name in PICTURE_COLUMNS if name in pictures), pictures[0])


def _label_column(schema: pa.Schema, path: Path) -> str:
    name = next((name for name in LABEL_COLUMNS if name in schema.names), "")
    if not name:
        raise DataError(f"{path} has no label column (found: {_described(schema)}): call one {LABEL_COLUMNS[0]}.")
    return name


def _described(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in schema)


def _holds_pictures(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return bool(kind.get_field_index("bytes") >= 0)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _encoded_pictures(column: pa.Array) -> pa.Array:
    return pc.struct_field(column, "bytes") if pa.types.is_struct(column.type) else column


def is_plain(kind: pa.DataType) -> bool:
    """Whether a column of this type holds one readable value per row."""
    return not (pa.types.is_nested(kind) or _holds_pictures(kind) or pa.types.is_null(kind))


def _encoded(texts: pa.Array) -> tuple[tuple[str, ...], Integers]:
    texts = texts.cast(pa.string())
    names = pc.unique(texts).sort()
    return tuple(names.to_pylist()), pc.index_in(texts, names).cast(pa.int64()).to_numpy()


def as_column(values: pa.ChunkedArray) -> Column:
    """Numbers as an array; texts, dates and columns with gaps as a list."""
    numeric = pa.types.is_integer(values.type) or pa.types.is_floating(values.type) or pa.types.is_boolean(values.type)
    if numeric and not values.null_count:
        array: NDArray[Any] = values.to_numpy()
        return array
    listed: list[Any] = values.to_pylist()
    return listed
