"""Record any training loop: every sample's signals of every epoch, into an MLflow run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import mlflow
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from mlflow import MlflowClient
from numpy.typing import NDArray

from actionflow.capture import EpochRecorder, Signals
from actionflow.capture.forgetting import LastSeen
from actionflow.errors import RecordingError, StoreError
from actionflow.session import compute_scores
from actionflow.store import layout, parquet, schema
from actionflow.store.reading import Recorded, StoredRun
from actionflow.store.writing import RunWriter

# From a split and the ids of its samples to further columns of their scores.
MoreScores = Callable[[str, NDArray[np.int64]], Mapping[str, Any]]

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class Recorder:
    """Records what every sample does in every epoch of your own loop.

        with mlflow.start_run(), actionflow.Recorder() as recorder:
            for epoch in range(epochs):
                for images, labels, sample_ids in validation_loader:
                    recorder.add(sample_ids, model(images), labels, split="val")
                recorder.end_epoch()

    `sample_ids` are whole numbers that name a sample in every epoch and every run: its place in the data set's own
    order, not its place in a shuffled loader. Leaving the `with` block writes the scores.

    `probabilities=True` keeps the probability of every class too, as the column `probabilities`: what an audit of the
    labels and `--export cleanlab` are better for.
    """

    def __init__(
        self, run_id: str | None = None, client: MlflowClient | None = None, probabilities: bool = False
    ) -> None:
        self.probabilities = probabilities
        self.run_id = run_id or _active_run_id()
        self.writer = RunWriter(self.run_id, client)
        self.epoch = 0
        self._open: dict[str, EpochRecorder] = {}
        self._last_seen: dict[str, LastSeen] = {}
        self.writer.client.set_tag(self.run_id, layout.TAG_KIND, "training")
        self.writer.client.set_tag(self.run_id, layout.TAG_SCHEMA, str(schema.SCHEMA_VERSION))

    def add(self, sample_ids: Any, logits: Any, targets: Any, split: str = "val") -> None:
        """Take a classification batch of any size: n ids, logits (n, classes), n labels."""
        self._recorder(split).add(sample_ids, logits, targets)

    def add_signals(self, sample_ids: Any, signals: Signals, split: str = "val") -> None:
        """Take a batch of another task: at least `{"loss": …}`, one value per sample."""
        self._recorder(split).add_signals(sample_ids, signals)

    @property
    def has_batches(self) -> bool:
        """Whether the epoch has anything to write yet."""
        return bool(self._open)

    def forget(self, split: str) -> None:
        """Drop what this epoch has of a split: the pass that counts is still to come."""
        self._open.pop(split, None)

    def end_epoch(self) -> dict[str, pa.Table]:
        """Write the epoch into the run; the next batch belongs to the next epoch. Returns its tables by split."""
        if not self._open:
            raise RecordingError(f"epoch {self.epoch} has no batches: call recorder.add(…) before end_epoch().")
        tables = {split: recorder.table() for split, recorder in self._open.items()}
        self.writer.log_epoch(list(tables.values()))
        self.writer.sender.send_metrics(_distributions(tables), step=self.epoch)
        for split, table in tables.items():
            if "correct" in table.column_names:
                self._last_seen[split] = self._last_seen.get(split, LastSeen.nothing()).after(table)
        self._open = {}
        self.epoch += 1
        return tables

    def finish(self, more: MoreScores | None = None) -> pa.Table:
        """Write the scores of everything that was recorded, and return them.

        `more` brings in columns of `scores` that no epoch's file has: it is given a split and the ids of its samples in
        order, and returns the columns by name, a value for each.
        """
        recorded = self._stored_run().recorded()
        scores = compute_scores([recorded])
        if more is not None:
            scores = pa.concat_tables(
                [
                    _with_columns(scores.filter(pc.equal(scores["split"], split)), split, more)
                    for split in recorded.splits
                ]
            )
        for split in recorded.splits:
            self.writer.log_scores(split, scores.filter(pc.equal(scores["split"], split)))
        self.writer.sender.send_metrics({"epochs": self.epoch}, step=self.epoch)
        self.writer.sender.close()
        return scores

    def go_on_after(self, epoch: int) -> None:
        """Continue an interrupted run whose last good epoch was `epoch`; later files are overwritten as they come."""
        recorded = self._stored_run().recorded()
        self.epoch = epoch + 1
        self.writer.go_on({split: [e for e in recorded.epochs(split) if e <= epoch] for split in recorded.splits})
        self._last_seen = {split: _last_seen(recorded, split, epoch) for split in recorded.splits}

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()

    def _recorder(self, split: str) -> EpochRecorder:
        if split not in self._open:
            self._open[split] = EpochRecorder(split, self.epoch, self._last_seen.get(split), self.probabilities)
        return self._open[split]

    def _stored_run(self) -> StoredRun:
        return StoredRun(self.writer.client.get_run(self.run_id), self.writer.client)


def _with_columns(scores: pa.Table, split: str, more: MoreScores) -> pa.Table:
    """The scores of one split with the columns that `more` has for it."""
    for name, values in more(split, scores["sample_id"].to_numpy()).items():
        place = scores.schema.get_field_index(name)
        scores = scores.set_column(place, scores.schema.field(place), pa.array(values, scores.schema.field(place).type))
    return scores


def _active_run_id() -> str:
    run = mlflow.active_run()
    if run is None:
        raise StoreError(
            "there is no MLflow run to record into: write `with mlflow.start_run(), actionflow.Recorder() as recorder:`"
        )
    return str(run.info.run_id)


def _distributions(tables: dict[str, pa.Table]) -> dict[str, float]:
    """Mean and quantiles of each split's losses."""
    metrics = {}
    for split, table in tables.items():
        losses = table["loss"].to_numpy()
        metrics[f"{split}/sample_loss_mean"] = float(losses.mean(dtype=np.float64))
        for quantile, value in zip(QUANTILES, np.quantile(losses, QUANTILES), strict=True):
            metrics[f"{split}/sample_loss_p{round(quantile * 100):02d}"] = float(value)
    return metrics


def _last_seen(recorded: Recorded, split: str, until: int) -> LastSeen:
    seen = LastSeen.nothing()
    for path in recorded.files[split]:
        epoch = layout.epoch_of(path.name)
        if epoch is not None and epoch <= until:
            seen = seen.after(parquet.read(path, ["sample_id", "correct"]))
    return seen
