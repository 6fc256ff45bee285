"""What every form of a data set has in common: the traces it leaves in a folder, and what reading it gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from actionflow.training.data.dataset import Samples
from actionflow.training.data.known_sets import KnownSet


@dataclass(frozen=True)
class Trace:
    """Which files of a form a folder has, and which it lacks."""

    found: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether the form can be read."""
        return bool(self.found) and not self.missing

    @property
    def incomplete(self) -> bool:
        """Whether somebody meant the form to be there."""
        return bool(self.found) and bool(self.missing)


@dataclass(frozen=True)
class Contents:
    """The parts that a form holds, and what of it was left aside."""

    parts: dict[str, Samples]
    left_aside: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Form:
    """A way to keep a data set in a folder."""

    trace: Callable[[Path, KnownSet], Trace]
    read: Callable[[Path, KnownSet], Contents]


def trace_files(found: dict[str, Path | None]) -> Trace:
    """The trace of files that all must be there."""
    return Trace(
        found=[name for name, path in found.items() if path is not None],
        missing=[name for name, path in found.items() if path is None],
    )


def named_source(place: Path | str, left_aside: list[str]) -> str:
    """Where a data set was found, and what was left aside, for a person."""
    return f"{place}; left aside: {'; '.join(left_aside)}" if left_aside else str(place)


def subfolders(place: Path) -> list[Path]:
    """The visible folders of a folder, sorted by name."""
    if not place.is_dir():
        return []
    return sorted(path for path in place.iterdir() if path.is_dir() and not path.name.startswith("."))


# The first held-out part that is there is the test part.
TRAINING_NAMES = ("train", "training")
HELD_OUT_NAMES = ("test", "testing", "val", "valid", "validation")
PART_NAMES = {"train": TRAINING_NAMES, "test": HELD_OUT_NAMES}


def is_part_name(name: str) -> bool:
    """Whether people call a part of a data set so."""
    return name.lower() in TRAINING_NAMES + HELD_OUT_NAMES


def choose_parts(names: list[str]) -> dict[str, str]:
    """Which of these names stand for the parts `train` and `test`.

    >>> choose_parts(["Train", "val", "test"])
    {'train': 'Train', 'test': 'test'}
    """
    spelled = {name.lower(): name for name in names}
    chosen = {part: next((n for n in known if n in spelled), "") for part, known in PART_NAMES.items()}
    return {part: spelled[name] for part, name in chosen.items() if name}
