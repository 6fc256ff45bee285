"""A mistake gets one clear line, a run marked FAILED, and nothing half-logged."""

import resource
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from conftest import PROJECT, train, train_autoencoder
from PIL import Image

from actionflow.training.loop import Trainer


def failed_run(store):
    (run,) = store.client.search_runs([store.experiment])
    assert run.info.status == "FAILED"
    return run


MISTAKES = {
    "unknown model": ({"model": "xeption"}, "there is no model 'xeption' .*Did you mean xception"),
    "unknown data set": ({"dataset": "cifar"}, "no data set 'cifar'.*cifar10"),
    "unknown parameter": ({"epoch": 3}, "No such option.*--epochs"),
    "no epochs": ({"epochs": 0}, "epochs must be at least 1, found 0"),
    "negative epochs": ({"epochs": -5}, "epochs must be at least 1, found -5"),
    "epochs in words": ({"epochs": "many"}, "epochs must be a whole number, found 'many'"),
    "no learning": ({"learning_rate": 0}, "learning_rate must be a number above 0, found 0.0"),
    "a batch larger than the data": ({"batch_size": 5000}, "batch_size 5000 is larger than the data: .*1438"),
    "unknown signals": ({"train_signals": "some"}, "train_signals must be online or exact, found some"),
    "unknown precision": ({"precision": "fp8"}, "precision must be fp32 or bf16, found fp8"),
    "unknown device": ({"device": "gpu"}, "device gpu is not to be had here"),
    "a lone class": ({"limit": 1, "batch_size": 1}, "training samples are all of class"),
    "missing files": ({"dataset": "images", "data_dir": "/nowhere"}, "/nowhere does not exist"),
    "no such curriculum": ({"curriculum": "nowhere.parquet"}, "there is no curriculum nowhere.parquet"),
    "too small for the model": ({"model": "convnext_tiny"}, "convnext_tiny cannot take 8x8 images"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_the_run_is_marked_failed(store, mistake):
    parameters, said = MISTAKES[mistake]
    with pytest.raises(SystemExit, match=f"^Error: .*{said}") as told:
        train(**parameters)
    assert "\n" not in str(told.value)
    runs = store.client.search_runs([store.experiment])
    # A parameter that does not exist is noticed before there is a run.
    assert [run.info.status for run in runs] == ([] if mistake == "unknown parameter" else ["FAILED"])
    for run in runs:
        assert not store.artifacts(run.info.run_id).exists()
        assert said.split(".*")[0][:20] in run.data.tags["actionflow.error"]


MISTAKES_OF_AUTOENCODERS = {
    "unknown data set": ({"dataset": "nothing"}, "no data set 'nothing'. There are: cifar10, digits, fashion_mnist"),
    "another model": ({"model": "xception"}, "model must be autoencoder, found xception"),
    "unknown pixels": ({"pixels": "all"}, "pixels must be val, both or none, found all"),
    "a batch larger than the data": ({"limit": 8}, "batch_size 32 is larger than the data: there are 8"),
    "pictures that are not there": ({"dataset": "images", "data_dir": "/nowhere"}, "/nowhere does not exist"),
}


@pytest.mark.parametrize("mistake", MISTAKES_OF_AUTOENCODERS)
def test_a_mistake_with_an_autoencoder_is_one_line_too(store, mistake):
    parameters, said = MISTAKES_OF_AUTOENCODERS[mistake]
    with pytest.raises(SystemExit, match=f"^Error: .*{said}") as told:
        train_autoencoder(**parameters)
    assert "\n" not in str(told.value)
    assert not store.artifacts(failed_run(store).info.run_id).exists()


def test_a_corrupt_picture_is_named(store, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for number in range(4):
            Image.new("L", (9, 9), 50).save(tmp_path / name / f"{number}.png")
    (tmp_path / "b" / "2.png").write_bytes(b"no picture")
    with pytest.raises(SystemExit, match=r"b/2\.png cannot be read as a picture"):
        train(dataset="images", data_dir=tmp_path)
    failed_run(store)


@pytest.fixture
def poisoned_epoch(monkeypatch):
    """The weights stop being numbers in epoch 2."""
    healthy = Trainer.train

    def poisoned(self, samples, watchers, order=None):
        if self.epoch == 2:
            with torch.no_grad():
                next(self.model.parameters()).fill_(float("nan"))
        return healthy(self, samples, watchers, order)

    monkeypatch.setattr(Trainer, "train", poisoned)


@pytest.mark.usefixtures("poisoned_epoch")
def test_a_loss_that_is_no_number_stops_the_training_and_keeps_what_was_finished(store):
    with pytest.raises(SystemExit, match="the loss is nan in epoch 2, batch 0: training stops"):
        train(limit=96, epochs=5)
    run = failed_run_of_training(store)
    folder = store.artifacts(run.info.run_id) / "actionflow" / "dynamics"
    for split in ("train", "val"):
        assert sorted(path.name for path in (folder / split).iterdir()) == ["epoch-0000.parquet", "epoch-0001.parquet"]
    assert np.isfinite(pq.read_table(folder / "val" / "epoch-0001.parquet")["loss"].to_numpy()).all()


def failed_run_of_training(store):
    (run,) = store.runs()
    assert run.info.status == "FAILED"
    return run


def test_a_learning_rate_that_explodes_says_epoch_and_batch(store):
    with pytest.raises(SystemExit, match=r"the loss is \S+ in epoch 0, batch \d+: training stops"):
        train(limit=96, epochs=2, learning_rate=1e30)
    failed_run_of_training(store)


def test_a_full_disk_is_told_and_the_finished_epochs_stay(store):
    """No file may grow beyond 20 MB: the store's own stay below, xception's checkpoint does not."""
    process = subprocess.run(
        [sys.executable, "-m", "projects.vision", "--model", "xception", "--limit", "48", "--epochs", "1"],
        cwd=PROJECT,
        env=store.outside(),
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000_000, 20_000_000)),
    )
    assert process.returncode == 1
    run = failed_run_of_training(store)
    (line,) = [line for line in process.stderr.splitlines() if line.startswith("Error: ")]
    assert "epoch-0000.pt" in line
    assert "File too large" in line
    assert f"go on with -P resume={run.info.run_id}" in line
    assert "Traceback" not in process.stderr

    assert train(resume=run.info.run_id) == run.info.run_id
    assert store.client.get_run(run.info.run_id).info.status == "FINISHED"
