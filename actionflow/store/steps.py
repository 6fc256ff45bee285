"""Finds the runs that mend a classifier: a parent, and below it the steps vae, identify, distill and correct."""

from __future__ import annotations

from collections.abc import Sequence

from mlflow.entities import Run

from actionflow.store import layout
from actionflow.store.finding import all_experiments
from actionflow.store.reading import StoredRun

STEPS = ("vae", "identify", "distill", "correct")


def steps_of(runs: Sequence[StoredRun], step: str) -> list[StoredRun]:
    """The runs of one step that belong to these classifiers or chains, or are among these runs; newest first.

    All are looked for at once: a thousand classifiers are one question.
    """
    if not runs:
        return []
    ids = {run.run_id for run in runs}
    # A run of this very step stands for itself alone.
    chains = {chain_of(run) for run in runs if run.run.data.tags.get(layout.TAG_STEP) != step} - {None}
    return [
        each
        for each in found(runs[0], f"tags.`{layout.TAG_STEP}` = '{step}'")
        if each.run_id in ids
        or each.run.data.tags.get(layout.TAG_DEFUSED) in ids
        or each.run.data.tags.get(layout.TAG_CHAIN) in chains
    ]


def chains_of(run: StoredRun) -> list[StoredRun]:
    """The chains that mend a classifier, newest first."""
    return found(run, f"tags.`{layout.TAG_DEFUSED}` = '{run.run_id}' and tags.`{layout.TAG_KIND}` = 'defuse'")


def chain_of(run: StoredRun) -> str | None:
    """The id of the chain that a run is, or is a step of."""
    tags = run.run.data.tags
    if tags.get(layout.TAG_KIND) == "defuse":
        return run.run_id
    return tags.get(layout.TAG_CHAIN)


def found(run: StoredRun, condition: str) -> list[StoredRun]:
    """The runs of any experiment of the run's store that fit, newest first."""
    experiments = [each.experiment_id for each in all_experiments(run.client)]
    newest = ["attributes.start_time DESC", "attributes.run_id ASC"]
    runs: list[Run] = []
    token = None
    while True:
        page = run.client.search_runs(experiments, condition, order_by=newest, page_token=token)
        runs.extend(page)
        token = page.token
        if not token:
            return [StoredRun(each, run.client) for each in runs]
