"""A training of several processes: every one sees some samples, the first one writes them all."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, TypeAlias

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from actionflow.capture import Signals, classification_signals
from actionflow.errors import RecordingError
from actionflow.recording import Recorder

Parts: TypeAlias = dict[str, list[tuple[Tensor, Signals]]]


class GatheringRecorder:
    """Takes batches as `Recorder` does in each process of a training, and brings them together when an epoch ends.

        recorder = GatheringRecorder(actionflow.Recorder() if rank == 0 else None)
        recorder.add(sample_ids, logits, targets, split="val")
        recorder.end_epoch()

    Samplers that deal out samples evenly give a few of them twice: these count once.
    """

    def __init__(self, recorder: Recorder | None) -> None:
        self._recorder = recorder
        self._parts: Parts = defaultdict(list)

    def add(self, sample_ids: Any, logits: Tensor, targets: Tensor, split: str) -> None:
        """Take a classification batch."""
        self.add_signals(sample_ids, classification_signals(logits, targets.to(logits.device)), split)

    def add_signals(self, sample_ids: Any, signals: Signals, split: str) -> None:
        """Take a batch of another task."""
        own = {name: torch.as_tensor(values).detach().cpu() for name, values in signals.items()}
        self._parts[split].append((torch.as_tensor(sample_ids).cpu(), own))

    def forget(self, split: str) -> None:
        """Drop what this epoch has of a split."""
        self._parts.pop(split, None)

    def end_epoch(self) -> None:
        """Bring the processes' batches together; the first process writes them."""
        everyone: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(everyone, dict(self._parts))
        self._parts.clear()
        if self._recorder is None:
            return
        for split in sorted({split for parts in everyone for split in parts}):
            ids, signals = _joined([batch for parts in everyone for batch in parts.get(split, [])])
            self._recorder.add_signals(*_once(ids, signals, split, spare=len(everyone)), split)
        if self._recorder.has_batches:
            self._recorder.end_epoch()


def _joined(batches: list[tuple[Tensor, Signals]]) -> tuple[Tensor, Signals]:
    names = batches[0][1]
    return (
        torch.cat([ids for ids, _ in batches]),
        {name: torch.cat([signals[name] for _, signals in batches]) for name in names},
    )


def _once(ids: Tensor, signals: Signals, split: str, spare: int) -> tuple[Tensor, Signals]:
    """Each sample once. A sampler fills up the last round, with fewer samples than there are processes."""
    first = torch.from_numpy(np.unique(ids.numpy(), return_index=True)[1])
    if len(ids) - len(first) >= spare:
        raise RecordingError(
            f"{len(ids) - len(first)} samples of split {split} came more than once in an epoch of {spare} processes: "
            "give each its own, with a DistributedSampler."
        )
    return ids[first], {name: values[first] for name, values in signals.items()}
