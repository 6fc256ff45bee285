"""Which training samples are used, and in which order: a curriculum made from another run's scores."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from actionflow.errors import DataError
from actionflow.training.data.splits import Divisible
from actionflow.training.loop import epoch_seed
from actionflow.training.settings import Settings

# The share of the curriculum that is open in the first epoch of a pacing that grows evenly.
FIRST_SHARE = 0.2

# How much is open after the share `done` (0 to 1) of the epochs that pacing takes.
PACINGS: dict[str, Callable[[float], float]] = {
    "linear": lambda done: FIRST_SHARE + (1 - FIRST_SHARE) * done,
    "root": lambda done: math.sqrt(FIRST_SHARE**2 + (1 - FIRST_SHARE**2) * done),
    "full": lambda done: 1.0,
}


@dataclass(frozen=True)
class Curriculum:
    """Places in the training split in the order of the curriculum, and the stage of each.

    Within a stage an epoch shuffles them by the seed; across stages it never does. Pacing decides how many, from the
    first on, are open: `full` all at once, `linear` and `root` ever more, `step` a stage more at a time.
    """

    places: NDArray[np.int64]
    stages: NDArray[np.int64]
    pacing: str = "full"
    pacing_epochs: int = 1

    @classmethod
    def from_table(cls, table: pa.Table, samples: Divisible, settings: Settings) -> Curriculum:
        """Read position, sample_id and stage; every sample must be one of `samples`."""
        lacking = {"position", "sample_id", "stage"} - set(table.column_names)
        if lacking or not table.num_rows:
            found = ", ".join(table.column_names) if lacking else "no rows"
            raise DataError(f"a curriculum has rows with position, sample_id and stage; found {found}.")
        table = table.sort_by("position")
        places = _places(table["sample_id"].to_numpy(), samples.sample_ids)
        stages = table["stage"].to_numpy()
        if np.any(np.diff(stages) < 0):
            raise DataError("the curriculum's stages go back: later positions must not belong to earlier stages.")
        return cls(places, stages, settings.pacing, settings.pacing_epochs)

    def order(self, seed: int, epoch: int) -> NDArray[np.int64]:
        """The places that are trained on in an epoch, in their order."""
        count = self.open_at(epoch)
        random = np.random.default_rng(epoch_seed(seed, epoch))
        places, stages = self.places[:count], self.stages[:count]
        return np.concatenate([random.permutation(places[stages == stage]) for stage in np.unique(stages)])

    def open_at(self, epoch: int) -> int:
        """How many samples are open in an epoch."""
        done = min(1.0, epoch / self.pacing_epochs)
        if self.pacing == "step":
            return self._open_stages(done)
        return max(1, math.ceil(PACINGS[self.pacing](done) * len(self) - 1e-9))

    def all_open(self, epoch: int) -> bool:
        """Whether nothing is left to open: before that, a validation loss that stalls says little."""
        return self.open_at(epoch) == len(self)

    def __len__(self) -> int:
        return len(self.places)

    def _open_stages(self, done: float) -> int:
        names = np.unique(self.stages)
        opened = min(len(names), 1 + math.floor(done * (len(names) - 1) + 1e-9))
        return int(np.count_nonzero(self.stages <= names[opened - 1]))


def _places(wanted: NDArray[np.int64], there: NDArray[np.int64]) -> NDArray[np.int64]:
    places = np.searchsorted(there, wanted).clip(max=len(there) - 1)
    strangers = wanted[there[places] != wanted]
    if len(strangers):
        raise DataError(
            f"{len(strangers)} of the curriculum's {len(wanted)} samples are not in this training split (for instance "
            f"sample {strangers[0]}): it was made from another data set, limit or validation."
        )
    if len(np.unique(wanted)) < len(wanted):
        raise DataError("the curriculum names a sample more than once: each position needs a sample of its own.")
    return places
