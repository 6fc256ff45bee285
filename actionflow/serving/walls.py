"""The wall: samples of a run, by any score, filtered, in pages from SQL."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa

from actionflow.serving.opening import EVERY_SCORE, Asked, number, whole_number
from actionflow.serving.remembering import once
from actionflow.session import Session

PAGE = 60
# Nobody turns so many pages; the filter leads there faster.
LAST_PAGE = 10_000_000
# Walls of up to so many samples are kept, so many of each session: a megabyte or seven each.
WORTH_KEEPING, KEPT_WALLS = 300_000, 4


@dataclass(frozen=True)
class Wall:
    """What a wall shows: the filter and the order, as its address has them."""

    split: str
    sort: str = "action"
    order: str = "desc"
    label: int | None = None
    outcome: str = ""
    cluster: str = ""
    low: float = 0.0
    high: float = 100.0
    page: int = 1

    @classmethod
    def of(cls, address: Mapping[str, str], split: str) -> Wall:
        """Read an address; what cannot be meant becomes what is usual."""
        sort, order = address.get("sort", ""), address.get("order", "")
        outcome = address.get("outcome", "")
        return cls(
            split=split,
            sort=sort if sort in EVERY_SCORE else "action",
            order=order if order in ("asc", "desc") else "desc",
            label=whole_number(address.get("label", ""), "label"),
            outcome=outcome if outcome in ("right", "wrong") else "",
            cluster=address.get("cluster", ""),
            low=number(address.get("low", ""), "low", 0.0),
            high=number(address.get("high", ""), "high", 100.0),
            page=min(max(whole_number(address.get("page", ""), "page", 1) or 1, 1), LAST_PAGE),
        )

    def address(self, page: int) -> str:
        """The question mark and all behind it that leads to another page of this wall."""
        said = {
            "split": self.split,
            "sort": self.sort,
            "order": self.order,
            "label": "" if self.label is None else self.label,
            "outcome": self.outcome,
            "cluster": self.cluster,
            "low": "" if self.low == 0 else f"{self.low:g}",
            "high": "" if self.high == 100 else f"{self.high:g}",
            "page": page,
        }
        return "?" + urlencode({name: value for name, value in said.items() if value != ""})

    def rows(self, session: Session, run_id: str, samples: int) -> tuple[list[dict[str, Any]], int]:
        """The samples of this page, and how many there are on all; `samples` is the size of the split."""
        skip = PAGE * (self.page - 1)
        if samples > WORTH_KEEPING:
            page = self._ask(session, run_id, f"limit {PAGE} offset {skip}").to_pylist()
            return page, page[0]["samples"] if page else 0
        # The next page is the same question: it is asked once.
        wall = kept_wall(session, replace(self, page=1), lambda: self._ask(session, run_id, ""))
        return wall.slice(skip, PAGE).to_pylist(), wall.num_rows

    def _ask(self, session: Session, run_id: str, limit: str) -> pa.Table:
        clusters, grouped = _clusters(bool(self.cluster))
        asked: Asked = {
            "run_id": run_id,
            "split": self.split,
            "label": self.label,
            "right": None if not self.outcome else self.outcome == "right",
            "low": self.low / 100,
            "high": self.high / 100,
        }
        return session.sql(
            f"""
            with placed as (
                select sample_id, label, prediction, correct, {self.sort} as score,
                    percent_rank() over (order by action) as hardness
                from scores
                where run_id = $run_id and split = $split
            ),
            fitting as (
                select placed.*
                from placed {clusters}
                where ($label is null or label = $label) and ($right is null or correct = $right)
                    and hardness between $low and $high {grouped}
            )
            select *, count(*) over () as samples
            from fitting
            order by score {self.order} nulls last, sample_id
            {limit}""",
            **asked,
            **({"cluster": self.cluster} if self.cluster else {}),
        )


def kept_wall(session: Session, wall: Wall, ask: Callable[[], pa.Table]) -> pa.Table:
    """A whole wall, as long as few others have been looked at since; the caller has the session's lock."""
    walls: OrderedDict[Wall, pa.Table] = once(session, "walls", OrderedDict)
    if wall not in walls:
        walls[wall] = ask()
        while len(walls) > KEPT_WALLS:
            walls.popitem(last=False)
    walls.move_to_end(wall)
    return walls[wall]


def _clusters(wanted: bool) -> tuple[str, str]:
    """The join and the condition of a filter by cluster: without one, that file is not read."""
    if not wanted:
        return "", ""
    join = """inner join (
        select sample_id as member_id, cluster_name from clusters where run_id = $run_id and split = $split
    ) as members on placed.sample_id = members.member_id"""
    return join, "and cluster_name = $cluster"


def clusters_of(session: Session, run_id: str, split: str) -> list[str]:
    """The names of the clusters of a split, the easiest first."""
    rows = session.sql(
        """select cluster_name from clusters where run_id = $run_id and split = $split
        group by cluster_name order by min(cluster)""",
        run_id=run_id,
        split=split,
    )
    return [str(name) for name in rows["cluster_name"].to_pylist()]


def labels_of(session: Session, run_id: str, split: str) -> list[tuple[int, int]]:
    """The classes of a split and how many samples each has."""
    rows = session.sql(
        """select label, count(*) as samples from scores
        where run_id = $run_id and split = $split and label is not null group by label order by label""",
        run_id=run_id,
        split=split,
    ).to_pylist()
    return [(row["label"], row["samples"]) for row in rows]
