"""Which texts train and which are held out."""

import numpy as np
import pytest

from actionflow.training.data import ImageDataset, Samples, make_splits
from actionflow.training.data.splits import fixed_split
from actionflow.training.texts import TextDataset, TextSamples


def texts(count, first_id=0, label=-1):
    ids = np.arange(first_id, first_id + count)
    return TextSamples(ids, np.full(count, label), [f"k{i}" for i in ids], {"text": [f"text {i}" for i in ids]})


@pytest.fixture
def dataset():
    """A hundred to train on, ten to validate, twenty to test; no classes."""
    parts = {"train": texts(100), "validation": texts(10, 100), "test": texts(20, 110)}
    return TextDataset("small", "text-to-text", (), parts, "here")


def sizes(splits):
    return {split: len(samples) for split, samples in splits.items()}


def test_the_official_validation_part_leaves_the_test_part_for_the_end(dataset):
    splits = make_splits(dataset, "official")
    assert sizes(splits) == {"train": 100, "val": 10, "test": 20}
    assert splits["val"] is dataset.parts["validation"]


def test_without_a_validation_part_the_test_part_is_the_official_one():
    images = Samples(np.arange(2), np.zeros((2, 1, 2, 2), np.uint8), np.array([0, 1]), ["a", "b"])
    pictures = ImageDataset("small", ("a", "b"), {"train": images, "test": images}, "here")
    assert list(make_splits(pictures, "official")) == ["train", "val"]


def test_the_test_part_may_still_serve_as_validation(dataset):
    assert sizes(make_splits(dataset, "test")) == {"train": 100, "val": 20}


def test_a_fraction_divides_the_training_part_alone(dataset):
    splits = make_splits(dataset, "0.1", seed=1)
    assert sizes(splits) == {"train": 90, "val": 10, "test": 20}
    together = [*splits["train"].sample_ids, *splits["val"].sample_ids]
    assert sorted(together) == list(range(100))


def test_what_belongs_to_a_text_stays_with_it(dataset):
    val = make_splits(dataset, "0.2", seed=5)["val"]
    assert val.columns["text"] == [f"text {i}" for i in val.sample_ids]
    assert val.keys == [f"k{i}" for i in val.sample_ids]


def test_groups_are_held_out_whole_and_make_about_a_fifth():
    groups = [f"article {place // 7}" for place in range(140)]
    split = fixed_split(texts(140), groups)
    held_out = {groups[place] for place in split["test"].sample_ids}
    assert sizes(split) == {"train": 112, "test": 28}
    assert not held_out & {groups[place] for place in split["train"].sample_ids}


def test_a_large_group_is_never_all_there_is():
    split = fixed_split(texts(10), ["a"] * 9 + ["b"])
    assert all(sizes(split).values())
