"""Was the question answered? Exact match and F1, as SQuAD's own evaluation counts them."""

from __future__ import annotations

import re
import string
from collections import Counter

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normal_words(answer: str) -> list[str]:
    """The words of an answer without case, punctuation and articles.

    >>> normal_words("The  U.S. Army")
    ['us', 'army']
    """
    return _ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split()


def exact_match(answer: str, right: list[str]) -> bool:
    """Whether the answer is one of the right ones."""
    return any(normal_words(answer) == normal_words(each) for each in right)


def f1(answer: str, right: list[str]) -> float:
    """How far the words of the answer agree with those of the nearest right one.

    >>> round(f1("in 1990", ["1990"]), 2)
    0.67
    """
    return max((_f1(normal_words(answer), normal_words(each)) for each in right), default=0.0)


def _f1(answer: list[str], right: list[str]) -> float:
    if not answer or not right:
        return float(answer == right)
    common = sum((Counter(answer) & Counter(right)).values())
    return 2 * common / (len(answer) + len(right))
