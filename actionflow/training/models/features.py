"""What a model knows of a sample just before it decides: the input of its last layer, or the code it was brought to."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import torch
from torch import Tensor, nn

from actionflow.errors import RecordingError, SettingsError
from actionflow.training.models.keras_layers import HouseModel


def head_of(model: nn.Module) -> nn.Module:
    """Return the layer that turns features into outputs: the one that the model names, else its last with weights."""
    named = model.feature_reader if isinstance(model, HouseModel) else None
    if named is not None:
        return named
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
    if not layers:
        raise SettingsError(
            f"model {type(model).__name__} has no head: it contains neither nn.Linear nor nn.Conv2d. "
            "Let one of them make the logits."
        )
    return layers[-1]


class PenultimateFeatures:
    """Keeps what entered the head of a model in its last forward pass, at no cost of a pass of its own.

    The hook is taken off again at the end of the block:

        with PenultimateFeatures(model) as features:
            logits = model(images)
            features.last  # (n, d), float32

    `flat=False` leaves what entered the head in its own shape: a language model's may see a vector for every word.
    `climbable` keeps the way back to the input, for whoever asks what would make a feature higher.
    """

    def __init__(self, model: nn.Module, flat: bool = True, climbable: bool = False) -> None:
        self._head = head_of(model)
        self._flat = flat
        self._climbable = climbable
        self._last: Tensor | None = None

    def __enter__(self) -> Self:
        self._hook = self._head.register_forward_pre_hook(self._keep)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._hook.remove()

    @property
    def last(self) -> Tensor:
        """The features of the last batch, in float32, without a gradient unless they are climbable."""
        if self._last is None:
            raise RecordingError("there are no features yet: no batch went through the model. Call model(images).")
        return self._last

    def _keep(self, _head: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        features = (inputs[0] if self._climbable else inputs[0].detach()).to(torch.float32)
        if not self._flat:
            self._last = features
            return
        # The head of a fully convolutional model sees a map: its mean is one vector per sample.
        self._last = features.mean(dim=(2, 3)) if features.ndim == 4 else features.flatten(1)
