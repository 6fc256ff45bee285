"""The runs that mend one classifier: a parent, its steps, and how an interrupted one is found again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import mlflow
from mlflow import MlflowClient
from mlflow.entities import Run, RunStatus
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID
from mlflow.utils.time import get_current_time_millis

from actionflow.errors import DataError, StoreError
from actionflow.store import layout
from actionflow.store.finding import find_runs
from actionflow.store.reading import StoredRun
from actionflow.store.showing import introduce
from actionflow.store.steps import chain_of, chains_of, steps_of
from actionflow.tracking.launching import guarded, stand_aside
from actionflow.training.mending.settings import StepSettings

FINISHED = RunStatus.to_string(RunStatus.FINISHED)
# What a step was told, as JSON: the same again goes on with it.
TAG_TOLD = "actionflow.defuse_parameters"


@dataclass(frozen=True)
class StepRun:
    """The run of a step that is being made, and whether an earlier process began it."""

    run: Run
    client: MlflowClient
    resumes: bool

    @property
    def run_id(self) -> str:
        """Its id."""
        return str(self.run.info.run_id)

    def stored(self) -> StoredRun:
        """As it is now."""
        return StoredRun(self.client.get_run(self.run_id), self.client)


class Chain:
    """The steps that mend a classifier."""

    def __init__(self, classifier: StoredRun, run_id: str) -> None:
        self.classifier = classifier
        self.run_id = run_id
        self.client = classifier.client

    @classmethod
    def of(cls, word: str, begins: bool = False) -> Chain:
        """The chain that a run is, or is a step of; of a classifier its newest one, or a new one that begins."""
        client = MlflowClient()
        named = find_runs([word], client)[0]
        known = chain_of(named)
        if known:
            parent = find_runs([known], client)[0]
            return cls(find_runs([parent.run.data.tags[layout.TAG_DEFUSED]], client)[0], known)
        older = chains_of(named)
        if older and not (begins and steps_of([older[0]], "vae") and cls(named, older[0].run_id).finished("vae")):
            return cls(named, older[0].run_id)
        return cls(named, _begun(named, client))

    @classmethod
    @contextmanager
    def opened(cls, word: str) -> Iterator[Chain]:
        """A chain with its parent as the active run: a new one for a classifier, or that which `word` is a part of."""
        client = MlflowClient()
        named = find_runs([word], client)[0]
        known = chain_of(named)
        if known:
            stand_aside(find_runs([known], client)[0], client)
        run = mlflow.start_run(run_id=known)
        with guarded(run, client, go_on=f"-P run={run.info.run_id}"):
            if not known:
                _introduce(named, run.info.run_id, client)
            yield cls.of(run.info.run_id)

    def finished(self, step: str, settings: StepSettings | None = None) -> StoredRun | None:
        """The newest finished run of a step, told this if it matters what."""
        for run in steps_of([self._parent()], step):
            if run.run.info.status == FINISHED and (settings is None or _was_told(run, settings)):
                return run
        return None

    def needed(self, step: str) -> StoredRun:
        """The step that another one builds on."""
        run = self.finished(step)
        if run is None:
            raise StoreError(
                f"run {self.classifier.name} ({self.classifier.run_id[:8]}) has no finished step {step} in its chain "
                f"{self.run_id[:8]}: type mlflow run . -e {step} -P run={self.run_id[:8]} first."
            )
        return run

    @contextmanager
    def step(self, step: str, settings: StepSettings) -> Iterator[StepRun]:
        """The run of a step: one that was interrupted, that of `mlflow run`, or a new one."""
        interrupted = self._interrupted(step, settings)
        nested = mlflow.active_run() is not None
        if interrupted is not None:
            if not nested:
                stand_aside(interrupted, self.client)
            run = mlflow.start_run(run_id=interrupted.run_id, nested=nested)
        else:
            run = mlflow.start_run(run_name=f"{step} {self.classifier.name}", nested=nested)
        with guarded(run, self.client, go_on=f"-P run={self.run_id}"):
            self._claim(run.info.run_id, step, settings)
            yield StepRun(run, self.client, resumes=interrupted is not None)

    def _parent(self) -> StoredRun:
        return find_runs([self.run_id], self.client)[0]

    def _interrupted(self, step: str, settings: StepSettings) -> StoredRun | None:
        runs = steps_of([self._parent()], step)
        newest = runs[0] if runs else None
        if newest is None or newest.run.info.status == FINISHED or not _was_told(newest, settings):
            return None
        return newest

    def _claim(self, run_id: str, step: str, settings: StepSettings) -> None:
        tags = {
            layout.TAG_KIND: "mending",
            layout.TAG_STEP: step,
            layout.TAG_CHAIN: self.run_id,
            layout.TAG_DEFUSED: self.classifier.run_id,
            MLFLOW_PARENT_RUN_ID: self.run_id,
            TAG_TOLD: _told(settings),
        }
        introduce(self.client, run_id, f"{step} {self.classifier.name}", settings.as_dict(), tags)


def _begun(classifier: StoredRun, client: MlflowClient) -> str:
    """A parent for steps that somebody takes one by one: it is finished as soon as it is there."""
    run_id: str = client.create_run(_experiment(classifier), get_current_time_millis()).info.run_id
    _introduce(classifier, run_id, client)
    client.set_terminated(run_id, FINISHED)
    return run_id


def _experiment(classifier: StoredRun) -> str:
    """That of the run which `mlflow run` has opened; else the classifier's."""
    return os.environ.get("MLFLOW_EXPERIMENT_ID") or str(classifier.run.info.experiment_id)


def _introduce(classifier: StoredRun, run_id: str, client: MlflowClient) -> None:
    if not classifier.run.data.tags.get(layout.TAG_MODEL):
        raise DataError(
            f"run {classifier.name} ({classifier.run_id[:8]}) is no training of a classifier: `actionflow runs` lists "
            "those that are."
        )
    tags = {layout.TAG_KIND: "defuse", layout.TAG_DEFUSED: classifier.run_id}
    introduce(client, run_id, f"defuse {classifier.name}", {}, tags)


def _told(settings: StepSettings) -> str:
    """What a step was told, but for how its run was named and where things are."""
    told = {name: value for name, value in settings.as_dict().items() if name not in ("run", "data_dir", "device")}
    return json.dumps(told, sort_keys=True)


def _was_told(run: StoredRun, settings: StepSettings) -> bool:
    return run.run.data.tags.get(TAG_TOLD) == _told(settings)
