"""Which samples train and which are held out."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from actionflow.errors import DataError, SettingsError
from actionflow.training.data import ImageDataset, Samples, load_dataset, make_splits
from actionflow.training.data.splits import fixed_split

DIGITS_TEST_IDS = [5, 7, 14, 17, 33, 34, 40, 44]
DIGITS_DIGEST = "be1195d5c4bc91a7"


def samples(labels, first_id=0):
    labels = np.array(labels, dtype=np.int64)
    ids = np.arange(first_id, first_id + len(labels))
    images = np.zeros((len(labels), 1, 2, 2), np.uint8)
    return Samples(ids, images, labels, [f"k{i}" for i in ids], {"number": ids * 10, "text": [str(i) for i in ids]})


@pytest.fixture
def dataset():
    """60 of class 0, 40 of class 1 to train on, 10 to test."""
    parts = {"train": samples([0, 0, 0, 1, 1] * 20), "test": samples([0, 1] * 5, first_id=100)}
    return ImageDataset(name="small", class_names=("a", "b"), parts=parts, source="here")


def test_the_official_test_set_serves_as_validation(dataset):
    splits = make_splits(dataset, "test")
    assert list(splits) == ["train", "val"]
    assert splits["val"] is dataset.parts["test"]


def test_a_fraction_divides_the_training_part_class_by_class(dataset):
    splits = make_splits(dataset, "0.1", seed=3)
    assert list(splits) == ["train", "val", "test"]
    assert np.bincount(splits["val"].labels).tolist() == [6, 4]
    assert splits["test"] is dataset.parts["test"]


def test_train_and_val_are_disjoint_and_together_the_training_part(dataset):
    splits = make_splits(dataset, "0.3", seed=3)
    together = np.concatenate([splits["train"].sample_ids, splits["val"].sample_ids])
    assert np.sort(together).tolist() == list(range(100))
    assert (np.diff(splits["train"].sample_ids) > 0).all()
    assert (np.diff(splits["val"].sample_ids) > 0).all()


def test_the_same_seed_draws_the_same_and_another_seed_others(dataset):
    drawn = [make_splits(dataset, "0.2", seed)["val"].sample_ids.tolist() for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_what_belongs_to_a_sample_stays_with_it(dataset):
    val = make_splits(dataset, "0.2", seed=5)["val"]
    assert val.keys == [f"k{i}" for i in val.sample_ids]
    assert val.metadata["number"].tolist() == (val.sample_ids * 10).tolist()
    assert val.metadata["text"] == [str(i) for i in val.sample_ids]


def test_a_rare_class_is_on_both_sides_whenever_it_can_be():
    rare = samples([0] * 98 + [1, 1])
    few = ImageDataset("rare", ("a", "b"), {"train": rare, "test": samples([0, 1], 100)}, "here")
    for fraction in ("0.05", "0.95"):
        splits = make_splits(few, fraction)
        assert sorted(splits["val"].labels)[-1] == sorted(splits["train"].labels)[-1] == 1


def test_a_lone_sample_of_a_class_stays_in_training():
    lone = samples([0] * 10 + [1])
    split = make_splits(ImageDataset("lone", ("a", "b"), {"train": lone, "test": lone}, "here"), "0.5")
    assert 1 in split["train"].labels
    assert 1 not in split["val"].labels


@pytest.mark.parametrize("validation", ["", "val", "0", "1", "-0.1", "1.5", "nan", "10%"])
def test_anything_but_test_or_a_fraction_is_refused(dataset, validation):
    with pytest.raises(SettingsError, match=r"validation=test or.*validation=0\.1"):
        make_splits(dataset, validation)


@pytest.mark.parametrize(("fraction", "empty"), [("0.001", "val"), ("0.999", "train")])
def test_a_fraction_that_leaves_a_side_empty_is_refused(dataset, fraction, empty):
    with pytest.raises(SettingsError, match=f"of 100 training samples leaves {empty} empty"):
        make_splits(dataset, fraction)


def test_digits_are_divided_once_and_for_all():
    """These ids are a promise: runs of yesterday are compared with runs of tomorrow."""
    digits = load_dataset("digits")
    assert [len(digits.parts[part]) for part in ("train", "test")] == [1438, 359]
    assert digits.parts["test"].sample_ids[:8].tolist() == DIGITS_TEST_IDS
    assert digits.digest == DIGITS_DIGEST


def test_digits_are_spread_over_all_grey_levels():
    train = load_dataset("digits").parts["train"]
    assert train.images.shape[1:] == (1, 8, 8)
    assert (train.images.min(), train.images.max()) == (0, 255)
    assert train.keys[0] == "digits/0"


def test_every_digit_is_in_the_test_part_in_proportion():
    digits = load_dataset("digits")
    tested, trained = (np.bincount(digits.parts[part].labels) for part in ("test", "train"))
    share = tested / (tested + trained)
    assert ((share > 0.19) & (share < 0.21)).all()


def test_a_fixed_split_keeps_the_ids_of_the_original_order():
    split = fixed_split(samples([0, 1] * 10))
    assert sorted([*split["train"].sample_ids, *split["test"].sample_ids]) == list(range(20))
    assert np.bincount(split["test"].labels).tolist() == [2, 2]


@pytest.mark.parametrize(
    "other",
    [
        lambda d: replace(d, class_names=("a", "c")),
        lambda d: replace(d, parts={"train": d.parts["test"], "test": d.parts["train"]}),
        lambda d: replace(d, parts={**d.parts, "test": replace(d.parts["test"], sample_ids=np.arange(200, 210))}),
        lambda d: d.limit(5),
    ],
)
def test_class_names_parts_ids_and_limits_change_the_digest(dataset, other):
    assert other(dataset).digest != dataset.digest


def test_keys_metadata_and_the_source_do_not_change_the_digest(dataset):
    parts = {name: replace(part, keys=["?"] * len(part), metadata={}) for name, part in dataset.parts.items()}
    assert replace(dataset, parts=parts, source="there").digest == dataset.digest


def test_one_sample_per_class_cannot_be_divided():
    with pytest.raises(DataError, match="at least two"):
        fixed_split(samples([0, 1, 2]))


def test_importing_the_package_loads_neither_torch_nor_sklearn_nor_pil():
    heavy = "[name for name in ('torch', 'torchvision', 'sklearn', 'PIL') if name in sys.modules]"
    code = f"import sys, actionflow.training.data; print({heavy})"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
