"""Fine-tune a classifier on its labelled failure scenarios, beside two controls.

mlflow run . -e correct -P run=fashion -P labels=source     as an MLflow Project
python -m projects.correct --help                          what each parameter means
"""

from __future__ import annotations

from actionflow.tracking.mending import Chain, correct, launch_step
from actionflow.training.mending.settings import CorrectStep


def correct_step(settings: CorrectStep) -> None:
    """Fine-tune a classifier on its labelled failure scenarios, beside two controls."""
    correct(Chain.of(settings.run), settings)


if __name__ == "__main__":
    launch_step(correct_step, CorrectStep)
