"""What a text data set is here: columns of texts and labels, each sample with an id that never changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from actionflow.errors import SettingsError
from actionflow.training.data.dataset import Column, Integers, take_column

CLASSIFICATION = "classification"
TEXT_TO_TEXT = "text-to-text"
QUESTION_ANSWERING = "question-answering"

# What a sample without classes has for a label.
NO_CLASS = -1
# The metadata that a model learns from; all others are only read by people.
LEARNED_METADATA = ("answers", "answer_starts")


@dataclass(frozen=True)
class TextSamples:
    """Some samples of a text data set, in the order of their ids.

    `sample_ids` and `labels` are int64 (n); labels are -1 everywhere where the task has no classes. A key is what the
    user calls the sample (its own id, or "train/17"). `columns` are what a person reads: "text", and where the task has
    them "context" and "target_text". `metadata` holds further columns of the user's own.
    """

    sample_ids: Integers
    labels: Integers
    keys: list[str]
    columns: dict[str, list[str]]
    metadata: dict[str, Column] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.sample_ids)

    def take(self, places: Integers) -> TextSamples:
        """The samples at these places, with all that belongs to them."""
        return TextSamples(
            sample_ids=self.sample_ids[places],
            labels=self.labels[places],
            keys=[self.keys[place] for place in places],
            columns={name: [texts[place] for place in places] for name, texts in self.columns.items()},
            metadata={name: take_column(column, places) for name, column in self.metadata.items()},
        )

    def first(self, count: int) -> TextSamples:
        """The first `count` samples."""
        return TextSamples(
            sample_ids=self.sample_ids[:count],
            labels=self.labels[:count],
            keys=self.keys[:count],
            columns={name: texts[:count] for name, texts in self.columns.items()},
            metadata={name: column[:count] for name, column in self.metadata.items()},
        )


@dataclass(frozen=True)
class TextDataset:
    """A data set with its parts `train`, where it has one `validation`, and `test`.

    `task` is "classification", "text-to-text" or "question-answering"; `class_names` is empty where there are no
    classes. `source` says where the data set was found and what was left aside. Ids go on from part to part.
    """

    name: str
    task: str
    class_names: tuple[str, ...]
    parts: dict[str, TextSamples]
    source: str

    @cached_property
    def digest(self) -> str:
        """16 hexadecimal digits that change with any text, label, answer, id, class name or part, and nothing else."""
        content = hashlib.blake2b(digest_size=8)
        content.update(repr((self.task, tuple(self.class_names))).encode())
        for part, samples in self.parts.items():
            content.update(repr((part, len(samples))).encode())
            # Byte order is fixed, so that every machine comes to the same digest.
            content.update(np.ascontiguousarray(samples.sample_ids, "<i8").data)
            content.update(np.ascontiguousarray(samples.labels, "<i8").data)
            for name, texts in sorted(samples.columns.items()):
                content.update(_as_bytes(name, texts))
            for name in LEARNED_METADATA:
                if name in samples.metadata:
                    content.update(_as_bytes(name, [json.dumps(value) for value in samples.metadata[name]]))
        return content.hexdigest()

    @property
    def told(self) -> str:
        """A sample in a few words."""
        words = sum(len(text.split()) for text in self.parts["train"].columns["text"][:1000])
        mean = words / max(1, min(1000, len(self.parts["train"])))
        return f"of about {mean:.0f} words, " + (f"{len(self.class_names)} classes" if self.class_names else self.task)

    def shown(self, part: str) -> dict[str, list[str]]:
        """What a person reads."""
        return self.parts[part].columns

    def limit(self, count: int) -> TextDataset:
        """The first `count` samples of each part, with their ids; 0 keeps all."""
        if count < 0:
            raise SettingsError(
                f"limit={count} cannot be meant: type -P limit=100 for the first 100 samples per split, 0 for all."
            )
        if count == 0:
            return self
        return replace(self, parts={name: samples.first(count) for name, samples in self.parts.items()})


def _as_bytes(name: str, texts: Sequence[str]) -> bytes:
    """A column as bytes that no other column gives: the lengths say where one text ends and the next begins."""
    lengths = np.fromiter(map(len, texts), "<i8", len(texts))
    return name.encode() + lengths.tobytes() + "".join(texts).encode("utf-8", "surrogatepass")
