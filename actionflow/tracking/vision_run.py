"""A training on pictures in its MLflow run."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch

from actionflow.store import layout
from actionflow.store.reading import StoredRun
from actionflow.tracking import keepsakes
from actionflow.tracking.registering import ModelFacts, introduction
from actionflow.tracking.tracked_run import TrackedRun
from actionflow.training.data import ImageDataset, Samples
from actionflow.training.loop import Pass, Trainer, Watcher
from actionflow.training.settings import VisionSettings


class VisionRun(TrackedRun[VisionSettings]):
    """Writes a training on pictures into its run. `projects/vision.py` shows how it is used."""

    settings_class = VisionSettings
    entry = "vision"

    def begin(self, dataset: ImageDataset, splits: dict[str, Samples], trainer: Trainer) -> None:
        """Write down what is trained; put a resumed training back to where it was."""
        self.dataset, self.splits = dataset, splits
        model = ModelFacts.of(trainer.model, str(trainer.device))
        stored = self._open(dataset, splits, model)
        if self.resumes:
            self._go_on(stored, trainer)
        self.progress.say(introduction(self.settings, dataset, splits, model))

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
        self.progress.end_epoch(
            epoch, {split: {"loss": each.loss, "accuracy": each.accuracy} for split, each in passes.items()}
        )

    def finish(self, trainer: Trainer) -> None:
        """Write scores, features, loss curves, the model of the best epoch, and the report of it all."""
        self.recorder.finish()
        self._log_features(trainer)
        with self.writer.sender.border("report and model"):
            self._log_report()
            keepsakes.log_model(trainer.model, self.dataset, self.run_id)
        self.writer.drop_checkpoint(trainer.epoch - 1)
        best = trainer.stopping.best_epoch
        self._close(self._summary(trainer), best, f"actionflow hardest {self.run_id[:8]}")

    def _watchers(self, split: str, recorded: bool) -> list[Watcher]:
        bar = self.progress.bar(split, len(self.splits[split]))
        if not recorded:
            return [bar]
        return [bar, lambda ids, logits, targets: self.recorder.add(ids, logits, targets, split)]

    def _go_on(self, stored: StoredRun, trainer: Trainer) -> None:
        for epoch in stored.checkpoints():
            path = stored.local(f"{layout.CHECKPOINTS}/epoch-{epoch:04d}.pt")
            state = _load(path, trainer)
            if state is not None:
                trainer.load_state(state)
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
        return {
            **({"best/test_accuracy": tested[best]} if best in tested else {}),
            "best/epoch": best,
            "best/val_loss": trainer.stopping.best_loss,
            "best/val_accuracy": trainer.stopping.best_accuracy,
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
