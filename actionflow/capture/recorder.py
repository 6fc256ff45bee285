"""Collects what every sample did during one epoch of one split."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from actionflow.capture.forgetting import LastSeen
from actionflow.capture.signals import Signals, classification_signals
from actionflow.errors import RecordingError

# Small batches wait for each other: signals of thousands of samples at once cost a tenth of what they cost by 32.
ROWS_PER_CHUNK = 8192
LOGITS_PER_CHUNK = 4_000_000

Batch = tuple[Tensor, Tensor, Tensor]


class EpochRecorder:
    """Collects what every sample did during one epoch of one split.

    It knows nothing of files, MLflow or models: batches go in, in any order and of any size, a table sorted by
    sample comes out.

        recorder = EpochRecorder(split="val", epoch=epoch)
        for images, labels, sample_ids in loader:
            recorder.add(sample_ids, model(images), labels)
        table = recorder.table()
    """

    def __init__(self, split: str, epoch: int, before: LastSeen | None = None) -> None:
        self.split = split
        self.epoch = epoch
        self._before = before
        self._waiting: list[Batch] = []
        self._waiting_rows = 0
        self._waiting_logits = 0
        self._sample_ids: list[Tensor] = []
        self._signals: defaultdict[str, list[Tensor]] = defaultdict(list)

    def add(self, sample_ids: Any, logits: Any, targets: Any) -> None:
        """Take a classification batch: ids and targets of n samples, logits (n, classes)."""
        logits = torch.as_tensor(logits)
        batch = _ids(sample_ids), _own_copy(logits), torch.as_tensor(targets).to(logits.device)
        _check_batch(batch)
        self._waiting.append(batch)
        self._waiting_rows += len(logits)
        self._waiting_logits += logits.numel()
        if self._waiting_rows >= ROWS_PER_CHUNK or self._waiting_logits >= LOGITS_PER_CHUNK:
            self._settle()

    def add_signals(self, sample_ids: Any, signals: Signals) -> None:
        """Take signals that were made elsewhere: at least `loss`, one value per sample each."""
        self._settle()
        ids = _ids(sample_ids)
        for name, values in signals.items():
            if len(values) != len(ids):
                raise RecordingError(f"signal {name} has {len(values)} values for {len(ids)} sample ids.")
        self._keep(ids, signals)

    def table(self) -> pa.Table:
        """Everything that was added, one row per sample, sorted by `sample_id`."""
        self._settle()
        if not self._sample_ids:
            raise RecordingError(f"nothing was recorded for split {self.split} in epoch {self.epoch}.")
        sample_ids = torch.cat(self._sample_ids).numpy()
        order = _ascending(sample_ids, self.split, self.epoch)
        columns = {"sample_id": sample_ids if order is None else sample_ids[order]}
        for name in list(self._signals):
            # Popping frees the batches of one column before the next is built.
            values = torch.cat(self._signals.pop(name)).numpy()
            columns[name] = values if order is None else values[order]
        self._sample_ids = []
        if "correct" in columns:
            before = self._before or LastSeen.nothing()
            columns["forgotten"] = before.forgotten(columns["sample_id"], columns["correct"])
        return _table(self.split, self.epoch, columns)

    def _settle(self) -> None:
        """Turn the batches that wait into signals."""
        if not self._waiting:
            return
        ids, logits, targets = (torch.cat(parts) for parts in zip(*self._waiting, strict=True))
        self._waiting, self._waiting_rows, self._waiting_logits = [], 0, 0
        _check_targets(ids, logits, targets)
        self._keep(ids, classification_signals(logits, targets))

    def _keep(self, ids: Tensor, signals: Signals) -> None:
        self._sample_ids.append(ids)
        for name, values in signals.items():
            self._signals[name].append(torch.as_tensor(values).detach().cpu())


def _ids(sample_ids: Any) -> Tensor:
    try:
        ids = torch.as_tensor(sample_ids).cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise RecordingError("sample ids must be whole numbers: the sample's place in its data set.") from error
    if ids.is_floating_point() or ids.ndim != 1:
        raise RecordingError(
            f"sample ids must be one row of whole numbers, found {ids.dtype} of shape {list(ids.shape)}."
        )
    return ids.long()


def _own_copy(logits: Tensor) -> Tensor:
    """A float32 copy: the caller may reuse the buffer before the batch is settled (compiled models do)."""
    return logits.detach().to(torch.float32, copy=True)


def _check_batch(batch: Batch) -> None:
    ids, logits, targets = batch
    if logits.ndim != 2 or not len(ids) == len(logits) == len(targets):
        raise RecordingError(
            f"a batch needs n sample ids, n targets and logits of shape (n, classes); found {len(ids)} ids, "
            f"{len(targets)} targets and logits of shape {list(logits.shape)}."
        )


def _check_targets(ids: Tensor, logits: Tensor, targets: Tensor) -> None:
    classes = logits.shape[1]
    bad = (targets < 0) | (targets >= classes)
    if bad.any():
        place = int(bad.nonzero()[0])
        raise RecordingError(
            f"label {int(targets[place])} of sample {int(ids[place])} is out of range: the logits have "
            f"{classes} classes, so labels go from 0 to {classes - 1}."
        )


def _ascending(ids: NDArray[np.int64], split: str, epoch: int) -> NDArray[np.int64] | None:
    """The order that sorts `ids`, or None when they are sorted already."""
    if np.all(ids[1:] > ids[:-1]):
        return None
    lowest, highest = int(ids.min()), int(ids.max())
    if highest - lowest < 4 * len(ids):
        order = _counting_order(ids, lowest, highest)
    else:
        order = np.argsort(ids, kind="stable")
    if len(order) < len(ids) or np.any(ids[order][1:] == ids[order][:-1]):
        raise RecordingError(_twice(ids, split, epoch))
    return order


def _counting_order(ids: NDArray[np.int64], lowest: int, highest: int) -> NDArray[np.int64]:
    """A shuffled epoch in linear time: every id has its own place. Shorter than `ids` where an id came twice."""
    places = np.full(highest - lowest + 1, -1, dtype=np.int64)
    places[ids - lowest] = np.arange(len(ids))
    return places[places >= 0]


def _twice(ids: NDArray[np.int64], split: str, epoch: int) -> str:
    values, counts = np.unique(ids, return_counts=True)
    twice = values[counts > 1]
    return (
        f"{len(twice)} samples came more than once in epoch {epoch} of split {split} (for instance sample {twice[0]}): "
        "record each sample once per epoch, with an id of its own."
    )


def _table(split: str, epoch: int, columns: dict[str, NDArray[Any]]) -> pa.Table:
    rows = len(columns["sample_id"])
    zeros = pa.repeat(pa.scalar(0, pa.int32()), rows)
    return pa.table(
        {
            "split": pa.DictionaryArray.from_arrays(zeros, pa.array([split])),
            "epoch": pa.repeat(pa.scalar(epoch, pa.int32()), rows),
            **columns,
        }
    )
