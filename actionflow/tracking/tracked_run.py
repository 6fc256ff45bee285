"""One training in one MLflow run: what is written when it begins, after each epoch, and at its end."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import torch
from mlflow import MlflowClient
from mlflow.entities import Run

from actionflow.errors import DataError
from actionflow.present.progress import Progress
from actionflow.recording import Recorder
from actionflow.store import layout
from actionflow.store.reading import StoredRun
from actionflow.tracking import keepsakes, registering
from actionflow.tracking.lessons import Lessons
from actionflow.training.data import ImageDataset, Samples
from actionflow.training.loop import Pass, Trainer, Watcher
from actionflow.training.settings import Settings


class TrackedRun:
    """Writes a training into its run. `projects/vision.py` shows how it is used."""

    def __init__(self, run: Run, settings: Settings, client: MlflowClient, resumes: bool) -> None:
        self.run = run
        self.run_id: str = run.info.run_id
        self.settings = settings
        self.client = client
        self.resumes = resumes
        self.progress = Progress(settings.epochs)
        self.lessons: Lessons | None = None
        self._started = time.perf_counter()

    def curriculum(self, dataset: ImageDataset) -> pa.Table:
        """The curriculum that the settings name, once it is known to be for this data."""
        self.lessons = Lessons.fetch(self.settings.curriculum)
        self.lessons.check(dataset)
        return self.lessons.table

    def begin(self, dataset: ImageDataset, splits: dict[str, Samples], trainer: Trainer) -> None:
        """Write down what is trained; put a resumed training back to where it was."""
        self.dataset, self.splits = dataset, splits
        self.recorder = Recorder(self.run_id, self.client)
        self.writer = self.recorder.writer
        stored = StoredRun(self.client.get_run(self.run_id), self.client)
        if self.resumes:
            self._go_on(stored, trainer)
        else:
            registering.register(self.writer, self.run, self.settings, dataset, splits, trainer)
            if self.lessons:
                self.lessons.register(self.client, self.run_id)
        self.progress.say(registering.introduction(self.settings, dataset, splits, trainer))

    def watch(self, split: str) -> list[Watcher]:
        """Watchers for a pass whose only purpose is to look."""
        wanted = self.settings.records_train if split == "train" else self.settings.records_held_out
        return self._watchers(split, wanted)

    def watch_training(self) -> list[Watcher]:
        """Watchers for the training pass: its batches are recorded unless a pass of their own follows."""
        return self._watchers("train", self.settings.records_train and self.settings.train_signals == "online")

    def end_epoch(self, trainer: Trainer, passes: dict[str, Pass]) -> None:
        """Write the epoch: first all its files on this machine, then into the run, the checkpoint last."""
        epoch = trainer.epoch
        with self.writer.sender.together():
            self.recorder.end_epoch()
            self.writer.sender.send_metrics(_metrics(trainer, passes), step=epoch)
            self.writer.log_checkpoint(epoch, lambda path: _save(trainer.state(), path))
        if epoch > 0:
            self.writer.drop_checkpoint(epoch - 1)
        self.progress.end_epoch(epoch, {split: (each.loss, each.accuracy) for split, each in passes.items()})

    def finish(self, trainer: Trainer) -> None:
        """Write scores, features, pictures and the model of the best epoch."""
        scores = self.recorder.finish()
        self._log_features(trainer)
        with self.writer.sender.border("pictures and model"):
            for split in self._shown_splits(scores):
                rows = scores.filter(pc.equal(scores["split"], split))
                keepsakes.log_pictures(self.client, self.run_id, rows, self.splits[split], self.dataset.class_names)
            keepsakes.log_model(trainer.model, self.dataset, self.run_id)
        self.writer.sender.send_metrics(self._summary(trainer), step=trainer.stopping.best_epoch)
        self.writer.drop_checkpoint(trainer.epoch - 1)
        self.writer.sender.close()
        self.progress.say(f"Done. `actionflow hardest {self.run_id[:8]}` shows the samples it struggled with.")

    def _watchers(self, split: str, recorded: bool) -> list[Watcher]:
        bar = self.progress.bar(split, len(self.splits[split]))
        if not recorded:
            return [bar]
        return [bar, lambda ids, logits, targets: self.recorder.add(ids, logits, targets, split)]

    def _go_on(self, stored: StoredRun, trainer: Trainer) -> None:
        known = stored.description()["dataset"]["digest"]
        if known != self.dataset.digest:
            raise DataError(
                f"run {self.run_id} was trained on other data: its digest is {known}, this data's is "
                f"{self.dataset.digest}. Type -P data_dir=<where the same data lie>."
            )
        for artifact in self.writer.sender.send_leftovers():
            self.progress.say(f"Sent {artifact}, which was waiting on this machine.")
        for epoch in stored.checkpoints():
            path = stored.local(f"{layout.CHECKPOINTS}/epoch-{epoch:04d}.pt")
            state = _load(path, trainer)
            if state is not None:
                trainer.load_state(state)
                break
        self.recorder.go_on_after(trainer.epoch - 1)
        self.progress.say(f"Resuming run {self.run_id} after {trainer.epoch} finished epochs.")

    def _log_features(self, trainer: Trainer) -> None:
        wanted = ["val"] if self.settings.features == "val" else list(self.splits)
        for split in wanted:
            samples = self.splits[split]
            self.writer.log_features(split, samples.sample_ids, trainer.features(samples))

    def _shown_splits(self, scores: pa.Table) -> list[str]:
        """What people look at first: validation; a run that recorded nothing else shows its training samples."""
        recorded = set(scores["split"].unique().to_pylist())
        return ["val"] if "val" in recorded else ["train"]

    def _summary(self, trainer: Trainer) -> dict[str, float]:
        best = trainer.stopping.best_epoch
        # Asked of the run and not remembered: a resumed process did not see the epochs before.
        history = self.client.get_metric_history(self.run_id, "test/accuracy")
        tested = {point.step: point.value for point in history}
        return {
            **({"best/test_accuracy": tested[best]} if best in tested else {}),
            "best/epoch": best,
            "best/val_loss": trainer.stopping.best_loss,
            "best/val_accuracy": trainer.stopping.best_accuracy,
            "seconds": time.perf_counter() - self._started,
        }


def _metrics(trainer: Trainer, passes: dict[str, Pass]) -> dict[str, float]:
    metrics = {"learning_rate": trainer.learning_rate, "steps": trainer.steps}
    for split, each in passes.items():
        metrics[f"{split}/loss"] = each.loss
        metrics[f"{split}/accuracy"] = each.accuracy
        metrics[f"{split}/samples_per_second"] = each.samples_per_second
    return metrics


def _save(state: dict[str, Any], path: Path) -> None:
    """Through memory: torch's own writer turns a full disk into an error that does not say so."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    path.write_bytes(buffer.getbuffer())


def _load(path: Path, trainer: Trainer) -> dict[str, Any] | None:
    """A checkpoint, or None for one that was cut off while it was written: the one before is still there then."""
    try:
        state: dict[str, Any] = torch.load(path, map_location=trainer.device, weights_only=True)
    except (RuntimeError, EOFError, OSError, ValueError, KeyError):
        return None
    return state
