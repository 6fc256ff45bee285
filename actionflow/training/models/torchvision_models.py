"""torchvision's classification models, with random weights, their head and stem fitted to the data.

They were made for 224 pixels: most begin by throwing away three of four rows and columns, twice. Of a small image too
little is left to learn from, so up to SMALL pixels the stem keeps every pixel instead.
"""

from __future__ import annotations

from typing import Any

from torch import nn

SMALL = 64


def torchvision_names() -> list[str]:
    """Return the names of torchvision's classification models."""
    from torchvision import models  # a second and a half, which the house's models need not wait for

    names: list[str] = models.list_models(module=models)
    return names


def build_torchvision_model(name: str, channels: int, image_size: tuple[int, int], classes: int) -> nn.Module:
    """Build a model with random weights for these images; raise ValueError or RuntimeError where it cannot be.

    Nothing is downloaded. The result maps (n, channels, height, width) to a plain tensor of (n, classes) logits.
    """
    from torchvision import models

    model: nn.Module = models.get_model(name, weights=None, num_classes=classes, **_arguments(name, image_size))
    _fit_stem(model, channels, small=max(image_size) <= SMALL)
    return model


def _arguments(name: str, image_size: tuple[int, int]) -> dict[str, Any]:
    """Return what a constructor must be told: the size where it is fixed, no second head where there is one."""
    if name in ("googlenet", "inception_v3"):
        return {"aux_logits": False, "init_weights": True}
    if name.startswith("maxvit"):
        return {"input_size": image_size}
    if name.startswith("vit"):
        return {"image_size": _side_in_patches(image_size, patch=int(name.rpartition("_")[2]))}
    return {}


def _side_in_patches(image_size: tuple[int, int], patch: int) -> int:
    height, width = image_size
    if height != width:
        raise ValueError("it takes square images only")
    if height % patch:
        raise ValueError(f"{height} is not a multiple of its patch of {patch} pixels")
    return height


def _fit_stem(model: nn.Module, channels: int, *, small: bool) -> None:
    """Let the first convolution take the channels and, of small images, keep every pixel."""
    layers = _layers(model)
    position, (name, stem) = next(
        (position, (name, layer)) for position, (name, layer) in enumerate(layers) if isinstance(layer, nn.Conv2d)
    )
    gentle = small and _skips_pixels(stem)
    if gentle or stem.in_channels != channels:
        model.set_submodule(name, _refitted(stem, channels, gentle=gentle))
    pool = _pool_after(layers[position + 1 :]) if gentle else None
    if pool is not None:
        model.set_submodule(pool, nn.Identity())


def _layers(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return the layers that hold no others, in the order in which they were defined."""
    return [(name, layer) for name, layer in model.named_modules() if not any(layer.children())]


def _skips_pixels(stem: nn.Conv2d) -> bool:
    """Tell a strided convolution from a patch embedding, whose patches (kernel = stride) leave nothing out."""
    return max(stem.stride) > 1 and stem.kernel_size != stem.stride


def _refitted(stem: nn.Conv2d, channels: int, *, gentle: bool) -> nn.Conv2d:
    geometry: dict[str, Any] = {"kernel_size": stem.kernel_size, "stride": stem.stride, "padding": stem.padding}
    if gentle:
        geometry = {"kernel_size": 3, "padding": 1}
    return nn.Conv2d(channels, stem.out_channels, bias=stem.bias is not None, **geometry)


def _pool_after(layers: list[tuple[str, nn.Module]]) -> str | None:
    """Return the name of the max-pool that follows with nothing but norms and activations before it."""
    for name, layer in layers:
        if isinstance(layer, nn.MaxPool2d):
            return name
        if not isinstance(layer, nn.BatchNorm2d | nn.ReLU):
            return None
    return None
