"""queries/scores.sql against a plain numpy oracle, and what must not change its answer."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actionflow.capture import EpochRecorder
from actionflow.capture.forgetting import LastSeen
from actionflow.questions import files
from actionflow.questions.engine import Engine
from actionflow.store import parquet, schema
from actionflow.store.writing import conform

LEARNED = [2.0, 0.5, 0.0]
STUBBORN = [2.0, 2.0, 2.0]
CLASSES = 4


def ask(*tables, **parameters):
    """The rows of scores.sql over tables of dynamics."""
    engine = Engine()
    engine.view_table("dynamics", pa.concat_tables(tables))
    rows = schema.filled(engine.ask_file(files.load("scores"), **parameters), schema.SCORES).to_pylist()
    engine.close()
    return rows


def dynamics(run_id="run-a", split="val", **columns):
    """A table of dynamics from the columns that matter; the others are null."""
    rows = len(columns["sample_id"])
    names = {"run_id": [run_id] * rows, "split": [split] * rows}
    arrays = [pa.array({**names, **columns}.get(f.name, [None] * rows), f.type) for f in schema.DYNAMICS]
    return pa.table(arrays, schema=schema.DYNAMICS)


def losses(run_id="run-a", split="val", **samples):
    """Dynamics of samples named s0, s1, … with their losses by epoch; None where a sample was not seen."""
    rows = [(int(name[1:]), n, x) for name, fate in samples.items() for n, x in enumerate(fate) if x is not None]
    ids, epochs, values = zip(*rows, strict=True)
    return dynamics(run_id, split, sample_id=ids, epoch=epochs, loss=values)


def fates(correct, forgotten):
    """Dynamics of one sample that was right and forgotten in these epochs."""
    epochs = range(len(correct))
    ones = [1.0 for _ in epochs]
    return dynamics(sample_id=[0 for _ in epochs], epoch=epochs, loss=ones, correct=correct, forgotten=forgotten)


# Small numbers


def test_action_is_the_sum_of_the_losses():
    cat, blur = ask(losses(s0=LEARNED, s1=STUBBORN))
    assert (cat["action"], blur["action"]) == (2.5, 6.0)
    assert (cat["epochs_seen"], cat["last_loss"], blur["action_mean"]) == (3, 0.0, 2.0)


def test_action_variance_is_of_the_population():
    assert ask(losses(s0=[1.0, 3.0]))[0]["action_variance"] == 1.0


def test_one_epoch_has_an_action_and_no_variance():
    (row,) = ask(losses(s0=[0.5]))
    assert (row["action"], row["action_mean"], row["action_variance"]) == (0.5, 0.5, 0.0)


def test_a_sample_that_missed_epochs_is_averaged_over_those_it_saw():
    (row,) = ask(losses(s0=[4.0, None, None, 2.0]))
    assert (row["epochs_seen"], row["action"], row["action_mean"], row["last_loss"]) == (2, 6.0, 3.0, 2.0)


def test_epochs_need_not_be_contiguous_nor_begin_at_zero():
    (row,) = ask(dynamics(sample_id=[0, 0], epoch=[90, 7], loss=[1.0, 5.0], entropy=[0.25, 0.75]))
    assert (row["action"], row["epochs_seen"], row["last_loss"], row["entropy"]) == (6.0, 2, 1.0, 0.25)


def test_the_last_prediction_judges_the_sample():
    table = dynamics(sample_id=[0] * 3, epoch=[2, 0, 1], loss=[1.0] * 3, label=[3] * 3, prediction=[3, 1, 2])
    (row,) = ask(table)
    assert (row["label"], row["prediction"], row["correct"]) == (3, 3, True)


def test_a_sample_learnt_and_kept_was_forgotten_no_time():
    (row,) = ask(fates([False, True, True], [False, False, False]))
    assert (row["forgetting"], row["ever_learnt"], row["correctness"]) == (0, True, pytest.approx(2 / 3))


def test_a_sample_forgotten_twice():
    (row,) = ask(fates([True, False, True, False], [False, True, False, True]))
    assert (row["forgetting"], row["ever_learnt"], row["correctness"]) == (2, True, 0.5)


def test_a_sample_never_learnt_has_no_forgetting_rather_than_a_large_number():
    (row,) = ask(fates([False, False], [False, False]))
    assert (row["forgetting"], row["ever_learnt"], row["correctness"]) == (None, False, 0.0)


def test_el2n_is_of_the_first_epochs_only():
    table = dynamics(sample_id=[0] * 3, epoch=[0, 1, 2], loss=[1.0] * 3, el2n=[0.5, 1.0, 99.0])
    assert ask(table, el2n_epochs=2)[0]["el2n"] == 0.75
    assert ask(table, el2n_epochs=1)[0]["el2n"] == 0.5


def test_a_sample_that_came_after_the_first_epochs_has_no_el2n():
    table = dynamics(sample_id=[0], epoch=[5], loss=[1.0], el2n=[0.5])
    assert ask(table, el2n_epochs=5)[0]["el2n"] is None


def test_a_task_without_predictions_has_action_and_nulls():
    (row,) = ask(losses(s0=LEARNED))
    lacking = {name for name, value in row.items() if value is None}
    assert lacking == {
        *("label", "prediction", "correct", "entropy", "confidence", "variability", "correctness", "aum"),
        *("forgetting", "ever_learnt", "el2n", "vog", "vog_early", "vog_late", "grand"),
    }


def test_runs_and_splits_are_kept_apart():
    tables = losses("run-b", "val", s0=[1.0]), losses("run-a", "val", s0=[2.0]), losses("run-a", "train", s0=[4.0])
    found = [(row["run_id"], row["split"], row["action"]) for row in ask(*tables)]
    assert found == [("run-a", "train", 4.0), ("run-a", "val", 2.0), ("run-b", "val", 1.0)]


def test_rows_are_sorted_by_sample():
    assert [row["sample_id"] for row in ask(losses(s10=[1.0], s2=[1.0], s33=[1.0]))] == [2, 10, 33]


# Numbers that are hard to sum


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_is_seen_and_not_averaged_away(bad):
    (broken, fine) = ask(losses(s0=[1.0, bad, 1.0], s1=[1.0, 1.0, 1.0]))
    assert not math.isfinite(broken["action"])
    assert not math.isfinite(broken["action_mean"])
    assert math.isnan(broken["action_variance"])
    assert fine["action"] == 3.0


def test_the_variance_of_nearly_equal_losses_keeps_its_digits():
    """Sums of squares would lose them all: the losses differ in their last bit."""
    values = np.full(90, 5.0, np.float32)
    values[::3] = np.nextafter(np.float32(5.0), np.float32(6.0))
    (row,) = ask(losses(s0=values.tolist()))
    assert row["action_variance"] == pytest.approx(values.astype(np.float64).var(), rel=1e-6)


def test_the_variance_of_equal_losses_is_zero_and_not_below():
    assert ask(losses(s0=[float(np.float32(0.1))] * 90))[0]["action_variance"] == 0.0


def test_tiny_losses_are_not_lost_beside_large_ones():
    (row,) = ask(losses(s0=[2.0**20, 2.0**-20]))
    assert row["action"] == 2.0**20 + 2.0**-20


# The oracle


@pytest.fixture(scope="module")
def training():
    """Five epochs of 60 samples; every sample misses an epoch now and then, epoch 3 never ran."""
    draw = np.random.default_rng(0)
    labels, seen, tables = draw.integers(0, CLASSES, 60), LastSeen.nothing(), []
    for epoch in (0, 1, 2, 4, 5):
        ids = draw.permutation(60)[: 60 if epoch == 0 else 50]
        recorder = EpochRecorder("val", epoch, seen)
        recorder.add(ids, draw.normal(0, 2, (len(ids), CLASSES)), labels[ids])
        table = recorder.table()
        seen = seen.after(table)
        tables.append(conform(table, "run-a"))
    return tables


def oracle(tables, sample, el2n_epochs):
    """The scores of one sample, in plain numpy."""
    rows = [row for table in tables for row in table.to_pylist() if row["sample_id"] == sample]
    column = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    right = column["correct"]
    return {
        "run_id": "run-a",
        "split": "val",
        "sample_id": sample,
        "label": rows[-1]["label"],
        "prediction": rows[-1]["prediction"],
        "correct": rows[-1]["correct"],
        "epochs_seen": len(rows),
        "action": column["loss"].sum(),
        "action_mean": column["loss"].mean(),
        "action_variance": column["loss"].var(),
        "last_loss": rows[-1]["loss"],
        "entropy": rows[-1]["entropy"],
        "confidence": column["confidence"].mean(),
        "variability": column["confidence"].std(),
        "correctness": right.mean(),
        "aum": column["margin"].mean(),
        "forgetting": int((right[:-1] & ~right[1:]).sum()) if right.any() else None,
        "ever_learnt": bool(right.any()),
        "el2n": column["el2n"][column["epoch"] < el2n_epochs].mean(),
    }


@pytest.mark.parametrize("el2n_epochs", [1, 3])
def test_every_score_equals_the_oracle(training, el2n_epochs):
    for row in ask(*training, el2n_epochs=el2n_epochs):
        expected = oracle(training, row["sample_id"], el2n_epochs)
        assert {name: row[name] for name in expected} == {
            name: pytest.approx(value, rel=1e-9, abs=1e-12) if isinstance(value, float) else value
            for name, value in expected.items()
        }


def test_the_oracle_saw_every_kind_of_sample(training):
    rows = ask(*training)
    assert {row["ever_learnt"] for row in rows} == {True, False}
    assert {0, 1} <= {row["forgetting"] for row in rows}
    assert len({row["epochs_seen"] for row in rows}) > 1


def test_the_order_of_rows_does_not_matter(training):
    table = pa.concat_tables(training)
    shuffled = table.take(np.random.default_rng(1).permutation(table.num_rows))
    for row, expected in zip(ask(shuffled), ask(table), strict=True):
        assert row == {n: pytest.approx(v, rel=1e-12) if isinstance(v, float) else v for n, v in expected.items()}


def test_files_are_scored_as_tables_are(training, tmp_path):
    paths = [tmp_path / f"epoch-{n:04d}.parquet" for n in range(len(training))]
    for table, path in zip(training, paths, strict=True):
        parquet.write(table, path)
    engine = Engine()
    engine.view_files("dynamics", paths, schema.DYNAMICS)
    rows = schema.filled(engine.ask_file(files.load("scores")), schema.SCORES).to_pylist()
    engine.close()
    for row, expected in zip(rows, ask(*training), strict=True):
        assert row == {n: pytest.approx(v, rel=1e-12) if isinstance(v, float) else v for n, v in expected.items()}


# Properties

LOSSES = st.floats(0, 100, width=32)


@settings(max_examples=25, deadline=None)
@given(fate=st.lists(LOSSES, min_size=2, max_size=12), data=st.data())
def test_action_is_additive_over_epochs(fate, data):
    """The action of a training is that of its first epochs plus that of the rest."""
    cut = data.draw(st.integers(1, len(fate) - 1))
    whole, first, rest = (ask(losses(s0=part))[0]["action"] for part in (fate, fate[:cut], fate[cut:]))
    assert whole == pytest.approx(first + rest, rel=1e-12)


@settings(max_examples=25, deadline=None)
@given(fate=st.lists(LOSSES, min_size=1, max_size=12))
def test_mean_and_variance_are_numpys(fate):
    (row,) = ask(losses(s0=fate))
    values = np.array(fate, np.float64)
    assert row["action_mean"] == pytest.approx(values.mean(), rel=1e-12)
    assert row["action_variance"] == pytest.approx(values.var(), rel=1e-6, abs=1e-24)
    assert row["action_variance"] >= 0
