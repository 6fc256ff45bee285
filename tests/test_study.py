"""The study of orders: as many steps each, seeds in pairs, and plain words."""

import json

import pytest
from click.testing import CliRunner
from scipy import stats

from actionflow.studying import Trial, interval, report, verdicts


def trial(kind, seed, accuracy, way=((10, 0.5), (20, 0.8))):
    return Trial(kind, seed, f"{kind}-{seed}", accuracy, 20, way)


BASELINE = [trial("baseline", seed, accuracy) for seed, accuracy in enumerate([0.80, 0.82, 0.84])]


def row(table, kind):
    return next(each for each in table.to_pylist() if each["kind"] == kind)


def test_an_interval_is_students():
    values = [0.80, 0.82, 0.87]
    low, high = stats.t.interval(0.95, 2, loc=sum(values) / 3, scale=stats.sem(values))
    assert interval(values) == pytest.approx((high - low) / 2)
    assert interval([0.8]) is None


def test_differences_are_taken_seed_by_seed():
    better = [trial("easy", seed, accuracy) for seed, accuracy in enumerate([0.81, 0.83, 0.85])]
    table = report([*BASELINE, *better], "baseline")
    assert row(table, "easy")["difference"] == pytest.approx(0.01)
    # Every seed gained the same, so the difference is certain although the accuracies vary.
    assert row(table, "easy")["difference_plus_minus"] == pytest.approx(0, abs=1e-12)
    assert verdicts(table, "baseline") == ["easy: +0.0100 test accuracy against the baseline ± 0.0000: better."]


def test_no_difference_is_called_no_difference():
    mixed = [trial("easy", seed, accuracy) for seed, accuracy in enumerate([0.81, 0.80, 0.85])]
    (said,) = verdicts(report([*BASELINE, *mixed], "baseline"), "baseline")
    assert said.endswith("no difference that 3 seeds can show.")


def test_a_single_seed_says_nothing():
    table = report([BASELINE[0], trial("easy", 0, 0.9)], "baseline")
    assert "one seed says nothing about chance" in verdicts(table, "baseline")[0]


def test_steps_to_the_baseline_are_counted_where_it_was_reached():
    reached = trial("easy", 0, 0.8, way=((5, 0.6), (10, 0.81), (20, 0.7)))
    never = trial("easy", 1, 0.5, way=((5, 0.1), (20, 0.5)))
    found = row(report([*BASELINE, reached, never], "baseline"), "easy")
    assert (found["reached_baseline"], found["steps_to_baseline"]) == (1, 10)


@pytest.fixture(scope="module")
def study(module_store):
    from projects.curriculum_study import main

    done = CliRunner().invoke(main, ["--limit", "160", "--epochs", "3", "--seeds", "1"], catch_exceptions=False)
    assert done.exit_code == 0
    (parent,) = module_store.runs(kind="study")
    return module_store, parent, done.stdout


def test_every_order_takes_as_many_steps_as_the_baseline(study):
    store, parent, _ = study
    table = json.loads((store.artifacts(parent.info.run_id) / "curriculum_study.json").read_text())
    steps = [values[table["columns"].index("steps")] for values in table["data"]]
    kinds = [values[table["columns"].index("kind")] for values in table["data"]]
    assert kinds == ["baseline", "easy-first", "hard-first", "random", "drop-hardest"]
    assert len(set(steps)) == 1


def test_its_trainings_are_nested_and_lead_back_to_their_baseline(study):
    store, parent, _ = study
    runs = store.runs()
    assert {run.data.tags["mlflow.parentRunId"] for run in runs} == {parent.info.run_id}
    (baseline,) = [run for run in runs if run.info.run_name.startswith("baseline")]
    others = [run for run in runs if run is not baseline]
    assert {run.data.tags["actionflow.curriculum_run"] for run in others} == {baseline.info.run_id}


def test_the_report_is_told_and_kept(study):
    store, parent, said = study
    assert "test_accuracy" in said
    assert said.count("against the baseline") == 4
    assert (store.artifacts(parent.info.run_id) / "curriculum_study.txt").read_text().strip() == said.strip()
