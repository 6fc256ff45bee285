"""How a model reads the samples of a split, for whoever takes gradients of what it makes of them."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from actionflow.training.data import Samples
from actionflow.training.gradients.keeping import Weights

# What a model reads of some samples: by name, the samples along the first dimension.
Tensors = dict[str, Tensor]

# Pictures of so many pixels go through the model at once: more are slower on a CPU, whose caches they leave.
PIXELS_AT_ONCE = 65_536


class Reader(Protocol):
    """The samples of a split, and a model that reads them with the weights of any epoch."""

    model: nn.Module
    device: torch.device
    sample_ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    sizes: NDArray[np.int64]  # how many numbers each sample's input is made of, as the model sees it

    def read(self, places: NDArray[np.int64]) -> Tensors:
        """The samples at these places."""
        ...

    def fitted(self, weights: Weights) -> Weights:
        """Weights as they are fastest."""
        ...

    def looked_at(self, weights: Weights, inputs: Tensors) -> tuple[Tensor, Tensor]:
        """Logits, and what they are differentiated by: the input, or what stands for it."""
        ...

    def logits(self, weights: Weights, inputs: Tensors) -> Tensor:
        """Logits alone, with nothing in the way of `torch.func`."""
        ...

    def mean(self, values: Tensor, inputs: Tensors) -> Tensor:
        """The mean over each sample's input; padding is none of it."""
        ...

    def at_once(self) -> int:
        """How many samples a pass takes."""
        ...


class Pictures:
    """The pictures of a split."""

    def __init__(self, model: nn.Module, samples: Samples, device: torch.device) -> None:
        self.model = model.eval()
        self.device = device
        self.sample_ids = samples.sample_ids
        self.labels = samples.labels.astype(np.int64)
        self.sizes = np.full(len(samples), samples.images[0].size, np.int64)
        self._images = samples.images

    def read(self, places: NDArray[np.int64]) -> Tensors:
        """Pixels from 0 to 1."""
        pixels = torch.from_numpy(self._images[places]).to(self.device).float().div_(255)
        return {"pixels": pixels.contiguous(memory_format=torch.channels_last)}

    def fitted(self, weights: Weights) -> Weights:
        """Channels last: xception takes two thirds of the time, keras_cnn no more than it did."""
        return {
            name: value.contiguous(memory_format=torch.channels_last) if value.ndim == 4 else value
            for name, value in weights.items()
        }

    def looked_at(self, weights: Weights, inputs: Tensors) -> tuple[Tensor, Tensor]:
        """Logits and the pixels."""
        pixels = inputs["pixels"].detach().requires_grad_()
        return self.logits(weights, {"pixels": pixels}), pixels

    def logits(self, weights: Weights, inputs: Tensors) -> Tensor:
        """In float32, whatever precision was trained in."""
        logits: Tensor = functional_call(self.model, weights, (inputs["pixels"],))
        return logits

    def mean(self, values: Tensor, inputs: Tensors) -> Tensor:
        """Over pixels and channels."""
        return values.flatten(1).mean(dim=1)

    def at_once(self) -> int:
        """As many as stay in the caches."""
        height, width = self._images.shape[-2:]
        return int(np.clip(PIXELS_AT_ONCE // (height * width), 16, 256))
