"""What people say, kept per experiment with who and when: added to and never changed.

Each time somebody says something, one small JSON file of its own appears in the experiment's run of that kind. Two
people at once write two files, so neither can lose the other's; what is said again gets a second file, and the latest
word of each person counts. Two runs that were made at the same moment are read as one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
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

from actionflow.errors import StoreError
from actionflow.store import layout, parquet, schema
from actionflow.store.reading import StoredRun

Row = dict[str, Any]

# Two threads of one server must not each make a run for the same experiment.
_making = Lock()


@dataclass(frozen=True)
class Records:
    """One kind of records.

    A file has the columns that all its records share, who wrote it and when, and under `items` the records themselves;
    `same` are the columns in which two records of a person agree when the later stands for both.
    """

    kind: str  # of the run that holds the files
    folder: str
    items: str
    called: str
    shared: tuple[str, ...]
    by: str
    at: str
    same: tuple[str, ...]
    rows: pa.Schema

    def add(self, client: MlflowClient, experiment_id: str, shared: Row, items: Sequence[Row], by: str) -> pa.Table:
        """Write what one person says, all in one file; return it as rows."""
        now = datetime.now(UTC)
        content = {
            "schema_version": schema.SCHEMA_VERSION,
            "kind": self.kind,
            "experiment_id": experiment_id,
            **shared,
            self.by: by,
            self.at: now.isoformat(),
            self.items: list(items),
        }
        self._write(self._run(client, experiment_id), f"{now:%Y%m%dT%H%M%S%f}-{uuid4().hex}.json", content, client)
        return self._table(self._rows(json.dumps(content), f"the new {self.called}"))

    def of(self, client: MlflowClient, experiment_id: str, history: bool = False) -> pa.Table:
        """The latest word of each person in an experiment, or all that was ever said; oldest first."""
        rows = [row for path in self._files(client, experiment_id) for row in _read(self, path)]
        rows.sort(key=lambda row: row[self.at])
        if not history:
            latest = {(*(row.get(name) for name in self.same), row[self.by]): row for row in rows}
            rows = sorted(latest.values(), key=lambda row: row[self.at])
        return self._table(rows)

    def _table(self, rows: Sequence[Row]) -> pa.Table:
        return pa.Table.from_pylist(list(rows), schema=self.rows)

    def _files(self, client: MlflowClient, experiment_id: str) -> list[Path]:
        runs = [StoredRun(run, client) for run in self._find(client, experiment_id)]
        return [path for run in runs for path in run.files(self.folder, ".json")]

    def _rows(self, text: str, name: str) -> tuple[Row, ...]:
        try:
            content = json.loads(text)
            at = datetime.fromisoformat(content[self.at]).astimezone(UTC).replace(tzinfo=None)
            common = {key: content[key] for key in ("experiment_id", *self.shared, self.by)}
            return tuple({**common, self.at: at, **item} for item in content[self.items])
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{name} is not a file of {self.called}: {parquet.first_line(error)}") from error

    def _write(self, run: Run, name: str, content: Row, client: MlflowClient) -> None:
        folder = StoredRun(run, client).folder
        try:
            if folder is None:
                self._send(run, name, json.dumps(content, indent=1), client)
            else:
                _write_whole(folder / self.folder / name, json.dumps(content, indent=1))
        except (MlflowException, OSError) as error:
            raise StoreError(
                f"the {self.called} were not kept: {parquet.first_line(error)[:200]} Try again."
            ) from error

    def _send(self, run: Run, name: str, text: str, client: MlflowClient) -> None:
        with TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_text(text)
            store = get_artifact_repository(run.info.artifact_uri, tracking_uri=client.tracking_uri)
            store.log_artifact(str(path), self.folder)

    def _find(self, client: MlflowClient, experiment_id: str) -> list[Run]:
        """The oldest first: it is the one that is written to."""
        condition = f"tags.`{layout.TAG_KIND}` = '{self.kind}'"
        order = ["attributes.start_time ASC", "attributes.run_id ASC"]
        try:
            return list(client.search_runs([experiment_id], condition, order_by=order))
        except MlflowException as error:
            raise StoreError(f"cannot look for {self.called}: {parquet.first_line(error)[:200]}") from error

    def _run(self, client: MlflowClient, experiment_id: str) -> Run:
        with _making:
            found = self._find(client, experiment_id)
            return found[0] if found else self._make(client, experiment_id)

    def _make(self, client: MlflowClient, experiment_id: str) -> Run:
        tags = {layout.TAG_KIND: self.kind, layout.TAG_SCHEMA: str(schema.SCHEMA_VERSION)}
        made = client.create_run(experiment_id, get_current_time_millis(), tags, run_name=self.called)
        client.set_terminated(made.info.run_id, RunStatus.to_string(RunStatus.FINISHED))
        # Two servers may have made one each: the older is written to from now on.
        return self._find(client, experiment_id)[0]


@lru_cache(maxsize=100_000)
def _read(records: Records, path: Path) -> tuple[Row, ...]:
    """The rows of one file, which never changes."""
    try:
        return records._rows(path.read_text(), str(path))
    except OSError as error:
        raise StoreError(f"cannot read the {records.called} {path}: {error.strerror or error}.") from error


def _write_whole(path: Path, text: str) -> None:
    """The file appears at once: MLflow would copy it into its place, where somebody may read half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.half")
    with half.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(half, path)
