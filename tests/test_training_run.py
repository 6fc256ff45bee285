"""What a training leaves in MLflow: two small real ones on digits, read in many ways."""

import json
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import SMALL, train

import actionflow

EPOCHS, VAL, TRAIN = 3, 160, 160


@pytest.fixture(scope="module")
def trained(module_store):
    """The same training with two seeds."""
    ids = [train(**SMALL, seed=seed, run_name=f"seed-{seed}") for seed in (0, 1)]
    return SimpleNamespace(store=module_store, ids=ids, first=module_store.client.get_run(ids[0]))


def artifacts(trained, run=0):
    return trained.store.artifacts(trained.ids[run])


def test_every_sample_of_every_epoch_is_in_the_run(trained):
    for split, samples in (("train", TRAIN), ("val", VAL)):
        files = sorted((artifacts(trained) / "actionflow" / "dynamics" / split).iterdir())
        assert [path.name for path in files] == [f"epoch-{epoch:04d}.parquet" for epoch in range(EPOCHS)]
        for epoch, path in enumerate(files):
            table = pq.read_table(path)
            assert table.num_rows == samples
            assert set(table["epoch"].to_pylist()) == {epoch}
            assert set(table["run_id"].to_pylist()) == {trained.ids[0]}
            assert (np.diff(table["sample_id"].to_numpy()) > 0).all()


def test_any_tool_can_read_the_files_with_no_help(trained):
    table = pq.read_table(artifacts(trained) / "actionflow" / "dynamics" / "val" / "epoch-0000.parquet")
    assert table.column_names == [
        *("run_id", "split", "epoch", "sample_id", "label", "loss", "prediction", "correct"),
        *("confidence", "entropy", "margin", "el2n", "forgotten"),
    ]
    assert json.loads(table.schema.metadata[b"actionflow"])["schema_version"] == 1


def test_scores_are_sums_over_the_files(trained):
    folder = artifacts(trained) / "actionflow"
    for split in ("train", "val"):
        epochs = [pq.read_table(path) for path in sorted((folder / "dynamics" / split).iterdir())]
        action = sum(epoch["loss"].to_numpy().astype(np.float64) for epoch in epochs)
        scores = pq.read_table(folder / "scores" / f"{split}.parquet")
        np.testing.assert_allclose(scores["action"].to_numpy(), action, rtol=1e-12)
        assert set(scores["epochs_seen"].to_pylist()) == {EPOCHS}


def test_the_recorded_validation_loss_is_the_metric(trained):
    """The signals come from the validation pass itself, so their mean is its loss."""
    history = trained.store.client.get_metric_history(trained.ids[0], "val/loss")
    means = trained.store.client.get_metric_history(trained.ids[0], "val/sample_loss_mean")
    assert [point.step for point in history] == list(range(EPOCHS))
    for loss, mean in zip(history, means, strict=True):
        assert mean.value == pytest.approx(loss.value, rel=1e-5)


def test_metrics_tell_losses_accuracies_rates_and_the_spread_of_losses(trained):
    names = set(trained.first.data.metrics)
    for split in ("train", "val"):
        assert {f"{split}/loss", f"{split}/accuracy", f"{split}/samples_per_second"} <= names
        assert {f"{split}/sample_loss_p{q}" for q in ("05", "25", "50", "75", "95")} <= names
    assert {"learning_rate", "best/epoch", "best/val_loss", "best/val_accuracy", "epochs"} <= names


def test_tags_say_what_it_is(trained):
    tags = trained.first.data.tags
    assert tags["actionflow.task"] == "classification"
    assert tags["actionflow.dataset"] == "digits"
    assert tags["actionflow.model"] == "keras_cnn"
    assert tags["actionflow.schema_version"] == "1"


def test_parameters_are_logged_once_each(trained):
    params = trained.first.data.params
    assert (params["epochs"], params["limit"], params["learning_rate"]) == ("3", "160", "0.001")


def test_the_data_set_is_an_input_with_its_digest(trained):
    inputs = trained.first.inputs.dataset_inputs
    assert {each.tags[0].value for each in inputs} == {"training", "validation"}
    assert {each.dataset.digest for each in inputs} == {trained.first.data.tags["actionflow.dataset_digest"]}


def test_pictures_are_stored_once_for_both_runs(trained):
    (samples_run,) = trained.store.runs(kind="dataset")
    assert {trained.store.client.get_run(run).data.tags["actionflow.dataset_run"] for run in trained.ids} == {
        samples_run.info.run_id
    }
    table = pq.read_table(trained.store.artifacts(samples_run.info.run_id) / "actionflow" / "samples" / "test.parquet")
    assert table["image"][0].as_py().startswith(b"\x89PNG")
    assert set(table["label_name"].to_pylist()) <= set("0123456789")
    assert not (artifacts(trained) / "actionflow" / "samples").exists()


def test_features_of_the_last_layer_are_kept_for_validation(trained):
    table = pq.read_table(artifacts(trained) / "actionflow" / "features" / "val.parquet")
    assert table.num_rows == VAL
    assert table.schema.field("feature").type == pa.list_(pa.float32(), 128)
    assert not (artifacts(trained) / "actionflow" / "features" / "train.parquet").exists()


def test_the_table_of_the_hardest_has_thumbnails_and_the_same_rows_in_each_run(trained):
    tables = [json.loads((artifacts(trained, run) / "hardest.json").read_text()) for run in (0, 1)]
    assert [len(table["data"]) for table in tables] == [24, 24]
    thumbnail = tables[0]["data"][0][tables[0]["columns"].index("image")]
    assert (artifacts(trained) / thumbnail["filepath"]).is_file()


def test_the_hardest_table_names_the_samples_with_the_most_action(trained):
    table = json.loads((artifacts(trained) / "hardest.json").read_text())
    listed = [row[table["columns"].index("sample_id")] for row in table["data"]]
    scores = pq.read_table(artifacts(trained) / "actionflow" / "scores" / "val.parquet").to_pandas()
    assert listed == scores.sort_values("action", ascending=False).head(24)["sample_id"].tolist()


def test_pictures_lie_at_the_root_where_the_compare_page_finds_them(trained):
    for name in ("action_histogram.png", "hardest.png"):
        assert (artifacts(trained) / name).read_bytes().startswith(b"\x89PNG")


def test_the_model_has_the_best_weights_and_a_signature_and_loads_anywhere(trained):
    import mlflow

    from actionflow.training.data import load_dataset

    images = load_dataset("digits").limit(160).parts["test"].images.astype(np.float32) / 255
    model = mlflow.pyfunc.load_model(f"runs:/{trained.ids[0]}/model")
    predicted = model.predict(images).argmax(axis=1)
    assert model.metadata.signature.inputs.to_dict()[0]["tensor-spec"]["shape"] == (-1, 1, 8, 8)
    table = pq.read_table(artifacts(trained) / "actionflow" / "dynamics" / "val" / f"epoch-{best(trained):04d}.parquet")
    assert (predicted == table["prediction"].to_numpy()).all()


def best(trained):
    return int(trained.first.data.metrics["best/epoch"])


def test_no_checkpoint_and_no_local_file_is_left_of_a_finished_run(trained):
    assert not list((artifacts(trained) / "actionflow").glob("checkpoint/*"))
    assert not list((trained.store.folder / "home" / "unsent").glob("*"))


def test_the_environment_is_written_down(trained):
    text = (artifacts(trained) / "actionflow" / "requirements.txt").read_text()
    assert "\ntorch==" in text
    assert "\nmlflow==" in text


def test_the_hardest_are_asked_for_in_python(trained):
    with actionflow.connect("seed-0") as session:
        rows = session.query("hardest", k=3).to_pylist()
    assert [row["hardness_rank"] for row in rows] == [1, 2, 3]
    assert rows[0]["action"] >= rows[1]["action"] >= rows[2]["action"]


def test_scores_on_demand_equal_the_written_ones(trained):
    from actionflow.session import compute_scores
    from actionflow.store.finding import find_runs

    (run,) = find_runs(["seed-0"])
    made = compute_scores([run.recorded()])
    for split in ("train", "val"):
        written = pq.read_table(artifacts(trained) / "actionflow" / "scores" / f"{split}.parquet")
        assert made.filter(pa.compute.equal(made["split"], split)).cast(written.schema).equals(written)


def test_two_seeds_agree_on_most_of_what_is_hard(trained):
    with actionflow.connect(["seed-0", "seed-1"]) as session:
        row, *classes = session.query("run_correlation", run_a=trained.ids[0], run_b=trained.ids[1]).to_pylist()
    assert row["samples"] == VAL == sum(each["samples"] for each in classes)
    assert 0.3 < row["pearson"] < 1


def test_pictures_can_be_joined_to_scores(trained):
    with actionflow.connect("seed-0") as session:
        rows = session.sql(
            "select s.label, m.label_name, m.image from scores s join samples m using (sample_id) where split = 'val'"
        ).to_pylist()
    assert len(rows) == VAL
    assert all(str(row["label"]) == row["label_name"] for row in rows)


def test_a_deleted_data_set_run_takes_only_the_pictures_with_it(trained, capsys):
    (samples_run,) = trained.store.runs(kind="dataset")
    folder = trained.store.artifacts(samples_run.info.run_id)
    folder.rename(folder.with_name("gone"))
    try:
        with actionflow.connect("seed-0") as session:
            assert session.query("hardest", k=1).num_rows == 1
            assert session.sql("select * from samples").num_rows == 0
            assert session.sql("select count(*) as n from dynamics").to_pylist() == [{"n": EPOCHS * (VAL + TRAIN)}]
    finally:
        folder.with_name("gone").rename(folder)


def test_the_runs_view_has_params_and_metrics(trained):
    with actionflow.connect() as session:
        rows = session.sql(
            "select name, dataset, model, params['seed'] as seed, epochs from runs order by name"
        ).to_pylist()
    assert [row["name"] for row in rows] == ["seed-0", "seed-1"]
    assert rows[1] == {"name": "seed-1", "dataset": "digits", "model": "keras_cnn", "seed": "1", "epochs": 3}
