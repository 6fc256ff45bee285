"""Who asks, and what they may see: MLflow's own users and permissions, when its auth is on.

Routes of our own do not pass through MLflow's checks, so each of them asks for a `Visitor` first. A visitor who may not
read an experiment finds nothing of it: its runs are not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from mlflow import MlflowClient
from mlflow.entities import Experiment, LifecycleStage, Run, RunInfo
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_DOES_NOT_EXIST
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.store.entities import PagedList

from actionflow.errors import ActionFlowError


class NotLoggedInError(ActionFlowError):
    """The server wants to know who asks; `response` is what it answers instead."""

    def __init__(self, response: Response | None = None) -> None:
        super().__init__(
            "this server wants to know who you are: set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD."
        )
        self.response = response


class ForbiddenError(ActionFlowError):
    """The visitor may not do this."""


class Visitor:
    """Somebody with a name, or anybody where no names are asked."""

    def __init__(self, name: str | None = None, is_admin: bool = False) -> None:
        self.name = name
        self.is_admin = is_admin
        self._known: dict[tuple[str, str], bool] = {}

    def may_read(self, experiment_id: str) -> bool:
        """Whether the experiment and its runs are there for this visitor."""
        return self._may("read", experiment_id)

    def may_write(self, experiment_id: str) -> bool:
        """Whether this visitor may add something to the experiment's runs."""
        return self._may("update", experiment_id)

    def _may(self, action: str, experiment_id: str) -> bool:
        if self.name is None or self.is_admin:
            return True
        if (action, experiment_id) not in self._known:
            self._known[action, experiment_id] = _is_permitted(self.name, action, experiment_id)
        return self._known[action, experiment_id]


def visitor_of(request: Request) -> Visitor:
    """The visitor behind a request; raises when auth is on and nobody is."""
    if not request.app.state.actionflow_auth:
        return Visitor()
    user = _authenticated(request)
    if isinstance(user, Response):
        raise NotLoggedInError(user)
    if user is None:
        raise NotLoggedInError
    return Visitor(user.username, user.is_admin)


def _authenticated(request: Request) -> Any:
    """MLflow's user, None, or the answer of an authorization function of one's own."""
    from mlflow.server import auth
    from mlflow.server.auth.config import DEFAULT_AUTHORIZATION_FUNCTION

    if auth.auth_config.authorization_function != DEFAULT_AUTHORIZATION_FUNCTION:
        return auth._authenticate_custom_for_fastapi(request)
    return auth._authenticate_fastapi_request(request)


def _is_permitted(name: str, action: str, experiment_id: str) -> bool:
    """What MLflow asks before it shows or changes a run of the experiment."""
    from mlflow.server.auth import authorize
    from mlflow.server.auth.requirements import Requirement

    experiment = ("experiment", experiment_id)
    try:
        return bool(
            authorize(
                name,
                experiment,
                [
                    Requirement("experiment", experiment_id, "read"),
                    Requirement("run", "*", action, fallback_if_no_grant=(experiment,)),
                ],
            )
        )
    except MlflowException:
        return False


class VisitorClient(MlflowClient):
    """The server's own store as one visitor may see it."""

    def __init__(self, store: str, destination: str, visitor: Visitor) -> None:
        super().__init__(store, store)
        self._destination = destination
        self._visitor = visitor

    def search_experiments(self, *arguments: Any, **named: Any) -> PagedList[Experiment]:
        """Those that the visitor may read; a page may be short."""
        page = super().search_experiments(*arguments, **named)
        return PagedList([each for each in page if self._visitor.may_read(each.experiment_id)], page.token)

    def search_runs(self, experiment_ids: Sequence[str], *arguments: Any, **named: Any) -> PagedList[Run]:
        """Those of the experiments that the visitor may read."""
        readable = [each for each in experiment_ids if self._visitor.may_read(each)]
        if not readable:
            return PagedList([], None)
        page = super().search_runs(readable, *arguments, **named)
        return PagedList([self._resolved(run) for run in page], page.token)

    def get_run(self, run_id: str) -> Run:
        """The run, unless it was deleted or the visitor may not read it: both are as if there were none."""
        run = super().get_run(run_id)
        gone = run.info.lifecycle_stage != LifecycleStage.ACTIVE
        if gone or not self._visitor.may_read(run.info.experiment_id):
            raise MlflowException(f"Run with id={run_id} not found", RESOURCE_DOES_NOT_EXIST)
        return self._resolved(run)

    def log_artifact(self, run_id: str, local_path: str, artifact_path: str | None = None) -> None:
        """Put a file where the run's artifacts really lie: the server cannot send it to itself over HTTP."""
        uri = self.get_run(run_id).info.artifact_uri
        get_artifact_repository(uri, tracking_uri=self.tracking_uri).log_artifact(local_path, artifact_path)

    def _resolved(self, run: Run) -> Run:
        """With the place where its artifacts really lie: clients fetch them through the server, which has them."""
        scheme, _, rest = run.info.artifact_uri.partition(":")
        if scheme != "mlflow-artifacts" or not self._destination:
            return run
        path = rest.removeprefix("//").partition("/")[2] if rest.startswith("//") else rest.lstrip("/")
        info = RunInfo(
            run_id=run.info.run_id,
            experiment_id=run.info.experiment_id,
            user_id=run.info.user_id,
            status=run.info.status,
            start_time=run.info.start_time,
            end_time=run.info.end_time,
            lifecycle_stage=run.info.lifecycle_stage,
            artifact_uri=f"{self._destination.rstrip('/')}/{path}",
            run_name=run.info.run_name,
        )
        return Run(info, run.data, run.inputs, run.outputs)
