"""How well scores find wrong labels: measures that sum in the head, and plain words."""

import numpy as np
import pyarrow as pa
import pytest

from actionflow.detecting import (
    Flagged,
    as_read,
    check_noise,
    detection_report,
    detection_verdicts,
    flagged_told,
    measured,
    precision_at,
    suspicions,
)
from actionflow.errors import DataError
from actionflow.store import schema

WRONG = np.array([True, True, False, False])


def test_a_score_that_puts_wrong_labels_first_has_the_best_of_all_measures():
    best = measured(np.array([4.0, 3.0, 2.0, 1.0]), WRONG)
    assert set(best.values()) == {1.0}


def test_a_score_that_puts_them_last_has_the_worst():
    worst = measured(np.array([1.0, 2.0, 3.0, 4.0]), WRONG)
    assert worst["auroc"] == worst["precision_at_wrong"] == worst["precision_at_1_percent"] == 0
    assert worst["average_precision"] == pytest.approx((1 / 3 + 2 / 4) / 2)


def test_a_score_that_says_nothing_is_as_good_as_chance():
    even = measured(np.zeros(4), WRONG)
    assert set(even.values()) == {0.5}


def test_samples_that_are_even_are_drawn_fairly():
    assert precision_at(3, np.array([9.0, 1.0, 1.0, 1.0]), WRONG) == pytest.approx((1 + 2 * 1 / 3) / 3)


def scores(**columns):
    """A table of scores in which everything else is NULL."""
    rows = len(next(iter(columns.values())))
    arrays = [pa.array(columns.get(field.name, [None] * rows)).cast(field.type) for field in schema.SCORES]
    return pa.table(arrays, names=schema.SCORES.names)


def test_every_score_is_turned_so_that_more_is_more_suspicious():
    turned = suspicions(scores(label=[1, 1], action=[0.5, 2.0], aum=[3.0, -1.0], confidence=[0.9, 0.2]))
    assert set(turned) == {"action", "aum", "confidence"}
    assert all(values[1] > values[0] for values in turned.values())


def test_what_was_never_learnt_or_exploded_is_the_most_suspicious():
    turned = suspicions(scores(forgetting=[3, None, 0], action=[1.0, float("nan"), 5.0], aum=[1.0, float("nan"), 5.0]))
    assert all(values.argmax() == 1 for values in turned.values())
    assert measured(turned["forgetting"], np.array([False, True, False]))["auroc"] == 1


def found(**precisions):
    """Average precisions of scores, seed by seed."""
    return [
        {"score": name, "seed": seed, "auroc": value, "average_precision": value}
        | {"precision_at_wrong": value, "precision_at_1_percent": value}
        for name, values in precisions.items()
        for seed, value in enumerate(values)
    ]


THREE = found(
    variability=[0.1, 0.2, 0.1], aum=[0.80, 0.90, 0.85], aum_package=[0.80, 0.90, 0.85], action=[0.81, 0.88, 0.85]
)


def test_the_best_score_comes_first_with_its_interval_over_seeds():
    table = detection_report(THREE)
    assert table["score"].to_pylist() == ["aum", "aum_package", "action", "variability"]
    assert table["average_precision"][0].as_py() == pytest.approx(0.85)
    assert table["average_precision_plus_minus"][0].as_py() == pytest.approx(0.1242, abs=1e-4)
    assert as_read(table)["auroc"][0].as_py() == "0.850 ± 0.124"


def test_the_verdict_names_what_is_even_and_what_is_useless():
    told = detection_verdicts(THREE, 0.2)
    assert told[0] == "Trust aum: average precision 0.850 ± 0.124 (a random order has 0.200)."
    assert "The same order as aum: aum_package." in told
    assert "No difference that 3 seeds can show between aum and action." in told
    assert "Worse than a random order (AUROC below 0.5): variability." in told
    assert told[-1].startswith("aum against aum_package: +0.000 ± 0.000")


def test_what_every_run_has_is_trusted_where_nothing_is_better():
    close = found(cleanlab_folds=[0.80, 0.91, 0.86], aum=[0.80, 0.90, 0.85])
    assert detection_verdicts(close, 0.2)[0].startswith("Trust aum")
    apart = found(cleanlab_folds=[0.90, 0.98, 0.95], aum=[0.80, 0.89, 0.85])
    assert detection_verdicts(apart, 0.2)[0].startswith("Trust cleanlab_folds")


def test_one_seed_says_nothing_about_chance():
    told = detection_verdicts(found(aum=[0.8], action=[0.7]), 0.2)
    assert told[-1].startswith("One seed says nothing about chance")


def test_an_audit_is_held_against_what_is_wrong():
    flagged = Flagged.of(0, np.array([True, False, True, False]), WRONG, estimate=0.4)
    assert (flagged.count, flagged.precision, flagged.recall, flagged.share) == (2, 0.5, 0.5, 0.5)
    nothing = Flagged.of(1, np.zeros(4, np.bool_), WRONG, estimate=0.0)
    assert flagged_told([flagged, nothing]).startswith("The audit flagged 2 labels: 50.0% of them are wrong")
    assert "In 1 of 2 seeds it flagged nothing" in flagged_told([flagged, nothing])
    told = flagged_told([nothing])
    assert told.startswith("The audit flagged nothing, so nothing was trained without it: -P threshold=20%")
    assert told.endswith("It estimated 0.0% wrong labels, there are 50.0%.")
    asked = Flagged.of(0, np.array([True, False, True, False]), WRONG, estimate=None)
    assert flagged_told([asked]).endswith("of the wrong ones. There are 50.0%.")


@pytest.mark.parametrize(("clean", "said"), [([1, 2], "none of the 2 training labels"), ([2, 1], "all of the 2")])
def test_data_with_nothing_to_tell_apart_are_refused(clean, said):
    with pytest.raises(DataError, match=said):
        check_noise(np.array([1, 2]), np.array(clean))
