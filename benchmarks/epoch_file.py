"""What does the file of an epoch of 1,281,167 samples cost, in time and memory?

Batches of 256 shuffled samples go into the recorder; measured is what comes at the epoch's end: the table is made,
sorted and written. Memory is what the process holds at most meanwhile, beyond the recorded arrays that it held before.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

import made_up
import pyarrow as pa
import torch
from measuring import MEGABYTE, Target, end, forget_peak, is_quick, memory_now, peak_memory, show

from actionflow.capture import EpochRecorder
from actionflow.capture.forgetting import LastSeen
from actionflow.store import layout, parquet, schema
from actionflow.store.writing import conform

CLASSES = 10
BATCH = 256


@dataclass(frozen=True)
class Epoch:
    """What one epoch cost."""

    add_seconds: float
    table_seconds: float
    write_seconds: float
    beyond_arrays: int
    file_size: int
    held_after: int

    @property
    def seconds(self) -> float:
        return self.table_seconds + self.write_seconds


class Training:
    """Epochs of made-up logits, recorded and written one after the other."""

    def __init__(self, samples: int, folder: Path) -> None:
        self.samples, self.folder = samples, folder
        self.logits, self.labels = torch.randn(samples, CLASSES), torch.randint(0, CLASSES, (samples,))
        self.seen = LastSeen.nothing()

    def run(self, epoch: int) -> Epoch:
        recorder = EpochRecorder("train", epoch, self.seen)
        started = perf_counter()
        self._add_all(recorder)
        added = perf_counter()
        before = memory_now()
        forget_peak()
        begun = perf_counter()
        table = recorder.table()
        made = perf_counter()
        path = self.folder / layout.epoch_file(epoch)
        parquet.write(schema.stamp(conform(table, made_up.RUN_ID), "dynamics"), path)
        written = perf_counter()
        beyond = peak_memory() - before
        self.seen = self.seen.after(table)
        del table, recorder
        pa.default_memory_pool().release_unused()
        return Epoch(added - started, made - begun, written - made, beyond, path.stat().st_size, memory_now())

    def _add_all(self, recorder: EpochRecorder) -> None:
        for ids in torch.randperm(self.samples).split(BATCH):
            recorder.add(ids, self.logits[ids], self.labels[ids])


def main() -> None:
    quick = is_quick(__doc__)
    samples, epochs = (50_000, 4) if quick else (made_up.IMAGENET, 10)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        training = Training(samples, Path(folder))
        ran = [training.run(epoch) for epoch in range(epochs)]
    report(samples, ran)
    # The first epochs warm up allocators; what is held after them must stay.
    growth = (ran[-1].held_after - ran[len(ran) // 2].held_after) / MEGABYTE
    targets = [
        Target("seconds per epoch file (median)", median(epoch.seconds for epoch in ran), 0.2),
        Target("MB beyond the arrays (worst epoch)", max(epoch.beyond_arrays for epoch in ran) / MEGABYTE, 200),
        Target(f"MB more held after epoch {epochs - 1} than after epoch {len(ran) // 2}", growth, 20),
    ]
    end(targets, quick)


def report(samples: int, ran: list[Epoch]) -> None:
    show(
        f"Recording {samples:,} samples of {CLASSES} classes in shuffled batches of {BATCH}",
        ["epoch", "add s", "table s", "write s", "file s", "MB beyond arrays", "file MB", "MB held after"],
        (
            [
                str(number),
                epoch.add_seconds,
                epoch.table_seconds,
                epoch.write_seconds,
                epoch.seconds,
                epoch.beyond_arrays // MEGABYTE,
                epoch.file_size / MEGABYTE,
                epoch.held_after // MEGABYTE,
            ]
            for number, epoch in enumerate(ran)
        ),
    )


if __name__ == "__main__":
    main()
