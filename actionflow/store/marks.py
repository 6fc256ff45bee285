"""What people say of samples: mislabelled, ambiguous, unusable, fine. Kept per experiment, added to and never changed.

Each time somebody marks, one small JSON file of its own appears in the experiment's run of kind `marks`. Two people at
once write two files, so neither can lose the other's; a sample that is marked again gets a second file, and the latest
mark of each person counts. Two runs that were made at the same moment are read as one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any
from uuid import uuid4

import pyarrow as pa
from mlflow import MlflowClient
from mlflow.entities import Run, RunStatus
from mlflow.exceptions import MlflowException
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.utils.time import get_current_time_millis

from actionflow.errors import QueryError, StoreError
from actionflow.store import layout, parquet, schema
from actionflow.store.reading import StoredRun

MARKS = ("mislabelled", "ambiguous", "unusable", "fine")
LONGEST_NOTE = 2000

Row = dict[str, Any]

# Two threads of one server must not each make a run for the same experiment.
_making = Lock()


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
    now = datetime.now(UTC)
    content = {
        "schema_version": schema.SCHEMA_VERSION,
        "kind": "marks",
        "experiment_id": experiment_id,
        "dataset_digest": dataset_digest,
        "marked_by": marked_by,
        "marked_at": now.isoformat(),
        "marks": [asdict(mark) for mark in marks],
    }
    _write(_marks_run(client, experiment_id), f"{now:%Y%m%dT%H%M%S%f}-{uuid4().hex}.json", content, client)
    return _table(_rows(json.dumps(content), "the new marks"))


def marks_of(client: MlflowClient, experiment_id: str, history: bool = False) -> pa.Table:
    """The latest mark of each sample and person in an experiment, or all that were ever made; oldest first."""
    rows = [row for path in _files(client, experiment_id) for row in _read(path)]
    rows.sort(key=lambda row: row["marked_at"])
    if not history:
        latest = {(row["dataset_digest"], row["sample_id"], row["marked_by"]): row for row in rows}
        rows = sorted(latest.values(), key=lambda row: row["marked_at"])
    return _table(rows)


def _table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=schema.MARKS)


def _files(client: MlflowClient, experiment_id: str) -> list[Path]:
    runs = [StoredRun(run, client) for run in _find(client, experiment_id)]
    return [path for run in runs for path in run.files(layout.MARKS, ".json")]


@lru_cache(maxsize=100_000)
def _read(path: Path) -> tuple[Row, ...]:
    """The rows of one file, which never changes."""
    try:
        return _rows(path.read_text(), str(path))
    except OSError as error:
        raise StoreError(f"cannot read the marks {path}: {error.strerror or error}.") from error


def _rows(text: str, name: str) -> tuple[Row, ...]:
    try:
        content = json.loads(text)
        marked_at = datetime.fromisoformat(content["marked_at"]).astimezone(UTC).replace(tzinfo=None)
        common = {key: content[key] for key in ("experiment_id", "dataset_digest", "marked_by")}
        return tuple({**common, "marked_at": marked_at, **mark} for mark in content["marks"])
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{name} is not a file of marks: {parquet.first_line(error)}") from error


def _write(run: Run, name: str, content: Row, client: MlflowClient) -> None:
    folder = StoredRun(run, client).folder
    try:
        if folder is None:
            _send(run, name, json.dumps(content, indent=1), client)
        else:
            _write_whole(folder / layout.MARKS / name, json.dumps(content, indent=1))
    except (MlflowException, OSError) as error:
        raise StoreError(f"the marks were not kept: {parquet.first_line(error)[:200]} Try again.") from error


def _write_whole(path: Path, text: str) -> None:
    """The file appears at once: MLflow would copy it into its place, where somebody may read half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.half")
    with half.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(half, path)


def _send(run: Run, name: str, text: str, client: MlflowClient) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(text)
        store = get_artifact_repository(run.info.artifact_uri, tracking_uri=client.tracking_uri)
        store.log_artifact(str(path), layout.MARKS)


def _find(client: MlflowClient, experiment_id: str) -> list[Run]:
    """The oldest first: it is the one that is written to."""
    condition = f"tags.`{layout.TAG_KIND}` = 'marks'"
    order = ["attributes.start_time ASC", "attributes.run_id ASC"]
    try:
        return list(client.search_runs([experiment_id], condition, order_by=order))
    except MlflowException as error:
        raise StoreError(f"cannot look for marks: {parquet.first_line(error)[:200]}") from error


def _marks_run(client: MlflowClient, experiment_id: str) -> Run:
    with _making:
        found = _find(client, experiment_id)
        return found[0] if found else _make(client, experiment_id)


def _make(client: MlflowClient, experiment_id: str) -> Run:
    tags = {layout.TAG_KIND: "marks", layout.TAG_SCHEMA: str(schema.SCHEMA_VERSION)}
    made = client.create_run(experiment_id, get_current_time_millis(), tags, run_name="marks")
    client.set_terminated(made.info.run_id, RunStatus.to_string(RunStatus.FINISHED))
    # Two servers may have made one each: the older is written to from now on.
    return _find(client, experiment_id)[0]
