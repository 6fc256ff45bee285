"""How long does it take to group 100,000 loss curves of 20 epochs by k-means?

The clock runs over `actionflow.curves`: opening the run, reading its Parquet files into a matrix, k-means from ten
starts, and the closest samples. The curves are made of three levels with noise, and once of noise alone, which has no
clusters to be found and takes k-means longest. A plain scikit-learn call on the matrix stands beside them.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from measuring import Target, end, is_quick, seconds, show
from numpy.typing import NDArray

from actionflow.analysis.curves import STARTS
from actionflow.store import layout, schema
from actionflow.store.writing import RunWriter

ROUNDS = 3
LEVELS, SHARES = (0.05, 0.8, 3.0), (0.8, 0.12, 0.08)


def main() -> None:
    quick = is_quick(__doc__)
    samples, epochs = (2_000, 5) if quick else (100_000, 20)
    matrices = {"three levels": leveled(samples, epochs), "noise": noise(samples, epochs)}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/mlflow.db"
        os.environ["ACTIONFLOW_HOME"] = f"{folder}/home"
        took = {kind: measured(Path(folder), kind, losses) for kind, losses in matrices.items()}
    plain = {
        kind: median(seconds(lambda each=each: scikit_learn(each)) for _ in range(ROUNDS))
        for kind, each in matrices.items()
    }
    show(
        f"k-means of {samples:,} curves x {epochs} epochs, k = 3",
        ["", "actionflow.curves, s", "scikit-learn alone, s"],
        [[kind, took[kind], plain[kind]] for kind in matrices],
    )
    end([Target(f"curves of {kind}, s", figure, 5) for kind, figure in took.items()], quick)


def leveled(samples: int, epochs: int) -> NDArray[np.float32]:
    draw = np.random.default_rng(0)
    level = draw.choice(LEVELS, samples, p=SHARES)[:, None]
    wave = np.exp(draw.normal(0, 0.5, (samples, epochs)))
    return (level * wave * np.linspace(1, 0.6, epochs)).astype(np.float32)


def noise(samples: int, epochs: int) -> NDArray[np.float32]:
    return np.random.default_rng(1).exponential(1, (samples, epochs)).astype(np.float32)


def measured(folder: Path, name: str, losses: NDArray[np.float32]) -> float:
    """Seconds of the whole question, in a process that has started and imported everything."""
    import actionflow

    run_id = record(folder, name, losses)
    actionflow.curves(run_id)
    return median(seconds(lambda: actionflow.curves(run_id)) for _ in range(ROUNDS))


def record(folder: Path, name: str, losses: NDArray[np.float32]) -> str:
    """A run whose samples have these losses (n, epochs)."""
    from mlflow import MlflowClient

    client = MlflowClient()
    experiment = client.create_experiment(name, artifact_location=(folder / name).as_uri())
    run_id: str = client.create_run(experiment, tags={layout.TAG_KIND: "training"}).info.run_id
    writer = RunWriter(run_id, client)
    for epoch, column in enumerate(losses.T):
        writer.log_epoch([epoch_table(epoch, column)])
    writer.sender.close()
    return run_id


def epoch_table(epoch: int, losses: NDArray[np.float32]) -> pa.Table:
    rows = len(losses)
    columns: dict[str, Any] = {
        "split": schema.constant("val", rows),
        "epoch": np.full(rows, epoch, np.int32),
        "sample_id": np.arange(rows),
        "label": np.arange(rows) % 10,
        "loss": np.ascontiguousarray(losses),
        "prediction": np.arange(rows) % 9,
    }
    return pa.table(columns)


def scikit_learn(losses: NDArray[np.float32]) -> None:
    from sklearn.cluster import KMeans

    KMeans(3, n_init=STARTS, random_state=0).fit(losses.astype(np.float64))


if __name__ == "__main__":
    main()
