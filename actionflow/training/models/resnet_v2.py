"""The paper's ResNet v2: the CIFAR-10 example of Keras with three blocks in each of three stages (depth 29)."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from actionflow.training.models.keras_layers import HouseModel, batch_norm, dense, he_normal, l2, same_convolution

convolution = partial(same_convolution, init=he_normal)

STEM = 16
BLOCKS = 3
# Of each stage: the channels of the bottleneck, the channels that leave it, the stride of its first block.
STAGES = [(16, 64, 1), (64, 128, 2), (128, 256, 2)]
FEATURES = 256
L2 = 1e-4


class ResNetV2(HouseModel):
    """Pre-activation bottlenecks, 31 convolutions with bias, features of 256.

    843,786 trainable parameters and 5,216 batch-norm statistics for 32x32x3 and 10 classes. Kernels are he-normal, and
    the penalty is 1e-4 times the sum of squares of every convolution's kernel (not the head's), as in the example.

    The example ends in an 8x8 average pool, which is the whole map of a 32x32 image. Here it is the whole map for any
    size: that leaves 32x32 as it was, smaller images can be trained on, and no layer depends on the image's size.
    """

    def __init__(self, channels: int, image_size: tuple[int, int], classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(convolution(channels, STEM, 3), batch_norm(STEM), nn.ReLU())
        self.blocks = nn.Sequential(*_blocks())
        self.pool = nn.Sequential(batch_norm(FEATURES), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = dense(FEATURES, classes, init=he_normal)

    def forward(self, images: Tensor) -> Tensor:
        """Turn (n, channels, height, width) into (n, classes) logits."""
        logits: Tensor = self.head(self.pool(self.blocks(self.stem(images))))
        return logits

    def penalty(self) -> Tensor:
        """Return 1e-4 times the sum of squares of the convolutions' kernels."""
        return l2(L2, (layer.weight for layer in self.modules() if isinstance(layer, nn.Conv2d)))


class Bottleneck(nn.Module):
    """Convolutions 1x1, 3x3 and 1x1, each after batch norm and relu, added to a shortcut around them."""

    def __init__(self, inputs: int, width: int, outputs: int, stride: int, *, activate_first: bool) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            *([batch_norm(inputs), nn.ReLU()] if activate_first else []),
            convolution(inputs, width, 1, stride=stride),
            batch_norm(width),
            nn.ReLU(),
            convolution(width, width, 3),
            batch_norm(width),
            nn.ReLU(),
            convolution(width, outputs, 1),
        )
        self.shortcut = nn.Identity() if inputs == outputs else convolution(inputs, outputs, 1, stride=stride)

    def forward(self, images: Tensor) -> Tensor:
        """Add the residual to the shortcut."""
        total: Tensor = self.shortcut(images) + self.residual(images)
        return total


def _blocks() -> list[Bottleneck]:
    blocks: list[Bottleneck] = []
    inputs = STEM
    for width, outputs, stage_stride in STAGES:
        for index in range(BLOCKS):
            stride = stage_stride if index == 0 else 1
            # The stem has just ended in batch norm and relu, so the very first block does not repeat them.
            blocks.append(Bottleneck(inputs, width, outputs, stride, activate_first=bool(blocks)))
            inputs = outputs
    return blocks
