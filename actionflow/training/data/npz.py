"""Kuzushiji-MNIST's other official form: four npz files."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actionflow.training.data.arrays import paired
from actionflow.training.data.dataset import Samples, train_then_test
from actionflow.training.data.forms import Contents, Form, Trace, trace_files
from actionflow.training.data.known_sets import KnownSet
from actionflow.training.data.trouble import read_as


def trace(place: Path, known: KnownSet) -> Trace:
    """Look for the four files."""
    paths = [path for part in ("train", "test") for path in _files(place, part, known)]
    return trace_files({path.name: path if path.is_file() else None for path in paths})


def read(place: Path, known: KnownSet) -> Contents:
    """Read the four files."""
    return Contents(train_then_test(_part(place, "train", known), _part(place, "test", known)))


FORM = Form(trace, read)


def _files(place: Path, part: str, known: KnownSet) -> tuple[Path, Path]:
    return place / f"{known.name}-{part}-imgs.npz", place / f"{known.name}-{part}-labels.npz"


def _part(place: Path, part: str, known: KnownSet) -> Samples:
    images, labels = _files(place, part, known)
    return paired(part, (images, _array(images)), (labels, _array(labels).astype(np.int64)), known)


def _array(path: Path) -> NDArray[Any]:
    with read_as("an npz file", path, OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error):
        with np.load(path, allow_pickle=False) as arrays:
            array: NDArray[Any] = arrays["arr_0"]
        if array.dtype != np.uint8:
            raise ValueError(f"its values are {array.dtype} instead of uint8")
        return array
