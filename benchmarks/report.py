"""How long does the report of a run with 10,000 samples take, and how large is its page?

The clock runs over `actionflow.report(run)` and its `html()`: opening the run, every question, k-means of the loss
curves, reading and shrinking the pictures, drawing, writing the page. Once the samples are small colour pictures as
CIFAR-10 has them, once texts. Beside them stands what writing everything into the run takes on top.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from measuring import MEGABYTE, Target, end, is_quick, seconds, show
from PIL import Image

from actionflow.store import layout, schema
from actionflow.store.datasets import dataset_run, samples_table
from actionflow.store.writing import RunWriter

ROUNDS = 3
CLASSES, SIDE = 10, 32
WORDS = ("the", "movie", "was", "not", "so", "good", "but", "we", "laughed", "and", "never", "asked", "why")


def main() -> None:
    quick = is_quick(__doc__)
    samples, epochs = (300, 3) if quick else (10_000, 20)
    kinds: dict[str, Callable[[int], pa.Array]] = {"image": pictures, "text": texts}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/mlflow.db"
        os.environ["ACTIONFLOW_HOME"] = f"{folder}/home"
        rows = [[kind, *measured(Path(folder), kind, make(samples), epochs)] for kind, make in kinds.items()]
    show(
        f"the report of {samples:,} samples x {epochs} epochs",
        ["samples", "page, s", "writing it, s", "page, MB"],
        rows,
    )
    targets = [Target(f"page of {kind}s, s", took, 5) for kind, took, _, _ in rows]
    end([*targets, *(Target(f"page of {kind}s, MB", size, 6) for kind, _, _, size in rows)], quick)


def measured(folder: Path, kind: str, column: pa.Array, epochs: int) -> tuple[float, float, float]:
    """Seconds to the page, seconds to write everything into the run, and megabytes of the page, warm."""
    import actionflow

    run_id = record(folder, kind, column, epochs)
    report = actionflow.report(run_id)
    size = len(report.html().encode()) / MEGABYTE
    page = median(seconds(lambda: actionflow.report(run_id).html()) for _ in range(ROUNDS))
    return page, seconds(report.log), size


def record(folder: Path, kind: str, column: pa.Array, epochs: int) -> str:
    """A training whose samples have these pictures or texts."""
    from mlflow import MlflowClient

    client = MlflowClient()
    experiment = client.create_experiment(kind, artifact_location=(folder / kind).as_uri())
    ids = pa.array(np.arange(len(column)))
    labels = np.arange(len(column)) % CLASSES
    names = pa.array([f"class {label}" for label in labels])
    columns = {"sample_id": ids, "label": pa.array(labels), "label_name": names, kind: column}
    parts = {"test": samples_table(kind, "d1", "test", columns, {})}
    tags = {
        layout.TAG_KIND: "training",
        layout.TAG_DIGEST: "d1",
        layout.TAG_DATASET_RUN: dataset_run(client, experiment, kind, "d1", lambda: parts),
    }
    run_id: str = client.create_run(experiment, tags=tags).info.run_id
    writer = RunWriter(run_id, client)
    difficulty = np.random.default_rng(0).gamma(0.4, 1.0, len(column))
    for epoch in range(epochs):
        writer.log_epoch([epoch_table(epoch, difficulty, labels)])
    writer.sender.close()
    client.set_terminated(run_id)
    return run_id


def epoch_table(epoch: int, difficulty: Any, labels: Any) -> pa.Table:
    draw = np.random.default_rng(epoch)
    rows = len(labels)
    loss = (difficulty * draw.gamma(2.0, 0.5, rows) / (1 + epoch / 5) + 1e-5).astype(np.float32)
    confidence = np.exp(-loss)
    correct = confidence > 0.4
    columns: dict[str, Any] = {
        "split": schema.constant("val", rows),
        "epoch": np.full(rows, epoch, np.int32),
        "sample_id": np.arange(rows),
        "label": labels,
        "loss": loss,
        "prediction": np.where(correct, labels, draw.integers(0, CLASSES, rows)),
        "correct": correct,
        "confidence": confidence,
        "entropy": (confidence * loss).astype(np.float32),
    }
    return pa.table(columns)


def pictures(count: int) -> pa.Array:
    """Soft forms with a little noise: about as hard to compress as photographs of that size."""
    draw = np.random.default_rng(1)
    coarse = draw.integers(0, 256, (count, 6, 6, 3), dtype=np.uint8)
    return pa.array([_png(form, draw) for form in coarse], pa.binary())


def _png(form: Any, draw: np.random.Generator) -> bytes:
    smooth = np.asarray(Image.fromarray(form).resize((SIDE, SIDE), Image.Resampling.BICUBIC), np.int16)
    noisy = np.clip(smooth + draw.integers(-12, 13, smooth.shape), 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(noisy).save(file, "PNG")
    return file.getvalue()


def texts(count: int) -> pa.Array:
    """Texts of 10 to 120 words."""
    draw = np.random.default_rng(2)
    return pa.array([" ".join(draw.choice(WORDS, draw.integers(10, 120))) for _ in range(count)])


if __name__ == "__main__":
    main()
