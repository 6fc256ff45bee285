"""Loss curves in clusters: the numbers against scikit-learn, what a person sees, and what the run keeps."""

import csv
import io
import json
import sys

import mlflow
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.cluster import KMeans

import actionflow
from actionflow.analysis.curves import STARTS, as_matrix, cluster_names, group, word_counts
from actionflow.cli import cli
from actionflow.cli import main as command_line
from actionflow.clustering import log_curves
from actionflow.errors import DataError, SettingsError, StoreError
from actionflow.store import layout, schema
from actionflow.store.datasets import dataset_run, samples_table

LEARNT, SLOW, STUBBORN = [0.2, 0.0, 0.0], [2.0, 1.0, 0.4], [3.0, 4.0, 5.0]
PNG = b"\x89PNG"


def record(name, curves, labels=None, predictions=None, tags=None, **own):
    """A run whose samples 0, 1, … have these losses, epoch by epoch; None is an epoch in which one was not seen."""
    with mlflow.start_run(run_name=name, tags=tags or {}) as run, actionflow.Recorder() as recorder:
        for epoch in range(len(curves[0])):
            seen = [n for n, curve in enumerate(curves) if curve[epoch] is not None]
            signals = {"loss": np.array([curves[n][epoch] for n in seen], np.float32)}
            if labels is not None:
                signals |= {"label": np.array(labels)[seen], "prediction": np.array(predictions)[seen, epoch]}
            signals |= {column: np.array(values)[seen] for column, values in own.items()}
            recorder.add_signals(seen, signals)
            recorder.end_epoch()
    return run.info.run_id


def keep_texts(store, digest, columns):
    """A data set's own run, as a training makes it; returns its id."""
    table = samples_table("texts", digest, "test", {name: pa.array(values) for name, values in columns.items()}, {})
    return dataset_run(store.client, store.experiment, "texts", digest, lambda: {"test": table})


CURVES = [*([LEARNT] * 5), [0.3, 0.0, 0.0], SLOW, [2.2, 1.0, 0.4], STUBBORN, [3.0, 4.0, 6.0]]
TEXTS = [f"{'word ' * (n + 1)}number {n}" for n in range(len(CURVES))]


@pytest.fixture(scope="module")
def text_run(module_store):
    """Ten samples with texts, of two classes: six learnt, two slow, two never."""
    columns = {
        "sample_id": list(range(10)),
        "label": [0] * 8 + [1] * 2,
        "label_name": ["joy"] * 8 + ["fear"] * 2,
        "text": TEXTS,
        "target_text": ["one two"] * 9 + [None],
    }
    kept = keep_texts(module_store, "t1", columns)
    predictions = [[0, 0, 0]] * 6 + [[1, 0, 0]] * 2 + [[0, 0, 0]] * 2
    tags = {layout.TAG_DIGEST: "t1", layout.TAG_DATASET_RUN: kept}
    return record("texts", CURVES, columns["label"], predictions, tags, tokens=[4] * 8 + [10] * 2)


@pytest.fixture(scope="module")
def found(text_run):
    return actionflow.curves("texts")


def invoke(*words):
    return CliRunner().invoke(cli, ["curves", *words], catch_exceptions=False)


def told(capsys, monkeypatch, *words):
    """What the command line says of a mistake: one line."""
    monkeypatch.setattr(sys, "argv", ["actionflow", "curves", *words])
    with pytest.raises(SystemExit) as ended:
        command_line()
    line = str(ended.value)
    assert line.startswith("Error: ")
    assert "\n" not in line
    assert capsys.readouterr().out == ""
    return line


def column(table, name):
    return table[name].to_pylist()


# k-means


@st.composite
def matrices(draw):
    samples, epochs = draw(st.integers(4, 40)), draw(st.integers(1, 6))
    losses = draw(arrays(np.float32, (samples, epochs), elements=st.floats(0, 20, width=32), unique=True))
    return losses.astype(np.float64)


@settings(max_examples=25, deadline=None)
@given(matrices(), st.integers(1, 4), st.integers(0, 5))
def test_the_clusters_are_those_of_a_plain_scikit_learn_call(losses, k, seed):
    groups = group(losses, k, seed)
    plain = KMeans(k, n_init=STARTS, random_state=seed).fit(losses)
    by_level = np.argsort(plain.cluster_centers_.mean(axis=1), kind="stable")
    assert np.allclose(groups.centres, plain.cluster_centers_[by_level])
    assert np.array_equal(by_level[groups.clusters], plain.labels_)
    assert np.allclose(groups.distances, plain.transform(losses)[np.arange(len(losses)), plain.labels_], atol=1e-6)


@settings(max_examples=25, deadline=None)
@given(matrices(), st.integers(2, 4))
def test_clusters_get_harder_by_their_number_and_every_curve_is_nearest_to_its_own_centre(losses, k):
    groups = group(losses, k)
    levels = groups.centres.mean(axis=1)
    assert np.all(np.diff(levels) >= 0)
    distances = np.linalg.norm(losses[:, None] - groups.centres[None], axis=2)
    assert np.all(groups.distances <= distances.min(axis=1) + 1e-6)


def test_the_same_seed_gives_the_same_bits():
    losses = np.random.default_rng(0).gamma(1.0, 1.0, (3000, 6))
    first, second = group(losses, 3, seed=7), group(losses, 3, seed=7)
    assert np.array_equal(first.clusters, second.clusters)
    assert first.centres.tobytes() == second.centres.tobytes()


@pytest.mark.parametrize(
    ("k", "names"),
    [
        (1, ["all"]),
        (2, ["easy", "difficult"]),
        (3, ["easy", "medium", "difficult"]),
        (5, ["1 of 5 (easiest)", "2 of 5", "3 of 5", "4 of 5", "5 of 5 (most difficult)"]),
    ],
)
def test_clusters_are_named_by_their_level(k, names):
    assert cluster_names(k) == names


def test_points_in_any_order_make_a_matrix_without_the_samples_that_have_gaps():
    rows = [(7, 1, 0.5), (3, 0, 2.0), (7, 0, 1.0), (3, 1, np.nan), (5, 1, 4.0), (1, 0, 8.0), (1, 1, 9.0)]
    ids, epochs, losses = zip(*rows, strict=True)
    curves = as_matrix(pa.table({"sample_id": ids, "epoch": epochs, "loss": losses}))
    assert curves.sample_ids.tolist() == [1, 7]
    assert curves.losses.tolist() == [[8.0, 9.0], [1.0, 0.5]]
    assert (curves.unseen, curves.not_finite) == (1, 1)


def test_words_are_what_stands_between_spaces():
    assert word_counts(pa.chunked_array([["a b\n c", "   ", "one-two"]])).tolist() == [3, 0, 1]


# A run


def test_every_sample_has_its_cluster(found):
    assert column(found.members, "name") == ["easy"] * 6 + ["medium"] * 2 + ["difficult"] * 2
    assert column(found.members, "cluster") == [1] * 6 + [2] * 2 + [3] * 2
    assert column(found.members, "sample_id") == list(range(10))


def test_centres_are_the_mean_curves_of_their_members(found):
    rows = [row for row in found.centres.to_pylist() if row["name"] == "difficult"]
    assert [(row["epoch"], row["samples"], row["share"]) for row in rows] == [(n, 2, 0.2) for n in range(3)]
    assert [row["loss"] for row in rows] == pytest.approx([3.0, 4.0, 5.5])


def test_the_closest_samples_are_told_with_losses_and_predictions_by_epoch(found):
    medium = [row for row in found.closest.to_pylist() if row["name"] == "medium"]
    assert [(row["place"], row["sample_id"]) for row in medium] == [(1, 6), (2, 7)]
    assert medium[0]["losses"] == pytest.approx(SLOW)
    assert medium[0]["predicted"] == ["fear", "joy", "joy"]
    assert (medium[0]["label_name"], medium[0]["text"]) == ("joy", TEXTS[6])
    assert [row["distance"] for row in medium] == pytest.approx([0.1, 0.1])


def test_ties_for_the_closest_go_by_sample(found):
    assert [row["sample_id"] for row in found.closest.to_pylist() if row["name"] == "easy"] == [0, 1, 2]


def test_mean_lengths_are_in_words_and_in_tokens(found):
    rows = {row["name"]: row for row in found.clusters.to_pylist()}
    assert rows["difficult"]["mean_text_words"] == pytest.approx(11.5)
    assert rows["difficult"]["mean_target_words"] == pytest.approx(2.0), "a sample without a target is not counted"
    assert rows["difficult"]["mean_context_words"] is None
    assert (rows["easy"]["mean_tokens"], rows["difficult"]["mean_tokens"]) == (4.0, 10.0)


def test_what_has_gaps_or_is_no_number_is_left_out_and_told(store):
    record("gaps", [*CURVES, [1.0, None, 1.0], [np.nan, 1.0, 1.0], [1.0, np.inf, 1.0]])
    found = actionflow.curves("gaps")
    assert found.members.num_rows == 10
    assert found.notes() == [
        "gaps: 1 samples left out, which were not seen in every epoch.",
        "gaps: 2 samples left out, with a loss that is not finite.",
    ]


def test_one_epoch_is_enough(store):
    record("short", [[0.0], [0.1], [5.0], [9.0]])
    found = actionflow.curves("short", k=2)
    assert column(found.members, "name") == ["easy", "easy", "difficult", "difficult"]
    assert found.figure().axes
    assert "epoch 0" in found.text()


def test_a_task_without_classes_and_texts_shows_numbers_only(store):
    record("bare", CURVES)
    found = actionflow.curves("bare", closest=1)
    assert "predicted" not in found.text()
    assert column(found.closest, "predicted") == [[None] * 3] * 3
    assert found.figure().axes[0].get_ylabel() == "loss"


# Bad input


def test_bad_numbers_are_told_in_one_line(text_run, capsys, monkeypatch):
    assert "at least 1, found 0" in told(capsys, monkeypatch, "texts", "-k", "0")
    assert "k is 11, but split val has only 10 loss curves" in told(capsys, monkeypatch, "texts", "-k", "11")
    assert "recorded no split train, only val" in told(capsys, monkeypatch, "texts", "--split", "train")
    assert "no run is called nobody" in told(capsys, monkeypatch, "nobody")
    assert "at least 0, found -1" in told(capsys, monkeypatch, "texts", "--closest", "-1")
    assert "found -1" in told(capsys, monkeypatch, "texts", "--seed", "-1")


def test_fewer_forms_than_clusters_are_told(store):
    record("twins", [LEARNT, LEARNT, SLOW, SLOW])
    with pytest.raises(SettingsError, match="the 4 curves have only 2 forms: type -k 2"):
        actionflow.curves("twins")


def test_a_split_without_a_whole_curve_is_told(store):
    record("broken", [[np.nan, 1.0], [np.nan, 2.0]])
    with pytest.raises(DataError, match="no sample of split val has a loss curve: 0 were not seen"):
        actionflow.curves("broken")


def test_several_runs_are_refused(store):
    record("one", CURVES)
    record("two", CURVES)
    with pytest.raises(StoreError, match="curves are of one run, but tests stands for 2"):
        actionflow.curves("tests")


# What a person sees


def test_the_text_has_a_block_for_each_cluster(found):
    text = found.text(width=80)
    assert text.startswith("texts: 10 val loss curves, epochs 0 to 2\n\neasy: 6 samples (60.0 %); mean loss 0.07")
    assert "  centre     3.0000  4.0000  5.5000\n" in text
    assert "  sample 8, label fear\n" in text
    assert "  predicted    fear     joy     joy" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_long_trainings_show_as_many_epochs_as_have_room(store):
    record("long", [[loss / (1 + n) for n in range(40)] for loss in (1.0, 1.1, 5.0, 5.1, 9.0, 9.1)])
    lines = actionflow.curves("long").text(width=60).splitlines()
    shown = next(line for line in lines if line.startswith("  epoch")).split()[1:]
    assert (shown[0], shown[-1]) == ("0", "39")
    assert len(shown) < 12
    assert max(map(len, lines)) <= 60


def test_csv_has_the_cluster_of_every_sample(text_run):
    rows = list(csv.DictReader(io.StringIO(invoke("texts", "--format", "csv").stdout)))
    assert list(rows[0]) == ["sample_id", "cluster", "name", "distance"]
    assert [row["name"] for row in rows][5:7] == ["easy", "medium"]


def test_the_figure_shows_every_centre_with_its_closest_curves(found):
    (axes,) = found.figure().axes
    assert len(axes.lines) == 3 + 3 + 2 + 2
    labels = [text.get_text() for legend in found.figure().legends for text in legend.get_texts()]
    assert labels[0].startswith("difficult: 2 samples (20.0 %), on average 11.5 words of text")
    assert axes.get_ylabel() == "cross-entropy loss (nats)"


# What the run keeps


def kept_in(store, run_id):
    folder = store.artifacts(run_id)
    return folder / "loss_curves.png", folder / "loss_curves.json", folder / "actionflow" / "clusters" / "val.parquet"


def test_log_writes_clusters_figure_and_table_into_the_run_itself(store):
    run_id = record("kept", CURVES)
    assert f"Logged into run {run_id}" in invoke("kept", "--log", "--format", "csv").stderr
    figure, table, clusters = kept_in(store, run_id)
    assert figure.read_bytes().startswith(PNG)
    assert json.loads(table.read_text())["columns"][:4] == ["cluster", "name", "place", "sample_id"]
    assert pq.read_schema(clusters).names == schema.CLUSTERS.names
    facts = schema.stamp_of(pq.read_schema(clusters), "clusters")
    assert (facts["kind"], facts["k"], facts["epochs"]) == ("clusters", 3, [0, 1, 2])
    assert not layout.unsent(run_id).exists()


def test_clusters_are_a_view(store):
    record("viewed", CURVES)
    with actionflow.connect("viewed") as session:
        assert session.sql("select * from clusters").num_rows == 0
    actionflow.curves("viewed").log()
    rows = actionflow.query(
        "select cluster_name, count(*) as n, sum(action) as action from clusters join scores using (run_id, split, "
        "sample_id) group by cluster_name, cluster order by cluster",
        runs="viewed",
    ).to_pylist()
    assert [(row["cluster_name"], row["n"]) for row in rows] == [("easy", 6), ("medium", 2), ("difficult", 2)]


def test_logging_again_replaces_what_was_there(store):
    run_id = record("again", CURVES)
    actionflow.curves("again", k=3).log()
    actionflow.curves("again", k=2, closest=1).log()
    _, table, clusters = kept_in(store, run_id)
    assert len(json.loads(table.read_text())["data"]) == 2
    assert set(pq.read_table(clusters)["cluster"].to_pylist()) == {1, 2}
    assert mlflow.load_table("loss_curves.json", run_ids=[run_id]).shape[0] == 2


def test_a_run_that_is_still_open_can_be_clustered(store):
    """As a training does at its end: its epochs are files already, its scores are not."""
    with mlflow.start_run() as run:
        recorder = actionflow.Recorder()
        for epoch in range(3):
            recorder.add_signals(range(10), {"loss": np.array([curve[epoch] for curve in CURVES], np.float32)})
            recorder.end_epoch()
        assert log_curves(run.info.run_id).members.num_rows == 10
        assert all(path.exists() for path in kept_in(store, run.info.run_id))
        assert store.client.get_run(run.info.run_id).info.status == "RUNNING"
        recorder.finish()


def test_what_waits_to_be_sent_survives_the_logging(store):
    run_id = record("waiting", CURVES)
    waiting = layout.unsent(run_id) / "actionflow" / "dynamics" / "val" / "epoch-0003.parquet"
    waiting.parent.mkdir(parents=True)
    waiting.write_bytes(b"an epoch that the server did not take")
    actionflow.curves(run_id).log()
    assert waiting.exists()


def test_too_few_samples_do_not_end_a_training(store):
    run_id = record("tiny", [LEARNT, SLOW])
    said = []
    assert log_curves(run_id, say=said.append) is None
    assert said == ["No loss curves: k is 3, but split val has only 2 loss curves: type -k 2."]


def test_the_project_clusters_and_says_which_run(store, monkeypatch, capsys):
    from projects import curves as project

    run_id = record("launched", CURVES)
    launched = store.client.create_run(store.experiment).info.run_id
    monkeypatch.setenv("MLFLOW_RUN_ID", launched)
    project.main(["--run", "launched", "--k", "2"], standalone_mode=False)
    assert capsys.readouterr().out.startswith("launched: 10 val loss curves")
    assert kept_in(store, run_id)[2].exists()
    tags = store.client.get_run(launched).data.tags
    assert (tags[layout.TAG_KIND], tags[layout.TAG_CLUSTERED]) == ("curves", run_id)
