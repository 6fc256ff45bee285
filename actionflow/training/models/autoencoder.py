"""The paper's autoencoder: four convolutions down to a code of 128 numbers, four up to the image again."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from actionflow.errors import DataError
from actionflow.training.models.keras_layers import HouseModel, dense, halving_convolution, same_convolution
from actionflow.training.models.padding import cropped, padded

CODE = 128
DOWN, UP = (32, 64, 128, 256), (128, 64, 32)
# Four halvings: sides of other sizes are padded.
STEP = 2 ** len(DOWN)


def build_autoencoder(channels: int, image_size: tuple[int, int]) -> Autoencoder:
    """Build the autoencoder for these images with random weights from torch's global generator, which the caller seeds.

    Images of any size fit, as long as they have a pixel.
    """
    height, width = image_size
    if min(channels, height, width) < 1:
        raise DataError(
            f"an autoencoder needs images with pixels (found: {height}x{width}, {channels} channels). Check the images."
        )
    return Autoencoder(channels, image_size)


class Autoencoder(HouseModel):
    """Brings an image to a code (the features) and back: logits of every pixel, of which a sigmoid makes the image.

    1,038,721 parameters for 28x28x1. Sides that are no multiple of 16 are padded with zeros, as evenly as it goes, and
    the outputs are cropped back: what is padded is never compared with anything.
    """

    def __init__(self, channels: int, image_size: tuple[int, int]) -> None:
        super().__init__()
        height, width = image_size
        self.padding = padded(image_size, STEP)
        self.image_size = image_size
        smallest = DOWN[-1], -(-height // STEP), -(-width // STEP)
        inner = smallest[0] * smallest[1] * smallest[2]
        self.encoder = nn.Sequential(*_going_down(channels), nn.Flatten(), dense(inner, CODE))
        self.widen = dense(CODE, inner)
        self.decoder = nn.Sequential(nn.Unflatten(1, smallest), *_going_up(channels))

    def forward(self, images: Tensor) -> Tensor:
        """Turn (n, channels, height, width), from 0 to 1, into as many logits."""
        code = self.encoder(functional.pad(images, self.padding))
        logits: Tensor = self.decoder(self.widen(code))
        return cropped(logits, self.padding, self.image_size)

    @property
    def feature_reader(self) -> nn.Module:
        """The code is what enters the decoder."""
        return self.widen


def _going_down(channels: int) -> list[nn.Module]:
    inputs = (channels, *DOWN)
    return [layer for pair in zip(inputs, DOWN, strict=False) for layer in (halving_convolution(*pair), nn.ReLU())]


def _going_up(channels: int) -> list[nn.Module]:
    outputs = (*UP, channels)
    layers: list[nn.Module] = []
    for pair in zip((DOWN[-1], *UP), outputs, strict=True):
        layers += [nn.Upsample(scale_factor=2), same_convolution(*pair, 3), nn.ReLU()]
    return layers[:-1]  # the sigmoid belongs to the loss, as a classifier's softmax does
