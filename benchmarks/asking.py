"""How long do the questions in queries/ take on a run of 1,281,167 samples, once the first has been asked?

Every file that reads the scores of a single run is asked over the Parquet file that a run holds, as `actionflow query`
does. quantile_correlation of two runs stands beside the loop that one would write with pandas and scipy. neighbours is
asked of as many samples as a validation set has, and of the features of a small and of a large network.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import made_up
import numpy as np
import pandas as pd
import pyarrow as pa
from measuring import Target, end, is_quick, seconds, show
from scipy.stats import pearsonr

from actionflow.questions import files
from actionflow.questions.engine import Engine
from actionflow.store import parquet, schema

ROUNDS = 5
# Samples and the width of their features, and how long the neighbours of the five hardest may take in seconds.
FEATURES = {(10_000, 128): 1.0, (60_000, 2_048): 15.0}
CLASSES = 10
QUANTILES = 20
# Single-run files over `scores`, with what they need to be told.
QUESTIONS: dict[str, dict[str, Any]] = {
    "hardest": {},
    "easiest": {},
    "class_difficulty": {},
    "confusion": {},
    "accuracy_by_score": {},
    "score_vs_score": {},
    "cartography": {},
    "aum": {},
    "forgetting": {},
    "label_suspects": {},
    "curriculum": {"run_id": "run-0"},
    "extremes": {},
    "class_size_vs_action": {},
}


def main() -> None:
    quick = is_quick(__doc__)
    samples = 20_000 if quick else made_up.IMAGENET
    with tempfile.TemporaryDirectory() as folder:
        one, two = (write_scores(Path(folder), number, samples) for number in (0, 1))
        alone = {name: warm(opened([one]), name, given) for name, given in QUESTIONS.items()}
        both = opened([one, two])
        curve = warm(both, "quantile_correlation", {"run_a": "run-0", "run_b": "run-1", "quantiles": QUANTILES})
        loop = median(seconds(lambda: with_pandas(one, two)) for _ in range(3))
        near = {size: neighbours(Path(folder), *size) for size in list(FEATURES)[: 1 if quick else None]}
    show(
        f"Questions about a run of {samples:,} samples, warm",
        ["", "ms"],
        [[name, 1000 * took] for name, took in sorted(alone.items(), key=lambda pair: pair[1])],
    )
    show(
        f"Correlation of two runs above {QUANTILES} quantiles",
        ["", "seconds"],
        [["quantile_correlation.sql", curve], ["pandas and scipy, a loop", loop]],
    )
    show(
        "The eight nearest of the five hardest",
        ["samples", "features", "seconds"],
        [[count, width, took] for (count, width), took in near.items()],
    )
    targets = [Target(f"{name}, ms", 1000 * took, 150) for name, took in alone.items()]
    targets.append(Target("quantile_correlation, times faster than the loop", loop / curve, 4, at_least=True))
    targets += [Target(f"neighbours of {size}, seconds", took, FEATURES[size]) for size, took in near.items()]
    end(targets, quick)


def neighbours(folder: Path, samples: int, width: int) -> float:
    engine = opened([write_scores(folder, 0, samples)])
    values = np.random.default_rng(0).standard_normal(samples * width, np.float32)
    columns = {"run_id": schema.constant("run-0", samples), "split": schema.constant("val", samples)}
    columns |= {"sample_id": pa.array(range(samples)), "feature": pa.FixedSizeListArray.from_arrays(values, width)}
    parquet.write(pa.table(columns).cast(schema.features_schema(width)), folder / "features.parquet")
    engine.view_files("features", [folder / "features.parquet"], schema.features_schema(width))
    return warm(engine, "neighbours", {"k": 8})


def write_scores(folder: Path, number: int, samples: int) -> Path:
    """Scores of a run whose samples are about as hard as in the other, with a tenth predicted wrong."""
    shared, draw = np.random.default_rng(7), np.random.default_rng(number)
    hardness = shared.lognormal(0, 1, samples)
    label = shared.integers(0, CLASSES, samples)
    wrong = draw.random(samples) < 0.1
    prediction = np.where(wrong, draw.integers(0, CLASSES, samples), label)
    values = {
        "sample_id": np.arange(samples),
        "label": label,
        "prediction": prediction,
        "correct": prediction == label,
        "epochs_seen": np.full(samples, 90),
        "action": hardness * draw.lognormal(0, 0.5, samples),
        "forgetting": draw.integers(0, 9, samples),
        "ever_learnt": np.ones(samples, bool),
    }
    for field in schema.SCORES:
        if field.name not in (*values, "run_id", "split"):
            values[field.name] = draw.random(samples)
    names = {"run_id": schema.constant(f"run-{number}", samples), "split": schema.constant("val", samples)}
    columns = {**names, **values}
    table = pa.table({field.name: pa.array(columns[field.name]).cast(field.type) for field in schema.SCORES})
    path = folder / f"scores-{number}.parquet"
    parquet.write(table, path)
    return path


def opened(paths: list[Path]) -> Engine:
    engine = Engine()
    engine.view_files("scores", paths, schema.SCORES)
    for name, empty in (("runs", schema.RUNS), ("samples", schema.SAMPLES), ("outputs", schema.OUTPUTS)):
        engine.view_table(name, empty.empty_table())
    return engine


def warm(engine: Engine, name: str, given: dict[str, Any]) -> float:
    question = files.load(name)
    if name == "curriculum":
        given = {**given, "split": "val"}
    engine.ask_file(question, **given)
    return median(seconds(lambda: engine.ask_file(question, **given)) for _ in range(ROUNDS))


def with_pandas(one: Path, two: Path) -> list[float]:
    """The correlation on the samples at or above each quantile of the first run's action."""
    a, b = (pd.read_parquet(path, columns=["sample_id", "action"]) for path in (one, two))
    pairs = a.merge(b, on="sample_id", suffixes=("_a", "_b"))
    found = []
    for quantile in np.arange(QUANTILES) / QUANTILES:
        above = pairs[pairs["action_a"] >= pairs["action_a"].quantile(quantile)]
        found.append(float(pearsonr(above["action_a"], above["action_b"]).statistic))
    return found


if __name__ == "__main__":
    main()
