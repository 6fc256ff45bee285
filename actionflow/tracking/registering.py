"""What a run is told once, before its first epoch: tags, parameters, the data set, the environment."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sized
from dataclasses import dataclass
from importlib.metadata import distributions
from typing import Any, Protocol

import pyarrow as pa
import torch
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Param, Run, RunTag
from mlflow.utils.mlflow_tags import MLFLOW_DATASET_CONTEXT
from torch import nn

from actionflow.store import layout
from actionflow.store.datasets import dataset_run, samples_table
from actionflow.store.writing import RunWriter
from actionflow.training.settings import Settings


class StoredDataset(Protocol):
    """What a run has to know of its data, pictures or texts."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def task(self) -> str: ...  # noqa: D102
    @property
    def class_names(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def source(self) -> str: ...  # noqa: D102
    @property
    def digest(self) -> str: ...  # noqa: D102
    @property
    def parts(self) -> Mapping[str, Any]: ...  # noqa: D102
    @property
    def told(self) -> str:
        """A sample in a few words: its size, what it is read for."""
        ...

    def shown(self, part: str) -> dict[str, Any]:
        """The columns that a person looks at, and those of the user's own."""
        ...


@dataclass(frozen=True)
class ModelFacts:
    """What a run has to know of its model."""

    parameters: int
    device: str

    @classmethod
    def of(cls, model: nn.Module, device: str) -> ModelFacts:
        """Count what the model learns."""
        return cls(sum(each.numel() for each in model.parameters()), device)


CONTEXTS = {"train": "training", "val": "validation", "test": "testing"}


def register(
    writer: RunWriter,
    run: Run,
    settings: Settings,
    dataset: StoredDataset,
    splits: Mapping[str, Sized],
    model: ModelFacts,
    facts: Mapping[str, Any],
) -> None:
    """Tell the run what it trains; `facts` are what only this kind of training has to say."""
    client = writer.client
    with writer.sender.border("the run's description"):
        samples_run = dataset_run(
            client, run.info.experiment_id, dataset.name, dataset.digest, lambda: _samples_tables(dataset)
        )
        client.log_batch(run.info.run_id, params=_new_params(client, run.info.run_id, settings))
        client.log_batch(run.info.run_id, tags=_tags(settings, dataset, samples_run))
        client.log_inputs(run.info.run_id, datasets=_inputs(dataset, splits))
    writer.describe({**_description(settings, dataset, splits, model), **facts})
    writer.sender.send(layout.ENVIRONMENT, lambda path: path.write_text(_installed()))


def introduction(settings: Settings, dataset: StoredDataset, splits: Mapping[str, Sized], model: ModelFacts) -> str:
    """What a person should know before the wait."""
    sizes = ", ".join(f"{len(samples):,} {split}" for split, samples in splits.items())
    return (
        f"{dataset.name} from {dataset.source}: {sizes} samples {dataset.told}.\n"
        f"{settings.model} with {model.parameters:,} parameters on {model.device}."
    )


def _samples_tables(dataset: StoredDataset) -> dict[str, pa.Table]:
    return {part: _samples_table(dataset, part) for part in dataset.parts}


def _samples_table(dataset: StoredDataset, part: str) -> pa.Table:
    samples = dataset.parts[part]
    columns = {"sample_id": pa.array(samples.sample_ids), "key": pa.array(samples.keys)}
    if dataset.class_names:
        columns["label"] = pa.array(samples.labels)
        columns["label_name"] = pa.array([dataset.class_names[label] for label in samples.labels])
    columns |= {name: pa.array(values) for name, values in dataset.shown(part).items()}
    metadata = {name: pa.array(values) for name, values in samples.metadata.items()}
    return samples_table(dataset.name, dataset.digest, part, columns, metadata)


def _new_params(client: MlflowClient, run_id: str, settings: Settings) -> list[Param]:
    """`mlflow run` has logged its parameters already, in its own spelling: those are left alone."""
    there = client.get_run(run_id).data.params
    return [Param(name, str(value)) for name, value in settings.as_dict().items() if name not in there]


def _tags(settings: Settings, dataset: StoredDataset, samples_run: str) -> list[RunTag]:
    tags = {
        layout.TAG_TASK: dataset.task,
        layout.TAG_MODEL: settings.model,
        layout.TAG_DATASET: dataset.name,
        layout.TAG_DIGEST: dataset.digest,
        layout.TAG_DATASET_RUN: samples_run,
    }
    return [RunTag(name, value) for name, value in tags.items()]


def _inputs(dataset: StoredDataset, splits: Mapping[str, Sized]) -> list[DatasetInput]:
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
    settings: Settings, dataset: StoredDataset, splits: Mapping[str, Sized], model: ModelFacts
) -> dict[str, Any]:
    return {
        "task": dataset.task,
        "entry_point": settings.entry_point,
        "settings": settings.as_dict(),
        "dataset": {
            "name": dataset.name,
            "digest": dataset.digest,
            "source": dataset.source,
            "class_names": list(dataset.class_names),
            "splits": {split: len(samples) for split, samples in splits.items()},
        },
        "model": {"name": settings.model, "parameters": model.parameters},
        "environment": {
            "python": platform.python_version(),
            "platform": platform.platform(),
            "torch": torch.__version__,
            "device": model.device,
            "threads": torch.get_num_threads(),
        },
    }


def _installed() -> str:
    names = {f"{each.metadata['Name']}=={each.version}" for each in distributions()}
    return "\n".join(sorted(names, key=str.lower)) + "\n"
