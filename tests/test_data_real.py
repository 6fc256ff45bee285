"""Real data, when ACTIONFLOW_DATA names a folder with it."""

import os
from pathlib import Path

import numpy as np
import pytest

from actionflow.errors import DataError
from actionflow.training.data import load_dataset

DATA = Path(os.environ.get("ACTIONFLOW_DATA", "nowhere"))


def needs(folder):
    return pytest.mark.skipif(not (DATA / folder).is_dir(), reason=f"ACTIONFLOW_DATA names no folder with {folder}")


@needs("cifar10")
def test_real_cifar10_pictures_are_told_apart_by_their_labels():
    dataset = load_dataset("cifar10", str(DATA))
    train, test = dataset.parts["train"], dataset.parts["test"]
    assert train.images.shape[1:] == (3, 32, 32)
    assert test.sample_ids[0] == len(train)
    assert [dataset.class_names[label] for label in train.labels[:5]] == [
        "frog",
        "truck",
        "truck",
        "deer",
        "automobile",
    ]
    assert train.images[0, :, 0, 0].tolist() == [59, 62, 63]


@needs("ferplus")
def test_real_faces_are_kept_by_fer_plus_own_rule():
    dataset = load_dataset("ferplus", str(DATA))
    train = dataset.parts["train"]
    counted = np.column_stack([np.where(votes > 1, votes, 0) for votes in train.metadata.values()])
    assert (train.labels == counted.argmax(axis=1)).all()
    assert (2 * counted.max(axis=1) > counted.sum(axis=1)).all()
    assert train.images.shape[1:] == (1, 48, 48)
    assert (np.diff(train.sample_ids) > 0).all()
    assert "PublicTest rows" in dataset.source


@needs("kmnist-test")
def test_a_real_folder_with_only_test_images_names_the_missing_training_file():
    with pytest.raises(DataError, match=r"lacks kmnist-train-imgs\.npz"):
        load_dataset("kmnist", str(DATA / "kmnist-test"))
