"""Whether a sample was right when it was last seen: what `forgotten` needs of the epochs before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True)
class LastSeen:
    """The samples seen so far, in order, and whether each was predicted right the last time.

    Forgetting is settled while recording, so that every score stays one pass of sums: a window over all epochs of
    all samples is not.
    """

    sample_ids: NDArray[np.int64]
    correct: NDArray[np.bool_]

    @classmethod
    def nothing(cls) -> LastSeen:
        """Before the first epoch."""
        return cls(np.empty(0, np.int64), np.empty(0, np.bool_))

    def forgotten(self, sample_ids: NDArray[np.int64], correct: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which samples (in ascending order) were right when last seen and are wrong now."""
        return self._was_right(sample_ids) & ~correct

    def after(self, table: pa.Table) -> LastSeen:
        """The same once the epoch in `table` has been seen."""
        ids = table["sample_id"].to_numpy()
        correct = table["correct"].to_numpy(zero_copy_only=False)
        if np.array_equal(ids, self.sample_ids):
            return LastSeen(ids, correct)
        unseen = ~np.isin(self.sample_ids, ids, assume_unique=True)
        all_ids = np.concatenate([ids, self.sample_ids[unseen]])
        order = np.argsort(all_ids)
        return LastSeen(all_ids[order], np.concatenate([correct, self.correct[unseen]])[order])

    def _was_right(self, sample_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        if np.array_equal(sample_ids, self.sample_ids):
            return self.correct
        if not len(self.sample_ids):
            return np.zeros(len(sample_ids), np.bool_)
        places = np.searchsorted(self.sample_ids, sample_ids).clip(max=len(self.sample_ids) - 1)
        found: NDArray[np.bool_] = (self.sample_ids[places] == sample_ids) & self.correct[places]
        return found
