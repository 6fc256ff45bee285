"""The page of a sample: what it is, how its loss went, what is like it, and what people say of it."""

from __future__ import annotations

import re
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from actionflow.errors import ActionFlowError, StoreError
from actionflow.serving.albums import Sample, samples_of
from actionflow.serving.asking import Desk
from actionflow.serving.drawing import MOST_WORDS, loss_curve
from actionflow.serving.opening import (
    EVERY_SCORE,
    cells,
    class_names,
    digest_of,
    facts_of,
    named,
    open_run,
    picture_address,
)
from actionflow.serving.pages import PREFIX, PageRoute
from actionflow.serving.routes import TheDesk, TheVisitor
from actionflow.serving.templating import page
from actionflow.serving.visitors import Visitor
from actionflow.session import Session
from actionflow.store import layout
from actionflow.store.marks import MARKS
from actionflow.store.reading import StoredRun

router = APIRouter(prefix=f"{PREFIX}/runs", route_class=PageRoute, include_in_schema=False)

LONGEST_TEXT = 100_000
NEIGHBOURS, OTHER_RUNS = 8, 12
# What a digest may be to stand in a filter; others are those of people who make their own tags.
PLAIN = re.compile(r"[\w.:-]+")


@router.get("/{run_id}/samples/{split}/{sample_id}")
def sample(
    run_id: str, split: str, sample_id: str, request: Request, desk: TheDesk, visitor: TheVisitor
) -> HTMLResponse:
    """One sample, large."""
    with open_run(desk, visitor, run_id) as (session, run):
        number = _number(run, split, sample_id)
        names = class_names(session, digest_of(run))
        curve = curve_of(session, run, split, number, names)
        shown: dict[str, Any] = {
            "run": facts_of(run),
            "split": split,
            "names": names,
            "curve": curve,
            "told_always": len(curve) <= MOST_WORDS,
            "chart": loss_curve(curve, f"Loss of sample {number} by epoch"),
            "sample": samples_of(session, digest_of(run), [number], LONGEST_TEXT).get(number, Sample(number)),
            "picture": picture_address(run, number),
            "scores": _scores(session, run, split, number),
            "beside": _beside(session, run, split, number),
            "neighbours": _neighbours(session, run, split, number, names),
            "said": _said(session, run, split, number),
            "marks": _marks(session, run, number, names),
            "every_mark": MARKS,
            "may_mark": visitor.may_write(run.run.info.experiment_id),
            "visitor": visitor.name,
        }
    return page(request, "sample.html", **shown, others=_others(desk, visitor, run, number, names))


def _number(run: StoredRun, split: str, sample_id: str) -> int:
    if not sample_id.isdigit() or len(sample_id) > 18:
        raise StoreError(f"there is no sample {sample_id[:40]} in split {split[:40]} of run {run.name}.")
    return int(sample_id)


def curve_of(
    session: Session, run: StoredRun, split: str, sample_id: int, names: dict[int, str]
) -> list[dict[str, Any]]:
    """How a sample's loss went, epoch by epoch, and what it was taken for."""
    rows = session.sql(
        """select epoch, loss, label, prediction, correct, confidence, entropy from dynamics
        where run_id = $run_id and split = $split and sample_id = $sample_id order by epoch""",
        run_id=run.run_id,
        split=split,
        sample_id=sample_id,
    ).to_pylist()
    if not rows:
        raise StoreError(f"there is no sample {sample_id} in split {split[:40]} of run {run.name}.")
    return [{**row, "taken_for": named(row["prediction"], names)} for row in rows]


def _scores(session: Session, run: StoredRun, split: str, sample_id: int) -> list[dict[str, Any]]:
    """Each score of the sample, and the share of the split's samples that have a lower one."""
    shares = ", ".join(
        f"one.{name}, count(*) filter (every_one.{name} < one.{name}) / nullif(count(every_one.{name}), 0) "
        f"as {name}_share"
        for name in EVERY_SCORE
    )
    rows = session.sql(
        f"""with of_split as (select * from scores where run_id = $run_id and split = $split),
        one as (select * from of_split where sample_id = $sample_id)
        select {shares} from of_split as every_one cross join one group by {", ".join(f"one.{n}" for n in EVERY_SCORE)}
        """,
        run_id=run.run_id,
        split=split,
        sample_id=sample_id,
    ).to_pylist()
    row = rows[0] if rows else {}
    return [
        {"name": name, "value": row[name], "share": row[f"{name}_share"]}
        for name in EVERY_SCORE
        if row.get(name) is not None
    ]


def _beside(session: Session, run: StoredRun, split: str, sample_id: int) -> dict[str, int | None]:
    """The samples that come next by action, on either side."""
    rows = session.sql(
        """with ordered as (
            select sample_id, lag(sample_id) over hardest_first as harder, lead(sample_id) over hardest_first as easier
            from scores where run_id = $run_id and split = $split
            window hardest_first as (order by action desc nulls last, sample_id)
        )
        select harder, easier from ordered where sample_id = $sample_id""",
        run_id=run.run_id,
        split=split,
        sample_id=sample_id,
    ).to_pylist()
    return rows[0] if rows else {"harder": None, "easier": None}


def _neighbours(
    session: Session, run: StoredRun, split: str, sample_id: int, names: dict[int, str]
) -> list[dict[str, Any]]:
    """What the model finds alike; nothing when the run kept no features of the split."""
    rows = session.query("neighbours", sample_id=sample_id, split=split, k=NEIGHBOURS).to_pylist()
    rows = [
        {
            "sample_id": row["neighbour_id"],
            "label": row["label"],
            "prediction": row["prediction"],
            "correct": None if row["prediction"] is None else row["label"] == row["prediction"],
            "score": row["distance"],
        }
        for row in rows
    ]
    return cells(run, split, rows, samples_of(session, digest_of(run), [row["sample_id"] for row in rows]), names)


def _said(session: Session, run: StoredRun, split: str, sample_id: int) -> str | None:
    """What a model that writes, or points at words, said last."""
    rows = session.sql(
        "select predicted_text from outputs where run_id = $run_id and split = $split and sample_id = $sample_id",
        run_id=run.run_id,
        split=split,
        sample_id=sample_id,
    ).to_pylist()
    return rows[0]["predicted_text"] if rows else None


def _marks(session: Session, run: StoredRun, sample_id: int, names: dict[int, str]) -> list[dict[str, Any]]:
    rows = session.sql(
        "select * from marks where dataset_digest = $digest and sample_id = $sample_id order by marked_at desc",
        digest=digest_of(run),
        sample_id=sample_id,
    ).to_pylist()
    return [{**row, "right_name": named(row["right_label"], names)} for row in rows]


def _others(
    desk: Desk, visitor: Visitor, run: StoredRun, sample_id: int, names: dict[int, str]
) -> list[dict[str, Any]]:
    """The same sample in other runs of the same data set, as far as they can be read."""
    digest = digest_of(run)
    if not PLAIN.fullmatch(digest):
        return []
    same = [r for r in desk.runs(visitor, [f"tags.`{layout.TAG_DIGEST}` = '{digest}'"]) if r.run_id != run.run_id]
    try:
        return _in_others(desk, visitor, same[:OTHER_RUNS], sample_id, names)
    except ActionFlowError:
        return []  # a run that lost files has a page of its own, where that is told


def _in_others(
    desk: Desk, visitor: Visitor, runs: list[StoredRun], sample_id: int, names: dict[int, str]
) -> list[dict[str, Any]]:
    if not runs:
        return []
    with desk.session(visitor, [run.run_id for run in runs]) as session:
        rows = session.sql(
            """with placed as (
                select run_id, split, sample_id, action, prediction, correct,
                    percent_rank() over (partition by run_id, split order by action) as share
                from scores
            )
            select * from placed where sample_id = $sample_id""",
            sample_id=sample_id,
        ).to_pylist()
    called = {run.run_id: run.name for run in runs}
    return [
        {**row, "name": called[row["run_id"]], "taken_for": named(row["prediction"], names)}
        for row in sorted(rows, key=lambda row: list(called).index(row["run_id"]))
    ]
