"""From a command line to an open MLflow run, and from any mistake to one line and a run marked FAILED."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import Field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import click
import mlflow
from filelock import FileLock, Timeout
from mlflow import MlflowClient
from mlflow.entities import Run, RunStatus
from mlflow.exceptions import MlflowException

from actionflow.errors import ActionFlowError, SettingsError, StoreError
from actionflow.store import layout, parquet
from actionflow.store.finding import find_runs
from actionflow.store.reading import StoredRun
from actionflow.tracking.interrupts import ended_by_signal, undisturbed
from actionflow.tracking.tracked_run import TrackedRun
from actionflow.training.settings import Parameters, Settings

R = TypeVar("R", bound=TrackedRun[Any])


def launch(train: Callable[[R], None], kind: type[R], arguments: Sequence[str] | None = None) -> None:
    """Read the parameters, open the run, train. A mistake is one line on stderr and exit code 1."""
    run_command(_command(train, kind), arguments)


def run_command(command: click.Command, arguments: Sequence[str] | None = None) -> None:
    """Run what may be interrupted; a mistake is one line on stderr and exit code 1."""
    try:
        with ended_by_signal(), _reported():
            command.main(args=list(arguments) if arguments is not None else None, standalone_mode=False)
    except ActionFlowError as error:
        sys.exit(f"Error: {error}")
    except click.ClickException as error:
        sys.exit(f"Error: {' '.join(error.format_message().split())}")
    except (KeyboardInterrupt, click.Abort):
        sys.exit(130)


def _command(train: Callable[[R], None], kind: type[R]) -> click.Command:
    def start(run_name: str, resume: str, **words: str) -> None:
        with _opened(kind, words, run_name, resume) as run:
            train(run)

    own = [
        click.Option(["--run_name"], default="", help="The run's name in MLflow."),
        click.Option(
            ["--resume"], default="", help="Id or name of an interrupted run to go on with, in that same run."
        ),
    ]
    options = options_of(kind.settings_class)
    return click.Command(kind.entry, params=[*options, *own], callback=start, help=train.__doc__)


def options_of(kind: type[Parameters]) -> list[click.Parameter]:
    """What a command line can be told, each with its meaning."""
    return [_option(field) for field in fields(kind)]


def _option(field: Field[object]) -> click.Option:
    choices = ", ".join(field.metadata["choices"])
    meaning = field.metadata["meaning"] + (f" ({choices})" if choices else "")
    return click.Option([f"--{field.name}"], default=str(field.default), show_default=True, help=meaning)


@contextmanager
def _reported() -> Iterator[None]:
    """A tracking server that does not answer is told in one line, like any other mistake."""
    try:
        yield
    except MlflowException as error:
        raise StoreError(f"MLflow at {mlflow.get_tracking_uri()} says: {parquet.first_line(error)[:300]}") from error


@contextmanager
def _opened(kind: type[R], words: dict[str, str], run_name: str, resume: str) -> Iterator[R]:
    """An MLflow run around the training; whatever ends the training early is written on it."""
    client = MlflowClient()
    interrupted = _interrupted(kind, resume, words, client) if resume else None
    if interrupted is None:
        run = mlflow.start_run(run_name=run_name or None)
    else:
        with _only_writer(interrupted.run_id):
            run = mlflow.start_run(run_id=interrupted.run_id)
    with guarded(run, client):
        settings = _settings(kind, words, interrupted)
        _name(run, run_name, settings, client)
        yield kind(run, settings, client, resumes=interrupted is not None)


@contextmanager
def nested_run(kind: type[R], settings: Settings, run_name: str) -> Iterator[R]:
    """A training inside the active run, for studies that train many times."""
    client = MlflowClient()
    run = mlflow.start_run(nested=True, run_name=run_name)
    with guarded(run, client):
        yield kind(run, settings, client, resumes=False)


@contextmanager
def guarded(run: Run, client: MlflowClient, go_on: str = "") -> Iterator[None]:
    """Hold the run for this process alone, and end it as it went: finished, failed or killed."""
    try:
        with _only_writer(run.info.run_id):
            yield
    except BaseException as error:
        with undisturbed():
            _end(client, run.info.run_id, error, go_on or f"-P resume={run.info.run_id}")
        raise
    with undisturbed():
        mlflow.end_run()


@contextmanager
def _only_writer(run_id: str) -> Iterator[None]:
    """Hold the run while it is written to; the system lets go of it when the process dies, however it dies."""
    path = layout.lock(run_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(path, blocking=False):
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
    except Timeout:
        raise SettingsError(
            f"run {run_id} is still being trained by another process of this machine: wait for it or end it first."
        ) from None


def _settings(kind: type[R], words: dict[str, str], interrupted: StoredRun | None) -> Settings:
    """A resumed run keeps its settings; only the place of the data may be another."""
    asked = kind.settings_class.from_text(words)
    if interrupted is None:
        return asked
    kept = kind.settings_class.from_dict(interrupted.description()["settings"])
    return replace(kept, data_dir=asked.data_dir or kept.data_dir)


def _interrupted(kind: type[R], resume: str, words: dict[str, str], client: MlflowClient) -> StoredRun:
    """The run to go on with; the run that `mlflow run` has opened for us only says where the work went."""
    stored = find_runs([resume], client)[0]
    if stored.run.info.status == RunStatus.to_string(RunStatus.FINISHED):
        raise SettingsError(f"run {stored.run_id} has finished: there is nothing to resume.")
    _check_asked(kind, stored, words["dataset"])
    stand_aside(stored, client)
    return stored


def stand_aside(stored: StoredRun, client: MlflowClient) -> None:
    """Let the run that `mlflow run` has opened for us say where the work went: into another run."""
    launched = os.environ.pop("MLFLOW_RUN_ID", None)
    os.environ.pop("MLFLOW_EXPERIMENT_ID", None)
    if launched:
        client.set_tag(launched, layout.TAG_KIND, "resume")
        client.set_tag(launched, layout.TAG_RESUMED, stored.run_id)
        client.update_run(launched, name=f"resume {stored.name}")


def _check_asked(kind: type[R], stored: StoredRun, asked: str) -> None:
    """Refuse to go on with a run of another data set, or of another kind of training; the default may stand for any."""
    dataset, entry = stored.description()["settings"]["dataset"], stored.entry_point
    how = f"type `mlflow run . -e {entry} -P resume={stored.run_id}`"
    if asked not in (dataset, kind.settings_class.dataset):
        raise SettingsError(f"run {stored.run_id} was trained on {dataset}, not on {asked}: {how}")
    if entry != kind.settings_class(dataset=dataset).entry_point:
        raise SettingsError(f"run {stored.run_id} was trained by entry point {entry}, not by {kind.entry}: {how}")


def _name(run: Run, run_name: str, settings: Settings, client: MlflowClient) -> None:
    """A name that says what was trained, unless somebody chose one; MLflow's own draw a random animal."""
    if run_name:
        client.update_run(run.info.run_id, name=run_name)
    elif layout.TAG_KIND not in run.data.tags:
        model = Path(settings.model).name  # of a folder, its last part
        client.update_run(run.info.run_id, name=f"{settings.dataset}-{model}-seed{settings.seed}")


def _end(client: MlflowClient, run_id: str, error: BaseException, go_on: str) -> None:
    """Mark the run and say why; if the server is gone, the error in hand matters more than one about marking."""
    interrupted = isinstance(error, KeyboardInterrupt)
    if interrupted:
        print(f"Stopped. The finished epochs are kept; go on with {go_on}", file=sys.stderr)
    status = RunStatus.to_string(RunStatus.KILLED if interrupted else RunStatus.FAILED)
    try:
        mlflow.end_run(status)
        client.set_tag(run_id, layout.TAG_ERROR, "interrupted" if interrupted else parquet.first_line(error)[:500])
    except MlflowException:
        print(f"Run {run_id} could not be marked as {status}: its server does not answer.", file=sys.stderr)
