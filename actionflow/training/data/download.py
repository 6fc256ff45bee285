"""torchvision's download: quiet, and whole or not at all."""

from __future__ import annotations

import io
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

from actionflow.training.data.known_sets import KnownSet
from actionflow.training.data.trouble import one_line

SILENCE = 30  # seconds without an answer, after which a server is given up


class DownloadError(Exception):
    """Why a download failed, in one line."""


def download(known: KnownSet, folder: Path) -> None:
    """Put the data set into the folder in torchvision's layout; a download that breaks off leaves no file there."""
    try:
        with tempfile.TemporaryDirectory(prefix=".download-", dir=_nearest_folder(folder)) as fresh:
            with told_on_terminals_only(), _given_up_after(SILENCE):
                _fetch(known, fresh)
            _move(Path(fresh), folder)
    except Exception as error:  # torchvision passes on whatever its libraries raise
        raise DownloadError(one_line(error)) from error


def _fetch(known: KnownSet, folder: str) -> None:
    from torchvision import datasets

    getattr(datasets, known.torchvision)(folder, download=True)


def _nearest_folder(folder: Path) -> Path:
    """The folder or, before it is made, the one it will lie in: moving files between discs is no single step."""
    folder = folder.absolute()
    return next(path for path in (folder, *folder.parents) if path.is_dir())


def _move(fresh: Path, folder: Path) -> None:
    for path in sorted(fresh.rglob("*")):
        target = folder / path.relative_to(fresh)
        if path.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, target)


@contextmanager
def told_on_terminals_only() -> Iterator[None]:
    """Standard output is for data, and a progress bar in a log file is noise."""
    talk = sys.stderr if sys.stderr.isatty() else io.StringIO()
    with redirect_stdout(talk), redirect_stderr(talk):
        yield


@contextmanager
def _given_up_after(seconds: float) -> Iterator[None]:
    """torchvision would wait for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
