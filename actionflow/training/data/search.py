"""Where a known data set is looked for, and in which form it is there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from actionflow.errors import DataError
from actionflow.training.data import batches, ferplus, folder, idx, npz, parquet
from actionflow.training.data.forms import Form, Trace, subfolders
from actionflow.training.data.known_sets import KNOWN_SETS, KnownSet, plain
from actionflow.training.data.places import places

FORMS = {
    "idx": idx.FORM,
    "npz": npz.FORM,
    "batches": batches.BATCHES_FORM,
    "archive": batches.ARCHIVE_FORM,
    "parquet": parquet.FORM,
    "folder": folder.FORM,
    "ferplus": ferplus.FORM,
}
# Folders that torchvision and the hub put around the files.
WRAPPINGS = ("raw", "data", "plain_text")


@dataclass(frozen=True)
class Found:
    """A form in a place; `home` is the folder that a person would name."""

    home: Path
    place: Path
    form: Form
    trace: Trace


def find(known: KnownSet, data_dir: Path) -> Found | None:
    """The first complete form under `data_dir`, else the first incomplete one, else nothing."""
    incomplete = None
    for place, home in places(data_dir, lambda folder: _named(known, folder), WRAPPINGS).items():
        for form in (FORMS[name] for name in known.forms):
            found = Found(home, place, form, form.trace(place, known))
            if found.trace.complete:
                _refuse_another_name(known, home, data_dir)
                return found
            if found.trace.incomplete and incomplete is None:
                incomplete = found
    return incomplete


def _named(known: KnownSet, place: Path) -> list[Path]:
    return [path for path in subfolders(place) if plain(path.name) in known.folders]


def _refuse_another_name(known: KnownSet, home: Path, data_dir: Path) -> None:
    """Files of mnist and fashion_mnist look alike: the folder's name is all that tells them apart."""
    if home != data_dir:
        return
    path = data_dir.resolve()
    name = plain(path.parent.name if path.name in WRAPPINGS else path.name)
    others = [other.name for other in KNOWN_SETS.values() if other != known and name in other.folders]
    if others:
        raise DataError(
            f"{data_dir} is called like the data set {others[0]}, but {known.name} is asked for: type -e {others[0]}, "
            f"or -P data_dir=<folder with {known.files}>."
        )
