"""The SQL page: an editor, what there is to ask, and the answer. Every question goes through the sandbox."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from actionflow.errors import ActionFlowError, QueryError, StoreError
from actionflow.questions import files
from actionflow.questions.files import Parameter, Value
from actionflow.serving.albums import samples_of
from actionflow.serving.asking import Desk, house_query
from actionflow.serving.drawing import Chart, bar_chart, line_chart
from actionflow.serving.forms import MEDIA_TYPES
from actionflow.serving.opening import digest_of, picture_address
from actionflow.serving.pages import PREFIX, PageRoute
from actionflow.serving.routes import TheDesk, TheVisitor, status_of, without_places
from actionflow.serving.templating import page
from actionflow.serving.visitors import Visitor
from actionflow.session import RUN_PARAMETERS
from actionflow.sources import VIEWS
from actionflow.store.finding import ID, pick

router = APIRouter(prefix=f"{PREFIX}/sql", route_class=PageRoute, include_in_schema=False)

# So many rows have room on a page; a download has them all.
SHOWN_ROWS, LONGEST_CELL, RUNS_WITH_PICTURES = 500, 400, 8
FIRST_QUESTION = """-- The hardest validation samples of all runs.
select runs.name, scores.run_id, split, sample_id, label, prediction, action
from scores
join runs using (run_id)
where split = 'val'
order by action desc
limit 20
"""
GIVEN = "p."
COMMENT = re.compile(r"--.*$", re.MULTILINE)
NAMED = re.compile(r"\$(\w+)")
# How pictures begin, in base64.
PICTURES = {"iVBORw0KGgo": "image/png", "/9j/": "image/jpeg", "R0lGOD": "image/gif"}


@dataclass(frozen=True)
class Asked:
    """A question as an address has it."""

    sql: str
    runs: tuple[str, ...]
    given: dict[str, str]

    @classmethod
    def of(cls, address: Mapping[str, str]) -> Asked:
        """Read the address of the page."""
        runs = tuple(filter(None, [address.get("runs", "").strip()]))
        given = {name.removeprefix(GIVEN): text for name, text in address.items() if name.startswith(GIVEN)}
        return cls(address.get("sql", "").replace("\r\n", "\n"), runs, given)

    def address(self, **more: str) -> str:
        """The question mark and all behind it that leads to this question again."""
        said = {"sql": self.sql, "runs": ",".join(self.runs), **{GIVEN + n: t for n, t in self.given.items()}, **more}
        return "?" + urlencode({name: text for name, text in said.items() if text})

    def parameters(self) -> list[tuple[Parameter, str]]:
        """The question's $names with what its header says of them, and the value each has now."""
        told = {each.name: each for each in files.parse("", self.sql).parameters}
        used = dict.fromkeys(NAMED.findall(COMMENT.sub("", self.sql)))
        known = [told[name] for name in told if name in used] + [Parameter(n, "") for n in used if n not in told]
        return [(each, self.given.get(each.name, "" if each.default is None else str(each.default))) for each in known]

    def values(self, desk: Desk, visitor: Visitor) -> dict[str, Value]:
        """The $names as values; a run may be named as people name it."""
        values: dict[str, Value] = {}
        for parameter, text in self.parameters():
            if not text:
                raise QueryError(f"${parameter.name} has no value yet: write one beside the question.")
            is_run = parameter.name in RUN_PARAMETERS
            values[parameter.name] = pick(text, desk.runs(visitor, self.runs)) if is_run else files.value_of(text)
        return values

    def command(self, server: str) -> str:
        """What does the same in a terminal."""
        words = ["actionflow"]
        given = [f"-p {shlex.quote(f'{each.name}={text}')}" for each, text in self.parameters()]
        known = next((name for name in files.names() if files.load(name).sql.strip() == self.sql.strip()), None)
        if known or given:
            words += ["query", known or "my_question", *([] if known else ["--queries", "."]), *given]
            words += [f"--run {shlex.quote(run)}" for run in self.runs]
        else:
            words += ["sql", _quoted(self.sql.strip()), *(f"--runs {shlex.quote(run)}" for run in self.runs)]
        return " ".join([*words, "--server", shlex.quote(server)])


def _quoted(sql: str) -> str:
    """SQL for a shell, within double quotes where that is as safe: it has so many single ones."""
    return shlex.quote(sql) if set(sql) & set('"$`\\!') else f'"{sql}"'


@router.get("")
def sql(request: Request, desk: TheDesk, visitor: TheVisitor) -> HTMLResponse:
    """The editor; with a question in the address, its answer too."""
    address = request.query_params
    asked = Asked.of(address)
    if "query" in address:
        asked = Asked(house_query(address["query"]).sql, asked.runs, asked.given)
    shown: dict[str, Any] = {"answer": None, "problem": None}
    status = 200
    if asked.sql.strip() and "query" not in address:
        try:
            shown["answer"] = _answer(desk, visitor, asked, address)
        except ActionFlowError as error:
            status = status_of(error)
            if status == 401:
                raise
            shown["problem"] = without_places(str(error), desk)
    server = str(request.base_url).rstrip("/") + request.app.state.actionflow_root
    return page(
        request,
        "sql.html",
        status,
        text=asked.sql or FIRST_QUESTION,
        runs=",".join(asked.runs),
        parameters=asked.parameters(),
        views={name: [(field.name, str(field.type)) for field in view] for name, view in VIEWS.items()},
        queries=[files.load(name) for name in files.names()],
        link=asked.address(),
        command=asked.command(server),
        **shown,
    )


@router.get("/answer.{form}")
def download(form: str, request: Request, desk: TheDesk, visitor: TheVisitor) -> Response:
    """The whole answer as a file."""
    if form not in ("csv", "parquet"):
        raise StoreError(f"an answer comes as csv or parquet, not as {form[:20]}.")
    asked = Asked.of(request.query_params)
    answer = desk.ask_sql(visitor, asked.sql, asked.runs, asked.values(desk, visitor), form)
    media = next(media for media, each in MEDIA_TYPES.items() if each == form)
    headers = {"Content-Disposition": f'attachment; filename="answer.{form}"', "Cache-Control": "private, no-cache"}
    if answer.cut:
        headers["X-ActionFlow-Truncated"] = answer.cut
    return Response(answer.body, media_type=media, headers=headers)


def _answer(desk: Desk, visitor: Visitor, asked: Asked, address: Mapping[str, str]) -> dict[str, Any]:
    values = asked.values(desk, visitor)
    answer = desk.ask_sql(visitor, asked.sql, asked.runs, values, "json", SHOWN_ROWS)
    content = json.loads(answer.body)
    columns, rows = [each["name"] for each in content["columns"]], content["rows"]
    pictures = _pictures(desk, visitor, asked, rows)
    chart, x, y = address.get("chart", ""), address.get("x", ""), address.get("y", "")
    return {
        "columns": columns,
        "numbers": {name for name in columns if _is_number(rows, name)},
        "rows": [[_cell(row, name) for name in columns] for row in rows],
        "pictures": [pictures.get(place) for place in range(len(rows))] if pictures else None,
        "is_cut": bool(answer.cut),
        "milliseconds": answer.opened_ms + answer.asked_ms,
        "kind": chart,
        "x": x or (columns[0] if columns else ""),
        "y": y or next((name for name in columns[1:] if _is_number(rows, name)), ""),
        "chart": _chart(rows, chart, x, y),
    }


def _is_number(rows: list[dict[str, Any]], name: str) -> bool:
    known = [row[name] for row in rows if row[name] is not None]
    return bool(known) and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in known)


def _cell(row: dict[str, Any], name: str) -> dict[str, Any]:
    """A value as a table shows it: a picture, a link to a run or sample, or a text that is not too long."""
    value = row[name]
    if isinstance(value, str):
        for start, media in PICTURES.items():
            if value.startswith(start) and len(value) > 100:
                return {"picture": f"data:{media};base64,{value}"}
    if name == "run_id" and isinstance(value, str) and ID.fullmatch(value):
        return {"picture": None, "text": value[:8], "title": value, "href": _href(row, name), "right": False}
    text = f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)
    cut = text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"
    return {
        "picture": None,
        "text": cut,
        "title": None,
        "href": _href(row, name),
        "right": isinstance(value, (int, float)),
    }


def _href(row: dict[str, Any], name: str) -> str | None:
    run_id, split, sample_id = row.get("run_id"), row.get("split"), row.get("sample_id")
    if not isinstance(run_id, str) or not ID.fullmatch(run_id):
        return None
    if name == "run_id":
        return f"{PREFIX}/runs/{run_id}"
    if name == "sample_id" and isinstance(sample_id, int) and isinstance(split, str) and split.isidentifier():
        return f"{PREFIX}/runs/{run_id}/samples/{split}/{sample_id}"
    return None


def _pictures(desk: Desk, visitor: Visitor, asked: Asked, rows: list[dict[str, Any]]) -> dict[int, str]:
    """The addresses of pictures of the rows that name a run and a sample, by the row's place."""
    wanted: dict[str, dict[int, int]] = {}
    only = asked.runs[0] if len(asked.runs) == 1 and ID.fullmatch(asked.runs[0]) else None
    for place, row in enumerate(rows):
        run_id, sample_id = row.get("run_id", only), row.get("sample_id")
        if isinstance(run_id, str) and ID.fullmatch(run_id) and isinstance(sample_id, int):
            wanted.setdefault(run_id, {})[place] = sample_id
    found: dict[int, str] = {}
    for run_id, places in list(wanted.items())[:RUNS_WITH_PICTURES]:
        found |= _pictures_of(desk, visitor, run_id, places)
    return found


def _pictures_of(desk: Desk, visitor: Visitor, run_id: str, places: dict[int, int]) -> dict[int, str]:
    try:
        with desk.session(visitor, [run_id]) as session:
            run = session.runs[0]
            samples = samples_of(session, digest_of(run), set(places.values()))
    except ActionFlowError:
        return {}  # an answer may say run ids that are none
    there = {number for number, sample in samples.items() if sample.has_picture}
    return {place: picture_address(run, number) for place, number in places.items() if number in there}


def _chart(rows: list[dict[str, Any]], kind: str, x: str, y: str) -> Chart | None:
    if kind not in ("bar", "line") or not rows or x not in rows[0] or y not in rows[0] or not _is_number(rows, y):
        return None
    known = [row for row in rows if row[x] is not None]
    if kind == "line" and _is_number(known, x):
        return line_chart([(row[x], row[y]) for row in known], f"{y} by {x}", x, y)
    return bar_chart([(str(row[x]), row[y]) for row in known if row[y] is not None], f"{y} by {x}", x, y)
