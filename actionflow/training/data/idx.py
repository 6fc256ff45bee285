"""MNIST's own form: idx files, plain or gzipped, as torchvision and Debian keep them too."""

from __future__ import annotations

import gzip
import struct
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

FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
GZIPPED = b"\x1f\x8b"
UNSIGNED_BYTES = 8


def trace(place: Path, known: KnownSet) -> Trace:
    """Look for the four files."""
    return trace_files({f"{name}[.gz]": _find(place, name) for names in FILES.values() for name in names})


def read(place: Path, known: KnownSet) -> Contents:
    """Read the four files."""
    return Contents(train_then_test(_part(place, "train", known), _part(place, "test", known)))


FORM = Form(trace, read)


def _find(place: Path, name: str) -> Path | None:
    # Some copies spell train-images.idx3-ubyte.
    spellings = (name, name.replace("-idx", ".idx"))
    paths = (place / f"{spelling}{ending}" for spelling in spellings for ending in ("", ".gz"))
    return next((path for path in paths if path.is_file()), None)


def _part(place: Path, part: str, known: KnownSet) -> Samples:
    images, labels = (path for path in (_find(place, name) for name in FILES[part]) if path)
    return paired(part, (images, _array(images)), (labels, _array(labels).astype(np.int64)), known)


def _array(path: Path) -> NDArray[Any]:
    with read_as("an idx file", path, OSError, EOFError, ValueError, zlib.error):
        content = path.read_bytes()
        return _parsed(gzip.decompress(content) if content.startswith(GZIPPED) else content)


def _parsed(content: bytes) -> NDArray[np.uint8]:
    """Two zeros, the type, the number of dimensions, each dimension, then the values."""
    if len(content) < 4 or content[:3] != bytes([0, 0, UNSIGNED_BYTES]):
        raise ValueError(f"it begins with {content[:4].hex(' ') or 'nothing'} instead of 00 00 08")
    values_begin = 4 + 4 * content[3]
    if len(content) < values_begin:
        raise ValueError("it breaks off in its header")
    shape = struct.unpack(f">{content[3]}I", content[4:values_begin])
    expected, there = int(np.prod(shape, dtype=object)), len(content) - values_begin
    if there < expected:
        raise ValueError(f"it breaks off after {there} of its {expected} values")
    if there > expected:
        raise ValueError(f"it goes on for {there - expected} bytes after its {expected} values")
    # A copy, because torch wants arrays that can be written to.
    return np.frombuffer(content, np.uint8, offset=values_begin).reshape(shape).copy()
