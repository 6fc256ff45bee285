"""What people say of failure scenarios: which class their samples are of. Kept as `records` are.

An answer is the number of a class, `none` (not one class, or none of them), or `fine` (the classifier is right).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from mlflow import MlflowClient

from actionflow.errors import QueryError
from actionflow.store import layout, schema
from actionflow.store.records import Records

CLASS, NONE, FINE = "class", "none", "fine"

_RECORDS = Records(
    kind="scenario_labels",
    folder=layout.SCENARIO_LABELS,
    items="labels",
    called="scenario labels",
    shared=("distill_run",),
    by="labelled_by",
    at="labelled_at",
    same=("distill_run", "scenario", "sample"),
    rows=schema.SCENARIO_LABELS,
)


@dataclass(frozen=True)
class ScenarioLabel:
    """What one person says of a scenario, or of one of its samples (from 1 on) where it is not like the others."""

    scenario: int
    answer: str
    label: int | None = None
    sample: int | None = None

    def __post_init__(self) -> None:
        if self.answer not in (CLASS, NONE, FINE):
            raise QueryError(f"a scenario is of a class, {NONE} or {FINE}, found {self.answer!r}.")
        if (self.label is not None) != (self.answer == CLASS):
            raise QueryError(f"scenario {self.scenario}: a class has a number, and nothing else has one.")


def add_labels(
    client: MlflowClient, experiment_id: str, distill_run: str, labels: Sequence[ScenarioLabel], labelled_by: str
) -> pa.Table:
    """Write the labels of one person, all in one file; return them as rows.

    Who labels a whole scenario anew takes back what was said of its samples before.
    """
    if not labels:
        raise QueryError("there is nothing to label: give at least one scenario.")
    items = [vars(label) for label in labels]
    return _RECORDS.add(client, experiment_id, {"distill_run": distill_run}, items, labelled_by)


def labels_of(client: MlflowClient, experiment_id: str, history: bool = False) -> pa.Table:
    """The latest label of each scenario, sample and person in an experiment, or all of them; oldest first."""
    table = _RECORDS.of(client, experiment_id, history)
    return table if history else _without_taken_back(table)


def _without_taken_back(table: pa.Table) -> pa.Table:
    """Of rows from the oldest on, those that no later word on their whole scenario replaces."""
    rows = table.to_pylist()
    whole = {
        (row["distill_run"], row["scenario"], row["labelled_by"]): row["labelled_at"]
        for row in rows
        if row["sample"] is None
    }
    kept = [
        row
        for row in rows
        if row["sample"] is None
        or row["labelled_at"]
        >= whole.get((row["distill_run"], row["scenario"], row["labelled_by"]), row["labelled_at"])
    ]
    return pa.Table.from_pylist(kept, schema=table.schema)
