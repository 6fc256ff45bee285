"""Fine-tuning on the training data and on failures together: CE(data) + lambda CE(failures)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from actionflow.training.loop import Trainer, epoch_seed
from actionflow.training.schedule import MostAccurate
from actionflow.training.settings import VisionSettings

# What keeps the draw of failures apart from the order of the samples, which follows from the seed and the epoch too.
FAILURES_DRAW = 1_000_003


@dataclass(frozen=True)
class Failures:
    """Pictures (n, channels, height, width) that the classifier gets wrong, and what they are."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, places: NDArray[np.int64]) -> Failures:
        """Those at these places."""
        return Failures(self.images[places], self.labels[places])


class FineTuner(Trainer):
    """The classifier's own loop and optimiser, from its own weights; every step sees a batch of failures too.

    With `weight` 0 no failure is seen: that is the control. The epoch of the best validation accuracy is kept.
    """

    def __init__(self, model: nn.Module, settings: VisionSettings, failures: Failures | None, weight: float) -> None:
        super().__init__(model, settings)
        self.stopping = MostAccurate(settings.stop_patience)
        self.failures = failures if weight > 0 else None
        self.weight = weight

    def _step(self, pixels: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        outputs = self._forward(pixels)
        more = None if self.failures is None else self.weight * self._failing(self.failures, len(pixels))
        return outputs.detach(), self._descend(self.objective.loss(outputs, targets), more)

    def _failing(self, failures: Failures, size: int) -> Tensor:
        """The mean loss of a batch of failures, drawn by the seed, the epoch and the step."""
        random = np.random.default_rng([epoch_seed(self.settings.seed, self.epoch), FAILURES_DRAW, self.steps])
        chosen = failures.take(random.choice(len(failures), min(size, len(failures)), replace=False))
        images = torch.from_numpy(chosen.images).to(self.device).float().div_(255)
        labels = torch.from_numpy(chosen.labels).to(self.device)
        return functional.cross_entropy(self._forward(images), labels)
