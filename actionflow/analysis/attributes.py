"""What is known of samples beside what a model sees: columns of the user's own, and what can be read off a text.

Numbers stay as they are; words become one question for each value, `weather is rain`; where values are missing that
is an attribute too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from actionflow.errors import DataError

# Of a column with more values the commonest are asked for: a name that few share explains nothing.
MOST_VALUES = 30
# A word is rare that occurs in no more of the texts.
RARE = 3
WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
# With and without its apostrophe: many corpora were cleaned of it.
CONTRACTED = "ai|are|ca|could|did|do|does|had|has|have|is|must|need|should|was|were|wo|would"
NEGATION = re.compile(
    rf"\b(?:no|not|never|none|nobody|nothing|nowhere|neither|nor|cannot|without|(?:{CONTRACTED})n['’]?t)\b",
    re.IGNORECASE,
)
ASKING = "who|what|when|where|why|how|which|whose|is|are|do|does|did|can|could|would|will|should"
QUESTION = re.compile(rf"\?|^\W*(?:{ASKING})\b", re.IGNORECASE)


@dataclass(frozen=True)
class Name:
    """What an attribute is called; `yes` and `no` say it in words where it is one or the other."""

    name: str
    yes: str = ""
    no: str = ""


@dataclass(frozen=True)
class Attributes:
    """Attributes (n, d) of samples, and their names."""

    values: NDArray[np.float32]
    names: tuple[Name, ...]

    @classmethod
    def beside(cls, several: Sequence[Attributes]) -> Attributes:
        """Several side by side."""
        return cls(np.hstack([each.values for each in several]), tuple(n for each in several for n in each.names))


def numbered(features: NDArray[np.float32]) -> Attributes:
    """Features of a model, which have numbers for names."""
    return Attributes(features, tuple(Name(f"feature {n}") for n in range(features.shape[1])))


def attributes_of(columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> Attributes:
    """Columns of the user's own as attributes."""
    return Attributes.beside([_column(name, values) for name, values in columns.items()])


def text_attributes(texts: Sequence[str | None], called: str = "text") -> Attributes:
    """What can be read off texts by anybody: their length, whether they deny or ask, and how many rare words they have.

    >>> made = text_attributes(["is it late?", "it is not late", "it is late"])
    >>> [name.name for name in made.names]
    ['words of text', 'negation in text', 'question in text', 'rare words of text']
    >>> made.values[:, :3].astype(int).tolist()
    [[3, 0, 1], [4, 1, 0], [3, 0, 0]]
    """
    read = [text or "" for text in texts]
    words = [[word.lower() for word in WORD.findall(text)] for text in read]
    common = Counter(word for each in words for word in set(each))
    columns = [
        [len(each) for each in words],
        [denies(text) for text in read],
        [bool(QUESTION.search(text)) for text in read],
        [sum(common[word] <= RARE for word in set(each)) for each in words],
    ]
    names = (
        Name(f"words of {called}"),
        Name(f"negation in {called}", f"the {called} denies", f"the {called} does not deny"),
        Name(f"question in {called}", f"the {called} asks", f"the {called} does not ask"),
        Name(f"rare words of {called}"),
    )
    return Attributes(np.array(columns, np.float32).T, names)


def denies(text: str) -> bool:
    """Whether a text has a word that denies.

    >>> [denies(text) for text in ("I didnt go", "it isn't", "never", "I went to the present", "a plant")]
    [True, True, True, False, False]
    """
    return NEGATION.search(text) is not None


def _column(name: str, values: pa.Array | pa.ChunkedArray) -> Attributes:
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    values = values.cast(kind)
    if pa.types.is_boolean(kind):
        known = Attributes(_one(pc.fill_null(values, False)), (Name(name, f"{name}", f"not {name}"),))
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        known = _numbers(name, values)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        known = _words(name, values)
    else:
        raise DataError(f"column {name} holds {kind}, which is no attribute: numbers, words and yes or no are.")
    missing = pc.is_null(values, nan_is_null=True)
    if not pc.any(missing).as_py():
        return known
    unknown = Attributes(_one(missing), (Name(f"{name} missing", f"{name} is missing", f"{name} is known"),))
    return Attributes.beside([known, unknown])


def _numbers(name: str, values: pa.Array | pa.ChunkedArray) -> Attributes:
    """Those that are missing stand in the middle, where they tell least."""
    numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False).astype(np.float32).copy()
    there = np.isfinite(numbers)
    if not there.any():
        raise DataError(f"column {name} has no value for any of these samples: leave it out of attributes.")
    numbers[~there] = np.median(numbers[there])
    return Attributes(numbers[:, None], (Name(name),))


def _words(name: str, values: pa.Array | pa.ChunkedArray) -> Attributes:
    listed = values.to_pylist()
    common = [word for word, _ in Counter(word for word in listed if word is not None).most_common(MOST_VALUES)]
    asked = np.array([[word == each for each in common] for word in listed], np.float32).reshape(len(listed), -1)
    names = tuple(Name(f"{name}={word}", f"{name} is {word}", f"{name} is not {word}") for word in common)
    return Attributes(asked, names)


def _one(values: pa.Array | pa.ChunkedArray) -> NDArray[np.float32]:
    made: NDArray[np.float32] = values.to_numpy(zero_copy_only=False).astype(np.float32)[:, None]
    return made
