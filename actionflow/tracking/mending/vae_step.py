"""The first step: a beta-VAE of the classifier's data, and how well the classifier still reads what it makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import mlflow
import numpy as np
import pyarrow as pa
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from actionflow.capture import pixel_losses
from actionflow.present.pages.grids import Cell
from actionflow.present.reconstructions import Rebuilt, reconstructions
from actionflow.present.strips import PictureRow, picture_rows
from actionflow.store import layout
from actionflow.tracking import keepsakes
from actionflow.tracking.mending.chain import Chain, StepRun
from actionflow.tracking.mending.models import Patient
from actionflow.tracking.tracked_run import NOTHING, shown_scores
from actionflow.tracking.vision_run import PictureRun
from actionflow.training.checks import check_trainable
from actionflow.training.data import ImageDataset, Samples
from actionflow.training.data.png import png_images
from actionflow.training.loop import Trainer, Watcher, seed_everything
from actionflow.training.mending import Pair, VaeTrainer
from actionflow.training.mending.settings import VaeStep
from actionflow.training.models.vae import build_vae
from actionflow.training.settings import VaeSettings

SHOWN, PER_ROW = 8, 10
# Standard deviations from the middle of a latent traverse to its ends.
REACH = 2.5
# So far below its accuracy on originals, a classifier no longer reads reconstructions.
FAR_BELOW = 0.1


class VaeRun(PictureRun[VaeSettings]):
    """Writes the training of a VAE into its run."""

    settings_class = VaeSettings
    entry = "vae"

    def begin(
        self, dataset: ImageDataset, splits: dict[str, Samples], trainer: Trainer, facts: Mapping[str, Any] = NOTHING
    ) -> None:
        """What is trained; the shape of its pictures too, which says how the network is built."""
        super().begin(dataset, splits, trainer, {**facts, "image_shape": [dataset.channels, *dataset.image_size]})

    def _record(self, split: str) -> Watcher:
        def record(ids: Tensor, logits: Tensor, pixels: Tensor) -> None:
            self.recorder.add_signals(ids, {"loss": pixel_losses(logits, pixels).mean(dim=(1, 2))}, split)

        return record

    def _log_model(self, trainer: Trainer) -> None:
        keepsakes.log_model(trainer.model, self.dataset)

    def _log_more(self, trainer: Trainer, scores: pa.Table) -> None:
        """Reconstructions, samples, and a traverse through every number of the code."""
        figures = {
            "reconstructions.png": self._reconstructions(trainer, *shown_scores(scores)),
            "samples.png": self._samples(trainer),
            "traverse.png": self._traverse(trainer),
        }
        for name, figure in figures.items():
            self.client.log_figure(self.run_id, figure, name)

    def _reconstructions(self, trainer: Trainer, split: str, scores: pa.Table) -> Figure:
        ranked = scores.sort_by([("last_loss", "descending"), ("sample_id", "ascending")])["sample_id"].to_numpy()
        groups = {"worst": ranked[:SHOWN], "best": ranked[SHOWN:][::-1][:SHOWN].copy()}
        title = f"{self.settings.reconstruction} reconstruction, {len(ranked):,} {split} samples"
        return reconstructions(title, {name: self._rebuilt(trainer, split, ids) for name, ids in groups.items()})

    def _rebuilt(self, trainer: Trainer, split: str, ids: NDArray[np.int64]) -> list[Rebuilt]:
        samples = self.splits[split]
        chosen = samples.take(np.searchsorted(samples.sample_ids, ids))
        again = trainer.outputs(chosen).sigmoid().numpy()
        names = [self.dataset.class_names[label] for label in chosen.labels]
        return [Rebuilt(*each) for each in zip(names, chosen.images / 255, again, strict=True)]

    def _samples(self, trainer: Trainer) -> Figure:
        code = cast(VaeTrainer, trainer).vae.code
        drawn = np.random.default_rng(self.settings.seed).normal(size=(4, PER_ROW, code)).astype(np.float32)
        return self._rows(trainer, drawn, [""] * 4, [""] * PER_ROW, "Samples", "codes drawn from a standard normal")

    def _traverse(self, trainer: Trainer) -> Figure:
        code = cast(VaeTrainer, trainer).vae.code
        places = np.linspace(-REACH, REACH, PER_ROW)
        codes = np.zeros((code, PER_ROW, code), np.float32)
        for number in range(code):
            codes[number, :, number] = places
        heads = [f"number {number}" for number in range(code)]
        about = "one number of the code changes at a time, the others are 0"
        return self._rows(trainer, codes, heads, [f"{place:+.1f}" for place in places], "Latent traverse", about)

    def _rows(
        self, trainer: Trainer, codes: NDArray[np.float32], heads: list[str], above: list[str], title: str, about: str
    ) -> Figure:
        pair = Pair(torch.nn.Identity(), cast(VaeTrainer, trainer).vae, trainer.device)
        rows = [
            PictureRow(head, [Cell(png, told, "", None) for png, told in zip(_pngs(pair, row), above, strict=True)])
            for head, row in zip(heads, codes, strict=True)
        ]
        return picture_rows(rows, title, about)


def train_vae(chain: Chain, step: VaeStep) -> str:
    """Train a VAE on what the classifier was trained on; return the id of the step's run."""
    patient = Patient.of(chain.classifier, step.data_dir)
    classifier = patient.classifier()  # before hours of training: a run without a model is told now
    settings = step.training(patient.settings)
    check_trainable(patient.splits["train"], settings, classes=False)
    with chain.step("vae", step) as run:
        tracked = VaeRun(run.run, settings, run.client, resumes=run.resumes and run.stored().has(layout.DESCRIPTION))
        seed_everything(settings.seed)
        vae = build_vae(patient.dataset.channels, patient.dataset.image_size, settings.code, settings.channels)
        trainer = VaeTrainer(vae, settings)
        splits = {name: patient.splits[name] for name in ("train", "val")}
        tracked.begin(patient.dataset, splits, trainer)
        for _ in trainer.epochs():
            passes = {"train": trainer.train(splits["train"], tracked.watch_training())}
            passes["val"] = trainer.evaluate(splits["val"], tracked.watch("val"))
            trainer.end_epoch(passes["val"])
            tracked.end_epoch(trainer, passes)
        trainer.restore_best()
        tracked.finish(trainer)
        _tell_how_it_reads(run, Pair(classifier, vae, trainer.device), splits["val"], tracked)
        return run.run_id


def _tell_how_it_reads(run: StepRun, pair: Pair, samples: Samples, tracked: VaeRun) -> None:
    """The classifier's accuracy on pictures and on what the VAE makes of them; far apart, all that follows is blur."""
    original = pair.read(samples.images).accuracy(samples.labels)
    rebuilt = pair.read(pair.decode(pair.encode(samples.images))).accuracy(samples.labels)
    mlflow.log_metrics({"read/original_accuracy": original, "read/reconstruction_accuracy": rebuilt})
    told = (
        f"The classifier reads {100 * original:.1f} % of {len(samples):,} validation samples right, and "
        f"{100 * rebuilt:.1f} % of their reconstructions."
    )
    if original - rebuilt > FAR_BELOW:
        told += (
            " Warning: that is far below, so most of what follows would find the VAE's blur and not the classifier's "
            "failures. Train the VAE longer (-P epochs), with a smaller -P beta or a larger -P code."
        )
    run.client.set_tag(run.run_id, "mlflow.note.content", told)
    tracked.progress.say(told)


def _pngs(pair: Pair, codes: NDArray[np.float32]) -> list[bytes]:
    return png_images(pair.decode(codes))
