"""How a language model reads texts, for gradients: VoG is taken at what its words are embedded as."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from actionflow.training.gradients.keeping import Weights
from actionflow.training.gradients.reading import Tensors
from actionflow.training.language.encoding import Encoded
from actionflow.training.language.features import NOT_READ

# Tokens that go through the model at once.
TOKENS_AT_ONCE = 4096


class Texts:
    """The texts of a split, the shortest first: those that are read together have about one length."""

    def __init__(
        self, model: Any, encoded: Encoded, labels: NDArray[np.int64], collator: Callable[[list[Any]], Any]
    ) -> None:
        order = np.argsort(encoded.lengths, kind="stable")
        self.model: nn.Module = model.eval()
        self.device: torch.device = model.device
        self._items = [encoded.items[place] for place in order]
        self.sample_ids = np.array([item["sample_id"] for item in self._items], np.int64)
        self.labels = labels[order].astype(np.int64)
        self._lengths = encoded.lengths[order]
        self._embedding: nn.Module = model.get_input_embeddings()
        self.sizes = self._lengths * int(model.config.hidden_size)
        self._collator = collator
        self._masks_whole = self._takes_whole_masks()

    def read(self, places: NDArray[np.int64]) -> Tensors:
        """Tokens, padded to the longest of these texts, and which of them are none."""
        items = [self._items[place] for place in places]
        read = [{name: value for name, value in item.items() if name not in NOT_READ} for item in items]
        return {name: values.to(self.device) for name, values in self._collator(read).items() if values is not None}

    def fitted(self, weights: Weights) -> Weights:
        """As they are."""
        return weights

    def looked_at(self, weights: Weights, inputs: Tensors) -> tuple[Tensor, Tensor]:
        """Logits and the embedded words, before positions are added to them."""
        found: list[Tensor] = []

        def catch(_: nn.Module, __: Any, embedded: Tensor) -> Tensor | None:
            # Only the first: a model that also writes embeds its own words by the same table.
            if found:
                return None
            found.append(embedded.detach().requires_grad_())
            return found[0]

        with _hooked(self._embedding, catch):
            logits = self.logits(weights, inputs)
        return logits, found[0]

    def logits(self, weights: Weights, inputs: Tensors) -> Tensor:
        """Of the classes; with a mask that needs no look at its values, which `torch.func` does not allow."""
        return self._logits(weights, _with_whole_mask(inputs) if self._masks_whole else inputs)

    def mean(self, values: Tensor, inputs: Tensors) -> Tensor:
        """Over the tokens of each text and their numbers."""
        words = inputs["attention_mask"].to(values.dtype)
        return (values.mean(dim=2) * words).sum(dim=1) / words.sum(dim=1)

    def at_once(self) -> int:
        """As many as come to a few thousand tokens."""
        return max(1, TOKENS_AT_ONCE // int(self._lengths.max(initial=1)))

    def _logits(self, weights: Weights, inputs: Tensors) -> Tensor:
        logits: Tensor = functional_call(self.model, weights, (), inputs).logits
        return logits

    def _takes_whole_masks(self) -> bool:
        """Whether the model understands a mask of every word by every word: tried on the shortest and the longest."""
        inputs = self.read(np.array([0, len(self._items) - 1]))
        with torch.no_grad():
            usual = self._logits({}, inputs)
            try:
                return torch.allclose(self._logits({}, _with_whole_mask(inputs)), usual, rtol=1e-4, atol=1e-5)
            except (RuntimeError, ValueError, TypeError, NotImplementedError):
                return False


def _with_whole_mask(inputs: Tensors) -> Tensors:
    """The mask as what is added to the attention of each word to each: nothing, or almost minus infinity."""
    words = inputs["attention_mask"].bool()[:, None, None, :]
    nothing = torch.zeros((), device=words.device)
    mask = torch.where(words, nothing, torch.finfo(torch.float32).min)
    return {**inputs, "attention_mask": mask.expand(-1, -1, words.shape[-1], -1)}


@contextmanager
def _hooked(layer: nn.Module, catch: Callable[..., Tensor | None]) -> Iterator[None]:
    hook = layer.register_forward_hook(catch)
    try:
        yield
    finally:
        hook.remove()
