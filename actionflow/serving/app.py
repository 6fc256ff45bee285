"""MLflow's own server with our routes in front of its own.

mlflow server --app-name actionflow         # what `actionflow serve` starts
mlflow server --app-name actionflow-auth    # the same behind MLflow's basic auth
"""

from __future__ import annotations

import atexit
import os

from fastapi import APIRouter, FastAPI
from fastapi.staticfiles import StaticFiles

from actionflow.errors import SettingsError
from actionflow.serving import (
    api,
    audit_pages,
    compare_pages,
    curriculum_pages,
    failure_pages,
    pages,
    run_pages,
    sample_pages,
    scenario_pages,
    sql_pages,
)
from actionflow.serving.asking import Desk
from actionflow.serving.templating import STATIC

OURS = [
    api.router,
    pages.router,
    audit_pages.router,
    audit_pages.forms,
    curriculum_pages.router,
    failure_pages.router,
    scenario_pages.router,
    scenario_pages.forms,
    sample_pages.router,
    run_pages.router,
    sql_pages.router,
    compare_pages.router,
]


def create_app() -> FastAPI:
    """MLflow's app, its routes untouched, with ours before them."""
    _check_server()
    from mlflow.server.fastapi_app import create_fastapi_app

    return _with_ours(create_fastapi_app(), auth=False)


def create_app_with_auth() -> FastAPI:
    """The same with MLflow's basic auth: our routes ask it who may read what."""
    _check_server()
    from mlflow.server.auth import create_app as create_auth_app

    return _with_ours(create_auth_app(), auth=True)


def _check_server() -> None:
    if os.environ.get("_MLFLOW_SGI_NAME", "uvicorn") != "uvicorn":
        raise SettingsError("ActionFlow's pages need uvicorn: leave out --gunicorn-opts and --waitress-opts.")


def _with_ours(app: FastAPI, auth: bool) -> FastAPI:
    root = os.environ.get("_MLFLOW_STATIC_PREFIX", "").rstrip("/")
    desk = Desk()
    app.state.actionflow_auth = auth
    app.state.actionflow_root = root
    app.state.actionflow_desk = desk
    _put_in_front(app, OURS, root)
    desk.sandbox.warm_up()
    atexit.register(desk.close)
    return app


def _put_in_front(app: FastAPI, routers: list[APIRouter], root: str) -> None:
    """MLflow mounts its Flask app at /, which takes whatever comes before ours: so ours come first."""
    theirs = list(app.router.routes)
    app.router.routes.clear()
    for router in routers:
        app.include_router(router, prefix=root)
    app.mount(f"{root}{pages.PREFIX}/static", StaticFiles(directory=STATIC), "actionflow-static")
    app.router.routes.extend(theirs)
