"""Finds and checks what a run holds."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.exceptions import MlflowException
from mlflow.store.artifact.artifact_repo import ArtifactRepository
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.utils.file_utils import local_file_uri_to_path

from actionflow.errors import DataError, StoreError
from actionflow.store import layout, parquet, schema
from actionflow.store.fetching import fetch, fetch_anew


@dataclass(frozen=True)
class Recorded:
    """The whole epochs of a run, by split, and what was left out of them and why."""

    files: dict[str, list[Path]]
    left_out: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def splits(self) -> list[str]:
        """The splits that have epochs."""
        return sorted(self.files)

    def all_files(self) -> list[Path]:
        """The files of all splits."""
        return [path for paths in self.files.values() for path in paths]

    def epochs(self, split: str) -> list[int]:
        """The epochs of a split, in order."""
        return sorted(
            {epoch for path in self.files.get(split, []) if (epoch := layout.epoch_of(path.name)) is not None}
        )


class StoredRun:
    """Reads one run: files on this machine in place, others fetched once."""

    def __init__(self, run: Run, client: MlflowClient) -> None:
        self.run = run
        self.run_id: str = run.info.run_id
        self.client = client
        self._local_root = _local_folder(run.info.artifact_uri)

    @cached_property
    def _artifacts(self) -> ArtifactRepository:
        """By the run's own address, which a server resolves: it cannot ask itself over HTTP."""
        return get_artifact_repository(self.run.info.artifact_uri, tracking_uri=self.client.tracking_uri)

    @property
    def name(self) -> str:
        """The run's name, or the start of its id."""
        return str(self.run.info.run_name or self.run_id[:8])

    @property
    def folder(self) -> Path | None:
        """Where the run's artifacts lie, if they do on this machine."""
        return self._local_root

    def splits(self) -> list[str]:
        """The splits that were recorded, whole or not."""
        return sorted(self._names(layout.DYNAMICS))

    def check_split(self, split: str) -> None:
        """Refuse a split that was not recorded, and say which were."""
        splits = self.splits()
        # A run that recorded nothing at all is told by the session, with what it holds instead.
        if splits and split not in splits:
            raise DataError(
                f"run {self.name} ({self.run_id[:8]}) recorded no split {split}, only {', '.join(splits)}: type "
                f"--split {splits[-1]}"
            )

    def recorded(self) -> Recorded:
        """The epochs that can be summed. A torn or unfinished one is named and left out."""
        by_split = self._epoch_files()
        left_out = self._drop_torn(by_split) + self._drop_unfinished(by_split) + self._uploads_in_progress()
        missing = [name for split, paths in by_split.items() for name in _missing(split, paths)]
        return Recorded({split: paths for split, paths in by_split.items() if paths}, left_out, missing)

    def files(self, folder: str, ending: str = ".parquet") -> list[Path]:
        """The files of one kind right inside an artifact folder, on this machine."""
        names = [name for name in self._names(folder) if name.endswith(ending)]
        return self.local_files([f"{folder}/{name}" for name in sorted(names)])

    def files_now(self, folder: str) -> list[Path]:
        """The same for files that may be written anew, such as clusters: fetched as they are now."""
        names = [name for name in self._names(folder) if name.endswith(".parquet")]
        return [self.local(f"{folder}/{name}") for name in sorted(names)]

    def names(self, folder: str, ending: str) -> set[str]:
        """What the files of one kind right inside an artifact folder are called, without their ending."""
        return {name.removesuffix(ending) for name in self._names(folder) if name.endswith(ending)}

    def has(self, artifact: str) -> bool:
        """Whether the run holds this artifact."""
        folder, _, name = artifact.rpartition("/")
        return name in self._names(folder)

    def local_files(self, artifacts: list[str]) -> list[Path]:
        """Paths on this machine that hold these artifacts, which never change once they are written."""
        if self._local_root is not None:
            return [self._local_root / artifact for artifact in artifacts]
        return fetch(self._artifacts, self.run_id, artifacts)

    def local(self, artifact: str) -> Path:
        """A path on this machine that holds an artifact as it is now."""
        if self._local_root is not None:
            return self._local_root / artifact
        return fetch_anew(self._artifacts, self.run_id, artifact)

    def description(self) -> dict[str, Any]:
        """What `RunWriter.describe` wrote."""
        if not self.has(layout.DESCRIPTION):
            raise StoreError(
                f"run {self.run_id} was not made by an ActionFlow training (it has no {layout.DESCRIPTION}), so it "
                "cannot be resumed. `actionflow runs` lists those that were."
            )
        content: dict[str, Any] = json.loads(self.local(layout.DESCRIPTION).read_text())
        return content

    @property
    def entry_point(self) -> str:
        """What trained it, for `mlflow run . -e <this>`; in runs that do not say so it is called like their data."""
        description = self.description()
        return str(description.get("entry_point") or description["settings"]["dataset"])

    @cached_property
    def threshold_class(self) -> int:
        """The class beyond those of the data set that a training gave to its threshold samples; -1 without any."""
        given = self.description().get("threshold_samples") if self.has(layout.DESCRIPTION) else None
        return int(given["class"]) if given else -1

    def checkpoints(self) -> list[int]:
        """The epochs after which a checkpoint was kept, newest first."""
        names = [name for name in self._names(layout.CHECKPOINTS) if name.startswith("epoch-") and name.endswith(".pt")]
        return sorted((int(name[len("epoch-") : -len(".pt")]) for name in names), reverse=True)

    def found(self) -> str:
        """What lies at the run's root, for messages."""
        return ", ".join(sorted(self._names("")))[:200] or "no artifacts"

    def _epoch_files(self) -> dict[str, list[Path]]:
        by_split: dict[str, list[Path]] = {}
        for split in self.splits():
            folder = f"{layout.DYNAMICS}/{split}"
            names = sorted(name for name in self._names(folder) if layout.epoch_of(name) is not None)
            by_split[split] = self.local_files([f"{folder}/{name}" for name in names])
        return by_split

    def _drop_torn(self, by_split: dict[str, list[Path]]) -> list[str]:
        """A run can only die while it writes its last epoch, so the files before need no look."""
        told = []
        for split, paths in by_split.items():
            while paths and not parquet.is_whole(paths[-1]):
                told.append(f"{split}/{paths.pop().name} is half-written")
        return told

    def _drop_unfinished(self, by_split: dict[str, list[Path]]) -> list[str]:
        """An epoch counts in all of its splits or in none: a sum over more epochs of one would compare with nothing."""
        told = []
        there = {(split, layout.epoch_of(path.name)) for split, paths in by_split.items() for path in paths}
        for split, paths in by_split.items():
            while paths and (lacking := _lacking_splits(paths[-1], there)):
                told.append(f"{split}/{paths.pop().name} lacks its other half, split {', '.join(lacking)}")
        return told

    def _uploads_in_progress(self) -> list[str]:
        if self._local_root is None:
            return []
        folder = self._local_root / layout.DYNAMICS
        return [f"{path.parent.name}/{path.name} is half-written" for path in sorted(folder.glob("*/.*"))]

    def _names(self, folder: str) -> list[str]:
        if self._local_root is not None:
            path = self._local_root / folder
            return [entry for entry in os.listdir(path) if not entry.startswith(".")] if path.is_dir() else []
        try:
            infos = self._artifacts.list_artifacts(folder or None)
        except MlflowException as error:
            raise StoreError(f"cannot list the artifacts of run {self.run_id}: {parquet.first_line(error)}") from error
        return [info.path.rpartition("/")[2] for info in infos]


def _local_folder(artifact_uri: str) -> Path | None:
    scheme = urlparse(artifact_uri).scheme
    if scheme in ("", "file"):
        return Path(unquote(local_file_uri_to_path(artifact_uri)))
    return None


def _stamp(path: Path) -> dict[str, Any]:
    return schema.stamp_of(parquet.read_schema(path), str(path))


def _lacking_splits(path: Path, there: set[tuple[str, int | None]]) -> list[str]:
    epoch = layout.epoch_of(path.name)
    return [split for split in _stamp(path)["epoch_splits"] if (split, epoch) not in there]


def _missing(split: str, paths: list[Path]) -> list[str]:
    """Epochs that the last file knows of and that are not there."""
    if not paths:
        return []
    there = {layout.epoch_of(path.name) for path in paths}
    return [f"{split}/{layout.epoch_file(epoch)}" for epoch in _stamp(paths[-1])["epochs"] if epoch not in there]
