"""What every pixel did: its loss in a batch, and the sum of that over all epochs, made in place."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional


def pixel_losses(logits: Tensor, images: Tensor) -> Tensor:
    """The binary cross-entropy of every pixel (n, height, width), the mean over its channels; always in float32.

    A sample's loss is the mean over its pixels.

    >>> pixel_losses(torch.zeros(1, 3, 1, 2), torch.zeros(1, 3, 1, 2))
    tensor([[[0.6931, 0.6931]]])
    """
    logits, images = logits.detach().float(), images.detach().float()
    return functional.binary_cross_entropy_with_logits(logits, images, reduction="none").mean(dim=1)


class PixelSums:
    """The action of every pixel of some samples: one image set of float32, however many epochs there are.

    sums = PixelSums(samples.sample_ids, (28, 28))
    sums.add(sample_ids, pixel_losses(logits, images))
    sums.action  # (n, 28, 28), in the order of the ids, which are ascending
    """

    def __init__(self, sample_ids: NDArray[np.int64], image_size: tuple[int, int]) -> None:
        self.sample_ids = torch.from_numpy(sample_ids)
        self.action = torch.zeros(len(sample_ids), *image_size)

    def add(self, sample_ids: Tensor, losses: Tensor) -> None:
        """Add the losses (n, height, width) of a batch to what its pixels have collected."""
        self.action.index_add_(0, self._places(sample_ids), losses.cpu())

    def of(self, sample_ids: NDArray[np.int64]) -> Tensor:
        """What the pixels of these samples have collected."""
        return self.action[self._places(torch.tensor(sample_ids))]

    def go_on_from(self, action: Tensor) -> None:
        """Put back what was collected before an interruption."""
        self.action.copy_(action)

    def _places(self, sample_ids: Tensor) -> Tensor:
        return torch.searchsorted(self.sample_ids, sample_ids)
