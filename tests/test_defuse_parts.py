"""Mending, part by part: the VAE's loss, the search, the mixture, the verdicts, the labels. No run is made here."""

import numpy as np
import pytest
import torch
from torch import nn

from actionflow.analysis.annotation import agreement, judged_by_people, judged_by_sources, progress
from actionflow.analysis.scenarios import distil
from actionflow.errors import DataError, QueryError, SettingsError
from actionflow.labelling import answer_of, judged, read_csv, write_sheets
from actionflow.store.scenario_labels import ScenarioLabel
from actionflow.training.data.dataset import first_samples
from actionflow.training.data.png import png_images
from actionflow.training.mending import Failures, FineTuner, Noise, Pair, VaeTrainer, search
from actionflow.training.mending.settings import CorrectStep, DistillStep, IdentifyStep, VaeStep
from actionflow.training.models.vae import build_vae, fast_decoder, kl_divergence
from actionflow.training.schedule import MostAccurate
from actionflow.training.settings import VaeSettings, VisionSettings

NAMES = {0: "cat", 1: "dog", 2: "-bird"}


# The VAE


@pytest.mark.parametrize(("channels", "size"), [(1, (28, 28)), (3, (32, 32)), (1, (9, 13)), (3, (70, 66))])
def test_pictures_of_any_size_come_back_in_their_size(channels, size):
    vae = build_vae(channels, size)
    images = torch.rand(2, channels, *size)
    assert vae(images).shape == images.shape
    assert vae.encode(images)[0].shape == (2, 15 if max(size) > 64 else 10)


def test_small_grey_pictures_do_with_half_of_the_channels():
    assert build_vae(1, (28, 28)).encoder[0].out_channels == 32
    assert build_vae(3, (32, 32)).encoder[0].out_channels == 64


@pytest.mark.parametrize(("channels", "size"), [(1, (28, 28)), (3, (70, 66))])
def test_the_fast_decoder_decodes_the_same(channels, size):
    vae, codes = build_vae(channels, size).eval(), torch.randn(3, 15 if max(size) > 64 else 10)
    assert torch.allclose(vae.decode(codes, fast_decoder(vae)), vae.decode(codes), atol=1e-5)


def test_the_kl_is_that_of_torch_and_has_a_gradient():
    mean, log_variance = torch.randn(5, 4, requires_grad=True), torch.randn(5, 4, requires_grad=True)
    own = torch.distributions.Normal(mean, (0.5 * log_variance).exp())
    torchs = torch.distributions.kl_divergence(own, torch.distributions.Normal(0.0, 1.0)).sum(dim=1)
    ours = kl_divergence(mean, log_variance)
    assert torch.allclose(ours, torchs, atol=1e-5)
    ours.sum().backward()
    assert torch.allclose(mean.grad, mean)
    assert torch.allclose(log_variance.grad, 0.5 * (log_variance.exp() - 1))


@pytest.mark.parametrize("reconstruction", ["bernoulli", "gaussian"])
def test_a_vae_learns_to_give_pictures_back(reconstruction):
    samples = blobs(64)
    settings = VaeSettings(epochs=6, batch_size=16, beta=0.01, learning_rate=0.003, reconstruction=reconstruction)
    torch.manual_seed(0)
    trainer = VaeTrainer(build_vae(1, (8, 8)), settings)
    before = trainer.evaluate(samples, []).loss
    for _ in trainer.epochs():
        trainer.train(samples, [])
    assert trainer.evaluate(samples, []).loss < 0.9 * before


def test_beta_that_is_negative_is_refused():
    with pytest.raises(SettingsError, match="beta must be a number from 0 on, found -1"):
        VaeSettings(beta=-1.0)


# The search


class Brightness(nn.Module):
    """Takes dark pictures for class 0 and bright ones for class 1."""

    def forward(self, images):
        bright = images.flatten(1).mean(dim=1) - 0.5
        return torch.stack([-bright, bright], dim=1)


class Mirror(nn.Module):
    """A VAE whose code is the brightness of the whole picture."""

    image_shape, image_size = (1, 4, 4), (4, 4)

    def encode(self, images):
        mean = images.flatten(1).mean(dim=1, keepdim=True)
        return torch.logit(mean.clamp(0.01, 0.99)), torch.zeros_like(mean)

    decoder = ()

    def decode(self, codes, decoder):
        return codes[:, :, None, None].expand(-1, 1, 4, 4)


def grey(levels, labels):
    images = np.tile(np.asarray(levels, np.uint8)[:, None, None, None], (1, 1, 4, 4))
    return first_samples(images, np.asarray(labels), [""] * len(levels))


def blobs(count):
    draw = np.random.default_rng(0)
    images = (draw.random((count, 1, 1, 1)) * 255 * np.ones((1, 1, 8, 8))).astype(np.uint8)
    return first_samples(images, np.arange(count) % 2, [""] * count)


def mirrored():
    return Pair(Brightness(), Mirror(), torch.device("cpu"))


def searched(samples, most=100, steps=200, **noise):
    wide = Noise(**{"a": 1, "b": 1, **noise})
    return search(mirrored(), samples, wide, steps, most, np.random.default_rng(0))


def test_counterexamples_are_found_where_a_small_step_crosses_the_border():
    near, far = 118, 10  # both dark; only the first is half a step from bright
    found = searched(grey([near, far], [0, 0]))
    assert set(found.sample_ids) == {0}
    assert (found.reading.predictions == 1).all()
    assert (found.codes > 0).all()
    assert found.images.reshape(len(found), -1).mean(axis=1).min() > 127


def test_a_sample_whose_reconstruction_is_misread_is_not_searched_around():
    found = searched(grey([118, 118], [0, 1]))
    assert set(found.sample_ids) == {0}
    assert (found.sources, found.unread) == (1, 1)


def test_at_most_so_many_of_a_sample_are_kept():
    assert len(searched(grey([118, 120], [0, 0]), most=3)) == 6


def test_nothing_found_is_a_result():
    found = searched(grey([10, 240], [0, 1]))
    assert len(found) == 0
    assert found.images.shape == (0, 1, 4, 4)


def test_no_sample_that_can_be_searched_around_is_a_result():
    assert len(searched(grey([10], [1]))) == 0


def test_batches_of_any_size_find_the_same():
    samples, noise = grey([118, 120, 110, 125], [0, 0, 0, 0]), Noise(1, 1)
    whole = search(mirrored(), samples, noise, 50, 9, np.random.default_rng(0))
    parts = search(mirrored(), samples, noise, 50, 9, np.random.default_rng(0), at_once=50)
    assert np.array_equal(whole.codes, parts.codes)
    assert np.array_equal(whole.images, parts.images)


def test_noise_is_centred_unless_it_is_the_papers():
    random = np.random.default_rng(0)
    centred, papers = Noise(50, 50).draw(random, (10_000,)), Noise(50, 50, is_centred=False).draw(random, (10_000,))
    assert abs(centred.mean()) < 0.002
    assert abs(papers.mean() - 0.5) < 0.002
    assert abs(centred.std() - Noise(50, 50).deviation) < 0.002


@pytest.mark.parametrize("shape", [(1, 5, 5), (3, 4, 4)])
def test_pictures_of_another_size_or_channel_count_are_refused(shape):
    samples = first_samples(np.zeros((2, *shape), np.uint8), np.zeros(2), ["", ""])
    with pytest.raises(DataError, match="but the VAE was trained on 4x4 with 1 channel: train one"):
        mirrored().check(samples)


# The mixture


def test_groups_that_lie_apart_are_scenarios_of_their_own():
    draw = np.random.default_rng(0)
    codes = np.concatenate([draw.normal(place, 0.1, (60, 3)) for place in (-3, 0, 3)]).astype(np.float32)
    found = distil(codes, 10, 0.01, 50_000, 0)
    assert len(found) == 3
    assert [len(set(found.members[start : start + 60])) for start in (0, 60, 120)] == [1, 1, 1]
    drawn = found.draw(0, 500, 0.5, np.random.default_rng(0))
    assert np.allclose(drawn.std(axis=0), np.sqrt(0.5 * np.diag(found.covariances[0])), rtol=0.2)


def test_one_component_alone_and_more_components_than_codes_are_fitted():
    codes = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    assert len(distil(codes, 1, 0.01, 50_000, 0)) == 1
    assert len(distil(codes, 100, 0.01, 50_000, 0)) >= 1


def test_no_weight_is_so_low_that_all_components_are_dropped():
    codes = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    assert len(distil(codes, 4, 1.0, 50_000, 0)) >= 1


def test_codes_beyond_the_most_are_given_to_scenarios_too():
    codes = np.random.default_rng(0).normal(size=(300, 2)).astype(np.float32)
    found = distil(codes, 2, 0.01, 100, 0)
    assert found.fitted == 100
    assert len(found.members) == 300


# The verdicts


def scenario(number=1, says=(0, 0, 0, 0), source_label=1):
    images = png_images(np.zeros((len(says), 1, 4, 4), np.uint8))
    return {
        "scenario": number,
        "size": 9,
        "sample_predictions": list(says),
        "sample_confidences": [0.9] * len(says),
        "sample_images": images,
        "source_label": source_label,
    }


def said(by, answer, label=None, sample=None, number=1):
    return {"labelled_by": by, "answer": answer, "label": label, "sample": sample, "scenario": number}


def verdict(labels, rho=0.5, **of):
    (found,) = judged_by_people([scenario(**of)], labels, rho)
    return found


def test_the_majority_of_annotators_names_a_failure():
    found = verdict([said("a", "class", 1), said("b", "class", 1), said("c", "class", 2)])
    assert (found.label, found.is_failure, found.wrong) == (1, True, 4)
    assert found.agreement == (2 / 3,) * 4


def test_what_is_said_of_a_single_sample_goes_before_the_whole():
    found = verdict([said("a", "class", 0, sample=2), said("a", "class", 1)])
    assert (found.label, found.wrong, found.labelled) == (1, 3, 4)


@pytest.mark.parametrize("share", [0.5, 0.75])
def test_no_more_than_rho_misread_is_no_failure(share):
    half = verdict([said("a", "class", 1)], rho=share, says=(0, 0, 1, 1))
    assert (half.is_failure, half.wrong) == (False, 2)


def test_not_a_failure_agrees_with_the_classifier_sample_by_sample():
    found = verdict([said("a", "fine")], says=(0, 1, 1, 1))
    assert (found.is_failure, found.wrong, found.labelled) == (False, 0, 4)


def test_not_one_class_is_discarded_as_are_even_votes():
    assert verdict([said("a", "none")]).told == "not one class"
    assert verdict([said("a", "class", 1), said("b", "class", 2)]).labelled == 0


def test_a_scenario_without_a_word_has_no_verdict_and_is_told():
    scenarios = [scenario(1), scenario(2)]
    labels = [said("anna", "class", 1)]
    assert [each.scenario for each in judged_by_people(scenarios, labels, 0.5)] == [1]
    assert progress(scenarios, labels).told == "1 of 2 scenarios are labelled (anna 1)"
    with pytest.raises(QueryError, match=r"1 of 2 scenarios are labelled \(anna 1\), missing 2"):
        judged(scenarios, labels, "people", 0.5, skip_unlabelled=False)
    assert len(judged(scenarios, labels, "people", 0.5, skip_unlabelled=True)) == 1


def test_the_sources_labels_need_nobody():
    found = judged_by_sources([scenario(says=(0, 0, 0, 1)), scenario(2, says=(1, 1, 1, 0))], 0.5)
    assert [(each.label, each.is_failure) for each in found] == [(1, True), (1, False)]


def test_agreement_is_the_mean_share_of_the_majority_with_its_standard_error():
    labels = [said("a", "class", 1), said("b", "class", 1), said("b", "class", 2, sample=1), said("c", "class", 1)]
    mean, error = agreement([verdict(labels)])["failures"]
    shares = [2 / 3, 1, 1, 1]
    assert mean == pytest.approx(np.mean(shares))
    assert error == pytest.approx(np.std(shares, ddof=1) / 2)


# Labels on paper


def test_a_csv_that_was_filled_in_is_read_back(tmp_path):
    scenarios = [scenario(1), scenario(2), scenario(3)]
    *pictures, target = write_sheets(tmp_path / "sheets", scenarios, NAMES)
    assert [path.name for path in pictures] == ["scenario-001.png", "scenario-002.png", "scenario-003.png"]
    lines = target.read_text().splitlines()
    lines[1] += ""
    cells = [line.split(",") for line in lines]
    cells[1][3], cells[2][3], cells[2][5] = "Dog", "none", "0"
    target.write_text("\n".join(",".join(row) for row in cells) + "\n")
    assert read_csv(target, scenarios, NAMES) == [
        ScenarioLabel(1, "class", 1),
        ScenarioLabel(2, "none"),
        ScenarioLabel(2, "class", 0, sample=2),
    ]


def test_sheets_are_not_written_over(tmp_path):
    write_sheets(tmp_path, [scenario()], NAMES)
    with pytest.raises(Exception, match="is there already, maybe filled in"):
        write_sheets(tmp_path, [scenario()], NAMES)


def test_a_class_name_is_no_formula(tmp_path):
    *_, target = write_sheets(tmp_path, [scenario(says=(2, 2))], NAMES)
    assert "'-bird (2)" in target.read_text()


@pytest.mark.parametrize("word", ["3", "horse", "-1"])
def test_labels_outside_the_classes_are_refused(word):
    with pytest.raises(QueryError, match=r"scenario 4: .* is no class, none or fine.*By number: 0 \(cat\), 1 \(dog\)"):
        answer_of(word, 4, NAMES)


def test_labels_of_scenarios_that_are_not_there_are_refused(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("scenario,answer\n7,cat\n")
    with pytest.raises(QueryError, match="there is no scenario 7: there are 1 to 1"):
        read_csv(path, [scenario()], NAMES)


def test_a_csv_without_answers_is_told(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(QueryError, match="lacks the columns scenario and answer"):
        read_csv(path, [scenario()], NAMES)


# Fine-tuning


def trained(weight, failures):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    settings = VisionSettings(epochs=3, batch_size=16, learning_rate=0.05, stop_patience=0, reduce_patience=0)
    tuner = FineTuner(model, settings, failures, weight)
    samples = blobs(64)
    for _ in tuner.epochs():
        tuner.train(samples, [])
        tuner.end_epoch(tuner.evaluate(samples, []))
    return tuner


def test_failures_are_learnt_and_without_weight_never_seen():
    # A pattern that no sample has, so that the data say nothing of it.
    image = np.zeros((20, 1, 8, 8), np.uint8)
    image[:, :, ::2, ::2] = 255
    failures = Failures(image, np.ones(20, np.int64))
    pixels = torch.from_numpy(image).float() / 255
    mended, control = trained(10.0, failures).model(pixels), trained(0.0, failures).model(pixels)
    nothing = trained(0.0, None).model(pixels)
    assert (mended.argmax(dim=1) == 1).all()
    assert mended[0, 1] - mended[0, 0] > control[0, 1] - control[0, 0] + 1
    assert torch.equal(control, nothing)


def test_the_most_accurate_epoch_is_kept_and_the_lesser_loss_decides_between_equals():
    stopping, model = MostAccurate(0), nn.Linear(1, 1)
    for epoch, (loss, accuracy) in enumerate([(0.5, 0.8), (0.9, 0.9), (0.7, 0.9), (0.1, 0.85)]):
        stopping.update(epoch, loss, accuracy, model)
    assert (stopping.best_epoch, stopping.best_accuracy, stopping.best_loss) == (2, 0.9, 0.7)


# What steps can be told


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: VaeStep(), "which classifier"),
        (lambda: IdentifyStep(run="r", a=0.0), "Beta(a, b) needs a and b above 0"),
        (lambda: DistillStep(run="r", tau=0.0), "tau must be a number above 0"),
        (lambda: CorrectStep(run="r", lambdas="1,x"), "lambdas are numbers above 0"),
        (lambda: CorrectStep(run="r", rho=1.0), "rho is a share"),
    ],
)
def test_what_cannot_be_meant_is_told(make, told):
    with pytest.raises(SettingsError) as error:
        make()
    assert told in str(error.value)
