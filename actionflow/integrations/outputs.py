"""What the outputs of a Hugging Face model say about each sample of a batch; the task is known by their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers.loss.loss_utils import LOSS_MAPPING, ForCausalLMLoss
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from actionflow.capture import Signals, TokenLosses, sequence_signals, span_signals
from actionflow.errors import RecordingError


@dataclass
class Watched:
    """One step of a Trainer while it runs: its batch, and the model's outputs that its loss came from."""

    batch: dict[str, Any]
    outputs: Any = None
    labelled: bool = False

    def see(self, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: Any) -> None:
        """Take a call of the model; calls that only generate have no labels and give way to one that has."""
        labelled = "labels" in kwargs or "start_positions" in kwargs
        if labelled or not self.labelled:
            self.outputs, self.labelled = outputs, labelled

    @property
    def classes(self) -> tuple[Tensor, Tensor] | None:
        """Logits and labels, if each sample has one label out of several."""
        logits, labels = _entry(self.outputs, "logits"), self.batch.get("labels")
        if not isinstance(logits, Tensor) or not isinstance(labels, Tensor) or labels.is_floating_point():
            return None
        is_fit = logits.ndim == 2 and logits.shape[1] > 1 and labels.numel() == len(logits)
        return (logits, labels.reshape(-1)) if is_fit else None


@dataclass
class LastTokens:
    """The token losses of a split's last pass, batch by batch."""

    sample_ids: list[Tensor] = field(default_factory=list)
    batches: list[TokenLosses] = field(default_factory=list)

    def add(self, sample_ids: Tensor, tokens: TokenLosses) -> None:
        """Take a batch."""
        self.sample_ids.append(sample_ids)
        self.batches.append(tokens)

    def columns(self, tokenizer: Any) -> dict[str, Any]:
        """Each sample's target tokens as words, and the loss of each."""
        counts, tokens, losses = (
            torch.cat([getattr(batch, name) for batch in self.batches]).tolist()
            for name in ("counts", "tokens", "losses")
        )
        words = tokenizer.convert_ids_to_tokens(tokens) if tokenizer is not None else [str(token) for token in tokens]
        cuts = list(pairwise(torch.tensor([0, *counts]).cumsum(0).tolist()))
        return {
            "sample_id": torch.cat(self.sample_ids).cpu().numpy(),
            "tokens": [words[start:stop] for start, stop in cuts],
            "token_losses": [losses[start:stop] for start, stop in cuts],
        }


def signals_of(watched: Watched, shifted: bool) -> tuple[Signals, TokenLosses | None]:
    """The signals of a task without classes; of sequences, their token losses too.

    `shifted` says that the logits at a place are about the token at the next.
    """
    outputs, batch = watched.outputs, watched.batch
    starts, ends = _entry(outputs, "start_logits"), _entry(outputs, "end_logits")
    if starts is not None and "start_positions" in batch:
        places = batch["start_positions"], batch["end_positions"]
        return span_signals(starts, ends, *places, batch.get("attention_mask")), None
    logits, labels = _entry(outputs, "logits"), batch.get("labels")
    if isinstance(logits, Tensor) and isinstance(labels, Tensor):
        if logits.ndim == 3 and logits.shape[:2] == labels.shape and not labels.is_floating_point():
            return sequence_signals(logits[:, :-1], labels[:, 1:]) if shifted else sequence_signals(logits, labels)
        if labels.is_floating_point() and logits.numel() == labels.numel():
            return {"loss": _float_loss(logits, labels)}, None
    raise RecordingError(
        f"no task is known by these outputs ({_told(outputs)}) and this batch ({', '.join(batch)}): pass "
        'ActionCallback(trainer, signals=function), a function of both that gives {"loss": one value per sample}.'
    )


def shifts_labels(model: Any) -> bool:
    """Whether the logits at a place are about the next token: in decoders that go on with a text."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model  # inside an adapter of PEFT
    # Older classes, such as GPT-2's, have no loss by name.
    goes_on = LOSS_MAPPING.get(getattr(base, "loss_type", "")) is ForCausalLMLoss or _is_listed(base)
    return goes_on and not getattr(getattr(base, "config", None), "is_encoder_decoder", False)


def _is_listed(model: Any) -> bool:
    return type(model).__name__ in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()


def _entry(outputs: Any, name: str) -> Any:
    """An entry of the model's outputs, by name or, in a plain tuple, behind the loss."""
    if isinstance(outputs, Mapping):
        return outputs.get(name)
    if isinstance(outputs, tuple) and name == "logits":
        return next((each for each in outputs if isinstance(each, Tensor) and each.ndim > 1), None)
    return None


def _float_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Squared error of numbers, cross-entropy of several yes-or-no labels: as Hugging Face trains them."""
    logits, labels = logits.detach().float(), labels.float().reshape(logits.shape)
    if logits.ndim == 1 or logits.shape[1] == 1:
        return (logits - labels).square().reshape(-1)
    return functional.binary_cross_entropy_with_logits(logits, labels, reduction="none").mean(dim=1)


def _told(outputs: Any) -> str:
    return ", ".join(outputs) if isinstance(outputs, Mapping) else type(outputs).__name__
