"""From what a file says of a sample's class to a number: by the known classes, or by those that are found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from actionflow.errors import DataError
from actionflow.training.data.dataset import Integers
from actionflow.training.data.parquet import named_classes
from actionflow.training.texts.rows import Rows

# SNLI and MNLI mark a pair so that people could not agree on; the hub marks so what a test part hides.
NO_GOLD_LABEL = ("-", "-1")
UNLABELLED = -1


@dataclass(frozen=True)
class Classes:
    """The classes of a data set, and the number of each spelling of them."""

    names: tuple[str, ...]
    numbers: Mapping[str, int]

    def encode(self, spelled: pa.Array, rows: Rows, usable: NDArray[np.bool_]) -> Integers:
        """Every row's class, -1 for rows without a gold label; a usable row with any other label is refused."""
        encoded = spelled.dictionary_encode()
        spellings = encoded.dictionary.to_pylist()
        numbers = [self.numbers.get(spelling, self.numbers.get(spelling.lower())) for spelling in spellings]
        for spelling, number in zip(spellings, numbers, strict=True):
            if number is None:
                self._refuse(spelling, pc.equal(spelled, spelling).to_numpy(zero_copy_only=False) & usable, rows)
        by_spelling = np.array([UNLABELLED if number is None else number for number in numbers], np.int64)
        labels: Integers = by_spelling[encoded.indices.to_numpy()]
        return labels

    def _refuse(self, spelling: str, there: NDArray[np.bool_], rows: Rows) -> None:
        places = np.flatnonzero(there)
        if not len(places):
            return
        if not spelling:
            raise DataError(f"{rows.where(places[0])} has no label: label it or leave the row out.")
        raise DataError(
            f"{rows.where(places[0])} has the label {spelling!r}, but the classes are {', '.join(self.names)}: correct "
            "the label or leave the row out."
        )


def known_classes(names: tuple[str, ...]) -> Classes:
    """Classes that may be called by their names or by their numbers."""
    numbered = {str(number): number for number in range(len(names))}
    named = {name.lower(): number for number, name in enumerate(names)}
    return Classes(names, numbered | named | dict.fromkeys(NO_GOLD_LABEL, UNLABELLED))


def found_classes(spelled: Iterable[tuple[pa.Array, NDArray[np.bool_]]], where: str) -> Classes:
    """The classes that the usable rows name, sorted: numbers as numbers, names as names."""
    names = {name for labels, usable in spelled for name in labels.filter(pa.array(usable)).unique().to_pylist()}
    ordered = tuple(_sorted(names - {""}, where))
    return Classes(ordered, {name: number for number, name in enumerate(ordered)})


def spelled_labels(rows: Rows, column: str) -> pa.Array:
    """What each row says of its class, without the blanks around it; nothing where it says nothing."""
    labels = rows.table[column].combine_chunks()
    names = named_classes(rows.table.schema, column)
    if names and pa.types.is_integer(labels.type):
        labels = _named(labels, names)
    if pa.types.is_nested(labels.type):
        raise DataError(
            f"{rows.file} has {labels.type} in its label column {column}: save one name or whole number per row."
        )
    return pc.utf8_trim_whitespace(labels.cast(pa.string()).fill_null(""))


def _named(numbers: pa.Array, names: Sequence[str]) -> pa.Array:
    """Numbers by the names that the file itself gives them: its order need not be ours."""
    known = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, len(names)))
    places = pc.if_else(known, numbers, None)
    return pc.coalesce(pa.array(names).take(places), numbers.cast(pa.string()))


def _sorted(names: set[str], where: str) -> list[str]:
    try:
        values = {name: float(name) for name in names}
    except ValueError:
        return sorted(names)
    fractions = [name for name, value in values.items() if not value.is_integer()]
    if fractions:
        raise DataError(
            f"{where} has the label {min(fractions)}, which is neither a name nor a whole number: put the classes into "
            "words or whole numbers."
        )
    return sorted(names, key=lambda name: (values[name], name))
