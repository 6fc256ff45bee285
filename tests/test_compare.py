"""How far runs agree: the numbers against scipy, what a person sees, and what MLflow keeps."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import mlflow
import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from conftest import PROJECT
from scipy import stats
from servers import Server

import actionflow
from actionflow.cli import cli
from actionflow.cli import main as command_line
from actionflow.comparing import Comparison, curve_metrics
from actionflow.errors import DataError, SettingsError, StoreError

SAMPLES = 300
IDS = np.arange(SAMPLES)
LABELS = IDS % 3
DIFFICULTY = np.random.default_rng(0).gamma(2.0, 1.0, SAMPLES)
PNG = b"\x89PNG"


def record(name, seed, ids=IDS, model="cnn", digest="d1", labels=True, spoilt=()):
    """A run whose losses follow the samples' difficulty, each seed with noise of its own; returns its losses by id."""
    rng = np.random.default_rng(seed)
    losses = (DIFFICULTY[ids] + rng.gamma(1.0, 0.5, len(ids))).astype(np.float32)
    losses[list(spoilt)] = np.nan
    signals = {"loss": losses, "label": LABELS[ids]} if labels else {"loss": losses}
    tags = {"actionflow.model": model, "actionflow.dataset": "gamma", "actionflow.dataset_digest": digest}
    known = {key: value for key, value in tags.items() if value}
    with mlflow.start_run(run_name=name, tags=known) as run, actionflow.Recorder() as recorder:
        recorder.add_signals(ids, signals)
        recorder.end_epoch()
    return run.info.run_id, losses.astype(np.float64)


@pytest.fixture(scope="module")
def runs(module_store):
    """Runs `a` and `b` of one model, `c` of another that recorded ten samples fewer."""
    return {"a": record("a", 1), "b": record("b", 2), "c": record("c", 3, IDS[:-10], model="forest")}


@pytest.fixture(scope="module")
def compared(runs):
    return actionflow.compare(["a", "b", "c"])


def invoke(*words):
    return CliRunner().invoke(cli, ["compare", *words], catch_exceptions=False)


def of_pair(table, a, b):
    return [row for row in table.to_pylist() if (row["name_a"], row["name_b"]) == (a, b)]


def told(capsys, monkeypatch, *words):
    """What the command line says of a mistake: its exit code aside, one line."""
    monkeypatch.setattr(sys, "argv", ["actionflow", "compare", *words])
    with pytest.raises(SystemExit) as ended:
        command_line()
    line = str(ended.value)
    assert line.startswith("Error: ")
    assert "\n" not in line
    assert capsys.readouterr().out == ""
    return line


def test_overall_and_class_correlations_are_scipys(runs, compared):
    rows = of_pair(compared.agreement, "a", "b")
    assert [row["label"] for row in rows] == [None, 0, 1, 2]
    a, b = runs["a"][1], runs["b"][1]
    for row in rows:
        members = slice(None) if row["label"] is None else row["label"] == LABELS
        pearson = stats.pearsonr(a[members], b[members])
        assert row["samples"] == len(a[members])
        assert row["pearson"] == pytest.approx(pearson.statistic, abs=1e-9)
        low, high = pearson.confidence_interval(0.95)
        assert (row["pearson_low"], row["pearson_high"]) == (
            pytest.approx(low, abs=1e-9),
            pytest.approx(high, abs=1e-9),
        )
        assert row["spearman"] == pytest.approx(stats.spearmanr(a[members], b[members]).statistic, abs=1e-9)


@pytest.mark.parametrize("side", ["above", "below", "within"])
def test_the_curve_is_scipys_among_the_samples_of_each_quantile_of_the_first_run(runs, side):
    comparison = actionflow.compare(["a", "b"], quantiles=4, side=side)
    a, b = runs["a"][1], runs["b"][1]
    edges = np.quantile(a, [0, 0.25, 0.5, 0.75, 1])
    sets = {
        "above": [a >= low for low in edges[:-1]],
        "below": [a <= high for high in edges[1:]],
        "within": [(a >= low) & (a < high) for low, high in zip(edges, [*edges[1:-1], np.inf], strict=False)],
    }[side]
    rows = comparison.curve.to_pylist()
    assert [row["quantile"] for row in rows] == ([0.25, 0.5, 0.75, 1] if side == "below" else [0, 0.25, 0.5, 0.75])
    assert [row["samples"] for row in rows] == [int(members.sum()) for members in sets]
    expected = [stats.pearsonr(a[members], b[members]).statistic for members in sets]
    assert [row["pearson"] for row in rows] == pytest.approx(expected, abs=1e-9)


def test_few_samples_have_a_count_and_no_number(runs):
    rows = actionflow.compare(["a", "b"], quantiles=10, least=100).curve.to_pylist()
    assert [row["pearson"] is None for row in rows] == [row["samples"] < 100 for row in rows]
    assert rows[-1]["samples"] == 30


def test_same_model_pairs_are_the_baseline(compared):
    marks = {(row["name_a"], row["name_b"]): row["baseline"] for row in compared.curve.to_pylist()}
    assert marks == {("a", "b"): True, ("a", "c"): False, ("b", "c"): False}


def test_only_samples_of_both_runs_count_and_the_others_are_told(runs, compared):
    (overall, *_) = of_pair(compared.agreement, "a", "c")
    assert (overall["samples"], overall["left_out"]) == (290, 10)
    expected = stats.pearsonr(runs["a"][1][:-10], runs["c"][1]).statistic
    assert overall["pearson"] == pytest.approx(expected, abs=1e-9)
    assert compared.notes() == [
        "a vs c: 10 samples left out, which only one of them recorded.",
        "b vs c: 10 samples left out, which only one of them recorded.",
    ]


def test_losses_that_are_no_numbers_are_counted_not_averaged_away(store):
    record("spoilt", 1, spoilt=[3, 4])
    record("sound", 2)
    comparison = actionflow.compare(["spoilt", "sound"])
    assert comparison.agreement["samples"][0].as_py() == SAMPLES - 2
    assert comparison.notes() == ["spoilt vs sound: 2 samples left out, whose action is not finite in one of them."]


def test_a_loop_without_classes_models_or_data_sets_compares_overall(store):
    for seed in (1, 2):
        record(f"own-{seed}", seed, model=None, digest=None, labels=False)
    comparison = actionflow.compare(["own-1", "own-2"])
    (row,) = comparison.agreement.to_pylist()
    assert (row["label"], row["label_name"], row["baseline"]) == (None, "overall", None)
    assert comparison.notes() == []
    assert "overall" in comparison.text()


def test_runs_without_a_common_sample_are_told_so(store):
    record("first", 1, IDS[:50])
    record("last", 2, IDS[50:])
    comparison = actionflow.compare(["first", "last"])
    assert comparison.notes()[-1] == "first vs last: no sample is left to compare."
    assert set(comparison.curve["pearson"].to_pylist()) == {None}
    assert comparison.figure() is not None
    assert curve_metrics(comparison.curve) == []


def test_a_run_that_does_not_say_its_data_is_trusted_aloud(store):
    record("known", 1)
    record("own", 2, digest=None)
    assert actionflow.compare(["known", "own"]).notes() == [
        "own: not known on which data; equal sample ids are taken for the same samples."
    ]


def test_runs_of_one_name_are_told_apart_by_their_ids(store):
    ids = [record("twin", seed)[0] for seed in (1, 2)]
    comparison = actionflow.compare(ids)
    assert [run.name for run in comparison.runs] == [f"twin {run_id[:8]}" for run_id in ids]


def test_python_gets_the_comparison_from_the_front_door(compared):
    assert isinstance(compared, Comparison)
    assert actionflow.Comparison is Comparison


# What a person sees.


def test_a_pipe_gets_one_csv_of_every_number(compared):
    shown = invoke("a", "b", "c")
    rows = list(csv.DictReader(io.StringIO(shown.stdout)))
    assert [sum(row["scope"] == scope for row in rows) for scope in ("overall", "class", "quantile")] == [3, 9, 60]
    assert float(rows[0]["spearman_high"]) == pytest.approx(compared.agreement["spearman_high"][0].as_py())
    assert shown.stderr.count("10 samples left out") == 2


def test_the_table_has_pairs_as_rows_and_classes_as_columns(runs, compared):
    text = invoke("a", "b", "c", "--format", "table").stdout
    lines = text.splitlines()
    assert lines[1].split() == ["A", "a", "cnn", runs["a"][0][:8]]
    head = lines.index(
        "Pearson correlation of action, val samples (below: 95 % interval; baseline: the same model twice)"
    )
    assert lines[head + 2].split() == ["overall", "0", "1", "2"]
    values = [f"{row['pearson']:.2f}" for row in of_pair(compared.agreement, "a", "b")]
    assert lines[head + 3].split() == ["A–B", "baseline", *values]
    assert lines[head + 5].startswith("A–C  ")
    assert "290 " in text or "290\n" in text


def test_a_narrow_terminal_breaks_the_table_between_columns(compared):
    narrow, broad = ([line for line in compared.text(width).splitlines() if "A–B" in line] for width in (40, 200))
    assert max(map(len, narrow)) <= 40
    assert len(narrow) > len(broad) == 4


def test_json_and_parquet_hold_the_same_rows(compared, tmp_path):
    shown = json.loads(invoke("a", "b", "--format", "json").stdout)
    invoke("a", "b", "--output", str(tmp_path / "rows.parquet"))
    kept = pq.read_table(tmp_path / "rows.parquet").to_pylist()
    # Asked twice: threads add up in the order they come, so the last digit may differ.
    assert len(kept) == len(shown) == 24
    assert [list(map(to_twelve_digits, row.items())) for row in kept] == [
        list(map(to_twelve_digits, row.items())) for row in shown
    ]


def to_twelve_digits(item):
    name, value = item
    return name, round(value, 12) if isinstance(value, float) else value


# What MLflow keeps.


def test_logging_keeps_tables_figure_and_curve_in_a_run_beside_the_first(runs, compared, module_store):
    shown = invoke("a", "b", "c", "--log")
    (run,) = module_store.runs(kind="comparison")
    run_id = run.info.run_id
    assert f"Logged as run {run_id}" in shown.stderr
    assert (run.info.status, run.info.experiment_id) == ("FINISHED", module_store.experiment)
    assert run.data.params == {"runs": "a,b,c", "split": "val", "quantiles": "20", "side": "above", "least": "10"}
    assert run.data.tags["actionflow.compared_runs"].split(",") == [runs[name][0] for name in "abc"]

    history = module_store.client.get_metric_history(run_id, "quantile_correlation/a vs c")
    expected = {round(row["quantile"] * 100): row["pearson"] for row in of_pair(compared.curve, "a", "c")}
    assert {metric.step: metric.value for metric in history} == pytest.approx(expected)
    assert sorted(run.data.metrics) == [f"quantile_correlation/{pair}" for pair in ("a vs b", "a vs c", "b vs c")]

    folder = module_store.artifacts(run_id)
    assert (folder / "quantile_correlation.png").read_bytes().startswith(PNG)
    table = mlflow.load_table("agreement.json", run_ids=[run_id])
    assert table["pearson"].tolist() == pytest.approx(compared.agreement["pearson"].to_pylist())
    assert len(mlflow.load_table("quantile_correlation.json", run_ids=[run_id])) == 60


def test_a_comparison_is_no_training(runs, compared, module_store):
    compared.log()
    with actionflow.connect() as session:
        assert {run.run_id for run in session.runs} == {run_id for run_id, _ in runs.values()}


def test_names_with_odd_characters_make_metrics_that_mlflow_takes(store):
    record("résumé/0, ‘odd’", 1)
    record("x" * 300, 2)
    comparison = actionflow.compare(store_ids(store))
    run = store.client.get_run(comparison.log())
    (name,) = run.data.metrics
    assert name.startswith("quantile_correlation/résumé_0_ _odd_ vs xxx")


def store_ids(store):
    return [run.info.run_id for run in store.runs()]


def test_the_entry_point_keeps_it_in_the_run_that_mlflow_opened(runs, module_store):
    command = [sys.executable, "-m", "mlflow", "run", ".", "--env-manager", "local", "-e", "compare"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [*command, "-P", "runs=a,b", "-P", "quantiles=5", "-P", "run_name=projected"],
        cwd=PROJECT,
        env=module_store.outside(PATH=path),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (run,) = [each for each in module_store.runs(kind="comparison") if each.info.run_name == "projected"]
    assert run.info.status == "FINISHED"
    assert run.data.params["quantiles"] == "5"
    assert len(module_store.client.get_metric_history(run.info.run_id, "quantile_correlation/a vs b")) == 5
    assert "A–B  baseline" in done.stdout


def test_runs_on_a_server_are_compared_and_logged_there(store):
    server = Server(store.folder)
    server.start()
    try:
        mlflow.set_tracking_uri(server.uri)
        mlflow.set_experiment("remote")
        for seed in (1, 2):
            record(f"far-{seed}", seed)
        mlflow.set_tracking_uri(store.uri)
        shown = CliRunner().invoke(
            cli, ["--tracking-uri", server.uri, "compare", "far-1", "far-2", "--log"], catch_exceptions=False
        )
        assert all(line.startswith('"') for line in shown.stdout.splitlines())
        client = mlflow.MlflowClient(server.uri)
        run = client.get_run(shown.stderr.partition("Logged as run ")[2].split()[0])
        assert {info.path for info in client.list_artifacts(run.info.run_id)} == {
            "agreement.json",
            "comparison_report.html",
            "quantile_correlation.json",
            "quantile_correlation.png",
        }
        assert run.info.status == "FINISHED"
    finally:
        server.stop()


# Mistakes.


def test_runs_of_different_data_sets_are_refused_with_both_digests(store, capsys, monkeypatch):
    record("here", 1, digest="1a2b")
    record("there", 2, digest="9f8e")
    line = told(capsys, monkeypatch, "here", "there")
    assert "here has gamma with digest 1a2b, there has gamma with digest 9f8e" in line
    with pytest.raises(DataError):
        actionflow.compare(["here", "there"])


def test_an_unknown_run_is_answered_with_the_nearest(runs, capsys, monkeypatch):
    record("zebra", 4)
    assert "no run is called zebr in" in told(capsys, monkeypatch, "a", "zebr")
    assert "Did you mean zebra?" in told(capsys, monkeypatch, "a", "zebr")


def test_one_run_is_not_enough(runs, capsys, monkeypatch):
    assert "needs two runs, found one: a" in told(capsys, monkeypatch, "a", runs["a"][0])
    assert "actionflow compare A B" in told(capsys, monkeypatch)


def test_a_split_that_was_not_recorded_is_answered_with_those_that_were(runs, capsys, monkeypatch):
    assert "recorded no split train, only val: type --split val" in told(
        capsys, monkeypatch, "a", "b", "--split", "train"
    )


def test_a_run_without_dynamics_says_what_it_holds(store):
    record("full", 1)
    with mlflow.start_run() as run:
        mlflow.log_text("x", "notes.txt")
    with pytest.raises(StoreError, match=r"no per-sample dynamics \(found: notes\.txt\)"):
        actionflow.compare(["full", run.info.run_id])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"quantiles": 0}, "quantiles is a number from 1 to 100, found 0"),
        ({"quantiles": 101}, "found 101"),
        ({"side": "over"}, "side is one of above, below, within, found 'over'"),
        ({"least": 1}, "least is at least 2, found 1"),
    ],
)
def test_what_cannot_be_meant_is_told(wrong, message):
    with pytest.raises(SettingsError, match=message):
        actionflow.compare(["a", "b"], **wrong)
