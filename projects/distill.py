"""Group what was found into failure scenarios that a person can label.

mlflow run . -e distill -P run=fashion     as an MLflow Project
python -m projects.distill --help         what each parameter means
"""

from __future__ import annotations

from actionflow.tracking.mending import Chain, distill, launch_step
from actionflow.training.mending.settings import DistillStep


def distill_step(settings: DistillStep) -> None:
    """Group what was found into failure scenarios that a person can label."""
    distill(Chain.of(settings.run), settings)


if __name__ == "__main__":
    launch_step(distill_step, DistillStep)
