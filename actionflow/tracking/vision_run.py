"""A training on pictures in its MLflow run: what all of them write, and what one that tells pictures apart does."""

from __future__ import annotations

import io
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from actionflow.store import layout
from actionflow.store.reading import StoredRun
from actionflow.tracking import keepsakes
from actionflow.tracking.registering import ModelFacts, introduction
from actionflow.tracking.tracked_run import NOTHING, TrackedRun
from actionflow.training.data import ImageDataset, Samples
from actionflow.training.gradients import Pictures
from actionflow.training.loop import Pass, Trainer, Watcher
from actionflow.training.settings import PictureSettings, VisionSettings

P = TypeVar("P", bound=PictureSettings)


class PictureRun(TrackedRun[P], ABC):
    """Writes a training on pictures into its run; what it is trained for decides what is recorded of a batch."""

    def begin(
        self, dataset: ImageDataset, splits: dict[str, Samples], trainer: Trainer, facts: Mapping[str, Any] = NOTHING
    ) -> None:
        """Write down what is trained, and further facts of it; put a resumed training back to where it was."""
        self.dataset, self.splits = dataset, splits
        self.gradients.check(lambda: Pictures(trainer.model, splits["train"], trainer.device), self.settings.model)
        model = ModelFacts.of(trainer.model, str(trainer.device))
        stored = self._open(dataset, splits, model, facts)
        if self.resumes:
            self._go_on(stored, trainer)
        self.progress.say(introduction(self.settings, dataset, splits, model))

    def watch(self, split: str) -> list[Watcher]:
        """Watchers for a pass whose only purpose is to look."""
        return self._watchers(split, self._is_recorded(split))

    def watch_training(self) -> list[Watcher]:
        """Watchers for the training pass: its batches are recorded unless a pass of their own follows."""
        return self._watchers("train", self.settings.records_train and self.settings.train_signals == "online")

    def end_epoch(self, trainer: Trainer, passes: dict[str, Pass]) -> None:
        """Write the epoch: first all its files on this machine, then into the run, the checkpoint last."""
        epoch = trainer.epoch
        with self.writer.sender.together():
            self.recorder.end_epoch()
            self.gradients.keep(epoch, trainer.model, self.writer.sender)
            self.writer.sender.send_metrics(_metrics(trainer, passes), step=epoch)
            self.writer.log_checkpoint(epoch, lambda path: _save(self._state(trainer), path))
        if epoch > 0:
            self._drop_state(epoch - 1)
        self.progress.end_epoch(epoch, {split: _figures(each) for split, each in passes.items()})

    def finish(self, trainer: Trainer) -> None:
        """Write scores, features, loss curves, the model of the best epoch, and the report of it all."""
        more = self.gradients.more_scores(lambda *chosen: self._pictures(trainer, *chosen))
        scores = self.recorder.finish(more)
        self._log_features(trainer)
        self._log_more(trainer, scores)
        with self.writer.sender.border("report and model"):
            self._log_report()
            self._log_model(trainer)
        self._drop_state(trainer.epoch - 1)
        best = trainer.stopping.best_epoch
        self._close(self._summary(trainer), best, f"actionflow hardest {self.run_id[:8]}")
        # Last of all: until here a killed run can make its scores once more.
        shutil.rmtree(layout.local_checkpoints(self.run_id), ignore_errors=True)

    def _pictures(self, trainer: Trainer, split: str, sample_ids: NDArray[np.int64]) -> Pictures:
        samples = self.splits[split]
        places = np.flatnonzero(np.isin(samples.sample_ids, sample_ids))
        return Pictures(trainer.model, samples.take(places), trainer.device)

    @abstractmethod
    def _record(self, split: str) -> Watcher:
        """Keep what a batch says of its samples."""

    @abstractmethod
    def _log_model(self, trainer: Trainer) -> None:
        """Keep the best weights in the form that who loads them wants."""

    def _log_more(self, trainer: Trainer, scores: pa.Table) -> None:
        """What only this kind of training leaves behind."""

    def _state(self, trainer: Trainer) -> dict[str, Any]:
        """What an interrupted training needs to go on after this epoch."""
        return trainer.state()

    def _load_state(self, trainer: Trainer, state: dict[str, Any]) -> None:
        trainer.load_state(state)

    def _drop_state(self, epoch: int) -> None:
        self.writer.drop_checkpoint(epoch)

    def _is_recorded(self, split: str) -> bool:
        return self.settings.records_train if split == "train" else self.settings.records_held_out

    def _watchers(self, split: str, recorded: bool) -> list[Watcher]:
        bar = self.progress.bar(split, len(self.splits[split]))
        if not recorded:
            return [bar]
        return [bar, self._record(split)]

    def _go_on(self, stored: StoredRun, trainer: Trainer) -> None:
        for epoch in stored.checkpoints():
            path = stored.local(f"{layout.CHECKPOINTS}/epoch-{epoch:04d}.pt")
            state = _load(path, trainer)
            if state is not None:
                self._load_state(trainer, state)
                break
        self._go_on_after(trainer.epoch - 1)

    def _log_features(self, trainer: Trainer) -> None:
        wanted = ["val"] if self.settings.features == "val" else list(self.splits)
        for split in wanted:
            samples = self.splits[split]
            self.writer.log_features(split, samples.sample_ids, trainer.features(samples))

    def _summary(self, trainer: Trainer) -> dict[str, float]:
        best = trainer.stopping.best_epoch
        # Asked of the run and not remembered: a resumed process did not see the epochs before.
        history = self.client.get_metric_history(self.run_id, "test/accuracy")
        tested = {point.step: point.value for point in history}
        best_accuracy = trainer.stopping.best_accuracy
        return {
            **({"best/test_accuracy": tested[best]} if best in tested else {}),
            "best/epoch": best,
            "best/val_loss": trainer.stopping.best_loss,
            **({} if best_accuracy is None else {"best/val_accuracy": best_accuracy}),
        }


class VisionRun(PictureRun[VisionSettings]):
    """Writes a training that tells pictures apart into its run. `projects/vision.py` shows how it is used."""

    settings_class = VisionSettings
    entry = "vision"

    def _record(self, split: str) -> Watcher:
        return lambda ids, logits, targets: self.recorder.add(ids, logits, targets, split)

    def _log_model(self, trainer: Trainer) -> None:
        keepsakes.log_model(trainer.model, self.dataset)


def _figures(each: Pass) -> dict[str, float]:
    """What a pass came to; an accuracy where there is one."""
    return {"loss": each.loss, **({} if each.accuracy is None else {"accuracy": each.accuracy})}


def _metrics(trainer: Trainer, passes: dict[str, Pass]) -> dict[str, float]:
    metrics = {"learning_rate": trainer.learning_rate, "steps": trainer.steps}
    for split, each in passes.items():
        metrics |= {f"{split}/{name}": value for name, value in _figures(each).items()}
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
