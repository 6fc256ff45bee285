"""From the rows of files to samples: which columns are what, and which rows are left aside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from actionflow.errors import DataError
from actionflow.training.data.arrays import part_keys
from actionflow.training.data.dataset import Column
from actionflow.training.data.parquet import as_column, is_plain
from actionflow.training.texts.dataset import NO_CLASS, TextSamples
from actionflow.training.texts.known_texts import Wanted
from actionflow.training.texts.labels import UNLABELLED, Classes, spelled_labels
from actionflow.training.texts.rows import Rows

# What the samples table of a run calls its own columns: a user's column of that name would be taken for it.
TAKEN_NAMES = {
    *("dataset", "digest", "part", "sample_id", "key", "label", "label_name", "image"),
    *("text", "context", "target_text", "answers", "answer_starts"),
}


@dataclass(eq=False)
class Draft:
    """A part on its way to samples: its texts, and which rows are usable."""

    rows: Rows
    wanted: Wanted
    texts: dict[str, list[str]]
    usable: NDArray[np.bool_]
    left_aside: list[str] = field(default_factory=list)
    metadata: dict[str, Column] = field(default_factory=dict)

    @property
    def label_column(self) -> str:
        """The column that holds the labels, if one does."""
        return self.rows.column(self.wanted.label)

    def spelled_labels(self) -> pa.Array:
        """What each row says of its class."""
        if not self.label_column:
            raise DataError(_lacking(self.rows, self.wanted, self.wanted.label, "label"))
        return spelled_labels(self.rows, self.label_column)

    def leave_aside(self, places: NDArray[np.bool_], why: str) -> None:
        """Leave these rows aside and count those that were not left aside before."""
        count = int((places & self.usable).sum())
        if count:
            self.left_aside.append(f"{count} {'row' if count == 1 else 'rows'} of {self.rows.called} {why}")
            self.usable &= ~places

    def samples(self, first_id: int, classes: Classes | None) -> TextSamples:
        """The usable rows; ids are places among all rows, so that they stay whatever is left aside."""
        labels = np.full(len(self.rows), NO_CLASS, np.int64)
        if classes:
            labels = classes.encode(self.spelled_labels(), self.rows, self.usable)
            self.leave_aside(labels == UNLABELLED, "without a gold label")
        if not self.usable.any():
            raise DataError(
                f"{self.rows.file} has no row that can be used ({'; '.join(self.left_aside)}): put a whole copy in its "
                "place."
            )
        keys, key_column = _keys(self.rows, self.wanted)
        ids = np.arange(first_id, first_id + len(self.rows))
        metadata, unread = _metadata(self.rows, self.wanted, key_column)
        if unread:
            self.left_aside.append(f"column {', '.join(unread)} of {self.rows.called}")
        metadata |= self.metadata
        return TextSamples(ids, labels, keys, self.texts, metadata).take(np.flatnonzero(self.usable))


def drafted(rows: Rows, wanted: Wanted) -> Draft:
    """Find the columns of a part, and leave aside the rows that lack a text."""
    names = {name: _text_column(rows, wanted, name) for name in wanted.texts}
    columns = {name: _as_texts(rows, column) for name, column in names.items()}
    draft = Draft(
        rows=rows,
        wanted=wanted,
        texts={name: texts.to_pylist() for name, texts in columns.items()},
        usable=np.ones(len(rows), np.bool_),
    )
    for name, texts in columns.items():
        blank = pc.equal(pc.utf8_trim_whitespace(texts), "")
        draft.leave_aside(blank.to_numpy(zero_copy_only=False), f"without a {names[name]}")
    if wanted.answers:
        _add_answers(draft)
    return draft


def _add_answers(draft: Draft) -> None:
    """All gold answers as metadata, the first as the target; a question needs one that stands in its passage."""
    answers, starts = _answers(draft.rows, draft.wanted)
    draft.metadata = {"answers": answers, "answer_starts": starts}
    draft.texts["target_text"] = [each[0] if each else "" for each in answers]
    draft.leave_aside(np.array([not each for each in answers]), "without an answer")
    found = zip(draft.texts["target_text"], starts, draft.texts["context"], strict=True)
    misplaced = [bool(places) and not context.startswith(answer, places[0]) for answer, places, context in found]
    draft.leave_aside(np.array(misplaced), "whose answer is not where it should be in the passage")


def _answers(rows: Rows, wanted: Wanted) -> tuple[list[list[str]], list[list[int]]]:
    """The hub has a list of texts beside a list of starts, other files have a list of pairs."""
    if "answers" not in rows.table.column_names:
        raise DataError(_lacking(rows, wanted, ("answers",), "answers"))
    values = rows.table["answers"].to_pylist()
    try:
        pairs = [_answer_pairs(value) for value in values]
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{rows.file} has {rows.table['answers'].type} in its column answers, not texts with their answer_start: "
            "put a whole copy in its place."
        ) from error
    return [[text for text, _ in each] for each in pairs], [[start for _, start in each] for each in pairs]


def _answer_pairs(value: Any) -> list[tuple[str, int]]:
    if value is None:
        return []
    if isinstance(value, dict):
        return list(zip(value["text"], value["answer_start"], strict=True))
    return [(answer["text"], answer["answer_start"]) for answer in value]


def _text_column(rows: Rows, wanted: Wanted, name: str) -> str:
    column = rows.column(wanted.texts[name])
    if not column:
        raise DataError(_lacking(rows, wanted, wanted.texts[name], name.removesuffix("_text")))
    return column


def _lacking(rows: Rows, wanted: Wanted, choices: Sequence[str], parameter: str) -> str:
    """Which column is missing, which exist, and how to name another one where the columns are the user's own."""
    what_to_do = (
        f"type -P {parameter}_column=<one of them>."
        if wanted.own
        else f"rename one of them, or for data of your own type -e text -P data={rows.file}."
    )
    found = ", ".join(rows.table.column_names)
    return f"{rows.file} has no column {' or '.join(choices)} (found: {found}): {what_to_do}"


def _as_texts(rows: Rows, column: str) -> pa.Array:
    values = rows.table[column].combine_chunks()
    if pa.types.is_nested(values.type) or pa.types.is_binary(values.type):
        raise DataError(f"{rows.file} has {values.type} in its column {column}: save one text per row.")
    return values.cast(pa.string()).fill_null("")


def _keys(rows: Rows, wanted: Wanted) -> tuple[list[str], str]:
    """The names that the user gave the samples and their column, where they tell the samples apart; else part and row.

    >>> _keys(Rows("validation", "dev", pa.table({"text": ["a", "b"]}), (("dev.csv", 2),)), Wanted({}))
    (['dev/0', 'dev/1'], '')
    """
    column = rows.column(wanted.keys)
    if column and is_plain(rows.table[column].type):
        names: list[str] = rows.table[column].cast(pa.string()).to_pylist()
        if all(names) and len(set(names)) == len(names):
            return names, column
    return part_keys(rows.called, len(rows)), ""


def _metadata(rows: Rows, wanted: Wanted, key_column: str) -> tuple[dict[str, Column], list[str]]:
    """The further columns that hold one value per row, and the names of the user's own that cannot be kept."""
    used = {rows.column(names) for names in (*wanted.texts.values(), wanted.label)} | {key_column}
    names = rows.table.column_names if wanted.own else wanted.metadata
    further = [name for name in names if name in rows.table.column_names and name not in used]
    kept = [name for name in further if name not in TAKEN_NAMES and is_plain(rows.table[name].type)]
    return {name: as_column(rows.table[name]) for name in kept}, [name for name in further if name not in kept]
