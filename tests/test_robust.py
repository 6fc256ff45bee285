"""Adversarial training: how far pictures are changed, what it is worth, and checkpoints of people's own."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from conftest import _train
from torch import nn

import actionflow
from actionflow.analysis.failure_modes import Terms
from actionflow.errors import SettingsError
from actionflow.explaining.seeing import heat_maps, see
from actionflow.training.attacks import Ball, climb, withstands, worst_case
from actionflow.training.models import build_model
from actionflow.training.robust import load_weights
from actionflow.training.settings import RobustSettings


def train_robust(**parameters):
    """Train adversarially in this process, as `python -m projects.robust` does; return the run's id."""
    from actionflow.tracking import RobustRun
    from projects import robust

    return _train(robust, RobustRun, parameters)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return build_model("keras_cnn", 1, (8, 8), 10)


@pytest.fixture
def pictures():
    return torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(1))


def lengths(pictures):
    return pictures.flatten(1).norm(dim=1)


@pytest.mark.parametrize("from_anywhere", [False, True])
def test_changed_pictures_stay_in_the_ball_and_are_pictures(pictures, from_anywhere):
    changed = climb(pictures, lambda x: x.flatten(1).sum(dim=1), Ball(0.7, 5), from_anywhere)
    assert (lengths(changed - pictures) <= 0.7 + 1e-5).all()
    assert changed.min() >= 0
    assert changed.max() <= 1


def test_a_climb_gets_as_high_as_the_ball_allows():
    """From grey, the sum of four pixels rises most when each rises by half of the radius."""
    grey = torch.full((1, 1, 2, 2), 0.5)
    changed = climb(grey, lambda x: x.flatten(1).sum(dim=1), Ball(0.4, 4))
    assert changed.flatten().tolist() == pytest.approx([0.7] * 4, abs=1e-5)


def test_the_worst_case_costs_the_model_more_and_leaves_it_as_it_was(model, pictures):
    labels = torch.arange(6)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.train()
    changed = worst_case(model, pictures, labels, Ball(1.0, 5))
    assert model.training
    assert all(each.requires_grad for each in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    model.eval()
    loss = nn.CrossEntropyLoss()
    assert loss(model(changed), labels) > loss(model(pictures), labels)


def test_who_is_wrong_as_it_is_withstands_nothing(model, pictures):
    model.eval()
    said = model(pictures).argmax(dim=1)
    labels = torch.where(torch.arange(6) < 3, said, (said + 1) % 10)
    right = withstands(model, pictures, labels, Ball(1e-6, 1), restarts=2)
    assert right.tolist() == [True] * 3 + [False] * 3


# A robust run.


@pytest.fixture(scope="module")
def runs(module_store):
    from conftest import train

    return {
        "plain": train(limit=300, epochs=2, run_name="plain"),
        "robust": train_robust(limit=300, epochs=2, attack_steps=2, robust_samples=40, run_name="robust"),
    }


def test_a_robust_run_says_what_it_withstands_and_keeps_features_of_every_sample(runs, module_store):
    run = module_store.client.get_run(runs["robust"])
    clean, robust = (run.data.metrics[f"robust/{name}_accuracy"] for name in ("clean", "robust"))
    assert 0 <= robust <= clean <= 1
    assert run.data.metrics["robust/samples"] == 40
    assert "PGD" in run.data.tags["actionflow.robust_attack"]
    assert run.data.tags["actionflow.robust_radius"] == "0.5"
    asked = "select split, count(*) as n from features group by split order by split"
    assert actionflow.query(asked, runs="robust").to_pylist() == [
        {"split": "train", "n": 300},
        {"split": "val", "n": 300},
    ]


def test_failures_are_explained_by_the_robust_model_that_there_is(runs):
    found = actionflow.explain("plain", terms=Terms(permutations=1, least=5))
    assert found.source == "128 features of the robust model robust (l2 radius 0.5)"
    assert found.asked.seer.run_id == runs["robust"]


def test_a_checkpoint_of_ones_own_is_recorded_and_not_trained(runs, module_store, tmp_path):
    torch.manual_seed(5)
    given = build_model("keras_cnn", 1, (8, 8), 10)
    weights = {f"module.model.{name}": value for name, value in given.state_dict().items()}
    torch.save({"epoch": 3, "state_dict": weights}, tmp_path / "mine.pt")
    run_id = train_robust(
        limit=300, robust_samples=10, attack_steps=1, checkpoint=tmp_path / "mine.pt", run_name="mine"
    )
    with actionflow.connect("mine") as session:
        features = session.sql("select feature from features where split = 'val' order by sample_id")["feature"]
        pictures = session.sql("select image from samples where part = 'test' order by sample_id")["image"]
    from actionflow.present.pages.thumbnails import opened
    from actionflow.training.models import PenultimateFeatures

    pixels = np.stack([np.asarray(opened(each.as_py())) for each in pictures])[:, None]
    with torch.no_grad(), PenultimateFeatures(given.eval()) as expected:
        given(torch.from_numpy(pixels).float() / 255)
    assert np.array(features.to_pylist()) == pytest.approx(expected.last.numpy(), abs=1e-5)
    assert actionflow.explain("plain", features=run_id, terms=Terms(permutations=1)).asked.seer.run_id == run_id


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "there is no checkpoint"),
        (b"no weights at all", "cannot be read as weights"),
        ({"head.weight": torch.ones(3)}, "does not fit: it lacks convolutions"),
        ({}, "no weights"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_told_in_a_line(model, tmp_path, content, told):
    path = tmp_path / "mine.pt"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        torch.save(content, path)
    with pytest.raises(SettingsError, match=told) as found:
        load_weights(model, str(path))
    assert "\n" not in str(found.value)


def test_autoattack_is_no_weaker_than_our_own_attack(pictures, model):
    pytest.importorskip("pyautoattack")
    from actionflow.training.attacks import withstands_autoattack

    model.eval()
    labels = model(pictures).argmax(dim=1)
    theirs = withstands_autoattack(model, pictures, labels, 0.3, seed=0)
    ours = withstands(model, pictures, labels, Ball(0.3, 10), restarts=1)
    assert theirs.sum() <= ours.sum()


def test_without_its_package_our_own_attack_says_so(runs, monkeypatch, module_store):
    monkeypatch.setitem(sys.modules, "pyautoattack", None)
    run_id = train_robust(limit=64, epochs=1, attack_steps=1, robust_samples=8, run_name="without")
    told = module_store.client.get_run(run_id).data.tags["actionflow.robust_attack"]
    assert told == "our own PGD, 5 steps, 5 restarts (pyautoattack is not installed)"


@pytest.mark.parametrize("words", [{"radius": 0.0}, {"radius": float("nan")}, {"step_size": -1.0}, {"attack_steps": 0}])
def test_attacks_that_cannot_be_meant_are_refused(words):
    with pytest.raises(SettingsError, match=next(iter(words))):
        RobustSettings(**words)


# Seeing a feature.


@pytest.mark.parametrize(("name", "side"), [("keras_cnn", 16), ("resnet_v2", 16), ("xception", 32), ("resnet18", 32)])
def test_a_heat_map_is_as_large_as_the_picture_and_from_nought_to_one(name, side):
    torch.manual_seed(0)
    model = build_model(name, 3, (side, side), 4).eval()
    pixels = torch.rand(2, 3, side, side)
    heat = heat_maps(model, 5, pixels)
    assert heat.shape == (2, side, side)
    assert heat.min() >= 0
    assert heat.max() <= 1 + 1e-6


def test_a_heat_map_is_the_features_map_before_it_is_pooled():
    """The network's feature 1 is the mean of the second channel: its map is that channel, normalised."""

    class Pooled(nn.Module):
        def __init__(self):
            super().__init__()
            self.maps = nn.Conv2d(1, 3, 1)
            self.head = nn.Linear(3, 2)

        def forward(self, images):
            return self.head(self.maps(images).relu().mean(dim=(2, 3)))

    torch.manual_seed(0)
    model = Pooled()
    with torch.no_grad():
        model.maps.weight.copy_(torch.tensor([1.0, 2.0, 3.0]).view(3, 1, 1, 1))
        model.maps.bias.zero_()
    pixels = torch.rand(2, 1, 4, 4)
    heat = heat_maps(model, 1, pixels)
    expected = (pixels / pixels.amax(dim=(1, 2, 3), keepdim=True))[:, 0]
    assert heat == pytest.approx(expected.numpy(), abs=1e-5)


def test_a_feature_attack_makes_the_feature_higher(model):
    model.eval()
    pictures = (np.random.default_rng(0).random((3, 1, 8, 8)) * 255).astype(np.uint8)
    from actionflow.training.models import PenultimateFeatures

    with torch.no_grad(), PenultimateFeatures(model) as features:
        model(torch.from_numpy(pictures).float() / 255)
        feature = int(features.last.mean(dim=0).argmax())
        before = features.last[:, feature].clone()
        model(torch.from_numpy(see(model, feature, pictures).attacked).float() / 255)
        assert (features.last[:, feature] > before).all()
