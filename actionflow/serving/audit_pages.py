"""The queue of an audit: somebody looks at the suspects of a run one by one and says what is wrong with each.

The address says where one is; what was marked says what is left. So one goes on where one stopped, several people share
a queue, and a form does all of it: script only adds keys.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from threading import Lock
from typing import Annotated, Any
from urllib.parse import urlencode

import pyarrow as pa
from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from actionflow.analysis.suspects import find_suspects
from actionflow.auditing import check_audited
from actionflow.errors import QueryError
from actionflow.marking import classes_of
from actionflow.serving.albums import Sample, samples_of
from actionflow.serving.drawing import loss_curve
from actionflow.serving.opening import (
    check_id,
    digest_of,
    facts_of,
    marks_on,
    named,
    open_run,
    picture_address,
    whole_number,
)
from actionflow.serving.pages import PREFIX, PageRoute
from actionflow.serving.remembering import once
from actionflow.serving.routes import TheDesk, TheVisitor
from actionflow.serving.sample_pages import LONGEST_TEXT, curve_of
from actionflow.serving.sent_forms import FormRoute, sent_form
from actionflow.serving.templating import page
from actionflow.session import Session
from actionflow.store.marks import Mark
from actionflow.store.reading import StoredRun

# An audit takes a moment to make, and is the same until the run changes.
KEPT_QUEUES = 16


router = APIRouter(prefix=f"{PREFIX}/runs", route_class=PageRoute, include_in_schema=False)
# Writes lie where MLflow's own check of origins looks too.
forms = APIRouter(prefix="/ajax-api/actionflow/audit", route_class=FormRoute, include_in_schema=False)


@dataclass(frozen=True)
class Queue:
    """The suspects of one split of a run, most suspicious first, and where the line was drawn."""

    suspects: pa.Table
    judged: int
    score_name: str

    def __len__(self) -> int:
        return int(self.suspects.num_rows)

    def at(self, rank: int) -> dict[str, Any]:
        """The suspect of this rank."""
        if not 1 <= rank <= len(self):
            raise QueryError(f"the queue has {len(self):,} suspects, and none of rank {rank}.")
        row: dict[str, Any] = self.suspects.slice(rank - 1, 1).to_pylist()[0]
        return row

    def next_after(self, rank: int, marked: set[int]) -> int | None:
        """The rank of the first suspect behind this one that nobody has marked."""
        ids = self.suspects["sample_id"].slice(rank).to_pylist()
        return next((rank + place for place, each in enumerate(ids, 1) if each not in marked), None)


class Queues:
    """The queues that were lately looked at."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, Queue] = OrderedDict()
        self._tidying = Lock()

    def of(self, session: Session, run: StoredRun, split: str) -> Queue:
        """The last audit that was written into the run, or one that is made now."""
        stored = session.sql(
            "select * from audits where run_id = $run_id and split = $split order by suspect_rank",
            run_id=run.run_id,
            split=split,
        )
        if stored.num_rows:
            return _queue(stored)
        key = (run.run_id, split, _epochs(session, run, split))
        queue = self._kept.get(key)
        if queue is None:
            queue = _queue(find_suspects(session, run.run_id, split, "aum", no_class=run.threshold_class).ranked)
            with self._tidying:
                self._kept[key] = queue
                while len(self._kept) > KEPT_QUEUES:
                    self._kept.popitem(last=False)
        return queue


queues = Queues()


@router.get("/{run_id}/audit")
def audit(
    run_id: str, request: Request, desk: TheDesk, visitor: TheVisitor, split: str = "train", whose: str = ""
) -> HTMLResponse:
    """The suspect of the rank in the address, or the first behind it that nobody has marked."""
    with open_run(desk, visitor, run_id) as (session, run):
        check_audited(run, split)
        queue, digest = queues.of(session, run, split), digest_of(run)
        marks = marks_on(session, digest)
        rank = whole_number(request.query_params.get("rank", ""), "rank")
        after = min(max(whole_number(request.query_params.get("after", ""), "after", 0) or 0, 0), len(queue))
        here = rank if rank is not None else queue.next_after(after, set(marks))
        shown = _suspect(session, run, split, queue.at(here), marks) if here is not None else None
        left = queue.next_after(0, set(marks))
    may_mark = visitor.may_write(run.run.info.experiment_id)
    done = sum(each in marks for each in queue.suspects["sample_id"].to_pylist())
    where: dict[str, Any] = {
        "run": facts_of(run),
        "split": split,
        "queue": queue,
        "done": done,
        "left": left,
        "shown": shown,
    }
    return page(request, "audit.html", **where, may_mark=may_mark, visitor=visitor.name, whose=whose[:200])


@forms.post("/{run_id}")
def mark(
    run_id: str,
    request: Request,
    desk: TheDesk,
    visitor: TheVisitor,
    fields: Annotated[dict[str, str], Depends(sent_form)],
) -> RedirectResponse:
    """Mark a suspect and go on to the next."""
    check_id(run_id)
    number = whole_number(fields.get("sample_id", ""), "sample_id")
    if number is None:
        raise QueryError("a form of the queue names its sample.")
    said, whose = fields.get("mark", ""), fields.get("marked_by", "")[:200]
    word, _, label = said.partition(" ")
    right = whole_number(fields.get("right_label", "") if label == "other" else label, "right_label")
    if label == "other" and right is None:
        raise QueryError("choose the class that it is, then Another class.")
    desk.mark(visitor, run_id, [Mark(number, word, right)], whose)
    to = {
        "split": fields.get("split", "train"),
        "after": fields.get("rank", "0"),
        **({"whose": whose} if whose else {}),
    }
    root = request.app.state.actionflow_root
    return RedirectResponse(f"{root}{PREFIX}/runs/{run_id}/audit?{urlencode(to)}", status_code=303)


def _queue(ranked: pa.Table) -> Queue:
    suspects = ranked.filter(ranked["suspect"])
    return Queue(suspects, ranked.num_rows, str(ranked["score_name"][0].as_py()))


def _epochs(session: Session, run: StoredRun, split: str) -> int:
    found = session.sql(
        "select max(epochs_seen) as epochs from scores where run_id = $run_id and split = $split",
        run_id=run.run_id,
        split=split,
    )
    return int(found["epochs"][0].as_py() or 0)


def _suspect(
    session: Session, run: StoredRun, split: str, row: dict[str, Any], marks: dict[int, str]
) -> dict[str, Any]:
    """What a person needs to judge a label: the sample, both labels, how its loss went."""
    number, digest = row["sample_id"], digest_of(run)
    names = once(session, "classes", lambda: classes_of(session, run))
    curve = curve_of(session, run, split, number, names)
    return {
        **row,
        "sample": samples_of(session, digest, [number], LONGEST_TEXT).get(number, Sample(number)),
        "picture": picture_address(run, number),
        "given": named(row["label"], names),
        "suggested_name": named(row["suggested"], names),
        "names": names,
        "chart": loss_curve(curve, f"Loss of sample {number} by epoch"),
        "mark": marks.get(number),
    }
