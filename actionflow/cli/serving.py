"""The verb that serves: serve."""

from __future__ import annotations

import os
import secrets
import sys

import click

from actionflow.errors import SettingsError


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--backend-store-uri", metavar="URI", help="The tracking store; as in `mlflow server`.")
@click.option("--default-artifact-root", metavar="URI", help="Where new experiments keep artifacts; as in MLflow.")
@click.option("--artifacts-destination", metavar="URI", help="Where the server keeps artifacts that it hands on.")
@click.option("--host", default="127.0.0.1", show_default=True, help="0.0.0.0 lets other machines in.")
@click.option("--port", default=5000, show_default=True, help="The port of both, MLflow and ActionFlow.")
@click.option("--auth", is_flag=True, help="Ask who it is: MLflow's basic auth, also for our pages.")
@click.argument("more", metavar="[MLFLOW OPTION]...", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def serve(
    tracking_uri: str | None,
    backend_store_uri: str | None,
    default_artifact_root: str | None,
    artifacts_destination: str | None,
    host: str,
    port: int,
    auth: bool,
    more: tuple[str, ...],
) -> None:
    """Start MLflow's own server with ActionFlow's pages at /actionflow/ and its API.

    It is `mlflow server --app-name actionflow`, or actionflow-auth; further options are handed to it as they are.

    Example:

    \b
        actionflow serve
        actionflow serve --backend-store-uri sqlite:///mlflow.db --port 8080
        MLFLOW_AUTH_ADMIN_PASSWORD=… actionflow serve --auth --host 0.0.0.0
    """
    chosen = {
        "--backend-store-uri": backend_store_uri or _as_store(tracking_uri),
        "--default-artifact-root": default_artifact_root,
        "--artifacts-destination": artifacts_destination,
        "--host": host,
        "--port": str(port),
        # More workers make each call wait, and every one would have processes for questions of its own.
        "--workers": "1",
        "--app-name": "actionflow-auth" if auth else "actionflow",
    }
    if auth:
        _check_auth()
    words = [word for name, value in chosen.items() if value is not None for word in (name, value)]
    print(f"ActionFlow will be at http://{host}:{port}/actionflow/", file=sys.stderr, flush=True)
    os.execv(sys.executable, [sys.executable, "-m", "mlflow", "server", *words, *more])


def _as_store(tracking_uri: str | None) -> str | None:
    """A tracking address that is a store is the one to serve."""
    if tracking_uri is not None and tracking_uri.startswith(("http://", "https://")):
        raise SettingsError(f"{tracking_uri} is a server already: name a store with --backend-store-uri.")
    return tracking_uri


def _check_auth() -> None:
    """Say what auth lacks before a server starts that would end with a traceback."""
    from mlflow.exceptions import MlflowException

    # It signs what the sign-up page remembers; a single worker can have a new one each time.
    os.environ.setdefault("MLFLOW_FLASK_SERVER_SECRET_KEY", secrets.token_hex(32))
    try:
        from mlflow.server.auth import bootstrap_admin_user

        bootstrap_admin_user()
    except ImportError as error:
        raise SettingsError(
            f"auth needs a package that is not installed ({error.name}): pip install Flask-WTF"
        ) from error
    except MlflowException as error:
        raise SettingsError(" ".join(str(error).split())) from error
