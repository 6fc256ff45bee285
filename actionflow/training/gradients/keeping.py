"""The weights of a handful of epochs, on this machine, for as long as a training needs them."""

from __future__ import annotations

import io
import os
import re
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

EARLY, LATE = 3, 3
# So many evenly spread epochs at most, the first among them.
SPREAD = 5

Weights = dict[str, Tensor]

_FILE = re.compile(r"epoch-(\d{4,})\.pt")


@dataclass(frozen=True)
class Epochs:
    """Which epochs of a training are looked at: the first, the last, and some evenly spread over all of it."""

    early: tuple[int, ...]
    late: tuple[int, ...]
    every: tuple[int, ...]


def kept_epochs(last: int) -> Epochs:
    """The epochs that are kept when `last` is the one that has just been trained; ten at most.

    Early stopping decides only afterwards which epoch was the last. So every set follows from the one before it: what
    is spread evenly are the multiples of a step that doubles when there are too many of them.

    >>> kept_epochs(3)
    Epochs(early=(0, 1, 2), late=(1, 2, 3), every=(0, 1, 2, 3))
    >>> kept_epochs(22).every
    (0, 1, 2, 8, 16, 20, 21, 22)
    """
    step = 1
    while last // step >= SPREAD:
        step *= 2
    early = range(min(EARLY, last + 1))
    late = range(max(0, last + 1 - LATE), last + 1)
    every = {*early, *range(0, last + 1, step), *late}
    return Epochs(tuple(early), tuple(late), tuple(sorted(every)))


class KeptWeights:
    """The weights of the epochs that `kept_epochs` names, one file each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, epoch: int, model: nn.Module) -> None:
        """Keep the weights that `model` has after `epoch`, and let go of those that no later epoch will ask for.

        That is done one epoch behind: a training that is killed before its checkpoint is whole goes back by one.
        """
        buffer = io.BytesIO()
        torch.save({name: value.detach().cpu() for name, value in weights_of(model).items()}, buffer)
        self.folder.mkdir(parents=True, exist_ok=True)
        half = self.folder / f".{epoch}.half"
        half.write_bytes(buffer.getbuffer())
        os.replace(half, self._path(epoch))
        self._drop_all_but({*kept_epochs(epoch).every, *kept_epochs(epoch - 1).every})

    def go_on_after(self, epoch: int) -> list[int]:
        """Forget what came after `epoch`; return the epochs whose weights are lacking, as on another machine."""
        wanted = kept_epochs(epoch).every
        self._drop_all_but({*wanted})
        return self.lacking(epoch)

    def lacking(self, last: int) -> list[int]:
        """The epochs of a training that ended with `last` whose weights are not here."""
        return [epoch for epoch in kept_epochs(last).every if not self._path(epoch).is_file()]

    def load(self, epoch: int, device: torch.device) -> Weights:
        """The weights of an epoch, in float32 whatever they were trained in."""
        weights: Weights = torch.load(self._path(epoch), map_location=device, weights_only=True)
        return {name: value.float() if value.is_floating_point() else value for name, value in weights.items()}

    def _path(self, epoch: int) -> Path:
        return self.folder / f"epoch-{epoch:04d}.pt"

    def _drop_all_but(self, wanted: set[int]) -> None:
        for path in self.folder.glob("*"):
            match = _FILE.fullmatch(path.name)
            if match is None or int(match.group(1)) not in wanted:
                path.unlink()


def weights_of(model: nn.Module) -> Weights:
    """The parameters and the buffers of a model; what two of its layers share is there once."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}
