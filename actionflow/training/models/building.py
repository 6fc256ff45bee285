"""From a model's name to a model that is known to take these images, or to one line that says why it cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from actionflow.errors import SettingsError, either, nearest
from actionflow.training.models.keras_cnn import KerasCNN
from actionflow.training.models.resnet_v2 import ResNetV2
from actionflow.training.models.torchvision_models import build_torchvision_model, torchvision_names
from actionflow.training.models.xception import Xception

HOUSE_MODELS: dict[str, Callable[[int, tuple[int, int], int], nn.Module]] = {
    "keras_cnn": KerasCNN,
    "resnet_v2": ResNetV2,
    "xception": Xception,
}

# Sizes to propose to somebody whose images are too small, the nearest first.
USUAL_SIZES = [32, 48, 64, 96, 128, 224]

# What constructors and layers raise about shapes they cannot take.
UNFIT = (RuntimeError, ValueError, AssertionError)


def model_names() -> list[str]:
    """Return every name that build_model knows: the paper's models, then torchvision's."""
    return [*HOUSE_MODELS, *torchvision_names()]


def build_model(name: str, channels: int, image_size: tuple[int, int], classes: int) -> nn.Module:
    """Build a model with random weights that takes (n, channels, height, width) and returns (n, classes) logits.

    The weights come from torch's global generator, which the caller seeds. The model is tried once, without a trace, so
    that an architecture that cannot take these images is a SettingsError here and not a traceback in the training.
    """
    _check(name, channels, image_size, classes)
    try:
        model = _construct(name, channels, image_size, classes)
        _try(model, channels, image_size, classes)
    except UNFIT as error:
        raise SettingsError(_unfit_message(name, channels, image_size, classes, error)) from error
    return model


def _check(name: str, channels: int, image_size: tuple[int, int], classes: int) -> None:
    if name not in HOUSE_MODELS and name not in torchvision_names():
        house = ", ".join(HOUSE_MODELS)
        raise SettingsError(
            f"there is no model {name!r} (known: {house} and torchvision's). {nearest(name, model_names())}"
        )
    if classes < 2:
        raise SettingsError(f"model {name} needs two classes at least (found: {classes}). Check the labels.")
    if min(channels, *image_size) < 1:
        height, width = image_size
        raise SettingsError(
            f"model {name} needs images with pixels (found: {height}x{width}, {channels} channels). Check the images."
        )


def _construct(name: str, channels: int, image_size: tuple[int, int], classes: int) -> nn.Module:
    build = HOUSE_MODELS.get(name)
    if build is None:
        return build_torchvision_model(name, channels, image_size, classes)
    return build(channels, image_size, classes)


def _try(model: nn.Module, channels: int, image_size: tuple[int, int], classes: int) -> None:
    """Run the smallest batches that a training meets: two samples to train on, a lone one to score."""
    with _without_a_trace(model):
        for samples, training in ((2, True), (1, False)):
            logits = model.train(training)(_blank_images(model, samples, channels, image_size))
            if not isinstance(logits, Tensor) or logits.shape != (samples, classes):
                raise ValueError(f"it does not return {classes} logits per image")


@contextmanager
def _without_a_trace(model: nn.Module) -> Iterator[None]:
    """Undo what forward passes change: batch-norm statistics, the mode, and the generator that dropout draws from."""
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    training = model.training
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            yield
    finally:
        model.train(training)
        for name, buffer in model.named_buffers():
            buffer.copy_(buffers[name])


def _blank_images(model: nn.Module, samples: int, channels: int, image_size: tuple[int, int]) -> Tensor:
    return torch.zeros(samples, channels, *image_size, device=next(model.parameters()).device)


def _unfit_message(name: str, channels: int, image_size: tuple[int, int], classes: int, error: Exception) -> str:
    height, width = image_size
    reason = str(error).strip().splitlines()[0].rstrip(".!") if str(error).strip() else type(error).__name__
    return (
        f"model {name} cannot take {height}x{width} images ({reason}). "
        f"Try {_what_fits(name, channels, image_size, classes)}."
    )


def _what_fits(name: str, channels: int, image_size: tuple[int, int], classes: int) -> str:
    """Say which models of the paper take these images, and which size this model would take; all of it was tried."""
    houses = [house for house in HOUSE_MODELS if _fits(house, channels, image_size, classes)]
    sizes = [size for size in USUAL_SIZES if size > min(image_size)]
    size = next((size for size in sizes if _fits(name, channels, (size, size), classes)), None)
    advice = [either(houses)] if houses else []
    advice += [f"-P image_size={size}"] if size else []
    return ", or ".join(advice) or "another model"


def _fits(name: str, channels: int, image_size: tuple[int, int], classes: int) -> bool:
    """Try a model on the meta device, where tensors have shapes and no numbers: it costs neither memory nor time."""
    try:
        with torch.device("meta"):
            _try(_construct(name, channels, image_size, classes), channels, image_size, classes)
    except UNFIT:
        return False
    return True
