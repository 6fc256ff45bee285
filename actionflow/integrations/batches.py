"""What people's batches look like: where labels and ids stand in them, and which forms classes take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from actionflow.errors import RecordingError

TARGET_NAMES = ("labels", "label", "targets", "target", "y")
ID_NAMES = ("sample_id", "sample_ids", "id", "ids", "idx", "index")

# Below it, a probability is taken for this one: the logarithm of 0 has no number. Keras does the same.
SMALLEST = 1e-7


def targets_in(batch: Any) -> Any:
    """The labels of a batch or of one item: its second element, or what stands under a usual name; None if nowhere.

    >>> targets_in(("pixels", 3)), targets_in({"text": "…", "label": 1}), targets_in("pixels")
    (3, 1, None)
    """
    if isinstance(batch, Mapping):
        return next((batch[name] for name in TARGET_NAMES if name in batch), None)
    return batch[1] if isinstance(batch, (tuple, list)) and len(batch) > 1 else None


def ids_in(batch: Any) -> Tensor | None:
    """The ids of a batch: its third element, or what stands under a usual name, if these are whole numbers."""
    if isinstance(batch, Mapping):
        found = [batch[name] for name in ID_NAMES if name in batch]
    else:
        found = list(batch[2:3]) if isinstance(batch, (tuple, list)) else []
    return next((row for row in map(_row_of_whole_numbers, found) if row is not None), None)


def class_targets(targets: Any) -> Tensor:
    """Labels as whole numbers: from whole numbers, from 0.0 and 1.0, or from one-hot rows.

    >>> class_targets([[0.0, 1.0], [1.0, 0.0]]).tolist(), class_targets([[1.0], [0.0]]).tolist()
    ([1, 0], [1, 0])
    """
    found = torch.as_tensor(targets).detach()
    if found.ndim == 2 and found.shape[1] > 1:
        return _from_one_hot(found)
    found = found.flatten()
    if found.is_floating_point() or found.dtype == torch.bool:
        whole = found.long()
        if not torch.equal(whole.to(found.dtype), found):
            raise RecordingError(_not_classes(f"the label {found[whole != found][0].item():g}"))
        return whole
    return found


def class_logits(outputs: Any) -> Tensor:
    """Logits (n, classes); the single logit of a yes-or-no model becomes two columns with the same loss.

    >>> class_logits([[2.0], [-1.0]]).tolist()
    [[0.0, 2.0], [0.0, -1.0]]
    """
    found = torch.as_tensor(outputs).detach()
    if found.ndim == 2 and found.shape[1] > 1:
        return found
    if found.ndim not in (1, 2):
        raise RecordingError(_not_classes(f"an output of shape {list(found.shape)}"))
    yes = found.reshape(-1)
    return torch.stack([torch.zeros_like(yes), yes], dim=1)


def log_probabilities(outputs: Any) -> Tensor:
    """The logarithm of probabilities (n, classes), which serves as logits; one column is the probability of yes."""
    found = torch.as_tensor(outputs).detach().float()
    if found.ndim == 1 or (found.ndim == 2 and found.shape[1] == 1):
        yes = found.reshape(-1)
        found = torch.stack([1 - yes, yes], dim=1)
    if found.ndim != 2:
        raise RecordingError(_not_classes(f"an output of shape {list(found.shape)}"))
    return found.clamp(SMALLEST, 1 - SMALLEST).log()


def are_probabilities(outputs: Tensor) -> bool:
    """Whether every row is a distribution: no logits ever look like this in a whole batch."""
    if outputs.ndim != 2 or outputs.shape[1] < 2:
        return False
    sums = outputs.float().sum(dim=1)
    return bool((outputs >= 0).all()) and torch.allclose(sums, torch.ones_like(sums), atol=1e-3)


def _row_of_whole_numbers(values: Any) -> Tensor | None:
    try:
        row = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        return None
    is_whole = not (row.is_floating_point() or row.is_complex() or row.dtype == torch.bool)
    return row if row.ndim == 1 and is_whole else None


def _from_one_hot(rows: Tensor) -> Tensor:
    is_one_hot = ((rows == 0) | (rows == 1)).all() and (rows.sum(dim=1) == 1).all()
    if not is_one_hot:
        raise RecordingError(_not_classes(f"labels of shape {list(rows.shape)} that are not one-hot"))
    return rows.argmax(dim=1)


def _not_classes(found: str) -> str:
    return (
        f"{found[0].upper()}{found[1:]} is no classification with one label per sample: pass signals=, a function that "
        'gives {"loss": one value per sample} for your task.'
    )
