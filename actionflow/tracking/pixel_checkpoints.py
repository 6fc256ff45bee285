"""Where the sums of an unfinished run's pixels wait: in its checkpoint, or beside it if too large to travel."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from actionflow.capture import PixelSums
from actionflow.errors import StoreError
from actionflow.store import layout
from actionflow.store.sending import Sender

# A checkpoint is sent to the tracking server after every epoch. The 10,000 test pictures of CIFAR-10 are 41 MB and go
# along, so that a run can be resumed elsewhere; 60,000 of 28x28 are 188 MB, 19 GB in a hundred epochs, and stay here.
LARGEST_SENT = 64 * 2**20


class PixelCheckpoints:
    """Keeps the sums of all splits after an epoch, and puts them back exactly."""

    def __init__(self, sender: Sender, sums: dict[str, PixelSums]) -> None:
        self._sender = sender
        self._sums = sums
        self._folder = layout.local_checkpoints(sender.run_id)
        self._sent = sum(each.action.nbytes for each in sums.values()) <= LARGEST_SENT

    def save(self, epoch: int) -> dict[str, Tensor]:
        """Keep the sums as they are after `epoch`; return what the checkpoint has to carry of them."""
        if self._sent:
            return {split: each.action for split, each in self._sums.items()}
        with self._sender.border(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            for split, each in self._sums.items():
                np.save(self._file(split, epoch), each.action.numpy())
        return {}

    def load(self, epoch: int, carried: dict[str, Tensor]) -> None:
        """Put the sums back to where they were after `epoch`."""
        for split, each in self._sums.items():
            each.go_on_from(carried[split] if split in carried else self._read(split, epoch))

    def drop(self, epoch: int) -> None:
        """Forget an epoch: a later one is safe, or the run has finished."""
        for split in self._sums:
            self._file(split, epoch).unlink(missing_ok=True)
        with suppress(OSError):  # others are still there, or there never was one
            self._folder.rmdir()

    def _file(self, split: str, epoch: int) -> Path:
        return self._folder / f"pixels-{split}-{epoch:04d}.npy"

    def _read(self, split: str, epoch: int) -> Tensor:
        path = self._file(split, epoch)
        try:
            return torch.from_numpy(np.load(path))
        except (OSError, ValueError, EOFError) as error:
            raise StoreError(
                f"run {self._sender.run_id} cannot be resumed here: its sums over pixels were too large to travel and "
                f"lie on the machine that trained it, in {path}. Resume it there, or train it again; its finished "
                "epochs are kept."
            ) from error
