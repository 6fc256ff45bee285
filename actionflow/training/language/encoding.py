"""From texts to tokens: one item for each sample, in the order of the split."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from actionflow.errors import SettingsError
from actionflow.training.language.models import LanguageModel
from actionflow.training.settings import TextSettings
from actionflow.training.texts import TextDataset, TextSamples

# T5 was taught to be told what to do.
PROMPTS = {("samsum", "t5"): "summarize: "}


@dataclass
class Encoded(Dataset[dict[str, Any]]):
    """The items of a split as the model takes them, with `sample_id`; `truncated` samples did not fit whole."""

    items: list[dict[str, Any]]
    truncated: int = 0
    answers_lost: int = 0  # question answering: samples whose answer was cut away with the text
    offsets: list[list[tuple[int, int]]] = field(default_factory=list)  # of each token in the passage, by sample

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: int) -> dict[str, Any]:
        return self.items[place]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many tokens each sample has."""
        return np.array([len(item["input_ids"]) for item in self.items])

    def by_length(self) -> Encoded:
        """The same, longest first: a batch of equals has no padding, and what does not fit fails at once."""
        order = np.argsort(-self.lengths, kind="stable")
        return Encoded([self.items[place] for place in order])


def encode(samples: TextSamples, dataset: TextDataset, language: LanguageModel, settings: TextSettings) -> Encoded:
    """The samples of a split, ready for the model."""
    encoders = {"classification": _classified, "text-to-text": _written, "question-answering": _answered}
    encoded = encoders[dataset.task](samples, dataset, language, settings)
    for item, sample_id in zip(encoded.items, samples.sample_ids.tolist(), strict=True):
        item["sample_id"] = sample_id
    return encoded


def _classified(samples: TextSamples, _: TextDataset, language: LanguageModel, __: TextSettings) -> Encoded:
    texts, context = samples.columns["text"], samples.columns.get("context")
    # A premise comes before what is said about it.
    given = (texts,) if context is None else (context, texts)
    tokens, truncated = _tokenized(language, *given)
    items = _items(tokens)
    for item, label in zip(items, samples.labels.tolist(), strict=True):
        item["labels"] = label
    return Encoded(items, truncated)


def _written(samples: TextSamples, dataset: TextDataset, language: LanguageModel, settings: TextSettings) -> Encoded:
    prompt = PROMPTS.get((dataset.name, language.kind), "") if settings.model != "tiny" else ""
    tokens, truncated = _tokenized(language, [prompt + text for text in samples.columns["text"]])
    targets = language.tokenizer(
        text_target=samples.columns["target_text"], truncation=True, max_length=settings.max_target_length
    )
    items = _items(tokens)
    for item, target in zip(items, targets["input_ids"], strict=True):
        item["labels"] = target
    return Encoded(items, truncated)


def _answered(samples: TextSamples, _: TextDataset, language: LanguageModel, __: TextSettings) -> Encoded:
    if not language.tokenizer.is_fast:
        raise SettingsError(
            "question answering needs a tokenizer that knows where its tokens came from, a fast one: "
            "type -P model=bert-base-uncased, or -P model=tiny."
        )
    tokens, truncated = _tokenized(
        language, samples.columns["text"], samples.columns["context"], cut="only_second", return_offsets_mapping=True
    )
    offsets = [_passage_offsets(tokens, place) for place in range(len(samples))]
    del tokens["offset_mapping"]
    items, lost = _items(tokens), 0
    answers = zip(samples.metadata["answers"], samples.metadata["answer_starts"], strict=True)
    for item, spans, (texts, starts) in zip(items, offsets, answers, strict=True):
        item["start_positions"], item["end_positions"] = _answer_place(spans, texts[0], starts[0])
        lost += item["start_positions"] == 0
    return Encoded(items, truncated, lost, offsets)


def _tokenized(language: LanguageModel, *texts: list[str], cut: str = "longest_first", **more: Any) -> tuple[Any, int]:
    """The tokens of all samples, and how many had to be cut."""
    tokens = language.tokenizer(*texts, truncation=False, verbose=False, **more)
    truncated = sum(len(ids) > language.longest for ids in tokens["input_ids"])
    if truncated:
        tokens = language.tokenizer(*texts, truncation=cut, max_length=language.longest, **more)
    return tokens, truncated


def _items(tokens: Any) -> list[dict[str, Any]]:
    return [dict(zip(tokens.keys(), values, strict=True)) for values in zip(*tokens.values(), strict=True)]


def _passage_offsets(tokens: Any, place: int) -> list[tuple[int, int]]:
    """Where each token lies in the passage; (0, 0) for tokens of the question and special ones."""
    sides = tokens.sequence_ids(place)
    return [
        tuple(offset) if side == 1 else (0, 0)
        for offset, side in zip(tokens["offset_mapping"][place], sides, strict=True)
    ]


def _answer_place(offsets: list[tuple[int, int]], answer: str, start: int) -> tuple[int, int]:
    """The first and the last token of an answer; the first place of all, (0, 0), where it was cut away."""
    stop = start + len(answer)
    first = next((place for place, (begin, end) in enumerate(offsets) if begin <= start < end), 0)
    last = next((place for place, (begin, end) in enumerate(offsets) if begin < stop <= end), 0)
    return (first, last) if first and last else (0, 0)
