"""Adversarial training: every batch is changed for the worst before it is learnt from, and what that is worth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from actionflow.errors import SettingsError
from actionflow.training.attacks import Ball, withstands, withstands_autoattack, worst_case
from actionflow.training.data import ImageDataset, Samples
from actionflow.training.loop import Trainer
from actionflow.training.settings import RobustSettings

# Where the package of AutoAttack is not installed: so many times the steps, from so many places.
MORE_STEPS, RESTARTS = 5, 5
# What wraps the weights of a model in the checkpoints that people have, and what is put before their names.
WRAPPERS = ("state_dict", "model_state_dict", "model", "net")
PREFIXES = ("module.", "model.", "_orig_mod.", "net.")


@dataclass(frozen=True)
class Robustness:
    """The share of samples that a model tells right, as they are and after the attack that is named."""

    samples: int
    clean: float
    robust: float
    attack: str


class RobustTrainer(Trainer):
    """Trains on pictures that were changed within an l2 ball so that the model loses as much as it can."""

    settings: RobustSettings

    @property
    def ball(self) -> Ball:
        """What the pictures are changed in."""
        return Ball(self.settings.radius, self.settings.attack_steps, self.settings.step_size)

    @classmethod
    def fresh(cls, dataset: ImageDataset, settings: Any, classes: int | None = None) -> RobustTrainer:
        """A trainer of a model with random weights, or with those of the checkpoint that the settings name."""
        trainer = super().fresh(dataset, settings, classes)
        assert isinstance(trainer, cls)
        if settings.checkpoint:
            load_weights(trainer.model, settings.checkpoint)
        return trainer

    def robustness(self, samples: Samples) -> Robustness:
        """How often the model is right on some samples, and how often an attack stronger than its training's fails.

        AutoAttack's APGD, untargeted and targeted, where its package is installed; else PGD with more steps and
        restarts.
        """
        count = min(self.settings.robust_samples, len(samples))
        torch.manual_seed(self.settings.seed)
        chosen = np.sort(torch.randperm(len(samples))[:count].numpy())
        some = samples.take(chosen)
        pictures = torch.from_numpy(some.images).flatten().view(some.images.shape).to(self.device).float().div_(255)
        labels = torch.from_numpy(some.labels).to(self.device)
        self.model.eval()
        with torch.inference_mode():
            clean = float((self.model(pictures).argmax(dim=1) == labels).float().mean())
        try:
            right = withstands_autoattack(self.model, pictures, labels, self.settings.radius, self.settings.seed)
            attack = "AutoAttack: APGD-CE and APGD-T, 100 steps"
        except ModuleNotFoundError:
            ball = Ball(self.settings.radius, MORE_STEPS * self.settings.attack_steps)
            right = withstands(self.model, pictures, labels, ball, RESTARTS)
            attack = f"our own PGD, {ball.steps} steps, {RESTARTS} restarts (pyautoattack is not installed)"
        return Robustness(count, clean, float(right.float().mean()), attack)

    def _step(self, pixels: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        return super()._step(worst_case(self.model, pixels, targets, self.ball), targets)


def load_weights(model: nn.Module, checkpoint: str) -> None:
    """Put the weights of somebody's checkpoint into a model, whatever they are wrapped in and called."""
    path = Path(checkpoint).expanduser()
    if not path.is_file():
        raise SettingsError(f"there is no checkpoint {checkpoint}: type -P checkpoint=<file of torch.save>.")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises what its unpickler, its zip reader or the file system happen to raise
        raise SettingsError(
            f"checkpoint {checkpoint} cannot be read as weights ({str(error).splitlines()[0][:120]}): save it with "
            "torch.save(model.state_dict(), file)."
        ) from error
    weights = unwrapped(content)
    known = model.state_dict()
    misfits = [name for name, value in weights.items() if name in known and value.shape != known[name].shape]
    missing = [name for name in known if name not in weights]
    if misfits or missing or not weights:
        wrong = f"lacks {missing[0]}" if missing else f"has another shape of {misfits[0]}"
        raise SettingsError(
            f"checkpoint {checkpoint} does not fit: it {wrong} (found: {', '.join(list(weights)[:3]) or 'no weights'}"
            "). Type the -P model that it was made with."
        )
    model.load_state_dict({name: weights[name] for name in known})


def unwrapped(content: Any) -> dict[str, Tensor]:
    """The weights of a checkpoint by the names that the bare model has for them.

    >>> unwrapped({"epoch": 3, "state_dict": {"module.model.head.weight": torch.ones(1)}})
    {'head.weight': tensor([1.])}
    """
    for wrapper in WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(wrapper), dict):
            content = content[wrapper]
            break
    weights = {str(k): v for k, v in content.items() if isinstance(v, Tensor)} if isinstance(content, dict) else {}
    while weights and any(all(name.startswith(prefix) for name in weights) for prefix in PREFIXES):
        weights = {name.partition(".")[2]: value for name, value in weights.items()}
    return weights
