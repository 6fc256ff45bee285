"""Every query file says the same on Spark as on DuckDB, untouched but for `$x`, which Spark spells `:x`."""

from __future__ import annotations

import math
import os
import re
import shutil
from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest
from test_queries import EMPTY, ask, table, trainings

from actionflow.questions import files
from actionflow.store import parquet, schema

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("Spark needs Java, and there is none", allow_module_level=True)

RUNS, SAMPLES, EPOCHS, CLASSES = ("a", "b", "c"), 40, 3, 4

# Spark has both distances by other names; the header of neighbours.sql says so.
DISTANCES = {
    "list_distance": "vector_l2_distance(a, b)",
    "list_cosine_distance": "1 - vector_cosine_similarity(a, b)",
}

ASKED = [
    ("action_scores", {}),
    ("action_scores", {"burn_in": 2}),
    ("hardest", {}),
    ("hardest", {"k": 2, "per_class": 1}),
    ("easiest", {"k": 2}),
    ("loss_curves", {}),
    ("loss_curves", {"split": "val", "by_class": 1}),
    ("class_difficulty", {}),
    ("confusion", {}),
    *(("accuracy_by_score", {"bins": 3, "score": score}) for score in ("action", "last_loss", "forgetting", "aum")),
    ("score_vs_score", {}),
    ("score_vs_score", {"score_x": "action_variance", "score_y": "forgetting"}),
    ("cartography", {}),
    ("aum", {}),
    ("forgetting", {}),
    ("el2n", {"el2n_epochs": 2}),
    ("run_correlation", {"run_a": "a", "run_b": "b"}),
    *(
        ("quantile_correlation", {"run_a": "a", "run_b": "c", "quantiles": 5, "least": 4, "side": side})
        for side in ("above", "below", "within")
    ),
    ("agreement_matrix", {}),
    ("disagreement", {"run_a": "a", "run_b": "c", "k": 4}),
    ("stability", {"percent": 20}),
    ("label_suspects", {}),
    ("label_suspects", {"by": "confidence"}),
    ("neighbours", {"hardest": 3, "k": 2}),
    ("label_suspects", {"by": "action", "no_class": 2}),
    ("label_pairs", {"split": "val"}),
    ("failure_modes", {"depth": 3}),
    ("failure_controls", {}),
    ("neighbours", {"sample_id": 3, "k": 5}),
    ("neighbours", {"sample_id": 3, "k": 5, "metric": "cosine"}),
    ("curriculum", {"run_id": "a", "split": "val"}),
    (
        "curriculum",
        {"run_id": "a", "split": "val", "score": "aum", "order": "hard-first", "fraction": 0.5, "stages": 3},
    ),
    ("curriculum", {"run_id": "b", "split": "val", "order": "random", "seed": 2**40 + 7, "drop_hardest": 0.1}),
    ("curriculum", {"run_id": "b", "split": "val", "order": "random", "balanced": 1, "fraction": 0.7, "stages": 2}),
    ("scores", {}),
    ("runs", {}),
    ("score_vs_score", {"normalised": 1}),
    ("sample_curves", {"run_id": "a"}),
    ("descriptions", {"run_id": "b"}),
    ("extremes", {"k": 3}),
    ("class_size_vs_action", {}),
    ("action_entropy_correlation", {"certain": 0.5}),
    ("action_entropy_correlation", {"score": "action_variance"}),
    ("hard_words", {"least": 2}),
    ("scenarios", {}),
]


def test_every_query_is_asked():
    asked = [case.values[0] if hasattr(case, "values") else case[0] for case in ASKED]
    assert set(asked) == set(files.names())


@pytest.fixture(scope="module")
def views():
    """Three runs; among the losses of run a are one that is not a number and one that is infinite."""
    draw = np.random.default_rng(8)
    labels, base = draw.integers(0, CLASSES, SAMPLES), draw.gamma(1.0, 1.0, SAMPLES)
    rows = [row for run_id in RUNS for row in _epochs(run_id, draw, labels, base)]
    dynamics = table(schema.DYNAMICS, rows, split="val")
    whole = {
        "dynamics": dynamics,
        "scores": pa.Table.from_pylist(ask("scores", dynamics=dynamics), schema=schema.SCORES),
        "runs": trainings(
            *(
                {"run_id": r, "name": f"run {r}", "model": m}
                for r, m in zip(RUNS, ("cnn", "cnn", "resnet"), strict=True)
            )
        ),
        "samples": table(
            schema.SAMPLES,
            [
                {"sample_id": n, "label": int(c), "label_name": f"class {c}", "text": f"text {n}", "part": part}
                for n, c in [*enumerate(labels), *((SAMPLES + n, n % CLASSES) for n in range(7))]
                for part in ("test" if n < SAMPLES else "train",)
            ],
            dataset="digits",
            digest="d1",
        ),
        "features": pa.Table.from_pylist(
            [
                {"run_id": "a", "split": "val", "sample_id": n, "feature": draw.normal(size=3).tolist()}
                for n in range(SAMPLES)
            ],
            schema=schema.features_schema(3),
        ),
        "outputs": table(
            schema.OUTPUTS,
            [
                {
                    "sample_id": n,
                    "predicted_text": f"said {n}" if n % 2 else None,
                    "tokens": [f"word{draw.integers(6)}" for _ in range(4)],
                    "token_losses": [math.nan, *draw.gamma(1.0, 1.0, 3)],
                }
                for n in range(SAMPLES)
            ],
            run_id="a",
            split="val",
        ),
        "failure_modes": table(
            schema.FAILURE_MODES,
            [_leaf(draw, label, leaf, depth) for depth in (1, 3) for label in range(CLASSES) for leaf in (1, 2, None)],
            run_id="a",
            split="val",
            target="error",
            grouping="label",
        ),
        "audits": table(
            schema.AUDITS,
            [
                {
                    "suspect_rank": n + 1,
                    "sample_id": n,
                    "label": int(c),
                    "suggested": int((c + 1 + n % 2) % CLASSES) if n % 5 else None,
                    "score": draw.normal(),
                    "chance_wrong": draw.random(),
                    "suspect": bool(n % 3),
                }
                for n, c in enumerate(labels)
            ],
            run_id="a",
            split="val",
            score_name="aum",
        ),
        "scenarios": table(
            schema.scenarios_schema(2), [_scenario(draw, number) for number in range(1, 5)], run_id="a", distill_run="d"
        ),
        "scenario_labels": table(
            schema.SCENARIO_LABELS, [_answer(number, who) for number in range(1, 4) for who in ("ann", "bo", "cy")]
        ),
    }
    assert set(whole) == set(EMPTY)
    return whole


def _leaf(draw, label, leaf, depth):
    """A leaf of a tree; a class without one is not explained."""
    if leaf is None:
        return {"label": CLASSES + label, "depth": depth, "samples": 5, "failures": 0, "reason": "no failure"}
    names = ("er", "ec", "iv", "ber", "aler", "gain", "fitted_er", "fitted_ec", "fitted_gain", "chance_gain", "beaten")
    known = {"label": label, "leaf": leaf, "depth": depth, "mode_rank": 2 * label + leaf, "samples": 9, "failures": 3}
    known |= {"rule": f"feature {leaf} > 0.5", "found": label % 2 == 0, "holds": leaf == 1, "chance_valid": 0.2}
    return known | {name: float(draw.random()) for name in names}


def _scenario(draw, number):
    counted = [{"label": label, "samples": 3} for label in range(2)]
    drawn = {"sample_images": [b"png"], "sample_predictions": [0], "sample_confidences": [0.5]}
    fitted = {"mean": draw.normal(size=2).tolist(), "covariance": draw.normal(size=4).tolist()}
    known = {"identify_run": "i", "scenario": number, "weight": draw.random(), "size": 6, "counterexamples": [1, 2]}
    labels = {"source_label": number % CLASSES, "source_share": draw.random(), "prediction": (number + 1) % CLASSES}
    return known | labels | drawn | fitted | {"source_labels": counted, "predictions": counted}


def _answer(number, who):
    """One of the whole scenario; of the third, of a sample alone."""
    answer = "none" if (number, who) == (2, "ann") else "class"
    label = None if answer == "none" else number % CLASSES if who == "cy" else 0
    said = {"experiment_id": "1", "distill_run": "d", "scenario": number, "sample": 4 if number == 3 else None}
    return said | {"answer": answer, "label": label, "labelled_by": who, "labelled_at": datetime(2026, 1, 1)}


def _epochs(run_id, draw, labels, base):
    was_right = np.zeros(SAMPLES, bool)
    for epoch in range(EPOCHS):
        loss = np.round(base * np.exp(draw.normal(0, 0.4, SAMPLES)), 1)
        right = draw.random(SAMPLES) < 0.6
        if run_id == "a" and epoch == 1:
            loss[5], loss[9] = math.nan, math.inf
        for n in range(SAMPLES):
            yield {
                "run_id": run_id,
                "epoch": epoch,
                "sample_id": n,
                "label": int(labels[n]),
                "loss": loss[n],
                "prediction": int(labels[n] if right[n] else (labels[n] + 1) % CLASSES),
                "correct": bool(right[n]),
                "confidence": draw.random(),
                "entropy": draw.random(),
                "margin": draw.normal(),
                "el2n": draw.random(),
                "forgotten": bool(was_right[n] and not right[n]),
            }
        was_right = right


@pytest.fixture(scope="module")
def spark(views, tmp_path_factory):
    """One Spark on one core, over files as the store writes them."""
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.log.level": "OFF",
        # Forty rows are read faster than code for them is compiled.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
    }
    builder = SparkSession.builder.master("local[1]").appName("actionflow")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    for name, content in views.items():
        parquet.write(content, folder / f"{name}.parquet")
        session.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
    for name, body in DISTANCES.items():
        session.sql(f"create temporary function {name}(a array<float>, b array<float>) returns double return {body}")
    yield session
    session.stop()


def on_spark(spark, name, parameters):
    query = files.load(name)
    sql = re.sub(r"\$(\w+)", r":\1", query.sql)
    frame = spark.sql(sql, args=query.bind(parameters))
    return frame.columns, [row.asDict() for row in frame.collect()]


def comparable(value, name):
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, float):
        near = 1e-6 if name.startswith("action_p") or name == "distance" else 1e-9
        return pytest.approx(value, rel=near, abs=near)
    if isinstance(value, list):
        return dict(value)
    return value


def in_order(name, rows):
    """Rows that come in no order of their own are put into one."""
    if name == "curriculum":
        return sorted(rows, key=lambda row: row["position"])
    if name in ("score_vs_score", "cartography", "scores", "sample_curves", "descriptions"):
        places = [place for place in ("run_id", "split", "sample_id", "epoch") if place in rows[0]]
        return sorted(rows, key=lambda row: [row[place] for place in places])
    return rows


@pytest.mark.parametrize(
    ("name", "parameters"), ASKED, ids=lambda x: x if isinstance(x, str) else "-".join(map(str, x.values()))
)
def test_spark_says_what_duckdb_says(spark, views, name, parameters):
    expected = in_order(name, ask(name, parameters, **views))
    columns, found = on_spark(spark, name, parameters)
    found = in_order(name, found)
    assert expected, "an empty answer compares nothing"
    assert columns == list(expected[0])
    assert len(found) == len(expected)
    for row, other in zip(found, expected, strict=True):
        plain = {key: str(x) if isinstance(x, float) and not math.isfinite(x) else x for key, x in row.items()}
        assert plain == {key: comparable(x, key) for key, x in other.items()}


def test_spark_refuses_a_word_that_means_nothing_too(spark):
    with pytest.raises(Exception, match="there is no score sharpness"):
        on_spark(spark, "accuracy_by_score", {"score": "sharpness"})
