"""An audit of labels: on scores that are made up, on real trainings with flipped labels, and what a person is told."""

import csv
import io
import json
import sys

import made_up_texts
import mlflow
import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from conftest import SMALL, train, train_text
from made_up_runs import CLASSES, FLIPPED, SAMPLES, flipped_run, named_classes, record
from PIL import Image

import actionflow
from actionflow.analysis.mixture import CLEARLY, fit
from actionflow.analysis.suspects import SCORES, score_of, trust_of
from actionflow.auditing import export_cleanlab
from actionflow.cli import cli
from actionflow.cli import main as command_line
from actionflow.errors import DataError, QueryError, SettingsError
from actionflow.store import schema
from actionflow.training.checks import check_trainable
from actionflow.training.data import load_dataset
from actionflow.training.settings import TextSettings
from actionflow.training.threshold import draw_threshold_samples


@pytest.fixture(scope="module")
def runs(module_store):
    return {
        "flipped": flipped_run("flipped", tags=named_classes(module_store)),
        "learnt": flipped_run("learnt", by_heart=True),
        "votes": flipped_run("votes", by_heart=True, probabilities=False),
        "clean": flipped_run("clean", flipped=0),
        "losses": record("losses", np.ones((100, 2)), np.zeros(100, int), np.zeros(100, int), split="train"),
    }


# The mixture.


def test_a_mixture_tells_wrong_labels_from_hard_and_easy_ones():
    draw = np.random.default_rng(0)
    trust = np.concatenate([draw.normal(-3, 1, 150), draw.normal(2, 1, 500), draw.normal(4, 0.5, 850)])
    found = fit(trust)
    assert found.is_of_wrong_labels
    assert found.wrong.share == pytest.approx(0.1, abs=0.01)
    assert found.wrong.mean == pytest.approx(-3, abs=0.3)
    assert -2 < found.threshold < 0
    assert found.chance(np.array([found.threshold])) == pytest.approx([0.5], abs=1e-6)
    assert found == fit(trust), "the same every time"


def test_the_chance_of_being_wrong_never_rises_with_trust():
    draw = np.random.default_rng(1)
    found = fit(np.concatenate([draw.normal(-2, 3, 100), draw.normal(3, 0.5, 900)]))
    chances = found.chance(np.linspace(-50, 50, 2001))
    assert (np.diff(chances) <= 1e-12).all()


@pytest.mark.parametrize("hump", ["normal", "even", "with hard ones", "untrained"])
def test_one_hump_is_no_sign_of_wrong_labels(hump):
    draw = np.random.default_rng(2)
    trust = {
        "normal": draw.normal(2, 1, 3000),
        "even": draw.uniform(-1, 5, 3000),
        "with hard ones": np.concatenate([draw.normal(0, 1, 100), draw.normal(5, 1.5, 2900)]),
        "untrained": draw.normal(0, 1, 3000),
    }[hump]
    assert not fit(trust).is_of_wrong_labels
    assert 0 < CLEARLY < 1


@pytest.mark.parametrize("sign", [-1, 1])
def test_where_all_labels_win_or_all_lose_there_is_nothing_to_tell_apart(sign):
    assert fit(sign * np.linspace(1, 2, 100)) is None


@pytest.mark.parametrize("by", SCORES)
def test_a_score_and_its_trust_lead_to_one_another(by):
    scores = np.array([0.01, 0.3, 0.9])
    np.testing.assert_allclose(score_of(trust_of(scores, by), by), scores)
    falls = by == "action"  # a high loss is no trust
    assert (np.diff(trust_of(scores, by)) < 0).all() == falls


# Suspects.


@pytest.mark.parametrize("by", SCORES)
def test_flipped_labels_are_suspect_and_the_rest_are_not(runs, by):
    found = actionflow.audit("flipped", by=by)
    suspects = set(found.only_suspects()["sample_id"].to_pylist())
    assert suspects == set(range(FLIPPED))
    assert found.way == "mixture"
    assert found.share == pytest.approx(FLIPPED / SAMPLES, abs=0.01)
    assert found.suspects.num_rows == SAMPLES


def test_the_suggestion_is_not_the_label_that_was_learnt_by_heart(runs):
    """The last prediction of every sample is its label."""
    last = "select bool_and(correct) as learnt from scores where split = 'train'"
    for name in ("learnt", "votes"):
        assert actionflow.query(last, runs=name)["learnt"].to_pylist() == [True]
        rows = actionflow.audit(name).only_suspects().to_pylist()
        assert [row["suggested"] for row in rows] == [row["sample_id"] % CLASSES for row in rows]


def test_pairs_of_classes_have_their_names_and_counts(runs):
    pairs = actionflow.audit("flipped").pairs.to_pylist()
    assert {(row["label_name"], row["suggested_name"]): row["samples"] for row in pairs} == {
        (f"class {(truth + 1) % CLASSES}", f"class {truth}"): FLIPPED // CLASSES for truth in range(CLASSES)
    }


def test_clean_labels_give_no_suspect(runs):
    found = actionflow.audit("clean")
    assert (found.way, found.threshold, found.share) == ("none", None, 0.0)
    assert found.only_suspects().num_rows == 0
    assert found.suspects["chance_wrong"].null_count == SAMPLES
    told = " ".join(found.text().split())
    assert "The scores draw no line between wrong labels and right ones, which does not say that all are right." in told
    assert "--threshold 5%" in told


def test_a_pipe_without_suspects_is_told_why_there_are_none(runs):
    piped, read = invoke("clean"), invoke("clean", "--format", "table")
    assert len(piped.stdout.splitlines()) == 1
    assert "--threshold 5%" in piped.stderr
    assert "draw no line" in read.stdout
    assert "draw no line" not in read.stderr


@pytest.mark.parametrize("share", ["0.05", "5%", " 5.0% "])
def test_a_share_that_is_expected_draws_the_line_where_the_scores_draw_none(runs, share):
    found = actionflow.audit("clean", threshold=share)
    assert (found.way, found.share) == ("share", 0.05)
    assert found.only_suspects().equals(found.suspects.slice(0, SAMPLES // 20))
    told = " ".join(found.text().split())
    assert f"{SAMPLES // 20} of 400 labels are suspect" in told
    assert "where 5 % of the labels lie beyond it" in told


@pytest.mark.parametrize("share", ["0", "1", "100%", "-5%", "nan"])
def test_a_share_outside_0_to_1_is_refused(runs, share):
    with pytest.raises(actionflow.ActionFlowError, match=r"lies between 0 and 1, found .*: type --threshold 20%"):
        actionflow.audit("clean", threshold=share)


# What a person is told.


def invoke(*words):
    return CliRunner().invoke(cli, ["audit", *words], catch_exceptions=False)


def test_a_terminal_gets_words_and_the_most_suspicious(runs):
    said = invoke("flipped", "-k", "3", "--format", "table").stdout
    told = " ".join(said.split())  # wherever the numbers' lengths let a line break
    assert "60 of 400 labels are suspect, with aum below -0." in told
    assert "estimated share of wrong labels 15.0 %." in told
    assert "class 0 → class 3 (15)" in told
    assert len(said.partition("rank")[2].splitlines()) == 5
    assert "text " in said


def test_a_pipe_gets_every_suspect(runs):
    rows = list(csv.DictReader(io.StringIO(invoke("flipped", "-k", "3").stdout)))
    assert len(rows) == FLIPPED
    assert rows[0]["suspect_rank"] == "1"
    assert {row["suspect"] for row in rows} == {"true"}


def test_what_is_logged_is_there_as_figure_table_and_view(module_store, runs):
    run_id = runs["flipped"]
    assert f"Logged into run {run_id}" in invoke("flipped", "--log").stderr
    folder = module_store.artifacts(run_id)
    assert Image.open(folder / "audit.png").width > 600
    assert len(json.loads((folder / "audit.json").read_text())["data"]) == 32
    path = folder / "actionflow" / "audits" / "train.parquet"
    facts = schema.stamp_of(pq.read_schema(path), "audits")
    assert (facts["by"], facts["way"], facts["unjudged"]) == ("aum", "mixture", 0)
    invoke("flipped", "--log", "--by", "confidence")
    rows = actionflow.query("select count(*) as n, max(score_name) as by from audits where suspect", runs="flipped")
    assert rows.to_pylist() == [{"n": FLIPPED, "by": "confidence"}]
    assert actionflow.query("label_pairs", runs="flipped").num_rows == CLASSES


def told(monkeypatch, capsys, *words):
    """The one line that a mistake becomes."""
    monkeypatch.setattr(sys, "argv", ["actionflow", "audit", *words])
    with pytest.raises(SystemExit) as stopped:
        command_line()
    return str(stopped.value)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["losses", "--by", "action"], "every train sample has the same action, 1, so none stands out"),
        (["losses"], "only 0 of 100 train samples have a finite aum"),
        (["flipped", "--by", "luck"], "labels are audited by aum, confidence or action, not by luck"),
        (["flipped", "--threshold", "samples"], "has no threshold samples: train with -P threshold_samples=true"),
        (["flipped", "--threshold", "mix"], "samples or a share such as 0.2 or 20%. Did you mean mixture?"),
        (["flipped", "--split", "val"], "recorded no split val, only train: type --split train"),
        (["votes", "--export", "cleanlab", "x.npz"], "train it with -P probabilities=true"),
        (["flipped,clean"], "an audit is of one run, but flipped,clean stands for 2"),
    ],
)
def test_what_cannot_be_audited_is_told_with_what_to_type(runs, monkeypatch, capsys, words, line):
    assert line in told(monkeypatch, capsys, *words)


def test_a_run_without_the_train_split_says_how_to_record_it(store, monkeypatch, capsys):
    record("only val", np.ones((60, 1)), np.zeros(60, int), np.zeros(60, int))
    line = told(monkeypatch, capsys, "only val")
    assert "recorded no split train, only val: train it with -P record=both" in line
    assert line.endswith("or type --split val")


def test_texts_that_are_written_have_no_labels_to_audit(store):
    with mlflow.start_run(run_name="summaries"), actionflow.Recorder() as recorder:
        recorder.add_signals(range(60), {"loss": np.ones(60)}, split="train")
        recorder.end_epoch()
    with pytest.raises(DataError, match="no train sample of this run has a label"):
        actionflow.audit("summaries")


def test_few_samples_are_too_few(store):
    record("few", np.ones((9, 1)), np.zeros(9, int), np.zeros(9, int), split="train")
    with pytest.raises(DataError, match=r"only 9 of 9 train samples have a finite action, and a threshold is found"):
        actionflow.audit("few", by="action")


# cleanlab.


def test_cleanlab_takes_the_export_and_finds_the_same(runs, tmp_path):
    filtering = pytest.importorskip("cleanlab.filter")
    said = invoke("flipped", "--export", "cleanlab", str(tmp_path / "out")).stderr
    assert "train.npz: labels, pred_probs and sample_ids" in said
    found = np.load(tmp_path / "out" / "train.npz")
    assert found["pred_probs"].shape == (SAMPLES, CLASSES)
    assert (found["sample_ids"] == np.arange(SAMPLES)).all()
    # Alone: its worker processes are forked beside our threads, and may wait for a lock that nobody holds.
    issues = filtering.find_label_issues(found["labels"], found["pred_probs"], n_jobs=1)
    assert set(np.flatnonzero(issues)) == set(range(FLIPPED))


# Real trainings.


@pytest.fixture(scope="module")
def trained(module_store):
    """A training on pictures with probabilities and threshold samples."""
    return train(**SMALL, probabilities="true", threshold_samples="true", run_name="threshold")


def epochs(store, run_id, split):
    folder = store.artifacts(run_id) / "actionflow" / "dynamics" / split
    return [pq.read_table(path) for path in sorted(folder.iterdir())]


def test_a_training_keeps_the_probability_of_every_class(module_store, trained):
    for split in ("train", "val"):
        tables = epochs(module_store, trained, split)
        assert len(tables) == SMALL["epochs"]
        for table in tables:
            found = np.stack(table["probabilities"].to_numpy(zero_copy_only=False))
            np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
            labels = table["label"].to_numpy()
            assert (found[np.arange(len(labels)), labels] == table["confidence"].to_numpy()).all()


def test_threshold_samples_are_of_a_class_of_their_own_and_drawn_by_the_seed(module_store, trained):
    first, *others = epochs(module_store, trained, "train")
    drawn = first.filter(first["label"].to_numpy() == 10)["sample_id"].to_pylist()
    assert len(drawn) == SMALL["limit"] // 11
    assert all(each.filter(each["label"].to_numpy() == 10)["sample_id"].to_pylist() == drawn for each in others)
    described = json.loads((module_store.artifacts(trained) / "actionflow" / "run.json").read_text())
    assert described["threshold_samples"] == {"class": 10, "samples": len(drawn)}
    assert max(epochs(module_store, trained, "val")[0]["label"].to_pylist()) == 9
    again = [draw_threshold_samples(load_dataset("digits", "").limit(160).parts["train"], 10, seed) for seed in (0, 1)]
    ids = [each.train.sample_ids[each.train.labels == 10].tolist() for each in again]
    assert ids[0] == drawn != ids[1]


def test_threshold_samples_draw_the_line_and_are_not_judged(trained):
    found = actionflow.audit(trained)
    assert found.way == "samples"
    scores = actionflow.query("select label, aum from scores where split = 'train'", runs=trained).to_pandas()
    assert found.threshold == pytest.approx(np.percentile(scores[scores.label == 10].aum, 99))
    judged = found.suspects.to_pandas()
    assert len(judged) == (scores.label != 10).sum()
    assert (judged.suspect == (judged.score < found.threshold)).all()
    assert 10 not in set(judged.label) | set(judged.suggested)
    told = " ".join(found.text().split())
    assert "samples were not judged: the threshold samples, which a run with another seed judges" in told


def test_the_class_of_threshold_samples_is_not_exported(trained, tmp_path):
    found = np.load(export_cleanlab(trained, "train", str(tmp_path / "x.npz")))
    assert found["pred_probs"].shape == (160 - 160 // 11, 10)
    np.testing.assert_allclose(found["pred_probs"].sum(axis=1), 1)
    assert found["labels"].max() == 9


def test_runs_with_and_without_probabilities_are_read_together(runs, trained):
    sql = "select run_id, max(len(probabilities)) as classes from dynamics group by run_id"
    rows = actionflow.query(sql, runs=[runs["votes"], trained, runs["flipped"]]).to_pylist()
    classes = {runs["votes"]: None, trained: 11, runs["flipped"]: CLASSES}
    assert {row["run_id"]: row["classes"] for row in rows} == classes


def test_too_few_samples_give_none_to_the_threshold():
    with pytest.raises(SettingsError, match="one in 11 of 10 training samples is none"):
        draw_threshold_samples(load_dataset("digits", "").limit(10).parts["train"], 10, 0)


def test_texts_keep_probabilities_where_there_are_classes(store, tmp_path):
    made_up_texts.emotion(tmp_path)
    run_id = train_text(dataset="emotion", data_dir=tmp_path, model="tiny", epochs=1, probabilities="true")
    for split in ("train", "val", "test"):
        (table,) = epochs(store, run_id, split)
        assert table["probabilities"].type.list_size == 6
    with pytest.raises(SettingsError, match="probabilities are of classes, and this task has none"):
        check_trainable(range(99), TextSettings(probabilities="true"), classes=False)


def test_a_question_about_luck_is_refused_in_python_too(runs):
    with pytest.raises(QueryError, match="not by luck"):
        actionflow.audit("flipped", by="luck")
