"""Pictures changed a little, within an l2 ball, so that something rises: the loss, or what a feature says.

One way up the gradient serves three ends: to train against (`worst_case`), to test with, and to see what a feature
looks for.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# How many steps of the usual size would lead beyond the ball: the edge must be in reach, however the way bends.
BEYOND = 2.5
TINY = 1e-12

# What it is worth of each picture (n): its sum is climbed, so that pictures do not mind one another.
Worth = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Ball:
    """How far a picture of values from 0 to 1 may be changed, in l2, and in how many steps of which size."""

    radius: float
    steps: int
    step_size: float = 0.0

    @property
    def step(self) -> float:
        """The size of a step; 0 stands for the usual one."""
        return self.step_size or BEYOND * self.radius / self.steps


def climb(pictures: Tensor, worth: Worth, ball: Ball, from_anywhere: bool = False) -> Tensor:
    """Pictures (n, channels, height, width) within the ball around these that are worth more.

    Projected gradient ascent, with steps of one length whatever the gradient's; `from_anywhere` starts at a random
    place of the ball. Values stay from 0 to 1.
    """
    start = _random_start(pictures, ball.radius) if from_anywhere else pictures
    here = start.detach().clone()
    for _ in range(ball.steps):
        with torch.enable_grad():
            here.requires_grad_()
            (uphill,) = torch.autograd.grad(worth(here).sum(), here)
        with torch.no_grad():
            here = _within(here + ball.step * uphill / _lengths(uphill), pictures, ball.radius)
    return here.detach()


def worst_case(model: nn.Module, pictures: Tensor, labels: Tensor, ball: Ball) -> Tensor:
    """The pictures changed so that the model loses as much as it can be made to: PGD from a random start.

    The model's statistics and weights stay as they are; it is asked as it is in use, without dropout.
    """
    with _in_use(model):
        return climb(pictures, lambda changed: _loss(model, changed, labels), ball, from_anywhere=True)


def withstands(model: nn.Module, pictures: Tensor, labels: Tensor, ball: Ball, restarts: int) -> Tensor:
    """Which pictures (n) are still told right after PGD from several random places of the ball."""
    with _in_use(model):
        right = model(pictures).argmax(dim=1) == labels
        for _ in range(restarts):
            left = right.nonzero().flatten()
            if not len(left):
                break
            changed = worst_case(model, pictures[left], labels[left], ball)
            right[left] &= model(changed).argmax(dim=1) == labels[left]
        still: Tensor = right
        return still


def withstands_autoattack(model: nn.Module, pictures: Tensor, labels: Tensor, radius: float, seed: int) -> Tensor:
    """The same after AutoAttack's two APGD attacks, untargeted and targeted: its authors' own package.

    ModuleNotFoundError says that the package is not installed.
    """
    from pyautoattack import AutoAttack

    with _in_use(model), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        classes = int(model(pictures[:1]).shape[1])
        attack = AutoAttack(
            model,
            norm="L2",
            eps=radius,
            version="custom",
            attacks=["apgd-ce", "apgd-t"] if classes > 2 else ["apgd-ce"],
            seed=seed,
            device=pictures.device,
        )
        attack.verbose = False
        attack.apgd.n_restarts = 1
        attack.apgd_targeted.n_target_classes = min(9, classes - 1)
        changed, _ = attack.run_standard_evaluation(pictures, labels, batch_size=len(pictures))
        right: Tensor = model(changed).argmax(dim=1) == labels
        return right


def _loss(model: nn.Module, pictures: Tensor, labels: Tensor) -> Tensor:
    losses: Tensor = F.cross_entropy(model(pictures).float(), labels, reduction="none")
    return losses


def _within(changed: Tensor, pictures: Tensor, radius: float) -> Tensor:
    """The nearest place of the ball, with values that a picture can have.

    Cutting values off brings them no farther from the picture, whose own lie between 0 and 1.
    """
    away = changed - pictures
    away *= (radius / _lengths(away)).clamp(max=1)
    return (pictures + away).clamp_(0, 1)


def _random_start(pictures: Tensor, radius: float) -> Tensor:
    away = torch.randn_like(pictures)
    share = torch.rand(len(pictures), 1, 1, 1, device=pictures.device)
    return (pictures + radius * share * away / _lengths(away)).clamp_(0, 1)


def _lengths(tensor: Tensor) -> Tensor:
    lengths: Tensor = tensor.flatten(1).norm(dim=1).clamp_min(TINY).view(-1, 1, 1, 1)
    return lengths


@contextmanager
def _in_use(model: nn.Module) -> Iterator[None]:
    """The model as it is when it is asked, its weights without gradients; afterwards as it was."""
    training = model.training
    wanted = [each for each in model.parameters() if each.requires_grad]
    model.eval()
    for each in wanted:
        each.requires_grad_(False)
    try:
        yield
    finally:
        for each in wanted:
            each.requires_grad_()
        model.train(training)
