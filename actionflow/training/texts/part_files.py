"""Which files of a folder are which part of a data set, by the words in their names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from actionflow.errors import DataError
from actionflow.training.data.forms import subfolders
from actionflow.training.data.parquet import SHARD, missing_shards

# In the order in which ids go on from part to part.
PARTS = {
    "train": ("train", "training"),
    "validation": ("validation", "val", "valid", "dev", "development"),
    "test": ("test", "testing"),
}
PART_OF = {word: part for part, words in PARTS.items() for word in words}
# MNLI has a second validation part of other genres: whoever says validation means the matched one.
ANOTHER_PART = "mismatched"
ABOUT_THE_DATA = {"readme", "license", "licence"}
NO_LETTERS = re.compile("[^a-z]+")


@dataclass(frozen=True)
class PartFiles:
    """The files of one part, in order; `called` is the word that they are called by."""

    part: str
    called: str
    paths: tuple[Path, ...]


def part_word(name: str) -> str:
    """The word by which a name says which part it is, or nothing.

    >>> part_word("snli_1.0_dev"), part_word("validation_mismatched"), part_word("xquad.en")
    ('dev', '', '')
    """
    words = _words(name)
    return "" if ANOTHER_PART in words else next((word for word in words if word in PART_OF), "")


def find_parts(place: Path, suffixes: Sequence[str]) -> list[PartFiles]:
    """The parts that lie in a folder, as files or as folders of files, in the order of their ids."""
    found: dict[str, list[Path]] = {}
    for suffix in suffixes:
        for path in _files(place, (suffix,)):
            _add(found, part_word(path.stem), path)
        for folder in subfolders(place):
            if folder.name.lower() in PART_OF:
                for path in _files(folder, (suffix,)):
                    _add(found, folder.name.lower(), path)
    return [_part(place, part, found[part]) for part in PARTS if part in found]


def other_files(place: Path, suffixes: Sequence[str]) -> list[Path]:
    """The files of these kinds that belong to no part, but might be data."""
    unnamed = [path for path in _files(place, suffixes) if not part_word(path.stem)]
    return [path for path in unnamed if not ABOUT_THE_DATA.intersection(_words(path.stem))]


def _add(found: dict[str, list[Path]], word: str, path: Path) -> None:
    """The same part often lies there in several forms: the first form is read, the others are the same once more."""
    if word:
        paths = found.setdefault(PART_OF[word], [])
        if not paths or paths[0].suffix == path.suffix:
            paths.append(path)


def _part(place: Path, part: str, paths: list[Path]) -> PartFiles:
    alone = [path for path in paths if path.parent == place and not SHARD.match(path.name)]
    if alone and len(paths) > 1:
        raise DataError(
            f"{place} has more than one file for the part {part} ({_listed(paths)}): keep one of them there, or move "
            "the others to a folder of their own."
        )
    if missing := missing_shards(paths):
        raise DataError(f"{place} lacks {', '.join(missing)}: complete it.")
    word = part_word(paths[0].stem) or paths[0].parent.name.lower()
    return PartFiles(part, word, tuple(paths))


def _files(place: Path, suffixes: Iterable[str]) -> list[Path]:
    if not place.is_dir():
        return []
    visible = (path for path in sorted(place.iterdir()) if path.is_file() and not path.name.startswith("."))
    return [path for path in visible if path.suffix.lower() in suffixes]


def _words(name: str) -> list[str]:
    return NO_LETTERS.split(name.lower())


def _listed(paths: list[Path]) -> str:
    return ", ".join(path.name for path in paths)
