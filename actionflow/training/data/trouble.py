"""How files that cannot be used are told of: which file, what is wrong with it, what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from actionflow.errors import DataError
from actionflow.training.data.dataset import Integers

LONGEST_REASON = 200


def one_line(error: Exception) -> str:
    """What another library's error says, short and without line breaks."""
    said = " ".join(str(error).split()) or type(error).__name__
    return said if len(said) <= LONGEST_REASON else said[:LONGEST_REASON] + "…"


@contextmanager
def read_as(kind: str, file: Path | str, *errors: type[Exception]) -> Iterator[None]:
    """Turn these errors into one line that names the file."""
    try:
        yield
    except errors as error:
        raise DataError(
            f"{file} cannot be read as {kind} ({one_line(error)}): put a whole copy in its place."
        ) from error


def check_labels(labels: Integers, classes: int, file: Path) -> None:
    """Name the first row of a file whose label is none of the classes."""
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        raise DataError(
            f"{file}, row {wrong[0]}, has label {labels[wrong[0]]}, but the {classes} classes are labelled 0 to "
            f"{classes - 1}: correct the label or leave the row out."
        )
