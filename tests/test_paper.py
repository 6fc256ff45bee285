"""A paper's figures: drawn of what the queries say, as files or in one run, for runs of every kind."""

import csv
from dataclasses import replace
from io import BytesIO

import mlflow
import numpy as np
import pytest
from click.testing import CliRunner
from made_up_runs import keep, record
from PIL import Image

import actionflow
from actionflow.cli import cli
from actionflow.errors import DataError, SettingsError
from actionflow.store.writing import RunWriter

SAMPLES = 30
LABELS = np.arange(SAMPLES) % 3
CLASSES = ["T-shirt/top", "..", "$x$ and $y"]


def png():
    file = BytesIO()
    Image.new("L", (8, 8), 120).save(file, "PNG")
    return file.getvalue()


def trained(store, name, seed, tags, model="cnn", features=True):
    """A run with pictures, entropy, and features in which a sample's neighbours are those of the next ids."""
    draw = np.random.default_rng(seed)
    predictions = np.where(draw.random(SAMPLES) < 0.3, (LABELS + 1) % 3, LABELS)
    losses = draw.gamma(1.0, 1.0, (SAMPLES, 3)) + 3 * (predictions != LABELS)[:, None]
    tags = {**tags, "actionflow.model": model}
    run_id = record(name, losses, LABELS, predictions, tags, entropy=draw.random(SAMPLES).astype(np.float32))
    if features:
        writer = RunWriter(run_id, store.client)
        places = np.arange(SAMPLES, dtype=np.float32)
        writer.log_features("val", np.arange(SAMPLES), np.stack([places, places], axis=1))
        writer.sender.close()
    return run_id


@pytest.fixture(scope="module")
def runs(module_store):
    """Two runs of one model and one of another, whose names and classes are hard on a file system and on a plot."""
    columns = {"sample_id": np.arange(SAMPLES), "label": LABELS, "label_name": [CLASSES[n] for n in LABELS]}
    tags = keep(module_store, "d1", {**columns, "image": [png()] * SAMPLES})
    return [
        trained(module_store, "cnn/0 $a$", 0, tags),
        trained(module_store, "cnn/1", 1, tags),
        trained(module_store, "forest", 2, tags, model="forest", features=False),
    ]


@pytest.fixture(scope="module")
def figures(runs):
    return actionflow.paper_figures(runs)


@pytest.fixture(scope="module")
def written(figures, tmp_path_factory):
    folder = tmp_path_factory.mktemp("paper")
    figures.write(folder)
    return folder


@pytest.fixture(scope="module")
def few(figures):
    """As much of it as tells whether files arrive: two figures in the place of fourteen."""
    wanted = ("accuracy_by_score", "neighbours/cnn_1")
    return replace(figures, figures={name: figures.figures[name] for name in wanted})


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def invoke(*words):
    return CliRunner().invoke(cli, ["paper-figures", *words], catch_exceptions=False)


def test_every_figure_and_table_is_a_file(written):
    files = {path.relative_to(written).as_posix() for path in written.rglob("*.png")}
    grids = {f"{label}_{name}" for label, name in enumerate(("T-shirt_top", "unnamed", "x_and_y"))}
    assert files == {
        *(f"{name}.png" for name in ("accuracy_by_score", "action_against_entropy", "variance_against_entropy")),
        "quantile_correlation.png",
        *(f"neighbours/{run}.png" for run in ("cnn_0_a", "cnn_1")),
        *(f"easiest_and_hardest/{run}/{grid}.png" for run in ("cnn_0_a", "cnn_1", "forest") for grid in grids),
    }
    assert {path.stem for path in written.glob("*.csv")} == {
        *("runs", "accuracy_by_score", "entropy_correlation", "neighbours", "easiest_and_hardest"),
        *("agreement", "quantile_correlation"),
    }
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written.rglob("*.png"))


def test_figures_for_print_have_letters_that_publishers_take(few, tmp_path):
    few.write(tmp_path, ["pdf", "svg"])
    assert (tmp_path / "neighbours" / "cnn_1.svg").read_text().startswith("<?xml")
    pages = (tmp_path / "accuracy_by_score.pdf").read_bytes()
    assert pages.startswith(b"%PDF")
    assert b"/Type3" not in pages
    assert not list(tmp_path.rglob("*.png"))


def test_a_table_says_what_the_query_says(runs, written):
    expected = actionflow.query("hardest", runs[0], k=9, per_class=1).to_pylist()
    found = [row for row in rows_of(written / "easiest_and_hardest.csv") if row["run"] == "cnn/0 $a$"]
    hardest = [row for row in found if row["end"] == "hardest"]
    assert [int(row["sample_id"]) for row in hardest] == [row["sample_id"] for row in expected]
    assert [float(row["action"]) for row in hardest] == [row["action"] for row in expected]
    assert hardest[0]["class"] == "T-shirt/top"
    correlations = rows_of(written / "entropy_correlation.csv")
    assert [(row["run"], row["score"]) for row in correlations[:2]] == [
        ("cnn/0 $a$", "action"),
        ("cnn/0 $a$", "action_variance"),
    ]


def test_correlations_are_those_of_compare(runs, figures):
    assert figures.tables["agreement"].equals(actionflow.compare(runs).agreement)
    assert set(figures.tables["agreement"]["baseline"].to_pylist()) == {True, False}


def test_a_run_without_features_is_left_out_of_the_neighbours_and_told(figures):
    assert [note for note in figures.notes() if "forest" in note] == [
        "No neighbours: forest kept no features of its val samples. Trainings keep those of val, and with "
        "-P features=both those of train too."
    ]


def test_the_run_that_keeps_it_lists_what_it_holds(module_store, runs, few):
    run_id = few.log()
    kept = module_store.client.get_run(run_id)
    assert kept.data.tags["actionflow.kind"] == "paper_figures"
    assert kept.data.tags["actionflow.compared_runs"] == ",".join(runs)
    assert kept.info.status == "FINISHED"
    root = module_store.artifacts(run_id)
    note = kept.data.tags["mlflow.note.content"]
    listed = [line.split("`")[1] for line in note.splitlines() if line.startswith("- `")]
    assert len(listed) == 2 + 7
    assert all((root / name).exists() for name in listed)
    assert (root / "agreement.json").exists()


def test_the_project_writes_into_the_run_that_was_opened_for_it(module_store, runs, monkeypatch):
    from projects.paper_figures import main

    opened = module_store.client.create_run(module_store.experiment).info.run_id
    monkeypatch.setenv("MLFLOW_RUN_ID", opened)
    done = CliRunner().invoke(main, ["--runs", runs[0], "--format", "svg"], catch_exceptions=False)
    assert f"Logged as run {opened}" in done.stderr
    assert "No correlations between runs: cnn/0 $a$ is the only one." in done.stderr
    root = module_store.artifacts(opened)
    assert (root / "accuracy_by_score.svg").exists()
    assert (root / "accuracy_by_score.png").exists()
    assert not (root / "quantile_correlation.png").exists()


def test_runs_without_labels_entropy_or_pictures_show_what_they_have(store, tmp_path):
    losses = np.random.default_rng(0).gamma(1.0, 1.0, (12, 2))
    with mlflow.start_run(run_name="bare"), actionflow.Recorder() as recorder:
        for epoch in range(2):
            recorder.add_signals(np.arange(12), {"loss": losses[:, epoch]})
            recorder.end_epoch()
    done = invoke("bare", "--output", str(tmp_path))
    for told in ("No accuracy of bare", "No entropy of bare", "No neighbours: bare", "bare is the only one"):
        assert told in done.stderr
    assert done.stdout == ""
    assert not list(tmp_path.rglob("*.png"))
    assert len(rows_of(tmp_path / "easiest_and_hardest.csv")) == 18


def test_of_a_thousand_classes_the_hardest_are_drawn_and_all_are_listed(store):
    count = 2_000
    labels = np.arange(count) % 1_000
    tags = keep(store, "many", {"sample_id": np.arange(count), "label": labels, "image": [png()] * count})
    record("many", np.random.default_rng(0).gamma(1.0, 1.0, (count, 2)), labels, labels, tags)
    figures = actionflow.paper_figures("many")
    assert sum(name.startswith("easiest_and_hardest/") for name in figures.figures) == 30
    assert any("the 30 hardest of 1,000 classes are drawn" in note for note in figures.notes())
    assert figures.tables["easiest_and_hardest"].num_rows == 2 * count


def test_runs_of_different_data_sets_are_refused_in_one_line(module_store, runs):
    other = record("other", [[1.0], [2.0]], [0, 1], [0, 1], {"actionflow.dataset_digest": "d2"})
    with pytest.raises(DataError, match="runs of different data sets do not compare"):
        actionflow.paper_figures([runs[0], other])


def test_no_run_and_no_such_format_are_told(runs, figures, tmp_path):
    with pytest.raises(SettingsError, match="no run is named"):
        actionflow.paper_figures([])
    with pytest.raises(SettingsError, match="png, pdf, svg, found 'gif'"):
        figures.write(tmp_path, ["gif"])
    assert "'gif' is not one of" in invoke(runs[0], "--format", "gif").stderr


def test_a_folder_that_cannot_be_written_to_is_told(figures, tmp_path):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    with pytest.raises(actionflow.ActionFlowError, match=r"cannot write into .*: .+\. Name a folder"):
        figures.write(in_the_way)
