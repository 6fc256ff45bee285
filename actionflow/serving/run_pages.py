"""The page of a run: a wall of its samples, and the pictures on it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from actionflow.errors import StoreError
from actionflow.serving.albums import picture_of, samples_of
from actionflow.serving.opening import (
    cells,
    check_id,
    chosen_split,
    class_names,
    digest_of,
    facts_of,
    marks_on,
    open_run,
    splits_of,
)
from actionflow.serving.pages import PREFIX, PageRoute
from actionflow.serving.remembering import once
from actionflow.serving.routes import TheDesk, TheVisitor
from actionflow.serving.templating import page
from actionflow.serving.walls import PAGE, Wall, clusters_of, labels_of
from actionflow.session import Session
from actionflow.store.reading import StoredRun

router = APIRouter(prefix=f"{PREFIX}/runs", route_class=PageRoute, include_in_schema=False)

# The address has the data set's digest and the sample's id in it: what it shows never changes.
FOR_GOOD = {"Cache-Control": "private, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}


@router.get("/{run_id}")
def run(run_id: str, request: Request, desk: TheDesk, visitor: TheVisitor) -> HTMLResponse:
    """The samples of a run as a wall, hardest first unless the address says otherwise."""
    with open_run(desk, visitor, run_id) as (session, stored):
        facts = facts_of(stored)
        if facts["is_training"] and not stored.recorded().files:
            return page(request, "waiting.html", run=facts)
        shown = _wall(session, stored, request)
    return page(request, "run.html", run=facts, **shown)


def _wall(session: Session, run: StoredRun, request: Request) -> dict[str, Any]:
    splits = once(session, "splits", lambda: splits_of(session, run.run_id))
    split = chosen_split(splits, run, request.query_params.get("split", ""))
    wall = Wall.of(request.query_params, split["split"])
    rows, total = wall.rows(session, run.run_id, split["samples"])
    digest = digest_of(run)
    names = class_names(session, digest)
    marks = marks_on(session, digest)
    labels = once(session, ("labels", wall.split), lambda: labels_of(session, run.run_id, wall.split))
    rows = [{**row, "mark": marks.get(row["sample_id"])} for row in rows]
    samples = samples_of(session, digest, [row["sample_id"] for row in rows])
    return {
        "splits": splits,
        "split": split,
        "wall": wall,
        "cells": cells(run, wall.split, rows, samples, names),
        "total": total,
        "first": PAGE * (wall.page - 1) + 1,
        "newer": wall.address(wall.page - 1) if wall.page > 1 else None,
        "older": wall.address(wall.page + 1) if PAGE * wall.page < total else None,
        "labels": [(label, names.get(label, str(label)), n) for label, n in labels],
        "clusters": once(session, ("clusters", wall.split), lambda: clusters_of(session, run.run_id, wall.split)),
    }


@router.get("/{run_id}/pictures/{digest}/{sample_id}.png")
def picture(run_id: str, digest: str, sample_id: int, desk: TheDesk, visitor: TheVisitor) -> Response:
    """The picture of a sample, for whoever may read the run."""
    check_id(run_id)
    with desk.session_of_a_page(visitor, run_id) as session:
        stored = session.runs[0]
        found = picture_of(session, digest, sample_id) if digest == digest_of(stored) else None
    if found is None:
        raise StoreError(f"there is no picture of sample {sample_id} in run {stored.name}.")
    return Response(found, media_type="image/png", headers=FOR_GOOD)
