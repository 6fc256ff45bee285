"""When a training stops: early stopping that remembers the best weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

# Keras' defaults, which the paper trained with.
REDUCE_FACTOR = 0.1
REDUCE_MIN_DELTA = 1e-4


class EarlyStopping:
    """Counts epochs without a better validation loss, and keeps the weights of the best."""

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.best_loss = math.inf
        self.best_accuracy: float | None = 0.0
        self.best_epoch = -1
        self.best_weights: dict[str, Tensor] = {}
        self.waited = 0

    def update(self, epoch: int, loss: float, accuracy: float | None, model: nn.Module) -> None:
        """See how an epoch went."""
        if self._is_better(loss, accuracy):
            self.best_loss, self.best_accuracy, self.best_epoch, self.waited = loss, accuracy, epoch, 0
            self.best_weights = {name: value.detach().clone() for name, value in model.state_dict().items()}
        else:
            self.waited += 1

    def _is_better(self, loss: float, accuracy: float | None) -> bool:
        return loss < self.best_loss

    @property
    def exhausted(self) -> bool:
        """Whether patience has come to its end."""
        return 0 < self.patience <= self.waited

    def state(self) -> dict[str, Any]:
        """All that it remembers."""
        return dict(vars(self))

    def load_state(self, state: dict[str, Any]) -> None:
        """Remember what was remembered before."""
        vars(self).update(state)


class MostAccurate(EarlyStopping):
    """The same by validation accuracy; of epochs that are alike the one of the lesser loss."""

    def _is_better(self, loss: float, accuracy: float | None) -> bool:
        if self.best_epoch < 0 or accuracy is None or self.best_accuracy is None or accuracy == self.best_accuracy:
            return super()._is_better(loss, accuracy)
        return accuracy > self.best_accuracy


def plateau(optimizer: Optimizer, patience: int) -> ReduceLROnPlateau | None:
    """A tenth of the learning rate after `patience` epochs without a better loss, counted as Keras does.

    Keras reduces in the patience-th bad epoch, torch in the one after it.
    """
    if patience == 0:
        return None
    return ReduceLROnPlateau(
        optimizer, factor=REDUCE_FACTOR, patience=patience - 1, threshold=REDUCE_MIN_DELTA, threshold_mode="abs"
    )


def batches_of(size: int, batch_size: int) -> Iterator[slice]:
    """Cut `size` samples into batches.

    A lone last sample joins the batch before: batch statistics of one sample do not exist.

    >>> [(cut.start, cut.stop) for cut in batches_of(9, 4)]
    [(0, 4), (4, 9)]
    """
    ends = list(range(batch_size, size, batch_size))
    if ends and batch_size > 1 and size - ends[-1] == 1:
        ends.pop()
    starts = [0, *ends]
    return (slice(start, stop) for start, stop in zip(starts, [*ends, size], strict=True))
