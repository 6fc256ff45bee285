"""What all our routes share: who may call them, from where, and how a mistake is told."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Coroutine
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute

from actionflow.errors import ActionFlowError, QueryError, StoreError
from actionflow.serving.asking import Desk
from actionflow.serving.sandbox import BusyError
from actionflow.serving.visitors import ForbiddenError, NotLoggedInError, Visitor, visitor_of

logger = logging.getLogger(__name__)

LARGEST_REQUEST = 2**20
STATUS: dict[type[ActionFlowError], int] = {
    NotLoggedInError: 401,
    ForbiddenError: 403,
    StoreError: 404,
    QueryError: 400,
    BusyError: 503,
}
MORE_HEADERS = {401: {"WWW-Authenticate": 'Basic realm="mlflow"'}, 503: {"Retry-After": "3"}}

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def desk_of(request: Request) -> Desk:
    """The desk of the app that serves this request."""
    desk: Desk = request.app.state.actionflow_desk
    return desk


TheDesk = Annotated[Desk, Depends(desk_of)]
TheVisitor = Annotated[Visitor, Depends(visitor_of)]


class Route(APIRoute):
    """A route that refuses what comes from elsewhere and is too large, and tells mistakes in one line of JSON."""

    def get_route_handler(self) -> Handler:
        """Put our checks around what FastAPI would do."""
        handle = super().get_route_handler()

        async def checked(request: Request) -> Response:
            try:
                if request.method not in ("GET", "HEAD"):
                    self.check(request)
                return await handle(request)
            except ActionFlowError as error:
                return self.told(error, request)
            except RequestValidationError as error:
                return self.told(QueryError(_told(error)), request)

        return checked

    def check(self, request: Request) -> None:
        """Refuse what may not be written."""
        check_write(request)

    def told(self, error: ActionFlowError, request: Request) -> Response:
        """A mistake as the API tells it: one line and the kind of error, as Python would raise it."""
        if isinstance(error, NotLoggedInError) and error.response is not None:
            return error.response
        status = status_of(error)
        content = {"error": without_places(str(error), desk_of(request)), "kind": type(error).__name__}
        return JSONResponse(content, status, MORE_HEADERS.get(status))


def status_of(error: ActionFlowError) -> int:
    """The HTTP status of a mistake."""
    return next((status for kind, status in STATUS.items() if isinstance(error, kind)), 400)


def without_places(message: str, desk: Desk) -> str:
    """Where the server keeps things is nobody's business."""
    for place in (desk.store, desk.destination.removeprefix("file://"), desk.store.partition(":///")[2]):
        if place:
            message = message.replace(place, "this server")
    return message


def check_write(request: Request) -> None:
    """Refuse a POST that another site made a browser send, or that is too long to read."""
    check_origin(request)
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise ForbiddenError("send JSON, with the header Content-Type: application/json.")
    length = request.headers.get("content-length", "")
    if not length.isdigit() or int(length) > LARGEST_REQUEST:
        raise QueryError(f"a request has a Content-Length of at most {LARGEST_REQUEST:,} bytes.")


def check_origin(request: Request) -> None:
    """Browsers say where a request comes from; programs that are no browsers say nothing."""
    origin = request.headers.get("origin", "")
    allowed = [each.strip() for each in os.environ.get("MLFLOW_SERVER_CORS_ALLOWED_ORIGINS", "").split(",")]
    if origin and origin in allowed:
        return
    ours = not origin or urlsplit(origin).netloc == request.headers.get("host")
    if not ours or request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        raise ForbiddenError(f"requests from {origin or 'another site'} are not answered here.")


def _told(error: RequestValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(str(step) for step in first["loc"] if step != "body")
    return f"{place or 'the request'}: {first['msg']}."
