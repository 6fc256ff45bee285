"""The pages under /actionflow/: what the API answers, for people."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from actionflow.errors import ActionFlowError
from actionflow.serving.routes import MORE_HEADERS, Route, TheDesk, TheVisitor, desk_of, status_of, without_places
from actionflow.serving.templating import page

PREFIX = "/actionflow"


class PageRoute(Route):
    """A route whose mistakes are told on a page."""

    def told(self, error: ActionFlowError, request: Request) -> Response:
        """One line on a page; where a login is wanted, browsers ask for it."""
        status = status_of(error)
        if status == 401:
            return super().told(error, request)
        response = page(request, "error.html", status, message=without_places(str(error), desk_of(request)))
        response.headers.update(MORE_HEADERS.get(status, {}))
        return response


router = APIRouter(prefix=PREFIX, route_class=PageRoute, include_in_schema=False)


@router.get("")
def here(request: Request) -> RedirectResponse:
    """The address as people type it."""
    return RedirectResponse(f"{request.app.state.actionflow_root}{PREFIX}/")


@router.get("/")
def runs(request: Request, desk: TheDesk, visitor: TheVisitor, text: str = "") -> HTMLResponse:
    """The runs that recorded something, newest first; `text` leaves those that have all of its words."""
    with desk.session(visitor) as session:
        rows = session.query("runs").to_pylist()
        experiments = {run.run_id: run.run.info.experiment_id for run in session.runs}
    words = text.lower().split()
    fitting = [row for row in rows if all(word in _said(row) for word in words)]
    return page(request, "runs.html", runs=fitting, experiments=experiments, text=text, total=len(rows))


def _said(row: dict[str, Any]) -> str:
    """What the filter looks into: all that the list shows of a run."""
    return " ".join(str(value) for value in row.values()).lower()
