"""Data sets of pictures by name: the known ones in every form people have them, and the user's own.

    dataset = load_dataset("cifar10", data_dir="~/data")
    splits = make_splits(dataset, validation="test")

Importing this package is instant: Pillow, scikit-learn and torchvision are imported when a data set needs them.
"""

from actionflow.training.data.dataset import ImageDataset, Samples
from actionflow.training.data.loading import dataset_names, load_dataset
from actionflow.training.data.splits import make_splits

__all__ = ["ImageDataset", "Samples", "dataset_names", "load_dataset", "make_splits"]
