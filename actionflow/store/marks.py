"""What people say of samples: mislabelled, ambiguous, unusable, fine. Kept as `records` are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa
from mlflow import MlflowClient

from actionflow.errors import QueryError
from actionflow.store import layout, schema
from actionflow.store.records import Records

MARKS = ("mislabelled", "ambiguous", "unusable", "fine")
LONGEST_NOTE = 2000

_RECORDS = Records(
    kind="marks",
    folder=layout.MARKS,
    items="marks",
    called="marks",
    shared=("dataset_digest",),
    by="marked_by",
    at="marked_at",
    same=("dataset_digest", "sample_id"),
    rows=schema.MARKS,
)


@dataclass(frozen=True)
class Mark:
    """What one person says of one sample; `right_label` is the number of the class it belongs to."""

    sample_id: int
    mark: str
    right_label: int | None = None
    note: str | None = None

    def __post_init__(self) -> None:
        if self.mark not in MARKS:
            raise QueryError(f"a mark is {', '.join(MARKS[:-1])} or {MARKS[-1]}, found {self.mark!r}.")
        if self.right_label is not None and self.mark != "mislabelled":
            raise QueryError(f"only a mislabelled sample has a right label: sample {self.sample_id} is {self.mark}.")
        if self.note is not None and len(self.note) > LONGEST_NOTE:
            raise QueryError(f"a note has at most {LONGEST_NOTE} characters, found {len(self.note)}.")
        if not 0 <= self.sample_id < 2**63 or not -(2**31) <= (self.right_label or 0) < 2**31:
            raise QueryError(f"sample {self.sample_id} with right label {self.right_label} cannot be meant.")


def add_marks(
    client: MlflowClient, experiment_id: str, dataset_digest: str, marks: Sequence[Mark], marked_by: str
) -> pa.Table:
    """Write the marks of one person, all in one file; return them as rows."""
    if not marks:
        raise QueryError("there is nothing to mark: give at least one sample.")
    return _RECORDS.add(
        client, experiment_id, {"dataset_digest": dataset_digest}, [asdict(mark) for mark in marks], marked_by
    )


def marks_of(client: MlflowClient, experiment_id: str, history: bool = False) -> pa.Table:
    """The latest mark of each sample and person in an experiment, or all that were ever made; oldest first."""
    return _RECORDS.of(client, experiment_id, history)
