"""The study of label noise, whole and small: its tables, its runs, and the packages that it is held against."""

import json
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from projects.noise_study import main

SMALL = ["--limit", "200", "--epochs", "3", "--folds", "2", "--noise", "0.25", "--threshold", "25%"]


@pytest.fixture(scope="module")
def study(module_store):
    done = CliRunner().invoke(main, [*SMALL, "--seeds", "2"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    (parent,) = module_store.runs(kind="study")
    return module_store, parent, done.stdout


@pytest.fixture(scope="module")
def samples(study):
    store, parent, _ = study
    return pq.read_table(store.artifacts(parent.info.run_id) / "noise_study_samples.parquet")


def kept(study, name):
    store, parent, _ = study
    table = json.loads((store.artifacts(parent.info.run_id) / name).read_text())
    return [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]


def test_every_score_of_the_house_stands_beside_other_packages(study):
    rows = {row["score"]: row for row in kept(study, "noise_study.json")}
    house = {"action", "aum", "confidence", "correctness", "el2n", "entropy", "forgetting", "last_loss", "variability"}
    others = {"aum_package", "cleanlab_folds", "cleanlab_folds_margin", "cleanlab_epochs", "cleanlab_epochs_margin"}
    assert house | others <= set(rows)
    assert {name for name, row in rows.items() if row["other_package"]} == others
    assert all(row["seeds"] == 2 and 0 <= row["auroc"] <= 1 for row in rows.values())


def test_a_quarter_of_the_labels_is_wrong_for_every_seed_and_other_ones(samples):
    wrong = samples["wrong"].to_numpy().reshape(2, 200)
    assert wrong.sum(axis=1).tolist() == [50, 50]
    assert not np.array_equal(*wrong)


def test_the_package_aum_agrees_with_ours_on_the_same_batches(samples):
    np.testing.assert_allclose(samples["aum_package"].to_numpy(), samples["aum"].to_numpy(), atol=1e-5)


def test_cleanlabs_self_confidence_of_epoch_means_is_our_confidence(samples):
    np.testing.assert_allclose(samples["cleanlab_epochs"].to_numpy(), samples["confidence"].to_numpy(), atol=1e-5)


def test_retraining_takes_as_many_steps_as_the_training_on_all_labels(study):
    rows = kept(study, "noise_study_retraining.json")
    assert [row["kind"] for row in rows] == [
        "all labels",
        "without suspects",
        "without as many at random",
        "without wrong labels",
    ]
    assert len({row["steps"] for row in rows}) == 1


def test_only_the_trainings_on_all_labels_are_recorded(study):
    store, parent, _ = study
    assert [run.info.run_name for run in store.runs()] == ["all labels, seed 0", "all labels, seed 1"]
    nested = store.client.search_runs(
        [store.experiment], f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'", max_results=100
    )
    # On all labels, two folds, without suspects, without as many at random, without the wrong ones.
    assert len(nested) == 2 * (1 + 2 + 3)
    assert {run.info.status for run in nested} == {"FINISHED"}
    # Nothing is ever stopped or slowed down by clean labels.
    assert {run.data.params["reduce_patience"] for run in nested} == {"0"}


def test_the_report_is_told_and_kept(study):
    store, parent, said = study
    folder = store.artifacts(parent.info.run_id)
    assert "Trust " in said
    assert "The audit flagged" in said
    assert (folder / "noise_study.txt").read_text().strip() == said.strip()
    assert (folder / "noise_study.png").stat().st_size > 10_000


MISTAKES = {
    "noise": (["--noise", "2"], "noise is a share from 0 to 1, found 2.0"),
    "no noise": (["--noise", "0"], "none of the 200 training labels are wrong"),
    "seeds": (["--seeds", "0"], "seeds must be at least 1, found 0"),
    "folds": (["--folds", "1"], "folds must be from 2 to the 200 training samples, found 1"),
    "threshold": (["--threshold", "some"], "a threshold comes from auto, mixture, samples or a share"),
    "no file": (["--kind", "file"], "noise_kind=file needs labels"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line(store, mistake):
    words, said = MISTAKES[mistake]
    done = CliRunner().invoke(main, [*SMALL, *words])
    assert done.exit_code == 1
    assert done.exception.code.startswith(f"Error: {said}")
    assert not store.runs()


def test_a_package_that_is_missing_is_named_before_anything_is_trained(store, monkeypatch):
    monkeypatch.setitem(sys.modules, "cleanlab", None)
    done = CliRunner().invoke(main, SMALL)
    assert "needs cleanlab, not installed here: type `pip install cleanlab`" in done.exception.code
    assert not store.runs("study")
