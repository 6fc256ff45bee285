"""The beta-VAE of Defuse: pictures to codes that are about normal, and codes back to pictures."""

from __future__ import annotations

from itertools import pairwise, product

import torch
from torch import Tensor, nn
from torch.nn import functional

from actionflow.errors import DataError
from actionflow.training.models.keras_layers import HouseModel
from actionflow.training.models.padding import cropped, padded

HIDDEN = 256
# Up to this side a picture is small: three halvings instead of four, and a code of 10 numbers instead of 15.
SMALL = 64
SMALL_CODE, LARGE_CODE = 10, 15
# Grey pictures of up to this side do with half of the channels.
SMALLEST = 32
FEW_CHANNELS, MANY_CHANNELS = 32, 64


def build_vae(channels: int, image_size: tuple[int, int], code: int = 0, width: int = 0) -> Vae:
    """Build a VAE for these images with random weights from torch's global generator, which the caller seeds.

    `code` numbers in a code and `width` channels of the convolutions; 0 takes the paper's for such images.
    """
    if min(channels, *image_size) < 1:
        height, width = image_size
        raise DataError(f"a VAE needs images with pixels (found: {height}x{width}, {channels} channels).")
    is_small = channels == 1 and max(image_size) <= SMALLEST
    chosen_code = code or (SMALL_CODE if max(image_size) <= SMALL else LARGE_CODE)
    return Vae(channels, image_size, chosen_code, width or (FEW_CHANNELS if is_small else MANY_CHANNELS))


class Vae(HouseModel):
    """4x4 convolutions with stride 2 and two dense layers of 256 down to a code, the same backwards up again.

    Sides that are no multiple of what is halved are padded with zeros and the outputs cropped back: what is padded has
    no loss. Outputs are logits of pixels; the sigmoid is part of the loss.
    """

    def __init__(self, channels: int, image_size: tuple[int, int], code: int, width: int) -> None:
        super().__init__()
        self.code, self.image_shape, self.image_size = code, (channels, *image_size), image_size
        halvings = 3 if max(image_size) <= SMALL else 4
        step = 2**halvings
        self.padding = padded(image_size, step)
        height, across = (-(-side // step) for side in image_size)
        inner = width * height * across
        self.encoder = nn.Sequential(
            *_down(channels, width, halvings), nn.Flatten(), *_dense(inner, HIDDEN, HIDDEN), nn.Linear(HIDDEN, 2 * code)
        )
        self.widen = nn.Linear(code, HIDDEN)
        self.decoder = nn.Sequential(
            nn.ReLU(),
            *_dense(HIDDEN, HIDDEN, inner),
            nn.Unflatten(1, (width, height, across)),
            *_up(channels, width, halvings),
        )

    def encode(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The means (n, code) and the logarithms of the variances of the codes of pictures from 0 to 1."""
        mean, log_variance = self.encoder(functional.pad(images, self.padding)).chunk(2, dim=1)
        return mean, log_variance

    def decode(self, codes: Tensor, decoder: nn.Module | None = None) -> Tensor:
        """Logits of pixels; by a `fast_decoder` if one is given."""
        return cropped((decoder or self.decoder)(self.widen(codes)), self.padding, self.image_size)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of the pictures that the means of their codes stand for."""
        return self.decode(self.encode(images)[0])

    @property
    def feature_reader(self) -> nn.Module:
        """The code is what enters the decoder."""
        return self.widen


def drawn_codes(mean: Tensor, log_variance: Tensor) -> Tensor:
    """A code drawn for each picture, through which gradients flow."""
    return mean + (0.5 * log_variance).exp() * torch.randn_like(mean)


def kl_divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """How far each code's normal distribution (n) is from the standard one, in closed form.

    >>> kl_divergence(torch.tensor([[1.0, 0.0]]), torch.zeros(1, 2))
    tensor([0.5000])
    """
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(dim=1)


def reconstruction_loss(kind: str, logits: Tensor, images: Tensor) -> Tensor:
    """What is lost of each picture (n), summed over its pixels.

    `bernoulli` is the binary cross-entropy, `gaussian` half the squared error of a normal of variance 1.

    >>> reconstruction_loss("gaussian", torch.zeros(1, 1, 1, 2), torch.ones(1, 1, 1, 2))
    tensor([0.2500])
    """
    if kind == "gaussian":
        return 0.5 * (logits.sigmoid() - images).square().flatten(1).sum(dim=1)
    losses = functional.binary_cross_entropy_with_logits(logits, images, reduction="none")
    return losses.flatten(1).sum(dim=1)


def annealed(steps: int, until: int) -> float:
    """The share of the KL's weight after so many steps.

    >>> annealed(0, 500), annealed(250, 500), annealed(900, 500), annealed(0, 0)
    (0.0, 0.5, 1.0, 1.0)
    """
    return 1.0 if until == 0 else min(1.0, steps / until)


def _down(channels: int, width: int, halvings: int) -> list[nn.Module]:
    inputs = [channels, *[width] * (halvings - 1)]
    return [layer for each in inputs for layer in (nn.Conv2d(each, width, 4, stride=2, padding=1), nn.ReLU())]


def _up(channels: int, width: int, halvings: int) -> list[nn.Module]:
    outputs = [*[width] * (halvings - 1), channels]
    layers: list[nn.Module] = [
        layer for out in outputs for layer in (nn.ConvTranspose2d(width, out, 4, stride=2, padding=1), nn.ReLU())
    ]
    return layers[:-1]  # the sigmoid belongs to the loss


def _dense(*sizes: int) -> list[nn.Module]:
    return [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.ReLU())]


def pixels_of(logits: Tensor) -> Tensor:
    """Pictures as they are kept, uint8: whoever judges one judges what everybody will see."""
    return logits.sigmoid().mul(255).round().to(torch.uint8)


def fast_decoder(vae: Vae) -> nn.Sequential:
    """The decoder with every transposed convolution as a plain one, for whoever decodes much and trains nothing.

    CPUs have no good kernel for the former: this takes less than half of the time, and differs in the last digits.
    """
    return nn.Sequential(
        *(_as_convolution(each) if isinstance(each, nn.ConvTranspose2d) else each for each in vae.decoder)
    )


def _as_convolution(layer: nn.ConvTranspose2d) -> nn.Sequential:
    """A 4x4 transposed convolution of stride 2 as a 3x3 one that makes the four pixels of each place side by side.

    An even pixel sees its place by the kernel's second row and the place before by the last one; an odd pixel sees its
    place by the third row and the place behind by the first. Columns go likewise.
    """
    inputs, outputs = layer.weight.shape[:2]
    rows = ((3, 1, None), (None, 2, 0))
    kernel = torch.zeros(outputs, 2, 2, inputs, 3, 3, dtype=layer.weight.dtype, device=layer.weight.device)
    weight = layer.weight.detach().transpose(0, 1)
    for odd_row, odd_column in product(range(2), repeat=2):
        for (y, row), (x, column) in product(enumerate(rows[odd_row]), enumerate(rows[odd_column])):
            if row is not None and column is not None:
                kernel[:, odd_row, odd_column, :, y, x] = weight[:, :, row, column]
    plain = nn.Conv2d(inputs, 4 * outputs, 3, padding=1)
    assert layer.bias is not None
    plain.weight = nn.Parameter(kernel.reshape(4 * outputs, inputs, 3, 3))
    plain.bias = nn.Parameter(layer.bias.detach().repeat_interleave(4))
    return nn.Sequential(plain, nn.PixelShuffle(2))
