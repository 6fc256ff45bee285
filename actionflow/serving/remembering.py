"""What pages remember of a session, which is of one visitor: what one may read is no answer to another."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from actionflow.session import Session

T = TypeVar("T")

# What holds for a whole session, which is made anew whenever a file of its runs changes.
_known: WeakKeyDictionary[Session, dict[Hashable, Any]] = WeakKeyDictionary()


def once(session: Session, key: Hashable, ask: Callable[[], T]) -> T:
    """The answer to a question that every page of a session asks; the caller has the session's lock."""
    answers = _known.setdefault(session, {})
    if key not in answers:
        answers[key] = ask()
    answer: T = answers[key]
    return answer


class Lately(Generic[T]):
    """What pages have lately shown of samples, by data set and sample: it never changes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[str, int], T] = OrderedDict()

    def keep(self, digest: str, sample_id: int, thing: T) -> None:
        """Have it ready for the next page, or for the browser, which will ask for a picture."""
        self._kept[digest, sample_id] = thing
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def get(self, digest: str, sample_id: int) -> T | None:
        """The thing, if it is still here."""
        return self._kept.get((digest, sample_id))
