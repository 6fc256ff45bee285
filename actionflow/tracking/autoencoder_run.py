"""A training that gives pictures back, in its MLflow run: what every sample and every pixel of it did."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor, nn

from actionflow.capture import PixelSums, pixel_losses
from actionflow.present.reconstructions import Rebuilt, reconstructions
from actionflow.tracking import keepsakes
from actionflow.tracking.pixel_checkpoints import PixelCheckpoints
from actionflow.tracking.tracked_run import NOTHING, shown_scores
from actionflow.tracking.vision_run import PictureRun
from actionflow.training.data import ImageDataset, Samples
from actionflow.training.loop import Trainer, Watcher
from actionflow.training.settings import AutoencoderSettings

FIGURE = "reconstructions.png"
# Samples at either end that the figure shows.
SHOWN = 8


class AutoencoderRun(PictureRun[AutoencoderSettings]):
    """Writes a training of an autoencoder into its run. `projects/autoencoder.py` shows how it is used."""

    settings_class = AutoencoderSettings
    entry = "autoencoder"

    def begin(
        self, dataset: ImageDataset, splits: dict[str, Samples], trainer: Trainer, facts: Mapping[str, Any] = NOTHING
    ) -> None:
        """Make room for the pixels; the rest as every training on pictures."""
        kept = self._kept_splits(splits)
        self._sums = {split: PixelSums(splits[split].sample_ids, dataset.image_size) for split in kept}
        super().begin(dataset, splits, trainer, facts)

    @cached_property
    def _checkpoints(self) -> PixelCheckpoints:
        return PixelCheckpoints(self.writer.sender, self._sums)

    def _kept_splits(self, splits: dict[str, Samples]) -> list[str]:
        """The splits whose pixels are kept: those that are asked for, as far as they are recorded."""
        wanted = {"val": ["val"], "both": list(splits), "none": []}[self.settings.pixels]
        kept = [split for split in wanted if self._is_recorded(split)]
        if left_out := ", ".join(split for split in wanted if split not in kept):
            self.progress.say(f"No pixels of split {left_out}: record={self.settings.record} records none of it.")
        return kept

    def _record(self, split: str) -> Watcher:
        samples, sums = self.splits[split], self._sums.get(split)
        known, labels = torch.from_numpy(samples.sample_ids), torch.from_numpy(samples.labels)

        def record(ids: Tensor, logits: Tensor, pixels: Tensor) -> None:
            losses = pixel_losses(logits, pixels)
            # The class is no part of the task, but people ask by class.
            signals = {"label": labels[torch.searchsorted(known, ids)].int(), "loss": losses.mean(dim=(1, 2))}
            self.recorder.add_signals(ids, signals, split)
            if sums is not None:
                sums.add(ids, losses)

        return record

    def _state(self, trainer: Trainer) -> dict[str, Any]:
        return {**super()._state(trainer), "pixels": self._checkpoints.save(trainer.epoch)}

    def _load_state(self, trainer: Trainer, state: dict[str, Any]) -> None:
        super()._load_state(trainer, state)
        self._checkpoints.load(state["epoch"], state["pixels"])

    def _drop_state(self, epoch: int) -> None:
        super()._drop_state(epoch)
        self._checkpoints.drop(epoch)

    def _log_more(self, trainer: Trainer, scores: pa.Table) -> None:
        """The action of every pixel, and a figure of the hardest and the easiest samples."""
        for split, sums in self._sums.items():
            ids = scores.filter(pc.equal(scores["split"], split))["sample_id"].to_numpy()
            # A curriculum may have left samples out: what was never seen has no action.
            self.writer.log_pixels(split, ids, sums.of(ids).numpy())
        self.client.log_figure(self.run_id, self._figure(trainer, *shown_scores(scores)), FIGURE)

    def _figure(self, trainer: Trainer, split: str, scores: pa.Table) -> Figure:
        ranked = scores.sort_by([("action", "descending"), ("sample_id", "ascending")])["sample_id"].to_numpy()
        hardest, easiest = ranked[:SHOWN], ranked[SHOWN:][::-1][:SHOWN].copy()
        groups = {"hardest": self._rebuilt(trainer, split, hardest), "easiest": self._rebuilt(trainer, split, easiest)}
        title = f"{len(ranked):,} {split} samples, {self.recorder.epoch:,} epochs"
        return reconstructions(title, {name: group for name, group in groups.items() if group})

    def _rebuilt(self, trainer: Trainer, split: str, ids: NDArray[np.int64]) -> list[Rebuilt]:
        """Samples beside what the best model makes of them."""
        if not len(ids):
            return []
        samples = self.splits[split]
        chosen = samples.take(np.searchsorted(samples.sample_ids, ids))
        rebuilt = trainer.outputs(chosen).sigmoid().numpy()
        action = self._sums[split].of(ids).numpy() if split in self._sums else [None] * len(ids)
        names = [self.dataset.class_names[label] for label in chosen.labels]
        return [
            Rebuilt(name, image / 255, again, mask)
            for name, image, again, mask in zip(names, chosen.images, rebuilt, action, strict=True)
        ]

    def _log_model(self, trainer: Trainer) -> None:
        """With the sigmoid: who loads it wants pictures."""
        model = nn.Sequential(trainer.model, nn.Sigmoid())
        keepsakes.log_model(model, self.dataset)
