"""What a run is told once, before its first epoch: tags, parameters, the data set, the environment."""

from __future__ import annotations

import json
import platform
from importlib.metadata import distributions
from typing import Any

import pyarrow as pa
import torch
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Param, Run, RunTag
from mlflow.utils.mlflow_tags import MLFLOW_DATASET_CONTEXT

from actionflow.store import layout
from actionflow.store.datasets import dataset_run, samples_table
from actionflow.store.writing import RunWriter
from actionflow.training.data import ImageDataset, Samples
from actionflow.training.data.png import png_images
from actionflow.training.loop import Trainer
from actionflow.training.settings import Settings

CONTEXTS = {"train": "training", "val": "validation", "test": "testing"}


def register(
    writer: RunWriter,
    run: Run,
    settings: Settings,
    dataset: ImageDataset,
    splits: dict[str, Samples],
    trainer: Trainer,
) -> None:
    """Tell the run what it trains."""
    client = writer.client
    with writer.sender.border("the run's description"):
        samples_run = dataset_run(
            client, run.info.experiment_id, dataset.name, dataset.digest, lambda: _samples_tables(dataset)
        )
        client.log_batch(run.info.run_id, params=_new_params(client, run.info.run_id, settings))
        client.log_batch(run.info.run_id, tags=_tags(settings, dataset, samples_run))
        client.log_inputs(run.info.run_id, datasets=_inputs(dataset, splits))
    writer.describe(_description(settings, dataset, splits, trainer))
    writer.sender.send(layout.ENVIRONMENT, lambda path: path.write_text(_installed()))


def introduction(settings: Settings, dataset: ImageDataset, splits: dict[str, Samples], trainer: Trainer) -> str:
    """What a person should know before the wait."""
    sizes = ", ".join(f"{len(samples):,} {split}" for split, samples in splits.items())
    height, width = dataset.image_size
    return (
        f"{dataset.name} from {dataset.source}: {sizes} samples of {height}x{width}x{dataset.channels}, "
        f"{len(dataset.class_names)} classes.\n"
        f"{settings.model} with {parameters_of(trainer):,} parameters on {trainer.device}."
    )


def parameters_of(trainer: Trainer) -> int:
    """How many numbers the model learns."""
    return sum(each.numel() for each in trainer.model.parameters())


def _samples_tables(dataset: ImageDataset) -> dict[str, pa.Table]:
    return {part: _samples_table(dataset, part, samples) for part, samples in dataset.parts.items()}


def _samples_table(dataset: ImageDataset, part: str, samples: Samples) -> pa.Table:
    columns = {
        "sample_id": pa.array(samples.sample_ids),
        "key": pa.array(samples.keys),
        "label": pa.array(samples.labels),
        "label_name": pa.array([dataset.class_names[label] for label in samples.labels]),
        "image": pa.array(png_images(samples.images), pa.binary()),
    }
    metadata = {name: pa.array(values) for name, values in samples.metadata.items()}
    return samples_table(dataset.name, dataset.digest, part, columns, metadata)


def _new_params(client: MlflowClient, run_id: str, settings: Settings) -> list[Param]:
    """`mlflow run` has logged its parameters already, in its own spelling: those are left alone."""
    there = client.get_run(run_id).data.params
    return [Param(name, str(value)) for name, value in settings.as_dict().items() if name not in there]


def _tags(settings: Settings, dataset: ImageDataset, samples_run: str) -> list[RunTag]:
    tags = {
        layout.TAG_TASK: "classification",
        layout.TAG_MODEL: settings.model,
        layout.TAG_DATASET: dataset.name,
        layout.TAG_DIGEST: dataset.digest,
        layout.TAG_DATASET_RUN: samples_run,
    }
    return [RunTag(name, value) for name, value in tags.items()]


def _inputs(dataset: ImageDataset, splits: dict[str, Samples]) -> list[DatasetInput]:
    return [
        DatasetInput(
            Dataset(
                name=f"{dataset.name} {split}",  # MLflow keeps one input for each name and digest
                digest=dataset.digest,
                source_type="code",
                source=json.dumps({"tags": {"source": dataset.source, "split": split}}),
                profile=json.dumps({"samples": len(samples), "classes": len(dataset.class_names)}),
            ),
            [InputTag(MLFLOW_DATASET_CONTEXT, CONTEXTS[split])],
        )
        for split, samples in splits.items()
    ]


def _description(
    settings: Settings, dataset: ImageDataset, splits: dict[str, Samples], trainer: Trainer
) -> dict[str, Any]:
    return {
        "settings": settings.as_dict(),
        "dataset": {
            "name": dataset.name,
            "digest": dataset.digest,
            "source": dataset.source,
            "class_names": list(dataset.class_names),
            "splits": {split: len(samples) for split, samples in splits.items()},
        },
        "model": {"name": settings.model, "parameters": parameters_of(trainer)},
        "environment": {
            "python": platform.python_version(),
            "platform": platform.platform(),
            "torch": torch.__version__,
            "device": str(trainer.device),
            "threads": torch.get_num_threads(),
        },
    }


def _installed() -> str:
    names = {f"{each.metadata['Name']}=={each.version}" for each in distributions()}
    return "\n".join(sorted(names, key=str.lower)) + "\n"
