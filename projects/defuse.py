"""Mend a classifier's failures: find some that nobody has seen, group them, let a person label them, fine-tune.

mlflow run . -e defuse -P run=fashion                              up to the labelling
mlflow run . -e defuse -P run=<its run> -P labels=labels.csv       and on with what a person said
mlflow run . -e defuse -P run=fashion -P labels=source             all of it, nobody asked
python -m projects.defuse --help                                   what each parameter means
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from actionflow.labelling import progress_of
from actionflow.session import say
from actionflow.tracking.mending import Chain, correct, distill, identify, launch_step, train_vae
from actionflow.training.mending.settings import (
    PEOPLE,
    CorrectStep,
    DefuseSettings,
    DistillStep,
    IdentifyStep,
    StepSettings,
    VaeStep,
)

S = TypeVar("S", bound=StepSettings)


def defuse(settings: DefuseSettings) -> None:
    """All steps under one parent; those that have finished with the same parameters are not taken again."""
    with Chain.opened(settings.run) as chain:
        _take(chain, "vae", train_vae, settings.of(VaeStep))
        _take(chain, "identify", identify, settings.of(IdentifyStep))
        _take(chain, "distill", distill, settings.of(DistillStep))
        if settings.labels == PEOPLE and (told := progress_of(chain.needed("distill"))):
            say(told)
            return
        correct(chain, settings.of(CorrectStep))


def _take(chain: Chain, name: str, take: Callable[[Chain, S], str], step: S) -> None:
    if chain.finished(name, step):
        say(f"Step {name} has finished before.")
    else:
        take(chain, step)


if __name__ == "__main__":
    launch_step(defuse, DefuseSettings)
