"""Train a beta-VAE on a classifier's data: the first step of mending it.

mlflow run . -e vae -P run=fashion     as an MLflow Project
python -m projects.vae --help     what each parameter means
"""

from __future__ import annotations

from actionflow.tracking.mending import Chain, launch_step, train_vae
from actionflow.training.mending.settings import VaeStep


def vae(settings: VaeStep) -> None:
    """Train a beta-VAE on a classifier's data: the first step of mending it."""
    train_vae(Chain.of(settings.run, begins=True), settings)


if __name__ == "__main__":
    launch_step(vae, VaeStep)
