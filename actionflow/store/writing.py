"""Writes what was recorded into an MLflow run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from mlflow import MlflowClient
from numpy.typing import NDArray

from actionflow.store import layout, schema
from actionflow.store.sending import Sender


class RunWriter:
    """Puts tables into one run, in the places and the schema that readers expect."""

    def __init__(self, run_id: str, client: MlflowClient | None = None) -> None:
        self.run_id = run_id
        self.sender = Sender(run_id, client)
        self.client = self.sender.client
        self._epochs: dict[str, list[int]] = {}

    def go_on(self, epochs: dict[str, list[int]]) -> None:
        """Continue a run that holds these epochs already, by split."""
        self._epochs = {split: list(there) for split, there in epochs.items()}

    def describe(self, description: dict[str, Any]) -> None:
        """Write down what the run is, so that it can be read and resumed without its data set."""
        text = json.dumps({"schema_version": schema.SCHEMA_VERSION, **description}, indent=2)
        self.sender.send(layout.DESCRIPTION, lambda path: path.write_text(text))

    def log_epoch(self, tables: list[pa.Table]) -> None:
        """Write one epoch's tables, one per split.

        Each file names all splits of its epoch and all epochs of its split so far: a reader can tell an epoch that a
        dying run left unfinished, and one that was lost later.
        """
        splits = [table["split"][0].as_py() for table in tables]
        for split, table in zip(splits, tables, strict=True):
            epoch = table["epoch"][0].as_py()
            epochs = self._epochs.setdefault(split, [])
            epochs.append(epoch)
            whole = schema.stamp(conform(table, self.run_id), "dynamics", epoch_splits=splits, epochs=epochs)
            self.sender.send_table(layout.dynamics(split, epoch), whole)

    def log_scores(self, split: str, table: pa.Table) -> None:
        """Write the scores of one split."""
        self.sender.send_table(f"{layout.SCORES}/{split}.parquet", schema.stamp(table.cast(schema.SCORES), "scores"))

    def log_features(self, split: str, sample_ids: NDArray[np.int64], features: NDArray[np.float32]) -> None:
        """Write the feature vectors (n, d) of one split."""
        columns = {"sample_id": sample_ids, "feature": _vectors(features)}
        self.log_samples("features", split, columns, schema.features_schema(features.shape[1]))

    def log_pixels(self, split: str, sample_ids: NDArray[np.int64], action: NDArray[np.float32]) -> None:
        """Write the action (n, height, width) of every pixel of one split, row by row from the top left."""
        rows = action.reshape(len(action), -1)
        columns = {"sample_id": sample_ids, "action": _vectors(rows)}
        self.log_samples("pixels", split, columns, schema.pixels_schema(rows.shape[1]), shape=action.shape[1:])

    def log_outputs(self, split: str, columns: Mapping[str, Any]) -> None:
        """Write what the model said of one split: `sample_id`, and those columns of the schema that the task has."""
        self.log_samples("outputs", split, columns, schema.OUTPUTS)

    def log_clusters(self, split: str, members: pa.Table, **facts: Any) -> None:
        """Write which cluster each sample of one split belongs to, in place of an earlier clustering."""
        columns = {name: members[name] for name in ("sample_id", "cluster", "distance")}
        self.log_samples("clusters", split, columns | {"cluster_name": members["name"]}, schema.CLUSTERS, **facts)

    def log_audit(self, split: str, suspects: pa.Table, **facts: Any) -> None:
        """Write what an audit says of the labels of one split, in place of an earlier audit."""
        columns = {name: suspects[name] for name in schema.AUDITS.names if name not in ("run_id", "split")}
        self.log_samples("audits", split, columns, schema.AUDITS, **facts)

    def log_failures(self, split: str, modes: pa.Table, members: pa.Table, **facts: Any) -> None:
        """Write how the failures of one split are explained, in place of an earlier explanation."""
        for kind, table, wanted in (
            ("failure_modes", modes, schema.FAILURE_MODES),
            ("failure_members", members, schema.FAILURE_MEMBERS),
        ):
            self._send_rows(kind, split, schema.filled(table, wanted), facts)

    def log_samples(self, kind: str, split: str, columns: Mapping[str, Any], wanted: pa.Schema, **facts: Any) -> None:
        """Write a file of one row per sample of a split; columns of the schema that are not given are null.

        `kind` is the view, and the folder below `actionflow/` in which its files lie.
        """
        rows = len(columns["sample_id"])
        known = {"run_id": schema.constant(self.run_id, rows), "split": schema.constant(split, rows), **columns}
        arrays = [_column(known.get(field.name), field.type, rows) for field in wanted]
        self._send_rows(kind, split, pa.table(arrays, schema=wanted).sort_by("sample_id"), facts)

    def _send_rows(self, kind: str, split: str, table: pa.Table, facts: Mapping[str, Any]) -> None:
        self.sender.send_table(f"{layout.ROOT}/{kind}/{split}.parquet", schema.stamp(table, kind, **facts))

    def log_curriculum(self, name: str, table: pa.Table, **facts: Any) -> str:
        """Write a curriculum, with the facts it came from; return its address."""
        rows = table.num_rows
        columns = {"run_id": schema.constant(self.run_id, rows), "name": schema.constant(name, rows)}
        columns |= {
            field.name: table[field.name].cast(field.type) for field in schema.CURRICULUM if field.name not in columns
        }
        artifact = f"{layout.CURRICULA}/{name}.parquet"
        self.sender.send_table(
            artifact, schema.stamp(pa.table(columns, schema=schema.CURRICULUM), "curriculum", **facts)
        )
        return f"runs:/{self.run_id}/{artifact}"

    def log_counterexamples(
        self, part: int, run_id: str, columns: Mapping[str, Any], codes: NDArray[np.float32], **facts: Any
    ) -> None:
        """Write a part of what was found around the samples of the classifier's run."""
        names = {"run_id": run_id, "identify_run": self.run_id}
        self._log_found(
            f"{layout.COUNTEREXAMPLES}/part-{part:05d}.parquet",
            "counterexamples",
            {**self._constants(names, len(codes)), **columns, "code": _vectors(codes)},
            schema.counterexamples_schema(codes.shape[1]),
            **facts,
        )

    def log_scenarios(
        self, run_id: str, identify_run: str, columns: Mapping[str, Any], means: NDArray[np.float64]
    ) -> None:
        """Write the scenarios of the classifier's run, in place of those that were there."""
        names = {"run_id": run_id, "distill_run": self.run_id, "identify_run": identify_run}
        self._log_found(
            f"{layout.SCENARIOS}/scenarios.parquet",
            "scenarios",
            {**self._constants(names, len(means)), **columns},
            schema.scenarios_schema(means.shape[1]),
        )

    def _constants(self, names: Mapping[str, str], rows: int) -> dict[str, Any]:
        return {name: schema.constant(value, rows) for name, value in names.items()}

    def _log_found(self, artifact: str, kind: str, columns: Mapping[str, Any], wanted: pa.Schema, **facts: Any) -> None:
        rows = len(columns["run_id"])
        arrays = [_column(columns[field.name], field.type, rows) for field in wanted]
        self.sender.send_table(artifact, schema.stamp(pa.table(arrays, schema=wanted), kind, **facts))

    def log_checkpoint(self, epoch: int, write: Callable[[Path], Any]) -> None:
        """Keep what is needed to go on after `epoch`."""
        self.sender.send(checkpoint_file(epoch), write)

    def drop_checkpoint(self, epoch: int) -> None:
        """Remove a checkpoint: a later one has arrived, or the training has finished."""
        self.sender.delete(checkpoint_file(epoch))


def _vectors(rows: NDArray[np.float32]) -> pa.FixedSizeListArray:
    """The rows of (n, d), without copying a number."""
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])


def _column(values: Any, kind: pa.DataType, rows: int) -> pa.Array | pa.ChunkedArray:
    if values is None:
        return pa.nulls(rows, kind)
    whole = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
    return whole if whole.type == kind else whole.cast(kind)


def checkpoint_file(epoch: int) -> str:
    """The artifact path of the checkpoint taken after `epoch`."""
    return f"{layout.CHECKPOINTS}/epoch-{epoch:04d}.pt"


def conform(table: pa.Table, run_id: str) -> pa.Table:
    """Bring a recorder's table into the schema of `dynamics`: signals that a task lacks are null, its own come last."""
    columns = {"run_id": schema.constant(run_id, table.num_rows)}
    for field in schema.DYNAMICS:
        if field.name in table.column_names:
            columns[field.name] = table[field.name].cast(field.type)
        elif field.name not in columns:
            columns[field.name] = pa.nulls(table.num_rows, field.type)
    columns |= {name: table[name] for name in table.column_names if name not in columns}
    return pa.table(columns)
