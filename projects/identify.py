"""Search around a classifier's training samples for pictures that it gets wrong.

mlflow run . -e identify -P run=fashion     as an MLflow Project
python -m projects.identify --help          what each parameter means
"""

from __future__ import annotations

from actionflow.tracking.mending import Chain, identify, launch_step
from actionflow.training.mending.settings import IdentifyStep


def identify_step(settings: IdentifyStep) -> None:
    """Search around a classifier's training samples for pictures that it gets wrong."""
    identify(Chain.of(settings.run), settings)


if __name__ == "__main__":
    launch_step(identify_step, IdentifyStep)
