"""The classifier that is mended, with its data and its weights, and the VAE of a chain, as they were logged."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from mlflow.exceptions import MlflowException
from torch import nn

from actionflow.errors import DataError
from actionflow.store import layout, parquet
from actionflow.store.reading import StoredRun
from actionflow.training.data import ImageDataset, Samples, load_dataset, make_splits
from actionflow.training.data.label_noise import with_label_noise
from actionflow.training.data.splits import halves
from actionflow.training.loop import choose_device
from actionflow.training.mending import Pair
from actionflow.training.mending.settings import StepSettings
from actionflow.training.models import build_model
from actionflow.training.models.vae import build_vae
from actionflow.training.settings import VaeSettings, VisionSettings

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class Patient:
    """The classifier that is to be mended: its settings, and the very data that it learnt from.

    Its splits are train, val and test. Where it was validated on the official test set, that is halved: what lambda is
    chosen by must not be what it is judged by.
    """

    stored: StoredRun
    settings: VisionSettings
    dataset: ImageDataset
    splits: dict[str, Samples]
    is_halved: bool

    @classmethod
    def of(cls, stored: StoredRun, data_dir: str = "") -> Patient:
        """Read what a run was trained on again; other data are refused."""
        description = stored.description()
        if description["task"] != "classification" or "noise_kind" not in description["settings"]:
            raise DataError(f"run {stored.name} ({stored.run_id[:8]}) tells no pictures apart: name one that does.")
        settings = VisionSettings.from_dict(description["settings"])
        if settings.threshold_samples == "true":
            raise DataError(
                f"run {stored.name} ({stored.run_id[:8]}) has a class for threshold samples, which nothing can be "
                "mended to: train one without -P threshold_samples."
            )
        dataset = _data_of(stored, replace(settings, data_dir=data_dir or settings.data_dir))
        splits = make_splits(dataset, settings.validation, settings.seed)
        if "test" in splits:
            return cls(stored, settings, dataset, splits, is_halved=False)
        val, test = halves(splits["val"], settings.seed)
        return cls(stored, settings, dataset, {**splits, "val": val, "test": test}, is_halved=True)

    @property
    def names(self) -> dict[int, str]:
        """The classes by number."""
        return dict(enumerate(self.dataset.class_names))

    def classifier(self) -> nn.Module:
        """The network as it is trained, dropout and all, with the weights that were logged."""
        model = build_model(
            self.settings.model, self.dataset.channels, self.dataset.image_size, len(self.dataset.class_names)
        )
        return _with_logged_weights(self.stored, model)


def pair_of(stored: StoredRun, patient: Patient, settings: StepSettings) -> Pair:
    """The classifier and the VAE of a run, which must fit its pictures."""
    trained = VaeSettings.from_dict(stored.description()["settings"])
    channels, height, width = stored.description()["image_shape"]
    vae = build_vae(channels, (height, width), trained.code, trained.channels)
    pair = Pair(patient.classifier(), _with_logged_weights(stored, vae), choose_device(settings.device))
    pair.check(patient.splits["train"])
    return pair


def _data_of(stored: StoredRun, settings: VisionSettings) -> ImageDataset:
    dataset = load_dataset(settings.dataset, settings.data_dir, settings.image_size).limit(settings.limit)
    dataset = with_label_noise(dataset, settings)
    known = stored.run.data.tags.get(layout.TAG_DIGEST)
    if known != dataset.digest:
        raise DataError(
            f"run {stored.name} ({stored.run_id[:8]}) was trained on other data: its digest is {known}, that of "
            f"{dataset.source} is {dataset.digest}. Type -P data_dir=<where the same data lie>."
        )
    return dataset


def _with_logged_weights(stored: StoredRun, model: M) -> M:
    """Put the weights that a run has logged into a network; a run without any is told."""
    import mlflow.pytorch

    try:
        with _quiet():
            logged = mlflow.pytorch.load_model(f"runs:/{stored.run_id}/model")
    except (MlflowException, OSError) as error:
        raise DataError(
            f"run {stored.name} ({stored.run_id[:8]}) has no logged model (found: {stored.found()}; MLflow: "
            f"{parquet.first_line(error)[:120]}): train one to its end with `mlflow run . -e digits`."
        ) from error
    try:
        model.load_state_dict(logged.state_dict())
    except RuntimeError as error:
        raise DataError(
            f"the model of run {stored.name} ({stored.run_id[:8]}) is not the {type(model).__name__} that its "
            f"description tells of: {parquet.first_line(error)[:160]}"
        ) from error
    return model


@contextmanager
def _quiet() -> Iterator[None]:
    """MLflow warns that this environment is not to the letter that of the training."""
    logger = logging.getLogger("mlflow")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
