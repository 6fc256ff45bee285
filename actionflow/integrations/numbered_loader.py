"""PyTorch loaders that know which samples are in each batch they hand out.

The number travels with the item, from where the data set is asked to where the batch comes out: shuffling, workers,
samplers of any kind and padded ranks cannot part them. Batches look as they always did.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakSet

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, IterableDataset, Subset, default_collate, default_convert

from actionflow.integrations.batches import targets_in

# The ids of a batch's samples, or the reason why they are not known.
Ids: TypeAlias = NDArray[np.int64] | str

UNNUMBERED = "the batches do not come from a DataLoader over a data set with places"
NO_PLACES = "the loader's sampler gives no row of whole numbers"
REORDERED = "the loader's collate_fn puts the samples into another order"

# Batches that a trainer holds at once: the one in use, and those it has fetched ahead.
AHEAD = 4


class Numbered(NamedTuple):
    """Items or a batch made of them, with the ids of the samples; pinning and converting see through a tuple."""

    content: Any
    ids: Ids


class NumberedBatches:
    """Remembers, for the batches that loaders have just handed out, which samples are in them."""

    def __init__(self) -> None:
        self._iterators: WeakSet[NumberedIterator] = WeakSet()

    def of(self, loader: Any) -> Any:
        """A loader that hands out the same batches and lets their ids be known; what has no places stays as it is."""
        if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
            return loader
        kind = type(loader)
        if not issubclass(kind, NumberedLoader):
            kind = type(kind.__name__, (NumberedLoader, kind), {})
        twin = copy.copy(loader)
        # Workers that persist in the original hand out batches without numbers.
        twin.__dict__.update(_iterator=None, numbered_batches=self)
        twin.__class__ = kind
        return twin

    def watch(self, iterator: NumberedIterator) -> NumberedIterator:
        """Remember what this iterator hands out, as long as somebody uses it."""
        self._iterators.add(iterator)
        return iterator

    def take(self, batch: Any) -> Ids:
        """The ids of a batch, which is known by being the same object."""
        for iterator in list(self._iterators):
            for each in iterator.handed_out:
                if each.content is batch:
                    iterator.handed_out.remove(each)
                    return each.ids
        return UNNUMBERED


class NumberedLoader(DataLoader[Any]):
    """What a loader's twin is, beside its own class: its iterators see numbered items, everybody else the original."""

    numbered_batches: NumberedBatches

    def __iter__(self) -> Any:
        plain = {"dataset": self.dataset, "collate_fn": self.collate_fn}
        # A loader refuses to have its data set replaced; iterators take both when they are made.
        self.__dict__.update(dataset=NumberedItems(self.dataset), collate_fn=NumberedCollate(self.collate_fn))
        try:
            iterator = super().__iter__()
        finally:
            self.__dict__.update(plain)
        return self.numbered_batches.watch(NumberedIterator(iterator))


class NumberedIterator:
    """Hands out a loader's batches, and keeps the numbers of the latest."""

    def __init__(self, iterator: Iterator[Any]) -> None:
        self._iterator = iterator
        self.handed_out: deque[Numbered] = deque(maxlen=AHEAD)

    def __iter__(self) -> NumberedIterator:
        return self

    def __next__(self) -> Any:
        got = next(self._iterator)
        if not isinstance(got, Numbered):
            return got
        self.handed_out.append(got)
        return got.content


class NumberedItems:
    """A data set that says which samples it was asked for; whatever else is asked or set goes to the original.

    A place in a `Subset`, which `random_split` makes too, is told as the place in the whole; with `ids`, as the id that
    stands at this place.
    """

    def __init__(self, dataset: Any, ids: NDArray[np.int64] | None = None) -> None:
        self.__dict__.update(dataset=dataset, places_in_whole=_places_in_whole(dataset) if ids is None else ids)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, place: Any) -> Numbered:
        return Numbered(self.dataset[place], self._ids(place))

    def __getitems__(self, places: list[Any]) -> Numbered:
        together = getattr(self.dataset, "__getitems__", None)
        items = together(places) if together else [self.dataset[place] for place in places]
        return Numbered(items, self._ids(places))

    def __getattr__(self, name: str) -> Any:
        if name in ("dataset", "places_in_whole"):  # while it is unpickled in a worker
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.dataset, name, value)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def _ids(self, places: Any) -> Ids:
        found = np.asarray(places)
        if found.ndim != 1 or not np.issubdtype(found.dtype, np.integer):
            return NO_PLACES
        return (found if self.places_in_whole is None else self.places_in_whole[found]).astype(np.int64)


class NumberedCollate:
    """Makes a batch as the user's own function does, beside the numbers of its items."""

    def __init__(self, collate: Callable[[Any], Any]) -> None:
        self.collate = collate

    def __call__(self, items: Any) -> Any:
        """A batch with its numbers; items that have none make a batch without."""
        if not isinstance(items, Numbered):
            return self.collate(items)
        if self.collate in (default_collate, default_convert):
            return Numbered(self.collate(items.content), items.ids)
        # Before the batch is made: a collate_fn that sorts may well sort the list itself.
        labels = _labels([targets_in(item) for item in items.content]) if isinstance(items.content, list) else None
        batch = self.collate(items.content)
        return Numbered(batch, items.ids if _same(labels, _labels(targets_in(batch))) else REORDERED)


def _places_in_whole(dataset: Any) -> NDArray[np.int64] | None:
    """Where the samples of a subset (of a subset, …) stand in the whole data set; None when it is the whole."""
    if not isinstance(dataset, Subset):
        return None
    indices = np.asarray(dataset.indices, dtype=np.int64)
    outer = _places_in_whole(dataset.dataset)
    return indices if outer is None else outer[indices]


def _labels(values: Any) -> NDArray[Any] | None:
    """A row of numbers, or None for anything else."""
    try:
        row = np.asarray(torch.as_tensor(values))
    except (TypeError, ValueError, RuntimeError):
        return None
    return row if row.ndim == 1 else None


def _same(before: NDArray[Any] | None, after: NDArray[Any] | None) -> bool:
    """Whether labels stand as they stood; what cannot be compared is taken to."""
    if before is None or after is None or len(before) != len(after):
        return True
    # A label that was rounded to 32 bits on its way is the same label.
    return bool((before.astype(after.dtype) == after).all())
