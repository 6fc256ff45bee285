"""The scores that need gradients, of a training in its run: weights kept on the way, scores made at the end."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from torch import nn

from actionflow.present.progress import Progress
from actionflow.recording import MoreScores
from actionflow.store import layout
from actionflow.store.sending import Sender
from actionflow.training.gradients import KeptWeights, Reader, check_gradients, gradient_scores, kept_epochs
from actionflow.training.gradients.scoring import passes
from actionflow.training.settings import GRADIENT_SCORES

# How the model reads some samples of a split.
ReaderOf = Callable[[str, NDArray[np.int64]], Reader]


class GradientScores:
    """Does nothing at all unless `wanted` names scores.

    Weights lie on the machine that trains, beside what else an unfinished training needs, and go with it.
    """

    def __init__(self, wanted: tuple[str, ...], run_id: str, progress: Progress) -> None:
        self.wanted = wanted
        self._progress = progress
        self._kept = KeptWeights(layout.local_checkpoints(run_id) / "gradients")
        self._last = -1

    def check(self, reader: Callable[[], Reader], model: str) -> None:
        """Refuse a model that the scores cannot be taken of."""
        if self.wanted:
            check_gradients(reader(), self.wanted, model)

    def keep(self, epoch: int, model: nn.Module, sender: Sender) -> None:
        """Keep the weights after an epoch."""
        self._last = epoch
        if self.wanted:
            with sender.border(self._kept.folder):
                self._kept.keep(epoch, model)

    def go_on_after(self, epoch: int) -> None:
        """Go on with the weights that were kept up to `epoch`; say so if they are on another machine."""
        self._last = epoch
        if self.wanted and (lacking := self._kept.go_on_after(epoch)):
            self._progress.say(self._lost(lacking))

    def more_scores(self, reader_of: ReaderOf) -> MoreScores | None:
        """What makes the columns of the wanted scores; None where none is wanted, or the weights are not here."""
        if not self.wanted:
            return None
        if lacking := self._kept.lacking(self._last):
            self._progress.say(self._lost(lacking))
            return None
        return lambda split, sample_ids: self._columns(reader_of(split, sample_ids), split, sample_ids)

    def _columns(self, reader: Reader, split: str, sample_ids: NDArray[np.int64]) -> dict[str, pa.Array]:
        steps = len(reader.labels) * passes(self._last, self.wanted)
        self._progress.say(f"Gradients of {len(reader.labels):,} {split} samples: {_told(self.wanted, self._last)}.")
        advance = self._progress.counter(f"gradients {split}", steps)
        scores = gradient_scores(reader, self._kept, self._last, self.wanted, advance)
        # A reader may have an order of its own.
        order = np.argsort(reader.sample_ids, kind="stable")
        places = order[np.searchsorted(reader.sample_ids[order], sample_ids)]
        return {name: pa.array(values[places]) for name, values in scores.items()}

    def _lost(self, epochs: list[int]) -> str:
        columns = ", ".join(name for score in self.wanted for name in GRADIENT_SCORES[score])
        told = ", ".join(map(str, epochs))
        return (
            f"The weights after epochs {told} are not on this machine (looked in {self._kept.folder}): {columns} stay "
            "empty, all else goes on."
        )


def _told(wanted: tuple[str, ...], last: int) -> str:
    """Which epochs each score looks at.

    >>> _told(("vog", "grand"), 4)
    'vog after epochs 0, 1, 2, 3, 4; grand after epochs 0, 1, 2'
    """
    epochs = {"vog": kept_epochs(last).every, "grand": kept_epochs(last).early}
    return "; ".join(f"{score} after epochs {', '.join(map(str, epochs[score]))}" for score in wanted)
