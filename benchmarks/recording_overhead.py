"""How much longer does an epoch take when every sample is recorded?

The paper's CNN trains on 28x28 pictures, once watched and once not, by turns. Recording is all of it: signals of the
training and the validation split, their tables, their Parquet files. The two kinds of epoch take turns in going first,
and the figure is the median of the pairs' ratios. Beside it stands the time that was really spent inside the recorder:
a machine that other people use disturbs the ratio by more than recording costs, and this one hardly.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import made_up
import torch
from measuring import Target, end, is_quick, show

from actionflow.capture import EpochRecorder
from actionflow.capture.forgetting import LastSeen
from actionflow.store import layout, parquet, schema
from actionflow.store.writing import conform
from actionflow.training.data import Samples
from actionflow.training.loop import Trainer
from actionflow.training.models import build_model
from actionflow.training.settings import VisionSettings


@dataclass(frozen=True)
class Pair:
    """The same epoch with and without recording, and what was spent inside the recorder."""

    plain: float
    recorded: float
    inside: float

    @property
    def ratio(self) -> float:
        return self.recorded / self.plain


class Recording:
    """Records both splits of an epoch and writes their files, and keeps the time that takes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.inside = 0.0
        self._seen: dict[str, LastSeen] = {}

    def start(self, epoch: int) -> None:
        self.inside = 0.0
        self._recorders = {split: EpochRecorder(split, epoch, self._seen.get(split)) for split in ("train", "val")}

    def add(self, split: str, *batch: Any) -> None:
        with self._on_the_clock():
            self._recorders[split].add(*batch)

    def write(self, epoch: int) -> None:
        with self._on_the_clock():
            for split, recorder in self._recorders.items():
                table = recorder.table()
                if "correct" in table.column_names:
                    self._seen[split] = self._seen.get(split, LastSeen.nothing()).after(table)
                whole = schema.stamp(conform(table, made_up.RUN_ID), "dynamics")
                parquet.write(whole, self.folder / layout.dynamics(split, epoch))

    @contextmanager
    def _on_the_clock(self) -> Iterator[None]:
        started = perf_counter()
        yield
        self.inside += perf_counter() - started


class Training:
    """One model that trains an epoch with or without recording."""

    def __init__(self, trainer: Trainer, recording: Recording, train: Samples, val: Samples) -> None:
        self.trainer, self.recording = trainer, recording
        self.train, self.val = train, val

    def plain(self) -> float:
        started = perf_counter()
        self.trainer.train(self.train, [])
        self.trainer.evaluate(self.val, [])
        return perf_counter() - started

    def recorded(self, epoch: int) -> float:
        started = perf_counter()
        self.recording.start(epoch)
        self.trainer.train(self.train, [lambda *batch: self.recording.add("train", *batch)])
        self.trainer.evaluate(self.val, [lambda *batch: self.recording.add("val", *batch)])
        self.recording.write(epoch)
        return perf_counter() - started

    def pairs(self, count: int) -> list[Pair]:
        """So many, after one that warms up."""
        return [self.pair(epoch) for epoch in range(count + 1)][1:]

    def pair(self, epoch: int) -> Pair:
        """Both, the one that goes first changing from pair to pair."""
        self.trainer.epoch = epoch
        if epoch % 2:
            recorded = self.recorded(epoch)
            return Pair(self.plain(), recorded, self.recording.inside)
        plain = self.plain()
        return Pair(plain, self.recorded(epoch), self.recording.inside)


def tell(what: str, pairs: list[Pair], limit: float, quick: bool) -> None:
    """Print the pairs, and whether recording costs no more than it may."""
    show(
        what,
        ["pair", "plain s", "recorded s", "ratio", "inside the recorder s"],
        ([str(number), pair.plain, pair.recorded, pair.ratio, pair.inside] for number, pair in enumerate(pairs, 1)),
    )
    share = median(pair.inside / (pair.recorded - pair.inside) for pair in pairs)
    print(f"inside the recorder: {1 + share:.4f}x (median)")
    end([Target("an epoch with recording, times one without", median(pair.ratio for pair in pairs), limit)], quick)


def main() -> None:
    quick = is_quick(__doc__)
    count, pairs = (256, 2) if quick else (4096, 9)
    train, val = made_up.images(count), made_up.images(count // 4, first_id=count)
    torch.manual_seed(0)
    trainer = Trainer(build_model("keras_cnn", 1, (28, 28), 10), VisionSettings(device="cpu"))
    with tempfile.TemporaryDirectory() as folder:
        measured = Training(trainer, Recording(Path(folder)), train, val).pairs(pairs)
    what = f"An epoch of keras_cnn on {len(train):,} + {len(val):,} pictures of 28x28, batches of 32"
    tell(what, measured, 1.02, quick)


if __name__ == "__main__":
    main()
