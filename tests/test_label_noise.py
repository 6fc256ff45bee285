"""Labels made wrong on purpose: how many, which, by whom drawn, and that the right ones stay to be asked for."""

import numpy as np
import pytest
from conftest import train

import actionflow
from actionflow.errors import ActionFlowError
from actionflow.store.reading import StoredRun
from actionflow.training.data import load_dataset, make_splits
from actionflow.training.data.label_noise import with_label_noise
from actionflow.training.settings import VisionSettings

COUNT = 300


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits").limit(COUNT)


def noisy(dataset, **settings):
    return with_label_noise(dataset, VisionSettings(**settings))


def changed(before, after):
    return before.parts["train"].labels != after.parts["train"].labels


@pytest.mark.parametrize(("noise", "wrong"), [(0.2, 60), (0.001, 0), (0.005, 2), (1.0, 300)])
@pytest.mark.parametrize("kind", ["symmetric", "pairs"])
def test_as_many_labels_are_wrong_as_asked_for(digits, noise, kind, wrong):
    assert changed(digits, noisy(digits, noise=noise, noise_kind=kind)).sum() == wrong


def test_without_noise_nothing_changes(digits):
    assert noisy(digits) is digits


def test_symmetric_noise_reaches_every_other_class(digits):
    after = noisy(digits, noise=1.0)
    steps = (after.parts["train"].labels - digits.parts["train"].labels) % 10
    assert set(steps.tolist()) == set(range(1, 10))


def test_pairs_turn_a_class_into_the_next_and_the_last_into_the_first(digits):
    before, after = digits.parts["train"].labels, noisy(digits, noise=1.0, noise_kind="pairs").parts["train"].labels
    assert set(zip(before.tolist(), after.tolist(), strict=True)) == {(i, (i + 1) % 10) for i in range(10)}


def test_the_test_part_stays_as_it_was(digits):
    assert np.array_equal(noisy(digits, noise=1.0).parts["test"].labels, digits.parts["test"].labels)


def test_the_same_seed_makes_the_same_noise_and_another_seed_another(digits):
    once, again, other = (noisy(digits, noise=0.2, seed=seed) for seed in (3, 3, 4))
    assert once.digest == again.digest
    assert len({digits.digest, once.digest, other.digest}) == 3
    assert 0 < (changed(digits, once) & changed(digits, other)).sum() < 40


def test_what_is_held_out_for_validation_is_as_noisy_as_the_rest(digits):
    splits = make_splits(noisy(digits, noise=0.2), "0.5", seed=0)
    for split in ("train", "val"):
        wrong = splits[split].labels != splits[split].metadata["clean_label"]
        assert 0.1 < wrong.mean() < 0.3
    assert np.array_equal(splits["test"].labels, splits["test"].metadata["clean_label"])


@pytest.fixture
def labels_file(tmp_path, digits):
    """Labels of two people for every digit; the second one takes every fifth for a 7."""
    labels = digits.parts["train"].labels
    hasty = np.where(np.arange(COUNT) % 5 == 0, 7, labels)
    rows = [f"{place},{label},{other}" for place, (label, other) in enumerate(zip(labels, hasty, strict=True))]
    path = tmp_path / "labels.csv"
    path.write_text("\n".join(["index,careful,hasty", *rows]) + "\n")
    np.save(tmp_path / "labels.npy", hasty)
    return path


def test_labels_come_from_a_file(digits, labels_file):
    after = noisy(digits, noise_kind="file", noise_file=str(labels_file), noise_column="hasty")
    assert set(after.parts["train"].labels[::5].tolist()) == {7}
    assert not changed(
        digits, noisy(digits, noise_kind="file", noise_file=str(labels_file), noise_column="careful")
    ).any()
    array = noisy(digits, noise_kind="file", noise_file=str(labels_file.with_suffix(".npy")))
    assert array.digest == after.digest


def test_limited_data_take_the_first_labels_of_a_file(digits, labels_file):
    few = digits.limit(50)
    after = noisy(few, noise_kind="file", noise_file=str(labels_file), noise_column="hasty", limit=50)
    assert np.flatnonzero(after.parts["train"].labels == 7).tolist()[:2] == [0, 5]


MISTAKES = {
    "more than all": ({"noise": 1.5}, "noise is a share from 0 to 1, found 1.5"),
    "less than none": ({"noise": -0.1}, "noise is a share from 0 to 1, found -0.1"),
    "no number": ({"noise": float("nan")}, "noise is a share from 0 to 1, found nan"),
    "unknown kind": ({"noise_kind": "some"}, "noise_kind must be symmetric, pairs or file, found some"),
    "no file": ({"noise_kind": "file"}, "noise_kind=file needs labels: type -P noise_file="),
    "two noises": ({"noise_kind": "file", "noise_file": "{}", "noise": 0.2}, "noise=0.2 beside noise_kind=file"),
    "a file that nobody reads": ({"noise": 0.2, "noise_file": "{}"}, "read with -P noise_kind=file only"),
    "a file that is not there": ({"noise_kind": "file", "noise_file": "gone.csv"}, "there is no file gone.csv"),
    "no column": ({"noise_kind": "file", "noise_file": "{}"}, "more than one column .found: index, careful, hasty"),
    "unknown column": (
        {"noise_kind": "file", "noise_file": "{}", "noise_column": "worse"},
        "has no column worse .found: index, careful, hasty.: type -P noise_column",
    ),
    "no classes": (
        {"noise_kind": "file", "noise_file": "{}", "noise_column": "index"},
        "row 10, has label 10, but the 10 classes are labelled 0 to 9",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_that_says_what_to_type(digits, labels_file, mistake):
    settings, said = MISTAKES[mistake]
    settings = {name: str(labels_file) if value == "{}" else value for name, value in settings.items()}
    with pytest.raises(ActionFlowError, match=said) as told:
        noisy(digits, **settings)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("count", [COUNT - 1, COUNT + 1])
def test_a_file_of_another_length_is_refused(digits, tmp_path, count):
    np.save(tmp_path / "labels.npy", np.zeros(count, np.int64))
    with pytest.raises(ActionFlowError, match=f"has {count} labels for 300 training samples: it needs one for each"):
        noisy(digits, noise_kind="file", noise_file=str(tmp_path / "labels.npy"))


def test_an_array_of_no_whole_numbers_is_refused(digits, tmp_path):
    np.save(tmp_path / "labels.npy", np.zeros((COUNT, 2)))
    with pytest.raises(ActionFlowError, match=r"one row of whole numbers, found float64 of shape \[300, 2\]"):
        noisy(digits, noise_kind="file", noise_file=str(tmp_path / "labels.npy"))


@pytest.fixture(scope="module")
def noisy_run(module_store):
    """A training on noisy labels."""
    return StoredRun(module_store.client.get_run(train(limit=120, epochs=2, noise=0.2, seed=2)), module_store.client)


WRONG = """
    select count(*) as wrong from scores, runs, samples
    where runs.run_id = scores.run_id and runs.dataset_digest = samples.digest
        and samples.sample_id = scores.sample_id and samples.label <> samples.clean_label
        and samples.label = scores.label
"""


def test_sql_knows_which_labels_are_wrong(noisy_run):
    assert actionflow.query(WRONG, runs=noisy_run.run_id)["wrong"].to_pylist() == [24]


def test_a_run_that_is_resumed_finds_its_noise_again(noisy_run):
    """A resumed training reads its settings from its run, and refuses data of another digest."""
    settings = VisionSettings.from_dict(noisy_run.description()["settings"])
    again = with_label_noise(load_dataset("digits").limit(settings.limit), settings)
    assert again.digest == noisy_run.run.data.tags["actionflow.dataset_digest"]
    assert "24 of 120 training labels changed (symmetric, seed 2)" in noisy_run.description()["dataset"]["source"]
