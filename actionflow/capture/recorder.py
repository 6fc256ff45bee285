"""Collects what every sample did during one epoch of one split."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
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

# Columns that no signal may be called.
RESERVED = {"run_id", "split", "epoch", "sample_id", "forgotten"}
# Signals that the questions of the house reckon with: one number per sample.
NUMBERS = {"label", "loss", "prediction", "correct", "confidence", "entropy", "margin", "el2n"}
WHOLE_NUMBERS = {torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32}

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

    def __init__(self, split: str, epoch: int, before: LastSeen | None = None, probabilities: bool = False) -> None:
        self.split = split
        self.epoch = epoch
        self.probabilities = probabilities  # whether the probability of every class is kept too
        self._before = before or LastSeen.nothing()
        self._waiting: list[Batch] = []
        self._waiting_rows = 0
        self._waiting_logits = 0
        self._sample_ids: list[Tensor] = []
        self._signals: defaultdict[str, list[Tensor]] = defaultdict(list)

    def add(self, sample_ids: Any, logits: Any, targets: Any) -> None:
        """Take a classification batch: ids and targets of n samples, logits (n, classes)."""
        own = _own_copy(_tensor(logits, "logits"), torch.float32)
        batch = _ids(sample_ids), own, _own_copy(_whole_numbers(targets, "targets"), torch.int64).to(own.device)
        _check_batch(batch)
        if self._waiting and self._waiting[0][1].shape[1] != own.shape[1]:
            raise RecordingError(
                f"logits of {own.shape[1]} classes came after logits of {self._waiting[0][1].shape[1]} classes: "
                "every batch of an epoch needs the same classes."
            )
        self._waiting.append(batch)
        self._waiting_rows += len(own)
        self._waiting_logits += own.numel()
        if self._waiting_rows >= ROWS_PER_CHUNK or self._waiting_logits >= LOGITS_PER_CHUNK:
            self._settle()

    def add_signals(self, sample_ids: Any, signals: Mapping[str, Any]) -> None:
        """Take signals that were made elsewhere: at least `loss`; one value per sample each, or one row (n, width)."""
        self._settle()
        ids = _ids(sample_ids)
        self._keep(ids, {name: _signal(name, values, len(ids)) for name, values in signals.items()})

    def table(self) -> pa.Table:
        """Everything that was added, one row per sample, sorted by `sample_id`; the recorder is empty afterwards."""
        self._settle()
        sample_ids, self._sample_ids = self._sample_ids, []
        if not sum(map(len, sample_ids)):
            raise RecordingError(f"nothing was recorded for split {self.split} in epoch {self.epoch}.")
        ids = torch.cat(sample_ids)
        order = self._ascending(ids.numpy())
        columns = {"sample_id": _in_order(ids, order)}
        for name in list(self._signals):
            # Popping frees the batches of one column before the next is built.
            columns[name] = _in_order(torch.cat(self._signals.pop(name)), order)
        if "correct" in columns:
            columns["forgotten"] = self._before.forgotten(columns["sample_id"], columns["correct"])
        return _table(self.split, self.epoch, columns)

    def _settle(self) -> None:
        """Turn the batches that wait into signals."""
        if not self._waiting:
            return
        ids, logits, targets = (torch.cat(parts) for parts in zip(*self._waiting, strict=True))
        self._waiting, self._waiting_rows, self._waiting_logits = [], 0, 0
        _check_targets(ids, logits, targets)
        self._keep(ids, classification_signals(logits, targets, self.probabilities))

    def _keep(self, ids: Tensor, signals: Signals) -> None:
        self._check_names(set(signals))
        self._sample_ids.append(ids)
        for name, values in signals.items():
            _check_width(name, values, self._signals[name])
            self._signals[name].append(values.cpu())

    def _check_names(self, names: set[str]) -> None:
        """A signal that only some batches have would slide up to other samples."""
        if self._sample_ids and names != set(self._signals):
            raise RecordingError(
                f"a batch with signals {', '.join(sorted(names))} came after batches with "
                f"{', '.join(sorted(self._signals))}: every batch of an epoch needs the same signals."
            )
        if "loss" not in names:
            raise RecordingError(
                f"a batch needs a loss per sample, found only {', '.join(sorted(names)) or 'nothing'}."
            )
        if taken := names & RESERVED:
            raise RecordingError(f"a signal cannot be called {min(taken)}: the recorder fills that column itself.")

    def _ascending(self, ids: NDArray[np.int64]) -> Tensor | None:
        """The order that sorts `ids`, or None when they are sorted already."""
        if np.all(ids[1:] > ids[:-1]):
            return None
        lowest, highest = int(ids.min()), int(ids.max())
        dense = highest - lowest < 4 * len(ids)
        order = _counting_order(ids, lowest, highest) if dense else _sorting_order(ids)
        if len(order) < len(ids):
            raise RecordingError(_twice(ids, self.split, self.epoch))
        return torch.from_numpy(order)


def _tensor(values: Any, what: str) -> Tensor:
    try:
        return torch.as_tensor(values).detach()
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise RecordingError(
            f"{what} must be numbers of one length, found {type(values).__name__} ({error})."
        ) from error


def _whole_numbers(values: Any, what: str) -> Tensor:
    found = _tensor(values, what)
    # An empty list has no kind: torch calls it float.
    if found.ndim != 1 or (len(found) and found.dtype not in WHOLE_NUMBERS):
        kind = str(found.dtype).removeprefix("torch.")
        raise RecordingError(f"{what} must be one row of whole numbers, found {kind} of shape {list(found.shape)}.")
    return found


def _ids(sample_ids: Any) -> Tensor:
    return _own_copy(_whole_numbers(sample_ids, "sample ids"), torch.int64).cpu()


def _signal(name: str, values: Any, rows: int) -> Tensor:
    found = _tensor(values, f"signal {name}")
    if not _is_fit(name, found, rows):
        raise RecordingError(
            f"signal {name} has shape {list(found.shape)} for {rows} sample ids: one number per sample."
        )
    if name == "correct":
        return _own_copy(found, torch.bool)
    # numpy knows no bfloat16, and the files keep float32.
    return _own_copy(found, torch.float32 if found.is_floating_point() else found.dtype)


def _is_fit(name: str, values: Tensor, rows: int) -> bool:
    """The house's own signals are numbers, one of your own may have a row (n, width) for each sample."""
    is_row = values.ndim == 2 and values.shape[1] > 0 and name not in NUMBERS
    return (values.ndim == 1 or is_row) and len(values) == rows


def _check_width(name: str, values: Tensor, before: list[Tensor]) -> None:
    if before and before[0].shape[1:] != values.shape[1:]:
        raise RecordingError(
            f"signal {name} of shape {list(values.shape)} came after one of shape {list(before[0].shape)}: every batch "
            "of an epoch needs rows of one length."
        )


def _own_copy(values: Tensor, kind: torch.dtype) -> Tensor:
    """The caller may reuse a buffer before the batch is settled (compiled models and pinned loaders do)."""
    return values.to(kind, copy=True)


def _in_order(values: Tensor, order: Tensor | None) -> NDArray[Any]:
    # index_select: plain values[order] takes twice as long, and three times for booleans.
    return (values if order is None else values.index_select(0, order)).numpy()


def _check_batch(batch: Batch) -> None:
    ids, logits, targets = batch
    if logits.ndim != 2 or not logits.shape[1] or not len(ids) == len(logits) == len(targets):
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


def _counting_order(ids: NDArray[np.int64], lowest: int, highest: int) -> NDArray[np.int64]:
    """A shuffled epoch in linear time: every id has its own place. Shorter than `ids` where an id came twice."""
    places = np.full(highest - lowest + 1, -1, dtype=np.int64)
    places[ids - lowest] = np.arange(len(ids))
    return places if len(places) == len(ids) and places.min() >= 0 else places[places >= 0]


def _sorting_order(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ids that lie far apart. Shorter than `ids` where an id came twice."""
    return np.unique(ids, return_index=True)[1].astype(np.int64)


def _twice(ids: NDArray[np.int64], split: str, epoch: int) -> str:
    values, counts = np.unique(ids, return_counts=True)
    twice = values[counts > 1]
    return (
        f"{len(twice)} samples came more than once in epoch {epoch} of split {split} (for instance sample {twice[0]}): "
        "record each sample once per epoch, with an id of its own."
    )


def _table(split: str, epoch: int, columns: dict[str, NDArray[Any]]) -> pa.Table:
    rows = len(columns["sample_id"])
    # numpy fills a constant column twenty times as fast as pa.repeat.
    places = pa.array(np.zeros(rows, np.int32))
    return pa.table(
        {
            "split": pa.DictionaryArray.from_arrays(places, pa.array([split]), safe=False),
            "epoch": np.full(rows, epoch, np.int32),
            **{name: _column(values) for name, values in columns.items()},
        }
    )


def _column(values: NDArray[Any]) -> Any:
    """One number per sample, or a list of fixed length where there is a row for each."""
    if values.ndim == 1:
        return values
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).ravel()), values.shape[1])
