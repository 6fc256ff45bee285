"""The model that a training on pictures leaves in its run."""

from __future__ import annotations

import warnings
from importlib.metadata import version

import numpy as np
import torch
from mlflow.models import ModelSignature
from mlflow.types import Schema, TensorSpec
from torch import nn

from actionflow.training.data import ImageDataset


def log_model(model: nn.Module, dataset: ImageDataset) -> None:
    """The best weights, as a graph that loads without this package and without unpickling anything."""
    import mlflow.pytorch  # seconds where Lightning is installed, which it imports: not before the first epoch

    shape = (dataset.channels, *dataset.image_size)
    # Two samples: an example of one would fix the batch size at one.
    example = np.zeros((2, *shape), np.float32)
    with torch.inference_mode():
        outputs = model.eval().cpu()(torch.from_numpy(example)).shape[1:]
    signature = ModelSignature(
        Schema([TensorSpec(np.dtype(np.float32), (-1, *shape))]),
        Schema([TensorSpec(np.dtype(np.float32), (-1, *outputs))]),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mlflow.pytorch.log_model(
            model,
            name="model",
            signature=signature,
            input_example=example,
            serialization_format="pt2",
            pip_requirements=[f"{name}=={version(name)}" for name in ("mlflow", "torch")],
        )
