"""What one batch of logits says about each of its samples."""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

Signals: TypeAlias = dict[str, Tensor]


def classification_signals(logits: Tensor, targets: Tensor, with_probabilities: bool = False) -> Signals:
    """All signals of a classification batch at once, one value per sample; on demand `probabilities` (n, classes) too.

    The arithmetic is float32 whatever precision the model ran in: a bfloat16 softmax has two decimal digits.

    >>> signals = classification_signals(torch.tensor([[2.0, 0.0]]), torch.tensor([0]))
    >>> round(signals["loss"].item(), 4), signals["margin"].item(), signals["correct"].item()
    (0.1269, 2.0, True)
    """
    logits = logits.detach().float()
    target_column = targets.long().unsqueeze(1)
    log_probabilities = functional.log_softmax(logits, dim=1)
    probabilities = log_probabilities.exp()
    target_logits = logits.gather(1, target_column).squeeze(1)
    target_log_probability = log_probabilities.gather(1, target_column).squeeze(1)
    confidence = target_log_probability.exp()
    prediction = logits.argmax(dim=1)
    loss = -target_log_probability
    signals = {
        "label": targets.int(),
        "loss": loss,
        "prediction": prediction.int(),
        # argmax points at a NaN where there is one: that is no right answer.
        "correct": (prediction == targets) & ~loss.isnan(),
        "confidence": confidence,
        # p log p is 0 where p underflows to 0, and log p may be -inf there.
        "entropy": -torch.xlogy(probabilities, probabilities).sum(dim=1),
        "margin": target_logits - logits.scatter(1, target_column, -torch.inf).amax(dim=1),
        "el2n": _distance_to_one_hot(probabilities, target_column, confidence),
    }
    return {**signals, "probabilities": probabilities} if with_probabilities else signals


def _distance_to_one_hot(probabilities: Tensor, target_column: Tensor, confidence: Tensor) -> Tensor:
    """The L2 norm of (softmax - one-hot), without building the one-hot matrix."""
    others = probabilities.scatter(1, target_column, 0.0)
    return (others.square().sum(dim=1) + (1 - confidence).square()).sqrt()
