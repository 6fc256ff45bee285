"""One training in one MLflow run: what every kind of training writes when it begins and when it ends."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from mlflow import MlflowClient
from mlflow.entities import Run

from actionflow.clustering import log_curves
from actionflow.errors import DataError
from actionflow.present.progress import Progress
from actionflow.recording import Recorder
from actionflow.reporting import log_report, shown_split
from actionflow.store.reading import StoredRun
from actionflow.tracking import registering
from actionflow.tracking.gradients import GradientScores
from actionflow.tracking.lessons import Lessons
from actionflow.tracking.registering import ModelFacts, StoredDataset
from actionflow.training.settings import Settings

NOTHING: Mapping[str, Any] = MappingProxyType({})
S = TypeVar("S", bound=Settings)


class TrackedRun(Generic[S]):
    """Writes a training into its run; `VisionRun` and `TextRun` know what their trainings have to say."""

    settings_class: ClassVar[type[Settings]] = Settings
    entry: ClassVar[str] = ""  # the module in projects/ that trains it

    def __init__(self, run: Run, settings: S, client: MlflowClient, resumes: bool) -> None:
        self.run = run
        self.run_id: str = run.info.run_id
        self.settings = settings
        self.client = client
        self.resumes = resumes
        self.progress = Progress(settings.epochs)
        self.lessons: Lessons | None = None
        self.gradients = GradientScores(settings.gradient_scores, self.run_id, self.progress)
        self._started = time.perf_counter()

    def curriculum(self, dataset: StoredDataset) -> pa.Table:
        """The curriculum that the settings name, once it is known to be for this data."""
        self.lessons = Lessons.fetch(self.settings.curriculum)
        self.lessons.check(dataset)
        return self.lessons.table

    def _open(
        self, dataset: StoredDataset, splits: dict[str, Any], model: ModelFacts, facts: Mapping[str, Any] = NOTHING
    ) -> StoredRun:
        """Write down what is trained; a resumed run knows it already, and only sees that the data are the same."""
        self.recorder = Recorder(self.run_id, self.client, probabilities=self.settings.keeps_probabilities)
        self.writer = self.recorder.writer
        stored = StoredRun(self.client.get_run(self.run_id), self.client)
        if self.resumes:
            self._check_data(stored, dataset)
            for artifact in self.writer.sender.send_leftovers():
                self.progress.say(f"Sent {artifact}, which was waiting on this machine.")
        else:
            registering.register(self.writer, self.run, self.settings, dataset, splits, model, facts)
            if self.lessons:
                self.lessons.register(self.client, self.run_id)
        if self.lessons:
            of = f"{self.lessons.table.num_rows:,} of {len(splits['train']):,} training samples"
            self.progress.say(f"On {of}, by {self.settings.curriculum}, pacing {self.settings.pacing}.")
        return stored

    def _go_on_after(self, epoch: int) -> None:
        self.recorder.go_on_after(epoch)
        self.progress.epoch = epoch + 1
        self.progress.say(f"Resuming run {self.run_id} after {epoch + 1} finished epochs.")
        self.gradients.go_on_after(epoch)

    def _log_report(self) -> None:
        """Group the samples by their loss curves, and show everything that was recorded in MLflow's pages."""
        split = shown_split(StoredRun(self.run, self.client).splits())
        curves = log_curves(self.run_id, split, say=self.progress.say)
        log_report(self.run_id, split, curves, self.client, say=self.progress.say)

    def _close(self, summary: dict[str, float], step: int, next_command: str) -> None:
        """The last figures, and the next thing to type."""
        self.writer.sender.send_metrics({**summary, "seconds": time.perf_counter() - self._started}, step=step)
        self.writer.sender.close()
        self.progress.say(f"Done. `{next_command}` shows the samples it struggled with.")

    def _check_data(self, stored: StoredRun, dataset: StoredDataset) -> None:
        known = stored.description()["dataset"]["digest"]
        if known != dataset.digest:
            raise DataError(
                f"run {self.run_id} was trained on other data: its digest is {known}, this data's is "
                f"{dataset.digest}. Type -P data_dir=<where the same data lie>."
            )


def shown_scores(scores: pa.Table) -> tuple[str, pa.Table]:
    """The split that people look at first, and its scores."""
    split = shown_split(scores["split"].unique().to_pylist())
    return split, scores.filter(pc.equal(scores["split"], split))
