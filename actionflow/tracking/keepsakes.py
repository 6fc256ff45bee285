"""What a run shows in the MLflow UI when it is done: pictures, the table of its hardest samples, the model."""

from __future__ import annotations

import warnings
from importlib.metadata import version
from typing import Any

import mlflow
import mlflow.pytorch
import numpy as np
import pyarrow as pa
from mlflow import MlflowClient
from mlflow.models import ModelSignature
from mlflow.types import Schema, TensorSpec
from torch import nn

from actionflow.present.figures import action_histogram, hardest_sheet
from actionflow.training.data import ImageDataset, Samples

# The same number of rows in each run, so that MLflow's table view can lay them side by side.
HARDEST_ROWS = 24


def log_pictures(
    client: MlflowClient, run_id: str, scores: pa.Table, samples: Samples, class_names: tuple[str, ...]
) -> None:
    """At the run's root, where MLflow's compare page finds them: a histogram and the hardest samples."""
    hardest = _hardest(scores)
    images = _images_of(hardest, samples)
    client.log_figure(run_id, action_histogram(scores), "action_histogram.png")
    client.log_figure(run_id, hardest_sheet(hardest, images, class_names), "hardest.png")
    client.log_table(run_id, _table(hardest, images, samples, class_names), "hardest.json")


def log_model(model: nn.Module, dataset: ImageDataset, run_id: str) -> None:
    """The best weights, as a graph that loads without this package and without unpickling anything."""
    shape = (dataset.channels, *dataset.image_size)
    # Two samples: an example of one would fix the batch size at one.
    example = np.zeros((2, *shape), np.float32)
    signature = ModelSignature(
        Schema([TensorSpec(np.dtype(np.float32), (-1, *shape))]),
        Schema([TensorSpec(np.dtype(np.float32), (-1, len(dataset.class_names)))]),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mlflow.pytorch.log_model(
            model.eval().cpu(),
            name="model",
            signature=signature,
            input_example=example,
            serialization_format="pt2",
            pip_requirements=[f"{name}=={version(name)}" for name in ("mlflow", "torch")],
        )


def _hardest(scores: pa.Table) -> list[dict[str, Any]]:
    ranked = scores.sort_by([("action", "descending"), ("sample_id", "ascending")])
    rows: list[dict[str, Any]] = ranked.slice(0, HARDEST_ROWS).to_pylist()
    return rows


def _images_of(rows: list[dict[str, Any]], samples: Samples) -> list[np.ndarray[Any, Any]]:
    """Each row's picture as (height, width) or (height, width, 3)."""
    places = np.searchsorted(samples.sample_ids, [row["sample_id"] for row in rows])
    return [image.transpose(1, 2, 0).squeeze() for image in samples.images[places]]


def _table(
    rows: list[dict[str, Any]], images: list[np.ndarray[Any, Any]], samples: Samples, class_names: tuple[str, ...]
) -> dict[str, list[Any]]:
    return {
        "rank": list(range(1, len(rows) + 1)),
        "image": [mlflow.Image(_enlarged(image)) for image in images],
        "sample_id": [row["sample_id"] for row in rows],
        "label": [class_names[row["label"]] for row in rows],
        "prediction": [class_names[row["prediction"]] for row in rows],
        "action": [round(row["action"], 4) for row in rows],
        "entropy": [round(row["entropy"], 4) for row in rows],
        "correctness": [round(row["correctness"], 4) for row in rows],
    }


def _enlarged(image: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Small pictures are shown pixel by pixel, large enough to see."""
    factor = max(1, 96 // image.shape[0])
    return image.repeat(factor, axis=0).repeat(factor, axis=1)
