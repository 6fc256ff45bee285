"""CIFAR-10's own form: six pickled batches, unpacked or still in their archive."""

from __future__ import annotations

import codecs
import io
import pickle
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from actionflow.errors import DataError
from actionflow.training.data.arrays import part_keys
from actionflow.training.data.dataset import Images, Integers, Samples, first_samples, train_then_test
from actionflow.training.data.forms import Contents, Form, Trace, trace_files
from actionflow.training.data.known_sets import KnownSet
from actionflow.training.data.trouble import check_labels, read_as

BATCHES = {"train": tuple(f"data_batch_{number}" for number in range(1, 6)), "test": ("test_batch",)}
NAMES = tuple(name for names in BATCHES.values() for name in names)
ARCHIVE = "cifar-10-python.tar.gz"

# All that an array of numbers needs to come out of a pickle. Anything else could run code.
HARMLESS = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("numpy", "_frombuffer"): np.empty(0).__reduce_ex__(5)[0],
    ("_codecs", "encode"): codecs.encode,
}


def trace_batches(place: Path, known: KnownSet) -> Trace:
    """Look for the six batches."""
    return trace_files({name: place / name if (place / name).is_file() else None for name in NAMES})


def read_batches(place: Path, known: KnownSet) -> Contents:
    """Read the six batches."""
    return _contents(place, lambda name: (place / name).read_bytes(), known)


def trace_archive(place: Path, known: KnownSet) -> Trace:
    """Look for the archive."""
    return Trace(found=[ARCHIVE] if (place / ARCHIVE).is_file() else [])


def read_archive(place: Path, known: KnownSet) -> Contents:
    """Read the batches out of their archive, which stays packed."""
    archive = place / ARCHIVE
    with read_as("a tar archive", archive, OSError, EOFError, tarfile.TarError, zlib.error):
        batches = _unpacked(archive)
    missing = [name for name in NAMES if name not in batches]
    if missing:
        raise DataError(f"{archive} lacks {', '.join(missing)}: put a whole copy in its place.")
    return _contents(archive, batches.__getitem__, known)


BATCHES_FORM = Form(trace_batches, read_batches)
ARCHIVE_FORM = Form(trace_archive, read_archive)


def _unpacked(archive: Path) -> dict[str, bytes]:
    """The batches by name, in one pass: going back in a gzipped archive means unpacking it anew."""
    found = {}
    with tarfile.open(archive, "r:gz") as members:
        for member in members:
            file = members.extractfile(member) if Path(member.name).name in NAMES else None
            if file:
                found[Path(member.name).name] = file.read()
    return found


def _contents(place: Path, content: Callable[[str], bytes], known: KnownSet) -> Contents:
    parts = {}
    for part, names in BATCHES.items():
        batches = [_batch(place / name, content, known) for name in names]
        parts[part] = _joined(part, batches)
    return Contents(train_then_test(parts["train"], parts["test"]))


def _joined(part: str, batches: list[tuple[Images, Integers]]) -> Samples:
    labels = np.concatenate([labels for _, labels in batches])
    return first_samples(np.concatenate([images for images, _ in batches]), labels, part_keys(part, len(labels)))


def _batch(file: Path, content: Callable[[str], bytes], known: KnownSet) -> tuple[Images, Integers]:
    # A damaged pickle can raise nearly anything.
    with read_as("a CIFAR-10 batch", file, Exception):
        batch = HarmlessUnpickler(io.BytesIO(content(file.name)), encoding="latin1").load()
        pixels, labels = _entry(batch, "data"), np.asarray(_entry(batch, "labels"), np.int64)
        if pixels.dtype != np.uint8:
            raise ValueError(f"its pixels are {pixels.dtype} instead of uint8")
        images = pixels.reshape(len(labels), known.channels, *known.size)
    check_labels(labels, len(known.class_names), file)
    return images, labels


def _entry(batch: dict[str | bytes, Any], name: str) -> Any:
    """Python 2 wrote the names as text, Python 3 writes them as bytes."""
    if name not in batch and name.encode() not in batch:
        raise ValueError(f"it has no {name}")
    return batch[name] if name in batch else batch[name.encode()]


class HarmlessUnpickler(pickle.Unpickler):
    """Unpickles arrays and refuses whatever could run code."""

    def find_class(self, module: str, name: str) -> Any:
        """Give what HARMLESS names and nothing else."""
        harmless = HARMLESS.get((module.partition(".")[0], name))
        if harmless is None:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no batch needs")
        return harmless
