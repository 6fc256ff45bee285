"""Data sets of texts by name: the known ones in every form people have them, and the user's own.

    dataset = load_texts("emotion", data_dir="~/data")
    splits = make_splits(dataset, validation="official")

Importing this package is instant: `datasets` and `huggingface_hub` are imported when nothing is found on this machine.
"""

from actionflow.training.texts.dataset import TextDataset, TextSamples
from actionflow.training.texts.loading import load_texts, text_dataset_names
from actionflow.training.texts.own_texts import OwnColumns

__all__ = ["OwnColumns", "TextDataset", "TextSamples", "load_texts", "text_dataset_names"]
