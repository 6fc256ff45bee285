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
        order = np.argsort(sample_ids)
        rows, width = features.shape
        columns = [
            schema.constant(self.run_id, rows),
            schema.constant(split, rows),
            sample_ids[order],
            pa.FixedSizeListArray.from_arrays(pa.array(features[order].ravel()), width),
        ]
        table = pa.table(columns, schema=schema.features_schema(width))
        self.sender.send_table(f"{layout.FEATURES}/{split}.parquet", schema.stamp(table, "features"))

    def log_outputs(self, split: str, columns: Mapping[str, Any]) -> None:
        """Write what the model said of one split: `sample_id`, and those columns of the schema that the task has."""
        rows = len(columns["sample_id"])
        known = {"run_id": schema.constant(self.run_id, rows), "split": schema.constant(split, rows), **columns}
        arrays = [
            pa.array(known[field.name]).cast(field.type) if field.name in known else pa.nulls(rows, field.type)
            for field in schema.OUTPUTS
        ]
        table = pa.table(arrays, schema=schema.OUTPUTS).sort_by("sample_id")
        self.sender.send_table(f"{layout.OUTPUTS}/{split}.parquet", schema.stamp(table, "outputs"))

    def log_clusters(self, split: str, members: pa.Table, **facts: Any) -> None:
        """Write which cluster each sample of one split belongs to, in place of an earlier clustering."""
        rows = members.num_rows
        columns = {
            "run_id": schema.constant(self.run_id, rows),
            "split": schema.constant(split, rows),
            "sample_id": members["sample_id"],
            "cluster": members["cluster"],
            "cluster_name": members["name"].cast(schema.NAME),
            "distance": members["distance"],
        }
        table = pa.table(columns, schema=schema.CLUSTERS).sort_by("sample_id")
        self.sender.send_table(f"{layout.CLUSTERS}/{split}.parquet", schema.stamp(table, "clusters", **facts))

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

    def log_checkpoint(self, epoch: int, write: Callable[[Path], Any]) -> None:
        """Keep what is needed to go on after `epoch`."""
        self.sender.send(checkpoint_file(epoch), write)

    def drop_checkpoint(self, epoch: int) -> None:
        """Remove a checkpoint: a later one has arrived, or the training has finished."""
        self.sender.delete(checkpoint_file(epoch))


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
