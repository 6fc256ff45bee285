"""The compare page: where two runs agree on what is hard, and the samples on which they do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from actionflow.errors import DataError, QueryError
from actionflow.serving.albums import samples_of
from actionflow.serving.drawing import line_chart, scatter
from actionflow.serving.opening import cells, check_id, class_names, digest_of, facts_of, number
from actionflow.serving.pages import PREFIX, PageRoute
from actionflow.serving.routes import TheDesk, TheVisitor
from actionflow.serving.templating import page
from actionflow.session import Session
from actionflow.store.reading import StoredRun

router = APIRouter(prefix=PREFIX, route_class=PageRoute, include_in_schema=False)

# More points lie upon each other; the wall is asked of all samples, whatever is drawn.
MOST_POINTS, ON_THE_WALL, MOST_RUNS = 3000, 60, 8
PLACED = """
    with pairs as (
        select a.sample_id, a.label, a.action as action_a, b.action as action_b, a.prediction as prediction_a,
            b.prediction as prediction_b, a.correct as correct_a, b.correct as correct_b
        from scores as a
        inner join scores as b on a.sample_id = b.sample_id
        where a.run_id = $run_a and b.run_id = $run_b and a.split = $split and b.split = $split
            and a.action is not null and b.action is not null
    ),
    placed as (
        select *, percent_rank() over (order by action_a) as a, percent_rank() over (order by action_b) as b
        from pairs
    )"""


@dataclass(frozen=True)
class Box:
    """What was brushed: shares from 0 to 1 on either axis."""

    a_low: float = 0.0
    a_high: float = 1.0
    b_low: float = 0.0
    b_high: float = 1.0

    @classmethod
    def of(cls, address: Mapping[str, str]) -> Box | None:
        """The box of an address, or None when nothing was brushed."""
        names = ("a_low", "a_high", "b_low", "b_high")
        if not any(address.get(name) for name in names):
            return None
        return cls(*(number(address.get(name, ""), name, float(name.endswith("high"))) for name in names))


@router.get("/compare")
def compare(request: Request, desk: TheDesk, visitor: TheVisitor) -> HTMLResponse:
    """Two runs beside each other; of more, every pair leads to its page."""
    ids = _ids(request.query_params.getlist("runs"))
    with desk.session(visitor, ids) as session:
        _check(session.runs)
        splits = _splits(session)
        wanted = request.query_params.get("split", "")
        split = wanted if wanted in splits else splits[0]
        shown: dict[str, Any] = {
            "runs": [facts_of(run) for run in session.runs],
            "splits": splits,
            "split": split,
            "pairs": _pairs(session, split) if len(session.runs) > 2 else [],
        }
        if len(session.runs) == 2:
            shown |= _pair(session, split, Box.of(request.query_params))
    return page(request, "compare.html" if len(ids) == 2 else "compare_many.html", **shown)


def _ids(words: Sequence[str]) -> list[str]:
    ids = list(dict.fromkeys(part for word in words for part in word.split(",") if part))
    for each in ids:
        check_id(each)
    if not 2 <= len(ids) <= MOST_RUNS:
        raise QueryError(f"a comparison needs two runs and takes up to {MOST_RUNS}, found {len(ids)}: pick them.")
    return ids


def _check(runs: Sequence[StoredRun]) -> None:
    """Ids name the same samples only within one data set."""
    digests = {digest_of(run): run for run in runs if digest_of(run)}
    if len(digests) > 1:
        names = " and ".join(f"{run.name} ({digest[:8]})" for digest, run in digests.items())
        raise DataError(
            f"runs of different data sets do not compare: {names}. One name may stand for several: limit, image_size, "
            "noise and a validation of its own change the data, and their digest."
        )


def _splits(session: Session) -> list[str]:
    rows = session.sql(
        "select split from scores group by split having count(distinct run_id) = $runs order by split <> 'val', split",
        runs=len(session.runs),
    )
    if not rows.num_rows:
        raise DataError("these runs recorded no split in common.")
    return [str(split) for split in rows["split"].to_pylist()]


def _pairs(session: Session, split: str) -> list[dict[str, Any]]:
    """How far each pair agrees, over all samples."""
    told = []
    for a, b in combinations(session.runs, 2):
        rows = session.query("run_correlation", run_a=a.run_id, run_b=b.run_id, split=split).to_pylist()
        told.append({"a": facts_of(a), "b": facts_of(b), **rows[0]})
    return told


def _pair(session: Session, split: str, box: Box | None) -> dict[str, Any]:
    a, b = session.runs
    pair = {"run_a": a.run_id, "run_b": b.run_id, "split": split}
    classes = session.query("run_correlation", **pair).to_pylist()
    curve = session.query("quantile_correlation", **pair).to_pylist()
    points = session.sql(
        PLACED + f" select sample_id, a, b from placed order by hash(sample_id) limit {MOST_POINTS}", **pair
    )
    columns = [points[name].to_pylist() for name in ("sample_id", "a", "b")]
    return {
        "classes": classes,
        "curve": line_chart(
            [(row["quantile"], row["pearson"]) for row in curve],
            "Correlation of action above each quantile",
            f"quantile of action in {a.name}: samples at or above it",
            "Pearson correlation",
        ),
        "scatter": scatter(
            list(zip(*columns, strict=True)),
            "Samples by their place in either run",
            f"share of samples that are easier in {a.name}",
            f"share of samples that are easier in {b.name}",
        ),
        "points": points.num_rows,
        "box": box,
        "walls": _walls(session, split, box),
    }


def _walls(session: Session, split: str, box: Box | None) -> list[dict[str, Any]]:
    """What was brushed; before anybody brushed, what is hard for one and easy for the other."""
    a, b = session.runs
    if box is not None:
        return [_wall(session, split, box, "In the box", "abs(a - b)")]
    return [
        _wall(session, split, Box(), f"Hard for {a.name}, easy for {b.name}", "a - b", 12),
        _wall(session, split, Box(), f"Hard for {b.name}, easy for {a.name}", "b - a", 12),
    ]


def _wall(session: Session, split: str, box: Box, title: str, gap: str, most: int = ON_THE_WALL) -> dict[str, Any]:
    a, b = session.runs
    rows = session.sql(
        PLACED
        + f""" select *, {gap} as score, count(*) over () as samples from placed
        where a between $a_low and $a_high and b between $b_low and $b_high
        order by score desc, sample_id limit {most}""",
        run_a=a.run_id,
        run_b=b.run_id,
        split=split,
        a_low=box.a_low,
        a_high=box.a_high,
        b_low=box.b_low,
        b_high=box.b_high,
    ).to_pylist()
    told = [{**row, "prediction": row["prediction_a"], "correct": _wrong_only(row)} for row in rows]
    for row in told:
        if row["correct_a"] is not False and row["correct_b"] is False:
            row["prediction"] = row["prediction_b"]
    digest = digest_of(a) or digest_of(b)
    samples = samples_of(session, digest, [row["sample_id"] for row in told])
    return {
        "title": title,
        "total": rows[0]["samples"] if rows else 0,
        "cells": cells(a, split, told, samples, class_names(session, digest)),
    }


def _wrong_only(row: dict[str, Any]) -> bool | None:
    """False when either run took it for something else at the end."""
    return False if False in (row["correct_a"], row["correct_b"]) else row["correct_a"]
