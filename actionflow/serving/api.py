"""The API under /ajax-api/actionflow/: what the pages show, for programs.

Rows come as JSON, CSV, Arrow or Parquet: the Accept header says which, or `_format` in the address where a link has to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import pyarrow as pa
from fastapi import APIRouter, Query, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from actionflow import __version__
from actionflow.errors import QueryError
from actionflow.questions import files
from actionflow.questions.files import Value
from actionflow.serving.asking import house_query
from actionflow.serving.forms import MEDIA_TYPES, encode
from actionflow.serving.routes import Route, TheDesk, TheVisitor
from actionflow.serving.sandbox import Answer
from actionflow.serving.templating import page
from actionflow.store.marks import Mark

PREFIX = "/ajax-api/actionflow"
router = APIRouter(prefix=PREFIX, route_class=Route, tags=["ActionFlow"])

Words = Annotated[
    list[str],
    Query(default_factory=list, description="Id, start of an id, name, experiment or MLflow filter; all when none."),
]
ROWS: dict[int | str, dict[str, Any]] = {
    200: {"description": "The rows.", "content": {media: {} for media in MEDIA_TYPES}},
    400: {"description": "A question that cannot be answered; one line says why."},
    401: {"description": "The server wants to know who asks."},
    404: {"description": "There is no such run, or not for you."},
    503: {"description": "Too many questions at once."},
}


class Asked(BaseModel):
    """A question in SQL; `parameters` are its $names."""

    model_config = ConfigDict(extra="forbid")

    sql: str
    runs: list[str] = Field(default_factory=list, description="As in `actionflow sql --runs`; all when none.")
    parameters: dict[str, str | int | float | bool | None] = Field(default_factory=dict)


class Given(BaseModel):
    """What a question of the house is asked about."""

    model_config = ConfigDict(extra="forbid")

    runs: list[str] = Field(default_factory=list)
    parameters: dict[str, str | int | float | bool | None] = Field(default_factory=dict)


class MarkedSample(BaseModel):
    """What somebody says of one sample."""

    model_config = ConfigDict(extra="forbid")

    sample_id: int
    mark: str = Field(description="mislabelled, ambiguous, unusable or fine")
    right_label: int | None = None
    note: str | None = None


class Marked(BaseModel):
    """Marks of one person on samples of one run's data set."""

    model_config = ConfigDict(extra="forbid")

    run: str
    marks: list[MarkedSample] = Field(max_length=10_000)
    marked_by: str = Field("", max_length=200, description="Who marks; with auth on it is always the user.")


@router.post("/sql", responses=ROWS, summary="Ask in SQL.")
def ask_sql(asked: Asked, request: Request, desk: TheDesk, visitor: TheVisitor) -> Response:
    """The views: runs, dynamics, samples, scores, features, pixels, outputs, clusters, audits, curricula, marks."""
    form = form_of(request)
    return _sent(desk.ask_sql(visitor, asked.sql, asked.runs, asked.parameters, form), form)


@router.get("/query/{name}", responses=ROWS, summary="Ask a question of the house by its name.")
def ask_query(name: str, request: Request, desk: TheDesk, visitor: TheVisitor, runs: Words) -> Response:
    """Its parameters are those of the address, such as `?runs=digits-seed-0&k=5`."""
    form = form_of(request)
    return _sent(desk.ask_query(visitor, name, runs, _parameters(request.query_params), form), form)


@router.post("/query/{name}", responses=ROWS, summary="The same with parameters in JSON, which keeps their types.")
def ask_query_with(name: str, given: Given, request: Request, desk: TheDesk, visitor: TheVisitor) -> Response:
    """Text that looks like a number stays text here."""
    form = form_of(request)
    return _sent(desk.ask_query(visitor, name, given.runs, given.parameters, form), form)


@router.get("/queries", summary="The questions of the house.")
def queries(visitor: TheVisitor) -> list[dict[str, Any]]:
    """Their names, what they answer, and their parameters with the defaults."""
    return [_described(house_query(name)) for name in files.names()]


@router.get("/runs", responses=ROWS, summary="The runs that recorded something, newest first.")
def runs(request: Request, desk: TheDesk, visitor: TheVisitor, runs: Words) -> Response:
    """What `actionflow runs` lists, of the runs that you may read."""
    with desk.session(visitor, runs) as session:
        return _encoded(session.query("runs"), form_of(request))


@router.get("/marks", responses=ROWS, summary="What people say of samples.")
def marks(
    request: Request, desk: TheDesk, visitor: TheVisitor, experiment: str = "", history: bool = False
) -> Response:
    """The latest mark of each sample and person; all that were ever made with `history=true`."""
    return _encoded(desk.marks(visitor, experiment, history), form_of(request))


@router.post("/marks", responses=ROWS, summary="Mark samples.")
def mark(marked: Marked, request: Request, desk: TheDesk, visitor: TheVisitor) -> Response:
    """Marks are added and never change: the latest of each person counts."""
    given = [Mark(**each.model_dump()) for each in marked.marks]
    return _encoded(desk.mark(visitor, marked.run, given, marked.marked_by), form_of(request))


@router.get("/openapi.json", include_in_schema=False)
def openapi(visitor: TheVisitor) -> JSONResponse:
    """This API as OpenAPI describes it."""
    return JSONResponse(description())


@router.get("/docs", include_in_schema=False)
def docs(request: Request, visitor: TheVisitor) -> HTMLResponse:
    """The same for people."""
    return page(request, "api.html", api=description())


def description() -> dict[str, Any]:
    """This API in the words of OpenAPI."""
    return get_openapi(
        title="ActionFlow",
        version=__version__,
        description="Ask what every sample did in every epoch. Questions run within limits; an answer that was cut "
        "says so in the header X-ActionFlow-Truncated.",
        routes=router.routes,
    )


def form_of(request: Request) -> str:
    """The form that the caller wants: of `_format` in the address, else the first of the Accept header that we have."""
    chosen = request.query_params.get("_format")
    if chosen is not None:
        if chosen not in MEDIA_TYPES.values():
            raise QueryError(f"_format is one of {', '.join(MEDIA_TYPES.values())}, found {chosen!r}.")
        return chosen
    for media in accepted(request.headers.get("accept", "*/*")):
        if media in MEDIA_TYPES:
            return MEDIA_TYPES[media]
        if media in ("*/*", "application/*", "text/html"):
            return "json"
    raise QueryError(f"answers come as {', '.join(MEDIA_TYPES)}: Accept one of them.")


def accepted(header: str) -> list[str]:
    """The media types of an Accept header, the most wanted first.

    >>> accepted("text/csv;q=0.5, application/json")
    ['application/json', 'text/csv']
    """
    wanted = []
    for part in header.split(","):
        media, _, options = part.partition(";")
        quality = options.replace(" ", "").partition("q=")[2] or "1"
        wanted.append((-_number(quality), media.strip().lower()))
    return [media for _, media in sorted(wanted, key=lambda pair: pair[0])]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _parameters(address: Mapping[str, str]) -> dict[str, Value]:
    return {name: files.value_of(text) for name, text in address.items() if name not in ("runs", "_format")}


def _described(query: files.QueryFile) -> dict[str, Any]:
    parameters = [
        {"name": each.name, "meaning": each.meaning, "default": each.default, "required": each.required}
        for each in query.parameters
    ]
    return {"name": query.name, "summary": query.summary, "parameters": parameters, "sql": query.sql}


def _encoded(table: pa.Table, form: str) -> Response:
    """Rows that the server itself has, sent as answers are."""
    answer = encode(table.to_batches(), table.schema, form, table.num_rows, 2**62)
    return _sent(Answer(answer.body, answer.rows, answer.cut, 0.0, 0.0), form)


def _sent(answer: Answer, form: str) -> Response:
    media = next(media for media, each in MEDIA_TYPES.items() if each == form)
    headers = {
        "X-ActionFlow-Rows": str(answer.rows),
        "Server-Timing": f"open;dur={answer.opened_ms:.1f}, ask;dur={answer.asked_ms:.1f}",
        "Cache-Control": "private, no-cache",
        "Vary": "Accept, Authorization",
    }
    if answer.cut:
        headers["X-ActionFlow-Truncated"] = answer.cut
    if form in ("csv", "parquet"):
        headers["Content-Disposition"] = f'attachment; filename="answer.{form}"'
    return Response(answer.body, media_type=media, headers=headers)
