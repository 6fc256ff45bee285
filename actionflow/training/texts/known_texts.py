"""The text data sets that are known by name: their task, their classes, what their folders and columns are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from actionflow.training.data.forms import subfolders
from actionflow.training.data.known_sets import plain
from actionflow.training.texts.dataset import CLASSIFICATION, QUESTION_ANSWERING, TEXT_TO_TEXT

TABLES = (".parquet", ".jsonl", ".ndjson", ".json", ".csv", ".tsv")
KEY_COLUMNS = ("id", "key", "sample_id")


@dataclass(frozen=True)
class Wanted:
    """Which columns of a table are read, each by the names that it may have: the first that is there is taken."""

    texts: Mapping[str, tuple[str, ...]]  # "text", and where the task has them "context" and "target_text"
    label: tuple[str, ...] = ()  # none where there are no classes
    keys: tuple[str, ...] = KEY_COLUMNS
    answers: bool = False  # whether the target is the first of the answers in a column of that name
    metadata: tuple[str, ...] = ()  # the further columns that are kept
    own: bool = False  # whether the user named the columns: then all further ones are kept

    @property
    def names(self) -> list[str]:
        """Every name by which something is asked for that is no metadata."""
        return [name for names in (*self.texts.values(), self.label, self.keys) for name in names]


@dataclass(frozen=True)
class KnownTexts:
    """A public data set."""

    name: str
    task: str
    wanted: Wanted
    folders: tuple[str, ...]  # how the names of its folders begin, as `plain` spells them
    suffixes: tuple[str, ...]  # the kinds of files it is looked for in, in this order
    files: str  # the files to get, for a person who has none
    hub: tuple[str, ...]  # its name at the hub and, where there are several, its configuration
    class_names: tuple[str, ...] = ()
    separators: Mapping[str, str] = field(default_factory=dict)  # of files of plain lines, by their suffix

    def named(self, place: Path) -> list[Path]:
        """The subfolders that are called like the data set, the most usual name first."""
        found = [path for path in subfolders(place) if plain(path.name).startswith(self.folders)]
        return sorted(found, key=lambda path: (self._rank(plain(path.name)), path.name))

    def _rank(self, name: str) -> int:
        return self.folders.index(name) if name in self.folders else len(self.folders)


def _first(*suffixes: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*suffixes, *TABLES)))


_ALL = (
    KnownTexts(
        name="emotion",
        task=CLASSIFICATION,
        wanted=Wanted({"text": ("text",)}, label=("label",)),
        folders=("emotion",),
        suffixes=_first(".txt"),
        files="train.txt, val.txt and test.txt of lines text;label",
        hub=("dair-ai/emotion",),
        class_names=("sadness", "joy", "love", "anger", "fear", "surprise"),
        separators={".txt": ";"},
    ),
    KnownTexts(
        name="mnli",
        task=CLASSIFICATION,
        # The hypothesis is judged beside the premise.
        wanted=Wanted(
            {"text": ("hypothesis", "sentence2"), "context": ("premise", "sentence1")},
            label=("gold_label", "label"),
            keys=("pairID", *KEY_COLUMNS),
            metadata=("genre",),
        ),
        folders=("mnli", "multinli", "snli", "glue"),
        suffixes=_first(".tsv", ".txt"),
        files="train.tsv and dev_matched.tsv of premise, hypothesis and label",
        hub=("nyu-mll/glue", "mnli"),
        class_names=("entailment", "neutral", "contradiction"),
        separators={".tsv": "\t", ".txt": "\t"},
    ),
    KnownTexts(
        name="samsum",
        task=TEXT_TO_TEXT,
        wanted=Wanted({"text": ("dialogue",), "target_text": ("summary",)}),
        folders=("samsum",),
        suffixes=TABLES,
        files="train.json, validation.json and test.json of id, dialogue and summary",
        hub=("knkarthick/samsum",),
    ),
    KnownTexts(
        name="squad",
        task=QUESTION_ANSWERING,
        wanted=Wanted({"text": ("question",), "context": ("context",)}, answers=True, metadata=("title",)),
        folders=("squad",),
        suffixes=_first(".json"),
        files="train-v1.1.json and dev-v1.1.json",
        hub=("rajpurkar/squad",),
    ),
)
KNOWN_TEXTS = {known.name: known for known in _ALL}
