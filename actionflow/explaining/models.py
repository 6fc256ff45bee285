"""The model that a training on pictures left in its run, as a module that one can look into."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import mlflow.artifacts
from mlflow.exceptions import MlflowException
from torch import Tensor, nn

from actionflow.errors import StoreError
from actionflow.store import layout, parquet
from actionflow.store.reading import StoredRun

# Where MLflow puts a graph below a model's folder.
GRAPH = "data/model.pt2"


def load_model(run: StoredRun, channels: int, image_size: tuple[int, int]) -> nn.Module:
    """The model with its best weights: built by its name, for the graph in the run has no layers to hook into."""
    import torch

    from actionflow.training.models import build_model

    if not run.has(layout.DESCRIPTION):
        raise StoreError(f"run {run.name} was not trained by ActionFlow, so its model cannot be looked into.")
    description = run.description()
    classes = len(description["dataset"]["class_names"]) + (run.threshold_class >= 0)
    weights = _weights(run)
    model = build_model(description["settings"]["model"], channels, image_size, classes)
    try:
        model.load_state_dict(dict(weights), strict=False)
    except RuntimeError as error:
        raise StoreError(f"the weights of run {run.name} do not fit its model: {str(error).splitlines()[0]}") from error
    with torch.no_grad():
        for each in model.parameters():
            each.requires_grad_(False)
    return model.eval()


def _weights(run: StoredRun) -> Mapping[str, Tensor]:
    import torch

    outputs = run.run.outputs.model_outputs if run.run.outputs else []
    if not outputs:
        raise StoreError(f"run {run.name} ({run.run_id[:8]}) holds no model to look into.")
    try:
        place = run.client.get_logged_model(outputs[-1].model_id).artifact_location
        path = mlflow.artifacts.download_artifacts(
            artifact_uri=f"{place}/{GRAPH}", tracking_uri=run.client.tracking_uri
        )
    except (MlflowException, OSError) as error:
        raise StoreError(f"the model of run {run.name} cannot be fetched: {parquet.first_line(error)[:200]}") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weights: dict[str, Any] = torch.export.load(path).state_dict
    return weights
