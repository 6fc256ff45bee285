"""Ids inside the batches of a Hugging Face Trainer, whatever shuffles its data, sorts it or strips its columns.

The Trainer makes its loaders as ever, from the data sets, collator and columns that it has. Only then are the items
numbered; so nothing that the user wrote sees anything new. The ids travel in the batch, because Accelerate takes every
batch apart on its way to the device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import IterableDataset

from actionflow.errors import RecordingError
from actionflow.integrations.numbered_loader import Numbered, NumberedCollate, NumberedItems

# Where the ids stand in a batch; the step takes them out before the model sees it.
SAMPLE = "actionflow_sample_id"


def with_ids(loader: Any, dataset: Any, id_column: str | None) -> Any:
    """The loader that a Trainer made of a data set, its batches with the samples' ids in them.

    The id is what `id_column` says, or else the sample's place in the data set (of a `Subset`: in the whole).
    """
    refuse_streams(dataset)
    plain = getattr(loader, "base_dataloader", loader)  # what Accelerate wraps
    # A Trainer whose workers persist asks for the same loader again.
    if not isinstance(plain.dataset, NumberedItems):
        items = NumberedItems(plain.dataset, _id_column_of(dataset, id_column, len(plain.dataset)))
        # A loader refuses to have its data set replaced; its iterators take both when they are made.
        plain.__dict__.update(dataset=items, collate_fn=IdsInBatch(plain.collate_fn, id_column))
    return loader


def refuse_streams(dataset: Any) -> None:
    """Say what to do with a data set that has no places."""
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise RecordingError(
            f"a stream ({type(dataset).__name__}) has no places to number its samples by: record a data set with a "
            'length, leave this one out with ActionCallback(trainer, record=["val"]), or use actionflow.Recorder with '
            "ids of your own."
        )


class IdsInBatch:
    """Makes a batch as the user's own collator does, and puts the ids beside."""

    def __init__(self, collate: Callable[[Any], Any], id_column: str | None) -> None:
        self._collate = NumberedCollate(collate)
        self._id_column = id_column

    def __call__(self, items: Numbered) -> Any:
        """A batch with its ids, or with the reason why they are not known."""
        named = Numbered(items.content, self._named(items.content, items.ids))
        batch, ids = self._collate(named)
        batch[SAMPLE] = ids if isinstance(ids, str) else torch.from_numpy(ids)
        return batch

    def _named(self, items: Any, places: Any) -> Any:
        """What the items of a PyTorch data set say that they are called; the columns of others were read before."""
        if isinstance(items, list) and all(isinstance(item, Mapping) and self._id_column in item for item in items):
            return _whole_numbers([item[self._id_column] for item in items], self._id_column)
        return places


def _id_column_of(dataset: Any, id_column: str | None, rows: int) -> NDArray[np.int64] | None:
    """The ids that a Hugging Face data set has as a column: the Trainer may have dropped it from the loader's."""
    if id_column is None or id_column not in (getattr(dataset, "column_names", None) or ()):
        return None
    ids = _whole_numbers(dataset.with_format("numpy", columns=[id_column])[:][id_column], id_column)
    if len(ids) != rows:
        raise RecordingError(
            f"column {id_column} names {len(ids)} samples, the loader reads {rows}: let get_train_dataloader and "
            "get_eval_dataloader read the data set that the Trainer was given."
        )
    return ids


def _whole_numbers(values: Any, id_column: str | None) -> NDArray[np.int64]:
    ids = np.asarray(values)
    if not np.issubdtype(ids.dtype, np.integer):
        raise RecordingError(
            f"column {id_column} must hold whole numbers to serve as sample ids, found {ids.dtype}: name another with "
            "ActionCallback(trainer, id_column=…), or None to number samples by their place."
        )
    return ids.astype(np.int64)
