"""Train an autoencoder, and record what every sample and every pixel of it does in every epoch.

mlflow run . -e autoencoder -P dataset=fashion_mnist     as an MLflow Project
python -m projects.autoencoder --dataset digits          the same without the launcher
python -m projects.autoencoder --help                    what each parameter means
"""

from __future__ import annotations

from dataclasses import replace

from actionflow.tracking import AutoencoderRun, launch
from actionflow.training.checks import check_trainable
from actionflow.training.curriculum import Curriculum
from actionflow.training.data import load_dataset, make_splits
from actionflow.training.loop import Trainer, seed_everything
from actionflow.training.models import build_autoencoder
from actionflow.training.objectives import RECONSTRUCTION
from projects.vision import learn


def train(run: AutoencoderRun) -> None:
    """One training from its data to its scores, of samples and of pixels."""
    settings = run.settings

    # The data: pictures are their own targets, so that a single class is enough.
    pictures = load_dataset(settings.dataset, settings.data_dir, settings.image_size, told_apart=False)
    dataset = replace(pictures.limit(settings.limit), task="reconstruction")
    splits = make_splits(dataset, settings.validation, settings.seed)
    check_trainable(splits["train"], settings, classes=False)
    curriculum = None
    if settings.curriculum:
        curriculum = Curriculum.from_table(run.curriculum(dataset), splits["train"], settings)

    # The model: random weights, drawn by the seed.
    seed_everything(settings.seed)
    model = build_autoencoder(dataset.channels, dataset.image_size)

    # The protocol of the classifiers, with another loss.
    trainer = Trainer(model, settings, RECONSTRUCTION)
    run.begin(dataset, splits, trainer)
    learn(run, trainer, splits, curriculum)


if __name__ == "__main__":
    launch(train, AutoencoderRun)
