"""What one question may use, and how many may be asked at once; each can be set in the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields

from actionflow.errors import SettingsError

MEGABYTE = 2**20
PREFIX = "ACTIONFLOW_QUESTION_"


@dataclass(frozen=True)
class Limits:
    """The limits of a question: `ACTIONFLOW_QUESTION_SECONDS=10` in the environment sets `seconds`, and so on."""

    seconds: int = 30  # by the clock, then the question's process is killed
    megabytes: int = 2048  # of memory, beside the files it reads
    threads: int = 2
    at_once: int = 4  # questions that run; so many processes wait for the next one
    waiting: int = 16  # questions that may wait for their turn; more are turned away at once
    patience: int = 10  # seconds that one waits before it is turned away
    rows: int = 1_000_000  # of an answer; it is cut there and says so
    answer_megabytes: int = 64  # of an answer as it is sent
    sql_kilobytes: int = 256  # of a question

    @classmethod
    def from_environment(cls) -> Limits:
        """The limits as they are set, the usual ones for the rest."""
        return cls(**{field.name: _whole_number(field.name, getattr(cls, field.name)) for field in fields(cls)})

    @property
    def answer_bytes(self) -> int:
        """The most bytes of an answer."""
        return self.answer_megabytes * MEGABYTE


def _whole_number(name: str, usual: int) -> int:
    text = os.environ.get(PREFIX + name.upper(), str(usual))
    if not text.isdigit() or int(text) < 1:
        raise SettingsError(f"{PREFIX}{name.upper()} must be a whole number from 1 on, found {text!r}.")
    return int(text)
