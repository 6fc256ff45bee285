"""An adversarial training in its MLflow run: what the others write, and how much the model withstands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actionflow.store import layout
from actionflow.tracking.tracked_run import NOTHING
from actionflow.tracking.vision_run import VisionRun
from actionflow.training.data import ImageDataset, Samples
from actionflow.training.loop import Trainer
from actionflow.training.robust import RobustTrainer
from actionflow.training.settings import RobustSettings


class RobustRun(VisionRun):
    """Writes an adversarial training into its run. `projects/robust.py` shows how it is used."""

    settings_class = RobustSettings
    settings: RobustSettings
    entry = "robust"

    def begin(
        self, dataset: ImageDataset, splits: dict[str, Samples], trainer: Trainer, facts: Mapping[str, Any] = NOTHING
    ) -> None:
        """Say that the model is a robust one: whoever explains failures looks for it."""
        super().begin(dataset, splits, trainer, facts)
        self.client.set_tag(self.run_id, layout.TAG_ROBUST, str(self.settings.radius))

    def _summary(self, trainer: Trainer) -> dict[str, float]:
        """The accuracies that tell a robust model, of the same samples."""
        assert isinstance(trainer, RobustTrainer)
        self.progress.say(f"Measuring how much it withstands, on {self.settings.robust_samples:,} samples at most.")
        found = trainer.robustness(self.splits["val"])
        self.client.set_tag(self.run_id, "actionflow.robust_attack", found.attack)
        self.progress.say(
            f"Of {found.samples:,} val samples {100 * found.clean:.1f} % are told right as they are, "
            f"{100 * found.robust:.1f} % within radius {self.settings.radius:g} ({found.attack})."
        )
        return {
            **super()._summary(trainer),
            "robust/samples": found.samples,
            "robust/clean_accuracy": found.clean,
            "robust/robust_accuracy": found.robust,
        }
