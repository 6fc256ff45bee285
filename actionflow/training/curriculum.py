"""Which training samples are used, and in which order: a curriculum made from another run's scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from actionflow.errors import DataError
from actionflow.training.data import Samples
from actionflow.training.loop import epoch_seed


@dataclass(frozen=True)
class Curriculum:
    """Places in the training split, stage by stage. Within a stage the order is shuffled, across stages it never is."""

    stages: tuple[NDArray[np.int64], ...]

    @classmethod
    def from_table(cls, table: pa.Table, samples: Samples) -> Curriculum:
        """Read position, sample_id and stage; every sample must be one of `samples`."""
        lacking = {"position", "sample_id", "stage"} - set(table.column_names)
        if lacking:
            raise DataError(
                f"the curriculum lacks the columns {', '.join(sorted(lacking))}; found {', '.join(table.column_names)}."
            )
        table = table.sort_by("position")
        ids, stage = table["sample_id"].to_numpy(), table["stage"].to_numpy()
        places = _places(ids, samples.sample_ids)
        return cls(tuple(places[stage == number] for number in np.unique(stage)))

    def order(self, seed: int, epoch: int) -> NDArray[np.int64]:
        """The order of one epoch."""
        random = np.random.default_rng(epoch_seed(seed, epoch))
        return np.concatenate([random.permutation(stage) for stage in self.stages])

    def __len__(self) -> int:
        return sum(len(stage) for stage in self.stages)


def _places(wanted: NDArray[np.int64], there: NDArray[np.int64]) -> NDArray[np.int64]:
    places = np.searchsorted(there, wanted).clip(max=len(there) - 1)
    strangers = wanted[there[places] != wanted]
    if len(strangers):
        raise DataError(
            f"{len(strangers)} of the curriculum's {len(wanted)} samples are not in this training split (for instance "
            f"sample {strangers[0]}): it was made from another data set, limit or validation."
        )
    return places
