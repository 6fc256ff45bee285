"""Autoencoders: small real trainings, the action of their pixels, and what is left when they are killed."""

import json
from types import SimpleNamespace

import mlflow
import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from conftest import Training, train, train_autoencoder
from PIL import Image

import actionflow
from actionflow.capture import PixelSums, pixel_losses
from actionflow.ordering import retraining
from actionflow.present.reconstructions import Rebuilt, reconstructions
from actionflow.store.reading import StoredRun
from actionflow.tracking import pixel_checkpoints
from actionflow.training.loop import Trainer

EPOCHS = 4
LONG = {"limit": 96, "epochs": EPOCHS, "stop_patience": 0, "pixels": "both"}
HEIGHT, WIDTH = 9, 20


def pictures(folder):
    """Coloured pictures whose sides are no multiples of 16, all of one class, as no classifier would take them."""
    draw = np.random.default_rng(0)
    (folder / "things").mkdir(parents=True)
    for number in range(24):
        Image.fromarray(draw.integers(0, 255, (HEIGHT, WIDTH, 3), np.uint8)).save(folder / "things" / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def trained(module_store, tmp_path_factory):
    """Digits of 8x8x1, and coloured pictures of 9x20x3."""
    folder = pictures(tmp_path_factory.mktemp("pictures"))
    colour = train_autoencoder(
        dataset="images", data_dir=folder, epochs=2, batch_size=5, pixels="both", run_name="colour"
    )
    return SimpleNamespace(store=module_store, digits=train_autoencoder(**LONG, run_name="digits"), colour=colour)


def table(store, run_id, kind, split):
    return pq.read_table(store.artifacts(run_id) / "actionflow" / kind / f"{split}.parquet")


def pixels(store, run_id, split):
    return np.stack(table(store, run_id, "pixels", split)["action"].to_numpy())


@pytest.mark.parametrize("split", ["train", "val"])
@pytest.mark.parametrize("name", ["digits", "colour"])
def test_the_actions_of_a_samples_pixels_sum_to_its_action_times_their_number(trained, name, split):
    run_id = getattr(trained, name)
    kept, scores = (table(trained.store, run_id, kind, split) for kind in ("pixels", "scores"))
    assert kept["sample_id"].equals(scores["sample_id"])
    action = np.stack(kept["action"].to_numpy()).astype(np.float64)
    assert action.shape[1] == {"digits": 8 * 8, "colour": HEIGHT * WIDTH}[name]
    np.testing.assert_allclose(action.sum(axis=1), scores["action"].to_numpy() * action.shape[1], rtol=1e-5)


def test_a_pixels_file_says_the_shape_of_its_images(trained):
    content = table(trained.store, trained.colour, "pixels", "val").schema.metadata[b"actionflow"]
    assert json.loads(content)["shape"] == [HEIGHT, WIDTH]


def test_pixels_are_asked_in_sql_beside_scores(trained):
    with actionflow.connect(["digits", "colour"]) as session:
        rows = session.sql(
            """select runs.name, max(len(pixels.action)) as pixels,
                max(abs(list_sum(pixels.action) / len(pixels.action) - scores.action)) as apart
            from pixels join scores using (run_id, split, sample_id) join runs using (run_id)
            group by runs.name order by runs.name"""
        ).to_pylist()
    assert [(row["name"], row["pixels"]) for row in rows] == [("colour", HEIGHT * WIDTH), ("digits", 64)]
    assert max(row["apart"] for row in rows) < 1e-4


def test_only_what_a_classifier_has_is_null(trained):
    epoch = pq.read_table(trained.store.artifacts(trained.digits) / "actionflow/dynamics/val/epoch-0003.parquet")
    empty = {name for name in epoch.column_names if epoch[name].null_count == epoch.num_rows}
    assert empty == {"prediction", "correct", "confidence", "entropy", "margin", "el2n", "forgotten"}
    assert len(set(epoch["label"].to_pylist())) == 10
    scores = table(trained.store, trained.digits, "scores", "val")
    assert scores["forgetting"].null_count == scores["ever_learnt"].null_count == scores.num_rows


def test_the_run_says_what_it_is(trained):
    run = trained.store.client.get_run(trained.digits)
    assert run.data.tags["actionflow.task"] == "reconstruction"
    assert run.data.tags["actionflow.model"] == "autoencoder"
    assert {"train/loss", "val/loss", "best/val_loss", "best/epoch", "val/sample_loss_p95"} <= set(run.data.metrics)
    assert not any("accuracy" in name for name in run.data.metrics)


def test_it_learns_and_the_recorded_loss_is_the_validation_loss(trained):
    history = trained.store.client.get_metric_history(trained.digits, "val/loss")
    means = trained.store.client.get_metric_history(trained.digits, "val/sample_loss_mean")
    assert [point.value for point in means] == pytest.approx([point.value for point in history], rel=1e-5)
    assert history[-1].value < history[0].value < 0.75


def test_the_code_of_the_best_model_finds_neighbours(trained):
    features = table(trained.store, trained.digits, "features", "val")
    assert features.schema.field("feature").type.list_size == 128
    with actionflow.connect("digits") as session:
        (one, *_) = features["sample_id"].to_pylist()
        assert session.query("neighbours", sample_id=one, k=3).num_rows == 3


def test_what_needs_predictions_is_left_out_of_report_and_note(trained):
    folder = trained.store.artifacts(trained.digits)
    page = (folder / "action_report.html").read_text()
    assert "Action in each class" in page
    assert "The hardest and the easiest of each class" in page
    for lacking in ("What is taken for what", "Accuracy by quantile", "last prediction and action", ">accuracy<"):
        assert lacking not in page
    for name in ("reconstructions.png", "action_histogram.png", "loss_curves.png", "hardest.png"):
        assert Image.open(folder / name).width > 300
    note = trained.store.client.get_run(trained.digits).data.tags["mlflow.note.content"]
    assert "| class | samples | mean action | median action |" in note


def test_the_model_that_is_kept_gives_pictures_back(trained):
    (logged,) = mlflow.search_logged_models(
        [trained.store.experiment], f"source_run_id = '{trained.colour}'", output_format="list"
    )
    model = mlflow.pytorch.load_model(logged.model_uri)
    images = torch.rand(3, 3, HEIGHT, WIDTH)
    again = model(images).detach()
    assert again.shape == images.shape
    assert 0 <= float(again.min()) < float(again.max()) <= 1


def test_a_run_is_trained_again_by_its_own_entry_point(trained):
    stored = StoredRun(trained.store.client.get_run(trained.colour), trained.store.client)
    command = retraining(stored, {})
    assert command.startswith("mlflow run . -e autoencoder ")
    assert "-P pixels=both" in command
    assert "-P dataset=images" in command


def test_a_killed_run_ends_with_the_pixels_of_an_unbroken_one(trained):
    training = Training(trained.store, "autoencoder", **LONG)
    run_id = training.wait_for("checkpoint/epoch-0001.pt")
    training.kill()
    with pytest.raises(SystemExit, match=r"by entry point autoencoder, not by vision: .*-e autoencoder -P resume="):
        train(resume=run_id)

    assert train_autoencoder(resume=run_id) == run_id

    assert trained.store.client.get_run(run_id).info.status == "FINISHED"
    assert_same_pixels(trained, run_id)


def assert_same_pixels(trained, run_id):
    for split in ("train", "val"):
        np.testing.assert_array_equal(
            pixels(trained.store, run_id, split), pixels(trained.store, trained.digits, split), strict=True
        )


@pytest.fixture
def interrupted(trained, monkeypatch):
    """A run that was interrupted in epoch 2, and whose sums count as too large to travel."""
    monkeypatch.setattr(pixel_checkpoints, "LARGEST_SENT", 0)
    healthy = Trainer.train

    def stopping(self, *samples):
        if self.epoch == 2:
            raise KeyboardInterrupt
        return healthy(self, *samples)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train", stopping)
        with pytest.raises(SystemExit):
            train_autoencoder(**LONG)
    run_id = trained.store.runs()[-1].info.run_id
    return SimpleNamespace(id=run_id, beside=trained.store.folder / "home" / "checkpoints" / run_id)


def test_sums_that_are_too_large_to_travel_wait_on_this_machine(trained, interrupted):
    kept = sorted(path.name for path in interrupted.beside.iterdir())
    assert kept == ["pixels-train-0001.npy", "pixels-val-0001.npy"]
    checkpoint = trained.store.artifacts(interrupted.id) / "actionflow/checkpoint/epoch-0001.pt"
    assert torch.load(checkpoint, weights_only=True)["pixels"] == {}

    elsewhere = interrupted.beside.rename(interrupted.beside.with_name("elsewhere"))
    with pytest.raises(SystemExit, match=r"cannot be resumed here: .*pixels-train-0001\.npy\. Resume it there, or"):
        train_autoencoder(resume=interrupted.id)
    elsewhere.rename(interrupted.beside)
    train_autoencoder(resume=interrupted.id)

    assert_same_pixels(trained, interrupted.id)
    assert not interrupted.beside.exists()


def test_what_is_not_recorded_or_left_out_by_a_curriculum_has_no_pixels(trained, capsys):
    address = actionflow.curriculum("digits", fraction=0.5)
    run_id = train_autoencoder(**{**LONG, "epochs": 1}, curriculum=address, record="train")
    assert "No pixels of split val: record=train" in capsys.readouterr().err
    assert [path.name for path in (trained.store.artifacts(run_id) / "actionflow/pixels").iterdir()] == [
        "train.parquet"
    ]
    assert pixels(trained.store, run_id, "train").shape == (48, 64)
    assert (pixels(trained.store, run_id, "train") > 0).any(axis=1).all()


def test_sums_stay_in_their_place_however_many_epochs_come():
    sums = PixelSums(np.array([3, 5, 9]), (1, 2))
    place = sums.action.data_ptr()
    for _ in range(3):
        sums.add(torch.tensor([9, 3]), torch.tensor([[[1.0, 2.0]], [[4.0, 0.0]]]))
    assert sums.action.data_ptr() == place
    assert sums.of(np.array([3, 5, 9])).tolist() == [[[12.0, 0.0]], [[0.0, 0.0]], [[3.0, 6.0]]]


def test_pixel_losses_are_the_mean_over_channels_and_float32_whatever_the_model_computed_in():
    logits, images = torch.randn(2, 3, 4, 5).bfloat16(), torch.rand(2, 3, 4, 5)
    chance = logits.float().sigmoid()
    expected = -(images * chance.log() + (1 - images) * (1 - chance).log()).mean(dim=1)
    torch.testing.assert_close(pixel_losses(logits, images), expected, rtol=1e-5, atol=1e-6)


def test_the_figure_bears_a_pixel_that_is_no_number_and_a_lone_sample():
    image = np.zeros((3, 4, 4), np.float32)
    broken = Rebuilt("cat", image, image, np.full((4, 4), np.nan))
    assert reconstructions("1 sample", {"hardest": [broken]}).subfigs
    assert reconstructions("1 sample", {"hardest": [Rebuilt("cat", image, image)]}).subfigs
