"""Data for the benchmarks, made up so that nothing needs to be downloaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from actionflow.store import layout, parquet, schema
from actionflow.store.writing import conform
from actionflow.training.data import Samples

# As many as ImageNet's training set, trained for as long as it usually is.
IMAGENET = 1_281_167
IMAGENET_EPOCHS = 90
RUN_ID = "0123456789abcdef0123456789abcdef"


def images(count: int, side: int = 28, classes: int = 10, first_id: int = 0) -> Samples:
    """Pictures of noise with a bright row that tells the class: as fast to train on as digits, and learnable."""
    draw = np.random.default_rng([count, first_id])
    labels = draw.integers(0, classes, count)
    pixels = draw.integers(0, 100, (count, 1, side, side), dtype=np.uint8)
    pixels[np.arange(count), 0, 2 * labels + 2] += 100
    ids = np.arange(first_id, first_id + count)
    return Samples(ids, pixels, labels, [str(n) for n in ids], {})


def dynamics(epoch: int, samples: int) -> pa.Table:
    """An epoch as a run stores it, with signals of the right kind, range and disorder."""
    draw = np.random.default_rng(epoch)
    noise = draw.random((3, samples), dtype=np.float32)
    loss = draw.exponential(2 / (1 + epoch / 10), samples).astype(np.float32) + np.float32(1e-4)
    confidence = np.exp(-loss)
    label = (np.arange(samples) * 7919 % 1000).astype(np.int32)
    correct = confidence > noise[0]
    columns = {
        "label": label,
        "loss": loss,
        "prediction": np.where(correct, label, draw.integers(0, 1000, samples, dtype=np.int32)),
        "correct": correct,
        "confidence": confidence,
        "entropy": confidence * loss + noise[1],
        "margin": np.log(confidence / (1 - confidence)) + noise[2],
        "el2n": (1 - confidence) * (1 + noise[1] / 3),
        "forgotten": ~correct & (noise[2] < 0.3),
    }
    names = {"split": schema.constant("train", samples), "epoch": np.full(samples, epoch, np.int32)}
    table = pa.table({**names, "sample_id": np.arange(samples), **columns})
    return schema.stamp(conform(table, RUN_ID), "dynamics")


def write_training(folder: Path, epochs: int, samples: int) -> list[Path]:
    """The files of a whole training."""
    paths = [folder / layout.epoch_file(epoch) for epoch in range(epochs)]
    for epoch, path in enumerate(paths):
        parquet.write(dynamics(epoch, samples), path)
    return paths
