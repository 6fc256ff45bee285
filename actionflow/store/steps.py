"""Finds the runs that mend a classifier: a parent, and below it the steps vae, identify, distill and correct."""

from __future__ import annotations

from mlflow.entities import Run

from actionflow.store import layout
from actionflow.store.finding import all_experiments
from actionflow.store.reading import StoredRun

STEPS = ("vae", "identify", "distill", "correct")


def steps_of(run: StoredRun, step: str) -> list[StoredRun]:
    """The runs of one step that belong to a classifier, to a chain, or are this run itself; newest first."""
    tags = run.run.data.tags
    if tags.get(layout.TAG_STEP) == step:
        return [run]
    if chain := chain_of(run):
        return found(run, f"tags.`{layout.TAG_CHAIN}` = '{chain}' and tags.`{layout.TAG_STEP}` = '{step}'")
    return found(run, f"tags.`{layout.TAG_DEFUSED}` = '{run.run_id}' and tags.`{layout.TAG_STEP}` = '{step}'")


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
    runs: list[Run] = list(run.client.search_runs(experiments, condition, order_by=newest))
    return [StoredRun(each, run.client) for each in runs]
