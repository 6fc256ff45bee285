"""Finds runs by what people type: an id, the start of an id, a name, an experiment, an MLflow filter, or a,b."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
from mlflow import MlflowClient
from mlflow.entities import Experiment, Run
from mlflow.exceptions import MlflowException

from actionflow.errors import StoreError, nearest
from actionflow.store import layout, parquet, schema
from actionflow.store.reading import StoredRun

RECORDED = f"tags.`{layout.TAG_KIND}` = 'training'"
ID = re.compile(r"[0-9a-f]{32}")
# What only a filter string has: an operator behind an attribute, a tag, a parameter or a metric.
FILTER = re.compile(r"\s(=|!=|<|>|<=|>=|like|ilike|in)\s|[a-z`\"']\s*(=|!=|<|>)", re.IGNORECASE)


def find_runs(wanted: list[str], client: MlflowClient | None = None) -> list[StoredRun]:
    """The runs that these words stand for, each once and in that order; all recorded ones when no word is given."""
    client = client or MlflowClient()
    try:
        return _find(wanted, client)
    except MlflowException as error:
        raise StoreError(f"cannot list runs of {client.tracking_uri}: {parquet.first_line(error)[:300]}") from error


def _find(wanted: list[str], client: MlflowClient) -> list[StoredRun]:
    if not wanted:
        return _search(client, all_experiments(client), RECORDED)
    found = [run for word in wanted for run in _meant_by(word, client)]
    return list({run.run_id: run for run in found}.values())


def _meant_by(word: str, client: MlflowClient) -> list[StoredRun]:
    """What MLflow can look up is asked of it; only the start of an id needs the list of all runs."""
    if ID.fullmatch(word):
        return [_by_id(client, word)]
    if FILTER.search(word):
        return _by_filter(client, word)
    experiments = all_experiments(client)
    of_that_name = [each for each in experiments if each.name == word]
    return (
        _only(word, _by_name(client, experiments, word))
        or (_search(client, of_that_name, RECORDED) if of_that_name else [])
        or [run for part in _parts(word) for run in _meant_by(part, client)]
        or _by_prefix(client, experiments, word)
    )


def _parts(word: str) -> list[str]:
    """The runs of a list such as `a,b`; nothing of a word that is one."""
    parts = [part.strip() for part in word.split(",") if part.strip()]
    return [] if parts == [word] else parts


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
        "val_accuracy": data.metrics.get("best/val_accuracy", data.metrics.get("last/val_accuracy")),
        "curriculum": data.tags.get(layout.TAG_CURRICULUM),
        "curriculum_run": data.tags.get(layout.TAG_CURRICULUM_RUN),
        "params": list(data.params.items()),
        "metrics": list(data.metrics.items()),
    }


def _search(client: MlflowClient, experiments: list[Experiment], condition: str) -> list[StoredRun]:
    """All runs that fit, newest first, page by page."""
    found: list[Run] = []
    token = None
    while True:
        page = client.search_runs([each.experiment_id for each in experiments], condition, page_token=token)
        found.extend(page)
        token = page.token
        if not token:
            return [StoredRun(run, client) for run in found]


def _by_id(client: MlflowClient, run_id: str) -> StoredRun:
    try:
        return StoredRun(client.get_run(run_id), client)
    except MlflowException as error:
        raise StoreError(f"there is no run {run_id} in {client.tracking_uri}: `actionflow runs` lists them.") from error


def _by_filter(client: MlflowClient, condition: str) -> list[StoredRun]:
    try:
        found = _search(client, all_experiments(client), f"{RECORDED} and {condition}")
    except MlflowException as error:
        raise StoreError(
            f"MLflow does not take the filter {condition!r}: {parquet.first_line(error)[:200]} Type for instance "
            "\"params.model = 'xception'\"."
        ) from error
    if not found:
        raise StoreError(f"no recorded run fits the filter {condition!r} in {client.tracking_uri}.")
    return found


def _by_name(client: MlflowClient, experiments: list[Experiment], word: str) -> list[StoredRun]:
    # A name with a quote in it cannot stand in a filter; it is found in the list of all runs.
    if "'" in word:
        return [run for run in _search(client, experiments, RECORDED) if run.name == word]
    return _search(client, experiments, f"{RECORDED} and attributes.run_name = '{word}'")


def _by_prefix(client: MlflowClient, experiments: list[Experiment], word: str) -> list[StoredRun]:
    runs = _search(client, experiments, RECORDED)
    fitting = _only(word, [run for run in runs if run.run_id.startswith(word)])
    if not fitting:
        raise StoreError(_unknown(word, runs, experiments, client))
    return fitting


def _only(word: str, fitting: list[StoredRun]) -> list[StoredRun]:
    """Several runs of one name are told apart by the person, not by us."""
    if len(fitting) > 1:
        candidates = ", ".join(f"{run.run_id[:8]} ({run.name})" for run in fitting[:5])
        raise StoreError(f"{word} stands for {len(fitting)} runs: {candidates}. Type more of the id.")
    return fitting


def pick(word: str, runs: list[StoredRun]) -> str:
    """The id of the one run among these that a word stands for."""
    named = [run for run in runs if run.name == word] or [run for run in runs if run.run_id.startswith(word)]
    for run in _only(word, named):
        return run.run_id
    names = {run.name for run in runs} | {run.run_id[:8] for run in runs}
    raise StoreError(f"{word} is none of the runs that are open. {nearest(word, names)}")


def _unknown(word: str, runs: list[StoredRun], experiments: list[Experiment], client: MlflowClient) -> str:
    if not runs:
        return f"no run is called {word}: nothing has been recorded in {client.tracking_uri} yet. Try `make demo`."
    names = {run.name for run in runs} | {run.run_id[:8] for run in runs} | {each.name for each in experiments}
    return f"no run is called {word} in {client.tracking_uri}. {nearest(word, names)}"
