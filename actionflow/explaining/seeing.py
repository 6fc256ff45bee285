"""What a feature of a model looks at: where in a picture it is moved, and what would move it most."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from actionflow.training.attacks import Ball, climb
from actionflow.training.models import PenultimateFeatures, head_of

# How far a feature attack may change a picture: so much a pixel, were all changed alike.
PER_PIXEL = 0.1
STEPS = 40

Pictures = NDArray[np.uint8]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Seen:
    """Pictures (n, channels, height, width), where a feature is moved in each (n, height, width), and the pictures
    changed so that it is moved most."""

    pictures: Pictures
    heat: Floats
    attacked: Pictures


def see(model: nn.Module, feature: int, pictures: Pictures) -> Seen:
    """What one feature makes of some pictures."""
    pixels = torch.from_numpy(pictures.copy()).float() / 255
    radius = PER_PIXEL * float(np.sqrt(pixels[0].numel()))
    changed = climb(pixels, _value_of(model, feature), Ball(radius, STEPS))
    return Seen(pictures, heat_maps(model, feature, pixels), (changed * 255).round().to(torch.uint8).numpy())


def heat_maps(model: nn.Module, feature: int, pixels: Tensor) -> Floats:
    """Where a feature is moved (n, height, width), from 0 to 1: what each place of the last map adds to it.

    A place adds its activations times how the feature changes with them. Of a model that pools, this is the feature's
    map before pooling; of one with a dense layer it is the layer's sum, place by place.
    """
    with torch.enable_grad(), _last_map(model) as last, PenultimateFeatures(model, climbable=True) as features:
        model(pixels.clone().requires_grad_())
        where = last()
        (slope,) = torch.autograd.grad(features.last[:, feature].sum(), where)
    added = (where * slope).sum(dim=1, keepdim=True).clamp_min(0).detach()
    added = added / added.amax(dim=(1, 2, 3), keepdim=True).clamp_min(1e-12)
    sized = F.interpolate(added, size=pixels.shape[-2:], mode="bilinear", align_corners=False)
    heat: Floats = sized[:, 0].numpy()
    return heat


def _value_of(model: nn.Module, feature: int) -> Callable[[Tensor], Tensor]:
    def value(pixels: Tensor) -> Tensor:
        with PenultimateFeatures(model, climbable=True) as features:
            model(pixels)
            return features.last[:, feature]

    return value


@contextmanager
def _last_map(model: nn.Module) -> Iterator[Callable[[], Tensor]]:
    """The last map with more than one place that came before the head, or entered it."""
    maps: list[Tensor] = []
    done: list[bool] = []
    head = head_of(model)

    def keep(tensor: object) -> None:
        if not done and isinstance(tensor, Tensor) and tensor.ndim == 4 and tensor.shape[2] * tensor.shape[3] > 1:
            maps[:] = [tensor]

    def reach_head(_module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        keep(inputs[0])
        done.append(True)

    layers = [each for each in model.modules() if not list(each.children()) and each is not head]
    hooks = [each.register_forward_hook(lambda _module, _inputs, output: keep(output)) for each in layers]
    hooks.append(head.register_forward_pre_hook(reach_head))
    try:
        yield lambda: maps[0]
    finally:
        for hook in hooks:
            hook.remove()
