"""Labelling failure scenarios: a wall of decoded samples, one key for each class, for several people.

The address says where one is; what this person has said says what is left.
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from actionflow.analysis.annotation import progress
from actionflow.errors import QueryError, StoreError
from actionflow.labelling import answer_of, classes_in, distilled_of, labels_for, scenarios_in
from actionflow.serving.asking import Desk
from actionflow.serving.opening import check_id, facts_of, whole_number
from actionflow.serving.pages import PREFIX, PageRoute
from actionflow.serving.routes import TheDesk, TheVisitor
from actionflow.serving.run_pages import FOR_GOOD
from actionflow.serving.sent_forms import FormRoute, sent_form
from actionflow.serving.templating import page
from actionflow.serving.visitors import Visitor
from actionflow.store.reading import StoredRun
from actionflow.store.scenario_labels import FINE, NONE, ScenarioLabel

router = APIRouter(prefix=f"{PREFIX}/scenarios", route_class=PageRoute, include_in_schema=False)
forms = APIRouter(prefix="/ajax-api/actionflow/scenarios", route_class=FormRoute, include_in_schema=False)

# One for each class, as far as they go; n and f are for the two other answers.
KEYS = "1234567890abcdeghijklmopqrtuvwxyz"


@router.get("/{run_id}")
def label(run_id: str, request: Request, desk: TheDesk, visitor: TheVisitor, whose: str = "") -> HTMLResponse:
    """The scenario that the address names, or the first that this person has said nothing of."""
    distilled = _opened(desk, visitor, run_id)
    scenarios, names = scenarios_in(distilled), classes_in(distilled)
    said = labels_for(desk.client(visitor), distilled)
    who = visitor.name or whose or "anybody"
    mine = {row["scenario"]: row for row in said if row["labelled_by"] == who and row["sample"] is None}
    numbers = [row["scenario"] for row in scenarios]
    asked = whole_number(request.query_params.get("scenario", ""), "scenario")
    after = whole_number(request.query_params.get("after", ""), "after", 0) or 0
    here = asked if asked is not None else next((n for n in numbers if n > after and n not in mine), None)
    left = next((n for n in numbers if n not in mine), None)
    if here is not None and here not in numbers:
        raise StoreError(f"there is no scenario {here} in run {distilled.name}: there are {len(numbers)}.")
    shown = next((row for row in scenarios if row["scenario"] == here), None)
    told: dict[str, Any] = {
        "run": facts_of(distilled),
        "total": len(numbers),
        "done": len(mine),
        "progress": progress(scenarios, said).told,
        "left": left,
        "shown": None if shown is None else _shown(shown, names),
        "mine": None if shown is None else _said(mine.get(shown["scenario"]), names),
        "keys": dict(zip(names, KEYS, strict=False)),
        "names": names,
    }
    may_label = visitor.may_write(distilled.run.info.experiment_id)
    return page(request, "scenarios.html", **told, may_label=may_label, visitor=visitor.name, whose=whose[:200])


@router.get("/{run_id}/{scenario}/{sample}.png")
def picture(run_id: str, scenario: int, sample: int, desk: TheDesk, visitor: TheVisitor) -> Response:
    """A decoded sample of a scenario, for whoever may read the run."""
    for row in scenarios_in(_opened(desk, visitor, run_id)):
        if row["scenario"] == scenario and 1 <= sample <= len(row["sample_images"]):
            return Response(row["sample_images"][sample - 1], media_type="image/png", headers=FOR_GOOD)
    raise StoreError(f"there is no sample {sample} of scenario {scenario} in run {run_id}.")


@forms.post("/{run_id}")
def answer(
    run_id: str,
    request: Request,
    desk: TheDesk,
    visitor: TheVisitor,
    fields: Annotated[dict[str, str], Depends(sent_form)],
) -> RedirectResponse:
    """Keep an answer and go on to the next scenario; of single samples, stay."""
    distilled = _opened(desk, visitor, run_id)
    number = whole_number(fields.get("scenario", ""), "scenario")
    if number is None:
        raise QueryError("a form of this page names its scenario.")
    names = classes_in(distilled)
    samples = [int(name[7:]) for name in fields if name.startswith("sample_") and name[7:].isdigit()]
    word, who = fields.get("answer", ""), fields.get("labelled_by", "")[:200]
    labels = _labels(word, number, names, samples)
    desk.label(visitor, distilled, labels, who)
    to = {**({"scenario": number} if samples else {"after": number}), **({"whose": who} if who else {})}
    root = request.app.state.actionflow_root
    return RedirectResponse(f"{root}{PREFIX}/scenarios/{distilled.run_id}?{urlencode(to)}", status_code=303)


def _labels(word: str, number: int, names: dict[int, str], samples: list[int]) -> list[ScenarioLabel]:
    """One answer for the whole wall, or for each of the samples that were ticked."""
    return [answer_of(word, number, names, sample) for sample in samples] or [answer_of(word, number, names)]


def _opened(desk: Desk, visitor: Visitor, run_id: str) -> StoredRun:
    """The step distill of an address, which may name its classifier or its chain too; whole ids, as everywhere."""
    check_id(run_id)
    return distilled_of(run_id, desk.client(visitor))


def _shown(row: dict[str, Any], names: dict[int, str]) -> dict[str, Any]:
    """What a person sees of a scenario."""
    says = zip(row["sample_predictions"], row["sample_confidences"], strict=True)
    return {
        "scenario": row["scenario"],
        "size": row["size"],
        "samples": [{"place": n, "says": names[each], "confidence": sure} for n, (each, sure) in enumerate(says, 1)],
    }


def _said(row: dict[str, Any] | None, names: dict[int, str]) -> str | None:
    """What this person has said of it before."""
    if row is None:
        return None
    return (
        names[row["label"]]
        if row["label"] is not None
        else {NONE: "not one class", FINE: "not a failure"}[row["answer"]]
    )
