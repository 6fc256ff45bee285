"""The MLflow run that an adapter records into: the one that is open already, or one of its own."""

from __future__ import annotations

from dataclasses import dataclass

import mlflow
from mlflow import MlflowClient

from actionflow.errors import RecordingError
from actionflow.recording import Recorder
from actionflow.store import layout
from actionflow.store.reading import Recorded, StoredRun


@dataclass(frozen=True)
class RecordingRun:
    """A run to record into; one that was opened here is ended here.

    run = recording_run()
    recorder = run.recorder_from(epoch=0)
    …
    recorder.finish()
    run.end()
    """

    run_id: str
    own: bool
    client: MlflowClient | None = None

    def recorder(self) -> Recorder:
        """What writes into the run."""
        return Recorder(self.run_id, self.client)

    def recorder_from(self, epoch: int) -> Recorder:
        """What writes into the run from `epoch` on: after the epochs before it, in place of any later ones."""
        client = self.client or MlflowClient()
        recorded = StoredRun(client.get_run(self.run_id), client).recorded()
        if recorded.files and epoch == 0:
            raise RecordingError(
                f"run {self.run_id} holds the epochs of another training already: start a new run for this one, with "
                "`mlflow.end_run()` and `mlflow.start_run()`."
            )
        recorder = self.recorder()
        if recorded.files:
            _drop(recorder, recorded, from_epoch=epoch)
            recorder.go_on_after(epoch - 1)
        recorder.epoch = epoch
        return recorder

    def holds(self, epoch: int) -> bool:
        """Whether an epoch is recorded in the run."""
        client = self.client or MlflowClient()
        recorded = StoredRun(client.get_run(self.run_id), client).recorded()
        return any(epoch in recorded.epochs(split) for split in recorded.splits)

    def end(self, status: str = "FINISHED") -> None:
        """End the run, unless somebody else opened it."""
        if self.own:
            mlflow.end_run(status)


def recording_run(resumed: str | None = None, logged: tuple[str, MlflowClient] | None = None) -> RecordingRun:
    """The active run, or the one that a training's logger writes into, or a new one.

    A training that goes on where another stopped names the run of that one as `resumed`: it is opened again, and any
    other run is refused.
    """
    active = mlflow.active_run()
    found = active.info.run_id if active else logged[0] if logged else None
    if found and resumed and found != resumed:
        raise RecordingError(
            f"this training goes on in run {resumed}, but run {found} is open: resume it inside "
            f'`with mlflow.start_run(run_id="{resumed}"):`, or give that run_id to its MLFlowLogger.'
        )
    if found:
        return RecordingRun(found, own=False, client=logged[1] if logged and not active else None)
    return RecordingRun(mlflow.start_run(run_id=resumed).info.run_id, own=True)


def _drop(recorder: Recorder, recorded: Recorded, from_epoch: int) -> None:
    """Remove the epochs that a resumed training takes again, and scores that know of them: both would be summed."""
    for split in recorded.splits:
        later = [layout.dynamics(split, epoch) for epoch in recorded.epochs(split) if epoch >= from_epoch]
        for artifact in [*later, f"{layout.SCORES}/{split}.parquet"]:
            recorder.writer.sender.delete(artifact)
            (layout.cache(recorder.run_id) / artifact).unlink(missing_ok=True)
