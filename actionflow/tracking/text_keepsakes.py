"""The model that a training on texts leaves in its run."""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import mlflow.transformers
from mlflow import MlflowClient

from actionflow.training.language import LanguageModel
from actionflow.training.texts import TextDataset


def log_model(client: MlflowClient, language: LanguageModel, dataset: TextDataset, run_id: str) -> None:
    """The weights of the last epoch with their tokenizer; its folder can be trained on with -P model=<folder>."""
    model = language.model.eval().cpu()
    if dataset.task != "classification":
        # MLflow keeps pipelines of transformers, which has none for these tasks any more: a plain folder then.
        _log_folder(client, model, language.tokenizer, run_id)
        return
    with warnings.catch_warnings(), _without_advice():
        warnings.simplefilter("ignore")
        mlflow.transformers.log_model(
            {"model": model, "tokenizer": language.tokenizer},
            name="model",
            task="text-classification",
            # Left alone, MLflow imports the model in a process of its own to find out: a quarter of a minute.
            pip_requirements=[f"{name}=={version(name)}" for name in ("mlflow", "torch", "transformers", "accelerate")],
        )


def _log_folder(client: MlflowClient, model: Any, tokenizer: Any, run_id: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        client.log_artifacts(run_id, folder, "model")


@contextmanager
def _without_advice() -> Iterator[None]:
    """It looks for the model's card and licence at the hub, and is sorry not to find what was just trained."""
    logger = logging.getLogger("mlflow.transformers")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
