"""The page of explained failures: the rules of a run, what they look at, and the failures that each holds for."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from actionflow.analysis.failure_modes import DEPTHS
from actionflow.errors import StoreError
from actionflow.present.failures import figure_name, sentence, shown_controls
from actionflow.serving.albums import samples_of
from actionflow.serving.opening import (
    check_id,
    class_names,
    digest_of,
    facts_of,
    named,
    open_run,
    picture_address,
    whole_number,
)
from actionflow.serving.pages import PREFIX, PageRoute
from actionflow.serving.routes import TheDesk, TheVisitor
from actionflow.serving.templating import page
from actionflow.session import Session
from actionflow.store.reading import StoredRun

router = APIRouter(prefix=f"{PREFIX}/runs", route_class=PageRoute, include_in_schema=False)

# Rules on a page, and failures shown of each.
RULES, SHOWN = 30, 12
# Where a run keeps them, with the name of any split but val behind it.
FIGURES = "failure_modes"
Row = dict[str, Any]


@router.get("/{run_id}/failures")
def failures(
    run_id: str,
    request: Request,
    desk: TheDesk,
    visitor: TheVisitor,
    split: str = "",
    grouping: str = "",
    depth: str = "",
) -> HTMLResponse:
    """The rules of a grouping and depth, the most important first."""
    with open_run(desk, visitor, run_id) as (session, run):
        kinds = _kinds(session, run)
        chosen = _chosen(kinds, split, grouping, whole_number(depth, "depth"))
        shown = _shown(session, run, chosen) if chosen else {"rules": [], "controls": None}
    splits = list(dict.fromkeys(kind["split"] for kind in kinds))
    groupings = list(dict.fromkeys(kind["grouping"] for kind in kinds))
    choices: dict[str, Any] = {"splits": splits, "groupings": groupings, "depths": DEPTHS}
    return page(request, "failures.html", run=facts_of(run), chosen=chosen, **choices, **shown)


@router.get("/{run_id}/failures/{name}.png")
def figure(run_id: str, name: str, desk: TheDesk, visitor: TheVisitor) -> Response:
    """The figure of a rule, for whoever may read the run."""
    check_id(run_id)
    with desk.session_of_a_page(visitor, run_id) as session:
        run = session.runs[0]
        folder, _, file = name.partition(".")
        if not folder.startswith(FIGURES) or file not in _figures(run, folder):
            raise StoreError(f"there is no figure {name[:80]} in run {run.name}.")
        content = run.local(f"{folder}/{file}.png").read_bytes()
    return Response(content, media_type="image/png", headers={"X-Content-Type-Options": "nosniff"})


def _kinds(session: Session, run: StoredRun) -> list[Row]:
    """What was explained of a run."""
    rows: list[Row] = session.sql(
        """select distinct split, target, grouping, depth from failure_modes
        where run_id = $run_id order by split <> 'val', split, grouping, depth""",
        run_id=run.run_id,
    ).to_pylist()
    return rows


def _chosen(kinds: list[Row], split: str, grouping: str, depth: int | None) -> Row | None:
    """What the address asks for; the first of what there is where it asks for nothing."""
    for kind in kinds:
        if split in ("", kind["split"]) and grouping in ("", kind["grouping"]) and depth in (None, kind["depth"]):
            return kind
    if kinds:
        raise StoreError("this was not explained: choose a split, a grouping and a depth of those that were.")
    return None


def _shown(session: Session, run: StoredRun, chosen: Row) -> dict[str, Any]:
    asked = {name: chosen[name] for name in ("split", "grouping", "depth")}
    names = class_names(session, digest_of(run))
    folder = _folder(chosen["split"])
    figures = _figures(run, folder)
    rules = session.query("failure_modes", **asked, k=RULES).to_pylist()
    controls = shown_controls(session.query("failure_controls", split=chosen["split"]))
    return {
        "rules": [
            {
                **rule,
                "told": sentence(
                    rule, named(rule["label"], names) or "all samples", chosen["grouping"], chosen["target"]
                ),
                "figure": _address(run, folder, rule) if figure_name(rule) in figures else None,
                "failures": _failures(session, run, chosen, rule),
            }
            for rule in rules
        ],
        "controls": {"heads": controls.column_names, "rows": [list(row.values()) for row in controls.to_pylist()]},
    }


def _failures(session: Session, run: StoredRun, chosen: Row, rule: Row) -> list[Row]:
    """Some failures that a rule holds for."""
    rows = session.sql(
        """select sample_id from failure_members
        where run_id = $run_id and split = $split and grouping = $grouping and depth = $depth
            and label is not distinct from $label and leaf = $leaf and failed
        order by hash(sample_id) limit $most""",
        run_id=run.run_id,
        **{name: chosen[name] for name in ("split", "grouping", "depth")},
        label=rule["label"],
        leaf=rule["leaf"],
        most=SHOWN,
    ).to_pylist()
    samples = samples_of(session, digest_of(run), [row["sample_id"] for row in rows])
    return [_cell(run, chosen["split"], row["sample_id"], samples) for row in rows]


def _cell(run: StoredRun, split: str, number: int, samples: Any) -> Row:
    sample = samples.get(number)
    return {
        "sample_id": number,
        "href": f"{PREFIX}/runs/{run.run_id}/samples/{split}/{number}",
        "picture": picture_address(run, number) if sample is not None and sample.has_picture else None,
        "text": sample.text if sample is not None else None,
    }


def _folder(split: str) -> str:
    return FIGURES if split == "val" else f"{FIGURES}_{split}"


def _figures(run: StoredRun, folder: str) -> set[str]:
    """The names of the figures that a run keeps."""
    return run.names(folder, ".png")


def _address(run: StoredRun, folder: str, rule: Row) -> str:
    return f"{PREFIX}/runs/{run.run_id}/failures/{folder}.{figure_name(rule)}.png"
