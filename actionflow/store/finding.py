"""Finds runs by what people type: an id, the start of an id, a name."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from mlflow import MlflowClient
from mlflow.entities import Experiment, Run
from mlflow.exceptions import MlflowException

from actionflow.errors import StoreError, nearest
from actionflow.store import layout, parquet, schema
from actionflow.store.reading import StoredRun

ID_LENGTH = 32


def find_runs(wanted: list[str], client: MlflowClient | None = None) -> list[StoredRun]:
    """The runs that these ids, prefixes or names stand for, in that order; all trainings when none is named."""
    client = client or MlflowClient()
    if wanted and all(len(name) == ID_LENGTH for name in wanted):
        return [_by_id(client, name) for name in wanted]
    runs = list_runs(client)
    if not wanted:
        return runs
    return [_match(name, runs) for name in wanted]


def list_runs(client: MlflowClient) -> list[StoredRun]:
    """All trainings that recorded something, newest first."""
    found: list[Run] = []
    token = None
    try:
        experiments = [experiment.experiment_id for experiment in all_experiments(client)]
        while True:
            page = client.search_runs(experiments, f"tags.`{layout.TAG_KIND}` = 'training'", page_token=token)
            found.extend(page)
            token = page.token
            if not token:
                return [StoredRun(run, client) for run in found]
    except MlflowException as error:
        raise StoreError(f"cannot list runs of {client.tracking_uri}: {parquet.first_line(error)}") from error


def runs_table(runs: list[StoredRun]) -> pa.Table:
    """What MLflow knows of the runs: the common things as columns, all of it as maps."""
    experiments = {each.experiment_id: each.name for each in all_experiments(runs[0].client)} if runs else {}
    rows = [_row(run, experiments) for run in runs]
    return pa.Table.from_pylist(rows, schema=schema.RUNS)


def _row(stored: StoredRun, experiments: dict[str, str]) -> dict[str, Any]:
    info, data = stored.run.info, stored.run.data
    return {
        "run_id": stored.run_id,
        "name": stored.name,
        "experiment": experiments.get(info.experiment_id, info.experiment_id),
        "status": info.status,
        "start_time": info.start_time,
        "dataset": data.tags.get(layout.TAG_DATASET),
        "dataset_digest": data.tags.get(layout.TAG_DIGEST),
        "model": data.tags.get(layout.TAG_MODEL),
        "seed": data.params.get("seed"),
        "epochs": data.metrics.get("epochs"),
        "val_accuracy": data.metrics.get("best/val_accuracy"),
        "params": list(data.params.items()),
        "metrics": list(data.metrics.items()),
    }


def all_experiments(client: MlflowClient) -> list[Experiment]:
    """All experiments, page by page."""
    found: list[Experiment] = []
    token = None
    while True:
        page = client.search_experiments(page_token=token)
        found.extend(page)
        token = page.token
        if not token:
            return found


def _by_id(client: MlflowClient, run_id: str) -> StoredRun:
    try:
        return StoredRun(client.get_run(run_id), client)
    except MlflowException as error:
        raise StoreError(f"there is no run {run_id} in {client.tracking_uri}: `actionflow runs` lists them.") from error


def _match(name: str, runs: list[StoredRun]) -> StoredRun:
    fitting = [run for run in runs if run.name == name] or [run for run in runs if run.run_id.startswith(name)]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        names = {run.name for run in runs} | {run.run_id[:8] for run in runs}
        told = nearest(name, names) if runs else "Nothing has been recorded there yet: try `make demo`."
        raise StoreError(
            f"no run is called {name} in {runs[0].client.tracking_uri if runs else 'the tracking store'}. {told}"
        )
    candidates = ", ".join(f"{run.run_id[:8]} ({run.name})" for run in fitting[:5])
    raise StoreError(f"{name} stands for {len(fitting)} runs: {candidates}. Type more of the id.")
