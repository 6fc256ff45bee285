"""How much longer does an epoch of an autoencoder take when every sample and every pixel of it is recorded?

As `recording_overhead.py` measures it: the same epochs by turns, watched and not. Recording is all of it: the losses of
all pixels of both splits and their sums, the samples' signals, their tables and Parquet files, and the sums as a file
after every epoch, as they are kept for a training that is interrupted. That file is what the run gets once, at the end.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import made_up
import numpy as np
import torch
from measuring import is_quick
from recording_overhead import Recording, Training, tell
from torch import Tensor

from actionflow.capture import PixelSums, pixel_losses
from actionflow.training.data import Samples
from actionflow.training.loop import Trainer
from actionflow.training.models import build_autoencoder
from actionflow.training.objectives import RECONSTRUCTION
from actionflow.training.settings import AutoencoderSettings

SIDE = 28


class PixelRecording(Recording):
    """Records every pixel of both splits too."""

    def __init__(self, folder: Path, splits: dict[str, Samples]) -> None:
        super().__init__(folder)
        self.sums = {split: PixelSums(samples.sample_ids, (SIDE, SIDE)) for split, samples in splits.items()}
        self.labels = {split: torch.from_numpy(samples.labels) for split, samples in splits.items()}

    def add(self, split: str, ids: Tensor, logits: Tensor, pixels: Tensor) -> None:
        with self._on_the_clock():
            losses, sums = pixel_losses(logits, pixels), self.sums[split]
            labels = self.labels[split][torch.searchsorted(sums.sample_ids, ids)]
            self._recorders[split].add_signals(ids, {"label": labels.int(), "loss": losses.mean(dim=(1, 2))})
            sums.add(ids, losses)

    def write(self, epoch: int) -> None:
        super().write(epoch)
        with self._on_the_clock():
            for split, sums in self.sums.items():
                np.save(self.folder / f"pixels-{split}.npy", sums.action.numpy())


def main() -> None:
    quick = is_quick(__doc__)
    count, pairs = (256, 2) if quick else (2048, 7)
    splits = {"train": made_up.images(count, SIDE), "val": made_up.images(count // 4, SIDE, first_id=count)}
    torch.manual_seed(0)
    trainer = Trainer(build_autoencoder(1, (SIDE, SIDE)), AutoencoderSettings(device="cpu"), RECONSTRUCTION)
    with tempfile.TemporaryDirectory() as folder:
        measured = Training(trainer, PixelRecording(Path(folder), splits), **splits).pairs(pairs)
    sizes = " + ".join(f"{len(samples):,}" for samples in splits.values())
    tell(f"An epoch of the autoencoder on {sizes} pictures of {SIDE}x{SIDE}, batches of 32", measured, 1.05, quick)


if __name__ == "__main__":
    main()
