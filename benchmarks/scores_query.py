"""How long does queries/scores.sql take at 1,281,167 samples x 90 epochs, and how much memory?

The measure is what pyarrow needs merely to decode the columns that the query reads. polars and pandas make the same
scores beside it. Everything runs in a process of its own; decoding and the query take turns, so that a machine that is
busy for a while disturbs both.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import made_up
import pyarrow.parquet as pq
from measuring import GIGABYTE, Target, end, in_own_process, is_quick, peak_memory, seconds, show

from actionflow.questions.scoring import score
from actionflow.store import schema

ROUNDS = 3
EL2N_EPOCHS = 10
# pandas holds all rows at once and does not fit otherwise: it gets a ninth of the epochs.
PANDAS_EPOCHS = 10


@dataclass(frozen=True)
class Run:
    """What one engine needed. `total_action` tells whether two engines added up the same."""

    seconds: float
    peak: int
    total_action: float


def measured(engine: Callable[[list[Path]], float], paths: list[Path]) -> Run:
    totals: list[float] = []
    took = seconds(lambda: totals.append(engine(paths)))
    return Run(took, peak_memory(), totals[0])


def decode(paths: list[Path]) -> float:
    for path in paths:
        pq.read_table(path, columns=schema.DYNAMICS.names)
    return 0.0


def scores_sql(paths: list[Path]) -> float:
    scores = schema.filled(score([paths], schema.DYNAMICS, el2n_epochs=EL2N_EPOCHS), schema.SCORES)
    return float(scores["action"].to_numpy().sum())


def with_polars(paths: list[Path]) -> float:
    import polars as pl

    right = pl.col("correct")
    scores = (
        pl.scan_parquet(paths)
        .group_by("run_id", "split", "sample_id")
        .agg(
            pl.col("label").max(),
            pl.len().alias("epochs_seen"),
            # float64 as in SQL: polars would add up float32 in float32.
            pl.col("loss").cast(pl.Float64).sum().alias("action"),
            pl.col("loss").cast(pl.Float64).var(ddof=0).alias("action_variance"),
            # Not last(): polars then holds every row, 23 GB of them.
            pl.col("prediction", "entropy").max_by("epoch"),
            pl.col("loss").max_by("epoch").alias("last_loss"),
            pl.col("confidence").cast(pl.Float64).mean(),
            pl.col("confidence").cast(pl.Float64).std(ddof=0).alias("variability"),
            right.mean().alias("correctness"),
            pl.col("margin").cast(pl.Float64).mean().alias("aum"),
            pl.col("forgotten").sum().alias("forgetting"),
            pl.when(pl.col("epoch") < EL2N_EPOCHS).then(pl.col("el2n").cast(pl.Float64)).mean().alias("el2n"),
        )
        .sort("run_id", "split", "sample_id")
        .collect(engine="streaming")
    )
    return float(scores["action"].sum())


def with_pandas(paths: list[Path]) -> float:
    import pandas as pd

    rows = pd.concat([pd.read_parquet(path) for path in paths], ignore_index=True)
    rows["loss"], rows["confidence"] = rows["loss"].astype("float64"), rows["confidence"].astype("float64")
    rows["el2n"] = rows["el2n"].where(rows["epoch"] < EL2N_EPOCHS).astype("float64")
    groups = rows.groupby(["run_id", "split", "sample_id"], observed=True)
    scores = groups.agg(
        label=("label", "max"),
        prediction=("prediction", "last"),
        epochs_seen=("loss", "size"),
        action=("loss", "sum"),
        last_loss=("loss", "last"),
        entropy=("entropy", "last"),
        confidence=("confidence", "mean"),
        correctness=("correct", "mean"),
        aum=("margin", "mean"),
        forgetting=("forgotten", "sum"),
        el2n=("el2n", "mean"),
    )
    scores["action_variance"] = groups["loss"].var(ddof=0)
    scores["variability"] = groups["confidence"].std(ddof=0)
    return float(scores["action"].sum())


def main() -> None:
    quick = is_quick(__doc__)
    samples, epochs = (20_000, 12) if quick else (made_up.IMAGENET, made_up.IMAGENET_EPOCHS)
    with tempfile.TemporaryDirectory() as folder:
        paths = made_up.write_training(Path(folder), epochs, samples)
        size = sum(path.stat().st_size for path in paths)
        decoding, asking = take_turns(paths)
        polars_run = in_own_process(measured, with_polars, paths)
        pandas_run = in_own_process(measured, with_pandas, paths[:PANDAS_EPOCHS])
    decode_seconds, ask_seconds = median(run.seconds for run in decoding), median(run.seconds for run in asking)
    peak = max(run.peak for run in asking)
    scaled = pandas_run.seconds * epochs / PANDAS_EPOCHS
    show(
        f"Scores of {samples:,} samples x {epochs} epochs ({samples * epochs:,} rows, {size / GIGABYTE:.1f} GB)",
        ["", "seconds", "x decoding", "peak GB"],
        [
            ["pyarrow decodes the columns", decode_seconds, 1.0, max(run.peak for run in decoding) / GIGABYTE],
            ["scores.sql on DuckDB", ask_seconds, ask_seconds / decode_seconds, peak / GIGABYTE],
            ["polars, streaming", *versus(polars_run.seconds, decode_seconds), polars_run.peak / GIGABYTE],
            [f"pandas, {PANDAS_EPOCHS} epochs scaled", *versus(scaled, decode_seconds), pandas_run.peak / GIGABYTE],
        ],
    )
    print(
        f"pandas was given {PANDAS_EPOCHS} of {epochs} epochs, its time scaled up; its memory is that of those epochs."
    )
    print(f"every round: decoding {listed(decoding)} s, scores.sql {listed(asking)} s")
    difference = abs(polars_run.total_action / asking[0].total_action - 1)
    print(f"DuckDB and polars agree on the sum of all action within {difference:.0e}\n")
    targets = [
        Target("scores.sql, times decoding", ask_seconds / decode_seconds, 4.5),
        Target("scores.sql, GB at its peak", peak / GIGABYTE, 8),
    ]
    end(targets, quick)


def take_turns(paths: list[Path]) -> tuple[list[Run], list[Run]]:
    """Decode and ask by turns, ROUNDS times."""
    turns = [
        (in_own_process(measured, decode, paths), in_own_process(measured, scores_sql, paths)) for _ in range(ROUNDS)
    ]
    decoding, asking = zip(*turns, strict=True)
    return list(decoding), list(asking)


def versus(took: float, decode_seconds: float) -> tuple[float, float]:
    return took, took / decode_seconds


def listed(runs: list[Run]) -> str:
    return ", ".join(f"{run.seconds:.2f}" for run in runs)


if __name__ == "__main__":
    main()
