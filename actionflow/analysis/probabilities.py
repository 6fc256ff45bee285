"""The probability that a model gave each class, on average over the epochs: steadier than that of any one epoch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from actionflow.session import Session


@dataclass(frozen=True)
class MeanProbabilities:
    """Of n samples, in the order of their ids: labels (n), and mean probabilities (n, classes) that sum to 1."""

    sample_ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    values: NDArray[np.float64]

    def best_others(self) -> NDArray[np.int64]:
        """The likeliest class of each sample that is not its label."""
        others = self.values.copy()
        others[np.arange(len(others)), self.labels] = -1
        best: NDArray[np.int64] = others.argmax(axis=1)
        return best


def has_probabilities(session: Session) -> bool:
    """Whether the runs of a session kept the probability of every class."""
    return "probabilities" in session.sql("select * from dynamics limit 0").column_names


def mean_probabilities(session: Session, run_id: str, split: str, no_class: int = -1) -> MeanProbabilities:
    """Average over the epochs, one at a time: memory is one matrix (n, classes), however long the training was.

    Samples of the class `no_class` are passed over, and it is none of the classes.
    """
    known = session.sql(
        """select sample_id, max(label) as label, count(*) as epochs from dynamics
        where run_id = $run_id and split = $split and label <> $no_class group by sample_id order by sample_id""",
        run_id=run_id,
        split=split,
        no_class=no_class,
    )
    ids, epochs = known["sample_id"].to_numpy(), known["epochs"].to_numpy()
    total: NDArray[np.float64] | None = None
    for epoch in _epochs(session, run_id, split):
        rows = session.sql(
            """select sample_id, probabilities from dynamics
            where run_id = $run_id and split = $split and epoch = $epoch and label <> $no_class order by sample_id""",
            run_id=run_id,
            split=split,
            epoch=epoch,
            no_class=no_class,
        )
        matrix = _matrix(rows["probabilities"])
        if total is None:
            total = np.zeros((len(ids), matrix.shape[1]))
        total[np.searchsorted(ids, rows["sample_id"].to_numpy())] += matrix
    assert total is not None, "a run has epochs"
    mean = total / epochs[:, None]
    if no_class >= 0:
        mean = np.delete(mean, no_class, axis=1)
    return MeanProbabilities(ids, known["label"].to_numpy().astype(np.int64), mean / mean.sum(axis=1, keepdims=True))


def _epochs(session: Session, run_id: str, split: str) -> list[int]:
    found: list[int] = session.sql(
        "select distinct epoch from dynamics where run_id = $run_id and split = $split order by epoch",
        run_id=run_id,
        split=split,
    )["epoch"].to_pylist()
    return found


def _matrix(column: pa.ChunkedArray) -> NDArray[np.float32]:
    whole = column.combine_chunks()
    return np.asarray(whole.flatten()).reshape(len(whole), -1)
