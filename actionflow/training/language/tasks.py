"""What a task needs beside its model: how its items make a batch, what its outputs say of each sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import DataCollatorForSeq2Seq, DataCollatorWithPadding

from actionflow.capture import Signals, best_spans, span_signals
from actionflow.training.language.answers import exact_match, f1
from actionflow.training.language.encoding import Encoded
from actionflow.training.language.models import LanguageModel
from actionflow.training.texts import TextDataset, TextSamples


@dataclass(frozen=True)
class Task:
    """A task's collator, and its signals where the recorder cannot tell them from the outputs alone."""

    collator: Callable[[list[Any]], Any]
    answering: Answering | None = None


def task_of(
    dataset: TextDataset, language: LanguageModel, splits: dict[str, TextSamples], encoded: dict[str, Encoded]
) -> Task:
    """What the task of a data set needs."""
    if dataset.task == "text-to-text":
        return Task(DataCollatorForSeq2Seq(language.tokenizer, model=language.model))
    answering = Answering(splits, encoded) if dataset.task == "question-answering" else None
    return Task(DataCollatorWithPadding(language.tokenizer), answering)


class Answering:
    """Turns start and end logits into answers, and says of each whether it was right."""

    def __init__(self, splits: dict[str, TextSamples], encoded: dict[str, Encoded]) -> None:
        self.said: dict[int, str] = {}  # by sample, what was answered last
        self._passages: dict[int, tuple[str, list[str], list[tuple[int, int]]]] = {}
        for split, samples in splits.items():
            known = zip(samples.columns["context"], samples.metadata["answers"], encoded[split].offsets, strict=True)
            self._passages.update(zip(samples.sample_ids.tolist(), known, strict=True))

    def __call__(self, batch: Mapping[str, Any], outputs: Any) -> Signals:
        """The signals of a batch: those of its two ends, and of the answer in words."""
        ids = batch["sample_id"].tolist()
        starts, ends = outputs["start_logits"], outputs["end_logits"]
        places = batch["start_positions"], batch["end_positions"]
        # Without padding: else a loss would depend on what else is in the batch.
        signals = span_signals(starts, ends, *places, mask=batch["attention_mask"])
        spans = best_spans(starts, ends, self._allowed(ids, starts)).tolist()
        answers = [self._answer(sample_id, *span) for sample_id, span in zip(ids, spans, strict=True)]
        self.said.update(zip(ids, answers, strict=True))
        right = [self._passages[sample_id][1] for sample_id in ids]
        matched = [exact_match(answer, each) for answer, each in zip(answers, right, strict=True)]
        signals["correct"] = torch.tensor(matched)
        signals["f1"] = torch.tensor([f1(answer, each) for answer, each in zip(answers, right, strict=True)])
        return signals

    def _allowed(self, ids: list[int], logits: Tensor) -> Tensor:
        """The places that hold words of the passage."""
        allowed = np.zeros(logits.shape, np.bool_)
        for row, sample_id in enumerate(ids):
            offsets = np.asarray(self._passages[sample_id][2])
            allowed[row, : len(offsets)] = offsets[:, 1] > 0
        return torch.from_numpy(allowed).to(logits.device)

    def _answer(self, sample_id: int, first: int, last: int) -> str:
        context, _, offsets = self._passages[sample_id]
        return context[offsets[first][0] : offsets[last][1]]
