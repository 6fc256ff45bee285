"""The paper's mini Xception: separable convolutions with residual connections, fully convolutional."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from actionflow.training.models.keras_layers import (
    HouseModel,
    SameMaxPool,
    batch_norm,
    depthwise_convolution,
    l2,
    same_convolution,
)

STEM = [32, 64]
BLOCKS = [128, 128, 256, 256, 512, 512, 1024]
L2 = 0.01


class Xception(HouseModel):
    """A stem of two convolutions, seven separable blocks that halve the image, a convolution to the classes, the mean.

    The features are the 1024 channels that enter the head, averaged over the map. The penalty is 0.01 times the sum of
    squares of the stem's and the head's kernels. (The paper's code names the separable ones too, with an argument that
    Keras ignores: so they were never penalised.) No layer depends on the image's size.
    """

    def __init__(self, channels: int, image_size: tuple[int, int], classes: int) -> None:
        super().__init__()
        widths = [channels, *STEM, *BLOCKS]
        pairs = list(pairwise(widths))
        self.stem = nn.Sequential(*(_stem_layer(*pair) for pair in pairs[: len(STEM)]))
        self.blocks = nn.Sequential(*(XceptionBlock(*pair) for pair in pairs[len(STEM) :]))
        self.head = same_convolution(BLOCKS[-1], classes, 3)

    def forward(self, images: Tensor) -> Tensor:
        """Turn (n, channels, height, width) into (n, classes) logits."""
        maps: Tensor = self.head(self.blocks(self.stem(images)))
        return maps.mean(dim=(2, 3))

    def penalty(self) -> Tensor:
        """Return 0.01 times the sum of squares of the stem's and the head's kernels."""
        stem = [layer.weight for layer in self.stem.modules() if isinstance(layer, nn.Conv2d)]
        return l2(L2, [*stem, self.head.weight])


class XceptionBlock(nn.Module):
    """Two separable convolutions and a max-pool, added to a strided 1x1 convolution around them."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            same_convolution(inputs, outputs, 1, stride=2, bias=False),
            batch_norm(outputs),
        )
        self.separable = nn.Sequential(
            *_separable_convolution(inputs, outputs),
            batch_norm(outputs),
            nn.ReLU(),
            *_separable_convolution(outputs, outputs),
            batch_norm(outputs),
            SameMaxPool(),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Halve (n, inputs, h, w) to (n, outputs, ceil(h / 2), ceil(w / 2))."""
        total: Tensor = self.separable(images) + self.residual(images)
        return total


def _stem_layer(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(same_convolution(inputs, outputs, 3, bias=False), batch_norm(outputs), nn.ReLU())


def _separable_convolution(inputs: int, outputs: int) -> list[nn.Module]:
    return [depthwise_convolution(inputs, 3), same_convolution(inputs, outputs, 1, bias=False)]
