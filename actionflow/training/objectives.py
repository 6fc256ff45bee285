"""What a training asks of its model: what outputs are held against, and by which loss. The loop knows no more of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Objective:
    """What the outputs for a batch of pictures are held against, and by which loss.

    `targets` are made of pixels and labels; `loss` is the mean over the batch, of outputs and targets; `right` counts
    the samples that were right, and is None where nothing is right or wrong.
    """

    targets: Callable[[Tensor, Tensor], Tensor]
    loss: Callable[[Tensor, Tensor], Tensor]
    right: Callable[[Tensor, Tensor], Tensor] | None = None


CLASSIFICATION = Objective(
    targets=lambda _pixels, labels: labels,
    loss=functional.cross_entropy,
    right=lambda logits, labels: (logits.argmax(dim=1) == labels).sum(),
)

# Outputs are logits here too: a sigmoid of its own would lose what float32 cannot tell from 0 and 1.
RECONSTRUCTION = Objective(
    targets=lambda pixels, _labels: pixels,
    loss=functional.binary_cross_entropy_with_logits,
)
