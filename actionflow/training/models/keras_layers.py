"""Layers that behave as Keras' do by default, so that the paper's models are the paper's.

What differs from PyTorch's defaults: kernels are glorot-uniform (or he-normal) with zero biases, batch norm has an
epsilon of 1e-3 and moves its statistics by 1% a batch, and 'same' max-pooling of an even size pads one side only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# A normal cut off at two standard deviations is this much narrower than the uncut one; Keras widens it back.
TRUNCATED_NORMAL_STD = 0.87962566103423978

KernelInit = Callable[[Tensor], Tensor]
Layer = TypeVar("Layer", nn.Conv2d, nn.Linear)


class HouseModel(nn.Module):
    """A model of the paper, which may add L2 terms of its own to the loss."""

    def penalty(self) -> Tensor | None:
        """Return the L2 terms to add to the loss; None where the model has none."""
        return None

    @property
    def feature_reader(self) -> nn.Module | None:
        """The layer whose input is what the model knows of a sample; None where it is the last one."""
        return None


def penalty(model: nn.Module) -> Tensor | None:
    """Return the L2 terms that a model of the paper adds to its loss, None for models that have none.

    It belongs to what is optimised, not to what is recorded of a sample.
    """
    return model.penalty() if isinstance(model, HouseModel) else None


def l2(factor: float, kernels: Iterable[Tensor]) -> Tensor:
    """Return factor * sum of squares, Keras' `regularizers.l2` (no half in front)."""
    return factor * torch.stack([kernel.square().sum() for kernel in kernels]).sum()


def glorot_uniform(kernel: Tensor) -> Tensor:
    """Draw a kernel as Keras does by default."""
    return nn.init.xavier_uniform_(kernel)


def he_normal(kernel: Tensor) -> Tensor:
    """Draw a kernel as Keras' `he_normal`: a normal of variance 2 / fan_in, cut off at two standard deviations."""
    fan_in = kernel[0].numel()
    std = math.sqrt(2 / fan_in) / TRUNCATED_NORMAL_STD
    return nn.init.trunc_normal_(kernel, std=std, a=-2 * std, b=2 * std)


def valid_convolution(inputs: int, outputs: int, kernel: int) -> nn.Conv2d:
    """Build a convolution that pads nothing."""
    return _drawn(nn.Conv2d(inputs, outputs, kernel), glorot_uniform)


def same_convolution(
    inputs: int, outputs: int, kernel: int, *, stride: int = 1, bias: bool = True, init: KernelInit = glorot_uniform
) -> nn.Conv2d:
    """Build a 'same' convolution of an odd kernel.

    Half the kernel on each side is TensorFlow's padding for stride 1, and for a 1x1 kernel at any stride. A larger
    kernel with a stride would need one side more than the other: see `halving_convolution`.
    """
    if stride > 1 and kernel > 1:
        raise ValueError(f"'same' for a {kernel}x{kernel} kernel with stride {stride} is not symmetric")
    return _drawn(nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=bias), init)


def halving_convolution(inputs: int, outputs: int) -> nn.Sequential:
    """Build a 'same' 3x3 convolution with stride 2 for images of even sides, which it halves.

    TensorFlow then pads one row below and one column to the right, nothing above and to the left.
    """
    return nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), _drawn(nn.Conv2d(inputs, outputs, 3, stride=2), glorot_uniform))


def depthwise_convolution(channels: int, kernel: int) -> nn.Conv2d:
    """Build the first half of a separable convolution: one kernel per channel, 'same', no bias."""
    return _drawn(
        nn.Conv2d(channels, channels, kernel, padding=kernel // 2, groups=channels, bias=False), glorot_uniform
    )


def dense(inputs: int, outputs: int, init: KernelInit = glorot_uniform) -> nn.Linear:
    """Build a fully connected layer."""
    return _drawn(nn.Linear(inputs, outputs), init)


def batch_norm(channels: int) -> nn.BatchNorm2d:
    """Build a batch norm with Keras' epsilon and its momentum of 0.99, which PyTorch counts from the other end."""
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


class SameMaxPool(nn.Module):
    """Max-pool 3x3 with stride 2 and TensorFlow's 'same' padding: n pixels become ceil(n / 2).

    An odd size is padded by one on both sides, an even one only at its end, which is what ceil_mode does.
    """

    def forward(self, images: Tensor) -> Tensor:
        """Pool (n, c, h, w) to (n, c, ceil(h / 2), ceil(w / 2))."""
        height, width = images.shape[-2:]
        return F.max_pool2d(images, 3, stride=2, padding=(height % 2, width % 2), ceil_mode=True)


def _drawn(layer: Layer, init: KernelInit) -> Layer:
    init(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer
