"""How a file reaches a run: written whole on this machine, sent, and only then forgotten here.

A server that goes away for a moment is retried by MLflow itself. One that stays away costs nothing but the wait: what
was not sent lies under `layout.unsent(run_id)`, and `send_leftovers` brings it home when the run is resumed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import requests
from mlflow import MlflowClient
from mlflow.entities import Metric
from mlflow.exceptions import MlflowException
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.utils.time import get_current_time_millis

from actionflow.errors import StoreError
from actionflow.store import layout, parquet


class Sender:
    """Sends files and numbers to one run."""

    def __init__(self, run_id: str, client: MlflowClient | None = None) -> None:
        self.run_id = run_id
        self.client = client or MlflowClient()
        self._held: list[Callable[[], None]] | None = None

    @contextmanager
    def together(self) -> Iterator[None]:
        """Write all files of this block first, then send everything in order.

        So nothing is lost when the server goes away in between: what was not sent lies on this machine.
        """
        self._held = []
        try:
            yield
            for send in self._held:
                send()
        finally:
            self._held = None

    def send_table(self, artifact: str, table: pa.Table) -> None:
        """Write a table as Parquet into the run."""
        self.send(artifact, lambda path: parquet.write(table, path))

    def send(self, artifact: str, write: Callable[[Path], Any]) -> None:
        """Let `write` make a file, and put it into the run under the artifact path `artifact`."""
        path = layout.unsent(self.run_id) / artifact
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise StoreError(self._no_room(path, error)) from error
        self._now_or_held(lambda: self._upload(artifact))

    def send_metrics(self, metrics: dict[str, float], step: int) -> None:
        """Log numbers of one step together."""
        now = get_current_time_millis()
        batch = [Metric(key, value, now, step) for key, value in metrics.items()]
        self._now_or_held(lambda: self._log(batch))

    def send_leftovers(self) -> list[str]:
        """Send what an earlier process could not, and say which files these were."""
        folder = layout.unsent(self.run_id)
        whole = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
        artifacts = [path.relative_to(folder).as_posix() for path in whole]
        # A checkpoint says that the epoch before it is there: it goes last.
        artifacts.sort(key=lambda artifact: (artifact.startswith(layout.CHECKPOINTS), artifact))
        for artifact in artifacts:
            self._upload(artifact)
        self.close()
        return artifacts

    def delete(self, artifact: str) -> None:
        """Remove a file from the run; stores that cannot delete keep it."""
        try:
            uri = self.client.get_run(self.run_id).info.artifact_uri
            get_artifact_repository(uri, tracking_uri=self.client.tracking_uri).delete_artifacts(artifact)
        except (MlflowException, NotImplementedError, requests.RequestException, OSError):
            return

    def close(self) -> None:
        """Everything has arrived: leave no folder behind."""
        shutil.rmtree(layout.unsent(self.run_id), ignore_errors=True)

    def leave(self) -> None:
        """Leave no empty folder behind; what still waits to be sent, maybe by another writer, stays."""
        folder = layout.unsent(self.run_id)
        for each in [*sorted(folder.rglob("*"), reverse=True), folder]:
            with suppress(OSError):
                each.rmdir()

    def _now_or_held(self, send: Callable[[], None]) -> None:
        if self._held is None:
            send()
        else:
            self._held.append(send)

    def _log(self, batch: list[Metric]) -> None:
        with self.border("the metrics"):
            self.client.log_batch(self.run_id, batch)

    def _upload(self, artifact: str) -> None:
        path = layout.unsent(self.run_id) / artifact
        folder = PurePosixPath(artifact).parent.as_posix()
        with self.border(path):
            self.client.log_artifact(self.run_id, str(path), None if folder == "." else folder)
        path.unlink()

    @contextmanager
    def border(self, what: Path | str) -> Iterator[None]:
        """Turn whatever MLflow raises into one line that says what was kept and how to go on."""
        try:
            yield
        except OSError as error:
            if isinstance(error, requests.RequestException):
                raise StoreError(self._gone(what, error)) from error
            raise StoreError(self._no_room(what, error)) from error
        except MlflowException as error:
            raise StoreError(self._gone(what, error)) from error

    def _no_room(self, what: Path | str, error: OSError) -> str:
        return (
            f"cannot write {what} of run {self.run_id}: {error.strerror or error}. The finished epochs are kept; "
            f"make room, then go on with -P resume={self.run_id}"
        )

    def _gone(self, what: Path | str, error: Exception) -> str:
        return (
            f"the tracking server {self.client.tracking_uri} did not take {what} ({parquet.first_line(error)[:160]}). "
            f"Files that were not sent are kept in {layout.unsent(self.run_id)}; when it is back, go on with "
            f"-P resume={self.run_id}"
        )
