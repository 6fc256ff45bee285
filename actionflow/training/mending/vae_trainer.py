"""Trains a beta-VAE with the house's loop: its loss is reconstruction + beta KL, its weight annealed from 0."""

from __future__ import annotations

from typing import cast

from torch import Tensor

from actionflow.training.loop import Trainer
from actionflow.training.models.vae import Vae, annealed, drawn_codes, kl_divergence, reconstruction_loss
from actionflow.training.objectives import RECONSTRUCTION
from actionflow.training.settings import VaeSettings


class VaeTrainer(Trainer):
    """The loop with a loss of two terms; validation always counts the whole weight, so that its epochs compare."""

    def __init__(self, model: Vae, settings: VaeSettings) -> None:
        super().__init__(model, settings, RECONSTRUCTION)
        self._own = settings

    @property
    def vae(self) -> Vae:
        """The model as what it is."""
        return cast(Vae, self.model)

    def _step(self, pixels: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.vae.encode(pixels)
        logits = self.vae.decode(drawn_codes(mean, log_variance))
        weight = self._own.beta * annealed(self.steps, self._own.anneal_steps)
        return logits.detach(), self._descend(self._loss(logits, targets, mean, log_variance, weight))

    def _look(self, pixels: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.vae.encode(pixels)
        logits = self.vae.decode(mean)
        return logits, self._loss(logits, targets, mean, log_variance, self._own.beta)

    def _loss(self, logits: Tensor, targets: Tensor, mean: Tensor, log_variance: Tensor, weight: float) -> Tensor:
        lost = reconstruction_loss(self._own.reconstruction, logits, targets)
        return (lost + weight * kl_divergence(mean, log_variance)).mean()
