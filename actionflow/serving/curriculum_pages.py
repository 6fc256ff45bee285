"""The curriculum page: choose an order, see what it keeps, write it into the run."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ConfigDict

from actionflow.errors import ActionFlowError
from actionflow.ordering import Plan, plan
from actionflow.serving.albums import samples_of
from actionflow.serving.api import router as api
from actionflow.serving.asking import Desk
from actionflow.serving.opening import (
    EVERY_SCORE,
    cells,
    check_id,
    class_names,
    digest_of,
    facts_of,
    named,
    number,
    whole_number,
)
from actionflow.serving.pages import PREFIX, PageRoute
from actionflow.serving.routes import TheDesk, TheVisitor, without_places
from actionflow.serving.templating import page
from actionflow.serving.visitors import ForbiddenError, Visitor
from actionflow.session import Session
from actionflow.store.marks import MARKS

logger = logging.getLogger(__name__)

router = APIRouter(prefix=f"{PREFIX}/runs", route_class=PageRoute, include_in_schema=False)

ORDERS = ("easy-first", "hard-first", "random")
AT_THE_CUT = 8


class Chosen(BaseModel):
    """What a curriculum is made of; as in `actionflow curriculum`."""

    model_config = ConfigDict(extra="forbid")

    order: str = "easy-first"
    score: str = "action"
    fraction: float = 1.0
    drop_hardest: float = 0.0
    balanced: bool = False
    stages: int = 1
    seed: int = 0
    without_marked: str = ""

    @classmethod
    def of(cls, address: Mapping[str, str], marks: list[str]) -> Chosen:
        """Read the address of the page."""
        return cls(
            order=address.get("order", "easy-first"),
            score=address.get("score", "action"),
            fraction=number(address.get("fraction", ""), "fraction", 1.0),
            drop_hardest=number(address.get("drop_hardest", ""), "drop_hardest", 0.0),
            balanced=bool(address.get("balanced")),
            stages=whole_number(address.get("stages", ""), "stages", 1) or 0,
            seed=whole_number(address.get("seed", ""), "seed", 0) or 0,
            without_marked=",".join(marks),
        )

    def command(self, run: str) -> str:
        """What writes the same curriculum from a terminal."""
        usual = Chosen()
        words = [f"actionflow curriculum {run}"]
        for name, value in self:
            if value != getattr(usual, name):
                words.append(f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}"))
        return " ".join(words)


class Ordered(Chosen):
    """A curriculum to write, and the id of the run that it comes from."""

    run: str


@router.get("/{run_id}/curriculum")
def curriculum(run_id: str, request: Request, desk: TheDesk, visitor: TheVisitor) -> HTMLResponse:
    """What the chosen curriculum would keep, and a button that writes it."""
    chosen = Chosen.of(request.query_params, request.query_params.getlist("without_marked"))
    with _opened(desk, visitor, run_id) as session:
        run = session.runs[0]
        shown: dict[str, Any] = {"problem": None, "plan": None, "balance": [], "edge": []}
        try:
            made = plan(session, run_id, **chosen.model_dump())
            shown |= {"plan": made, **_looked_at(session, made, chosen)}
        except ActionFlowError as error:
            shown["problem"] = without_places(str(error), desk)
    return page(
        request,
        "curriculum.html",
        run=facts_of(run),
        chosen=chosen,
        orders=ORDERS,
        scores=EVERY_SCORE,
        marks=MARKS,
        left_out=chosen.without_marked.split(","),
        command=chosen.command(run_id),
        may_write=visitor.may_write(run.run.info.experiment_id),
        **shown,
    )


@api.post("/curricula", summary="Write a curriculum into a run.")
def write(ordered: Ordered, desk: TheDesk, visitor: TheVisitor) -> dict[str, str]:
    """What `actionflow curriculum` does; answers its address and the command that trains on it."""
    given = ordered.model_dump()
    with _opened(desk, visitor, given.pop("run")) as session:
        run = session.runs[0]
        if not visitor.may_write(run.run.info.experiment_id):
            raise ForbiddenError(f"{visitor.name} may look at run {run.name} but not write into it.")
        made = plan(session, run.run_id, **given)
        address = made.write()
    return {"address": address, "command": made.command(address)}


def _opened(desk: Desk, visitor: Visitor, run_id: str) -> Session:
    """A session of its own: leaving out what is marked changes what it shows."""
    check_id(run_id)
    return Session(desk.runs(visitor, [run_id]), logger.info)


def _looked_at(session: Session, made: Plan, chosen: Chosen) -> dict[str, Any]:
    session.engine.view_table("planned", made.table)
    digest = digest_of(made.source)
    names = class_names(session, digest)
    balance = session.sql(
        """select label, count(*) as samples, count(planned.sample_id) as kept
        from scores left join planned on scores.sample_id = planned.sample_id
        where run_id = $run_id and split = 'train' group by label order by label""",
        run_id=made.source.run_id,
    ).to_pylist()
    return {
        "balance": [{**row, "name": named(row["label"], names)} for row in balance],
        "edge": [
            {"title": title, "cells": _edge(session, made, names, sql)}
            for title, sql in _edges(chosen.score if chosen.score in EVERY_SCORE else "action").items()
        ],
    }


def _edges(score: str) -> dict[str, str]:
    """The last samples that are kept, and those nearest to them that are not."""
    columns = f"scores.sample_id, label, prediction, correct, cast({score} as double) as score"
    return {
        "The last that are kept": f"""select {columns} from scores
            inner join planned on scores.sample_id = planned.sample_id
            where run_id = $run_id and split = 'train' order by position desc limit {AT_THE_CUT}""",
        "The nearest that are left out": f"""select {columns} from scores
            where run_id = $run_id and split = 'train' and sample_id not in (select sample_id from planned)
            order by abs({score} - (select arg_max(score, position) from planned)) nulls last, sample_id
            limit {AT_THE_CUT}""",
    }


def _edge(session: Session, made: Plan, names: dict[int, str], sql: str) -> list[dict[str, Any]]:
    rows = session.sql(sql, run_id=made.source.run_id).to_pylist()
    samples = samples_of(session, digest_of(made.source), [row["sample_id"] for row in rows])
    return cells(made.source, "train", rows, samples, names)
