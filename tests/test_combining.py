"""Scores together: chosen on some data and judged on others, so that nothing wins by luck."""

import numpy as np
import pyarrow as pa
import pytest

from actionflow.combining import combining_verdict, held_out, trainings
from actionflow.errors import DataError

COUNT = 400


def study(seed, **noises):
    """Samples of two seeds; every score is the truth with as much noise as told."""
    random = np.random.default_rng(seed)
    wrong = np.tile(np.arange(COUNT) < COUNT // 5, 2)
    columns = {name: wrong + random.normal(0, noise, 2 * COUNT) for name, noise in noises.items()}
    ids = {name: np.arange(2 * COUNT) for name in ("sample_id", "label", "clean_label")}
    samples = pa.table({"seed": np.repeat([0, 1], COUNT), **ids, "wrong": wrong, **columns})
    return trainings(samples, with_folds=False)


def row(table, name):
    return next(each for each in table.to_pylist() if each["study"] == name)


def test_scores_that_err_apart_are_better_together_on_data_not_seen():
    table = held_out({name: study(seed, action=0.8, aum=0.8, el2n=9.0) for seed, name in enumerate("abc")})
    assert table["together"].to_pylist() == ["action + aum"] * 3
    assert all(each["together_precision"] > each["single_precision"] + 0.02 for each in table.to_pylist())
    assert all(each["weighted_precision"] > each["single_precision"] + 0.02 for each in table.to_pylist())
    assert "above the best single score there in 3" in combining_verdict(table)[0]


def test_what_helps_on_one_data_set_is_judged_on_the_other():
    """aum says nothing in b: who chose on a is punished there, and nobody hides it."""
    table = held_out({"a": study(0, action=0.7, aum=0.9), "b": study(1, action=0.5, aum=50.0)})
    there = row(table, "b")
    assert there["together"] == "action + aum"
    assert there["together_gain"] < -0.05
    assert there["best_single_there"] > there["together_precision"]


def test_what_needs_more_trainings_or_has_the_order_of_another_is_left_out():
    (first, _) = study(0, aum=1.0, aum_package=1.0, cleanlab_folds=1.0, cleanlab_epochs_margin=1.0)
    assert set(first.ranks) == {"aum", "cleanlab_epochs_margin"}


def test_one_study_is_not_enough():
    with pytest.raises(DataError, match="name two; found 1"):
        held_out({"a": study(0, action=0.9)})
