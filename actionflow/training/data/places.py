"""The folders in which people keep a data set: the one that is named, those that bear its name, and their wrappings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

Named = Callable[[Path], Sequence[Path]]


def places(data_dir: Path, named: Named, wrappings: Sequence[str]) -> dict[Path, Path]:
    """Every place to look in, with the folder it belongs to; folders that bear the data set's name come first.

    `named` gives the subfolders of a folder that bear the name, `wrappings` are folders put around the files.
    """
    found: dict[Path, Path] = {}
    for home in (*named(data_dir), data_dir):
        for place in (home, *(home / wrapping for wrapping in wrappings), *named(home)):
            if place.is_dir():
                found.setdefault(place, home)
    return found
