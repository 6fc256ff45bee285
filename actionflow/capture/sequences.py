"""What a batch of a model that writes, or points at words, says about each of its samples."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from actionflow.capture.signals import Signals

# What Hugging Face and PyTorch call a place that has no target: padding, a prompt.
NO_TARGET = -100
# Logits over a vocabulary are large: so many are turned into probabilities at a time.
LOGITS_AT_ONCE = 16_000_000


@dataclass(frozen=True)
class TokenLosses:
    """The losses of a batch's target tokens, sample after sample, as flat arrays; `counts` says how many each has."""

    counts: Tensor
    tokens: Tensor
    losses: Tensor


def sequence_signals(logits: Tensor, targets: Tensor) -> tuple[Signals, TokenLosses]:
    """Signals of a batch of sequences: logits (n, length, vocabulary), targets (n, length) with -100 where none is.

    A sample's loss and entropy are means over its target tokens, so that a long text is not hard for being long.

    >>> logits = torch.tensor([[[2.0, 0.0], [0.0, 9.0]]])
    >>> signals, _ = sequence_signals(logits, torch.tensor([[0, -100]]))
    >>> round(signals["loss"].item(), 4), signals["tokens"].item()
    (0.1269, 1)
    """
    wanted = targets != NO_TARGET
    tokens = targets[wanted]
    losses, entropies, hits = _by_token(logits.detach(), wanted, tokens)
    counts = wanted.sum(dim=1)
    signals = {
        "loss": _means(losses, wanted, counts),
        "entropy": _means(entropies, wanted, counts),
        "tokens": counts.int(),
        "token_accuracy": _means(hits, wanted, counts),
    }
    return signals, TokenLosses(counts, tokens, losses)


def span_signals(
    start_logits: Tensor, end_logits: Tensor, starts: Tensor, ends: Tensor, mask: Tensor | None = None
) -> Signals:
    """Signals of extractive question answering: where the answer starts and where it ends.

    The loss is the mean of both. Confidence is the probability of the whole span, and a prediction is right when both
    ends are. `mask` is 0 where a text is padded: no answer lies there, so a sample's signals do not depend on how long
    the others in its batch are.
    """
    if mask is not None:
        start_logits, end_logits = (each.masked_fill(mask == 0, -torch.inf) for each in (start_logits, end_logits))
    first, last = _ends(start_logits, starts), _ends(end_logits, ends)
    loss = (first["loss"] + last["loss"]) / 2
    return {
        "loss": loss,
        "start_loss": first["loss"],
        "end_loss": last["loss"],
        "correct": first["correct"] & last["correct"] & ~loss.isnan(),
        "confidence": (-first["loss"] - last["loss"]).exp(),
        "entropy": (first["entropy"] + last["entropy"]) / 2,
    }


def best_spans(start_logits: Tensor, end_logits: Tensor, allowed: Tensor, longest: int = 30) -> Tensor:
    """The likeliest span (n, 2) of each sample among the `allowed` places (n, length): it never ends before it starts.

    >>> best_spans(torch.tensor([[0.0, 5.0, 0.0]]), torch.tensor([[4.0, 0.0, 3.0]]), torch.ones(1, 3, dtype=bool))
    tensor([[1, 2]])
    """
    worst = torch.finfo(torch.float32).min
    start = start_logits.detach().float().masked_fill(~allowed, worst)
    end = end_logits.detach().float().masked_fill(~allowed, worst)
    length = start.shape[1]
    possible = torch.ones(length, length, dtype=torch.bool, device=start.device).triu().tril(longest - 1)
    together = (start.unsqueeze(2) + end.unsqueeze(1)).masked_fill(~possible, -torch.inf)
    flat = together.flatten(1).argmax(dim=1)
    return torch.stack([flat // length, flat % length], dim=1)


def _by_token(logits: Tensor, wanted: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, entropy and whether the likeliest token is the target, for every target token."""
    rows = max(1, LOGITS_AT_ONCE // max(1, logits.shape[1] * logits.shape[2]))
    chunks = zip(torch.split(logits, rows), torch.split(wanted, rows), strict=True)
    parts, start = [], 0
    for some, places in chunks:
        chosen = some[places].float()
        parts.append(_looked_at(chosen, tokens[start : start + len(chosen)]))
        start += len(chosen)
    losses, entropies, hits = (torch.cat(part) for part in zip(*parts, strict=True))
    return losses, entropies, hits


def _looked_at(logits: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    log_probabilities = functional.log_softmax(logits, dim=1)
    probabilities = log_probabilities.exp()
    loss = -log_probabilities.gather(1, tokens.unsqueeze(1)).squeeze(1)
    entropy = -torch.xlogy(probabilities, probabilities).sum(dim=1)
    return loss, entropy, (logits.argmax(dim=1) == tokens).float()


def _means(values: Tensor, wanted: Tensor, counts: Tensor) -> Tensor:
    """The mean over each sample's target tokens; a sample without any has no mean (NaN), and is to be seen."""
    rows = torch.arange(len(counts), device=values.device).repeat_interleave(counts)
    sums = torch.zeros(len(counts), device=values.device).index_add_(0, rows, values)
    return sums / counts


def _ends(logits: Tensor, targets: Tensor) -> Signals:
    """One end of the span. A target beyond the logits was cut away with the text: it has no loss."""
    logits = logits.detach().float()
    log_probabilities = functional.log_softmax(logits, dim=1)
    probabilities = log_probabilities.exp()
    inside = (targets >= 0) & (targets < logits.shape[1])
    place = targets.clamp(0, logits.shape[1] - 1).unsqueeze(1)
    loss = -log_probabilities.gather(1, place).squeeze(1)
    return {
        "loss": torch.where(inside, loss, torch.nan),
        "entropy": -torch.xlogy(probabilities, probabilities).sum(dim=1),
        "correct": (logits.argmax(dim=1) == targets) & inside,
    }
