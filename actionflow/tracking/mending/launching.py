"""From a command line to a step of a chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import click

from actionflow.tracking.launching import options_of, run_command
from actionflow.training.mending.settings import StepSettings

S = TypeVar("S", bound=StepSettings)


def launch_step(take: Callable[[S], None], kind: type[S], arguments: Sequence[str] | None = None) -> None:
    """Read a step's parameters and take it. A mistake is one line on stderr and exit code 1."""

    def start(**words: str) -> None:
        take(kind.from_text(words))

    command = click.Command(take.__name__, params=options_of(kind), callback=start, help=take.__doc__)
    run_command(command, arguments)
