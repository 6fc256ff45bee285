"""A classifier and a VAE together: how well the one reads what the other makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from actionflow.errors import DataError
from actionflow.training.data import Samples
from actionflow.training.models.vae import Vae, fast_decoder, pixels_of

# Pictures that go through a network at once: more leave a CPU's caches and take a third longer.
AT_ONCE = 128


@dataclass(frozen=True)
class Reading:
    """What a classifier says of pictures: its prediction, and the probability that it gives to that (n)."""

    predictions: NDArray[np.int64]
    confidences: NDArray[np.float32]

    def accuracy(self, labels: NDArray[np.int64]) -> float:
        """The share of pictures that are read as their label."""
        return float((self.predictions == labels).mean())


class Pair:
    """A classifier and a VAE of the same pictures, ready to be asked; neither learns anything here.

    Pictures are uint8 on both ways: what is kept of a decoded picture is what the classifier was shown.
    """

    def __init__(self, classifier: nn.Module, vae: Vae, device: torch.device) -> None:
        self.classifier = classifier.eval().to(device)
        self.vae = vae.eval().to(device)
        self._decoder = fast_decoder(vae).to(device).to(memory_format=torch.channels_last)
        self.device = device

    def check(self, samples: Samples) -> None:
        """Refuse pictures of another size or number of channels than the VAE was made for."""
        found = samples.images.shape[1:]
        wanted = self.vae.image_shape
        if found != wanted:
            raise DataError(
                f"the pictures are {_told(found)}, but the VAE was trained on {_told(wanted)}: train one on these with "
                "-e vae, or take the classifier's own data."
            )

    def encode(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """The codes (n, code) of pictures: the means."""
        return _asked(lambda part: self.vae.encode(_from_zero_to_one(part))[0], images, self.device)

    def decode(self, codes: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Pictures (n, channels, height, width)."""
        return _asked(lambda part: pixels_of(self.vae.decode(part, self._decoder)), codes, self.device)

    def read(self, images: NDArray[np.uint8]) -> Reading:
        """What the classifier says of pictures."""
        return read(self.classifier, images, self.device)


def read(classifier: nn.Module, images: NDArray[np.uint8], device: torch.device) -> Reading:
    """What a classifier says of pictures."""
    classifier.eval()
    found = _asked(lambda part: _best(classifier(_from_zero_to_one(part))), images, device)
    return Reading(found[:, 1].astype(np.int64), found[:, 0].astype(np.float32))


def _asked(ask: Callable[[Tensor], Tensor], values: NDArray[Any], device: torch.device) -> NDArray[Any]:
    """Ask batch by batch; nothing is asked as one batch of nothing, whose answer has the right shape."""
    starts = range(0, max(len(values), 1), AT_ONCE)
    with torch.inference_mode():
        parts = [ask(torch.from_numpy(values[start : start + AT_ONCE]).to(device)).cpu().numpy() for start in starts]
    return np.concatenate(parts)


def _from_zero_to_one(pixels: Tensor) -> Tensor:
    """Channels last: keras_cnn takes little more than half of the time on a CPU."""
    return pixels.float().div_(255).contiguous(memory_format=torch.channels_last)


def _best(logits: Tensor) -> Tensor:
    """The highest probability of each row and whose it is (n, 2); whole numbers are exact in it."""
    highest = logits.float().softmax(dim=1).max(dim=1)
    return torch.stack([highest.values, highest.indices.float()], dim=1)


def _told(shape: tuple[int, ...]) -> str:
    channels, height, width = shape
    return f"{height}x{width} with {channels} channel{'' if channels == 1 else 's'}"
