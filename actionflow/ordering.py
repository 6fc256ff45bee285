"""Makes curricula: the training samples of a run in the order of a score, written into that run."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from actionflow.errors import QueryError, StoreError, nearest
from actionflow.questions import files
from actionflow.questions.files import Value
from actionflow.session import Session, connect
from actionflow.store import layout, parquet
from actionflow.store.marks import MARKS
from actionflow.store.reading import StoredRun
from actionflow.store.writing import RunWriter
from actionflow.training.settings import GRADIENT_SCORES, changed

QUERY = "curriculum"
PLAIN = {"fraction": 1.0, "drop_hardest": 0.0, "balanced": False, "stages": 1, "seed": 0}


def curriculum(
    run: str,
    order: str = "easy-first",
    score: str = "action",
    fraction: float = 1.0,
    drop_hardest: float = 0.0,
    balanced: bool = False,
    stages: int = 1,
    seed: int = 0,
    name: str = "",
    tracking_uri: str | None = None,
    without_marked: str = "",
) -> str:
    """Order a run's training samples, write the order into the run, and return its address.

    `without_marked` leaves out the samples that anybody marked so, before anything is counted: "mislabelled,unusable".

    address = actionflow.curriculum("digits-seed-0", order="easy-first", fraction=0.5)
    # mlflow run . -e digits -P curriculum=<address>
    """
    with connect(run, tracking_uri=tracking_uri) as session:
        return plan(
            session, run, order, score, fraction, drop_hardest, balanced, stages, seed, name, without_marked
        ).write()


@dataclass(frozen=True)
class Plan:
    """A curriculum before it is written: its samples in their order, and how many were left out for their marks."""

    source: StoredRun
    name: str
    table: pa.Table
    facts: dict[str, Any]
    left_out: int

    def write(self) -> str:
        """Write it into the run it came from, unless it is there already; return its address."""
        if _holds(self.source, self.name, self.table):
            return f"runs:/{self.source.run_id}/{_artifact(self.name)}"
        _check_name(self.source, self.name)
        writer = RunWriter(self.source.run_id, self.source.client)
        address = writer.log_curriculum(self.name, self.table, **self.facts)
        writer.sender.close()
        return address

    def command(self, address: str) -> str:
        """What trains on it as the run was trained that it came from: only what is left out or comes later differs."""
        stages = self.facts["parameters"]["stages"]
        return retraining(self.source, {"curriculum": address, **({"pacing": "step"} if stages > 1 else {})})


def retraining(source: StoredRun, chosen: dict[str, str]) -> str:
    """The command that trains once more as `source` was trained, but for what is chosen."""
    settings = source.description()["settings"] if source.has(layout.DESCRIPTION) else {}
    known = source.entry_point if settings else "<data set>"
    entry = source.run.data.tags.get("mlflow.project.entryPoint", known)
    entry = known if settings and entry == "main" else entry
    lessons = ("dataset", "curriculum", "pacing", "pacing_epochs")
    kept = {name: value for name, value in changed(settings).items() if name not in (*lessons, *chosen)}
    if settings and entry != settings["dataset"]:
        kept["dataset"] = settings["dataset"]
    words = [f"-P {shlex.quote(f'{name}={value}')}" for name, value in {**kept, **chosen}.items()]
    return " ".join([f"mlflow run . -e {entry}", *words])


def plan(
    session: Session,
    run: str,
    order: str = "easy-first",
    score: str = "action",
    fraction: float = 1.0,
    drop_hardest: float = 0.0,
    balanced: bool = False,
    stages: int = 1,
    seed: int = 0,
    name: str = "",
    without_marked: str = "",
) -> Plan:
    """Order the training samples of the one run of a session, whose scores are then without what is left out."""
    chosen: dict[str, Value] = {
        "fraction": fraction,
        "drop_hardest": drop_hardest,
        "balanced": balanced,
        "stages": stages,
        "seed": seed,
    }
    _check(order, fraction, drop_hardest, stages)
    (source,) = _only(session, run)
    marks = _marks(without_marked)
    _check_source(source)
    parameters: dict[str, Value] = {
        "run_id": source.run_id,
        "order": order,
        "score": score,
        **chosen,
        "balanced": int(balanced),
    }
    left_out = _leave_out(session, source, marks)
    _check_gradients(session, source, score)
    table = session.query(QUERY, **parameters).sort_by("position")
    if not table.num_rows:
        raise QueryError(f"the curriculum would be empty: {source.name} has no training samples with a {score}.")
    usual = "-".join([_name(order, score, chosen), *(f"without-{mark}" for mark in marks)])
    name = name or _free(source, usual, table)
    facts = _facts(source, parameters) | ({"without_marked": marks, "left_out": left_out} if marks else {})
    return Plan(source, name, table, facts, left_out)


def _check(order: str, fraction: float, drop_hardest: float, stages: int) -> None:
    if order not in ("easy-first", "hard-first", "random"):
        raise QueryError(f"order must be easy-first, hard-first or random, found {order}.")
    if not 0 < fraction <= 1:
        raise QueryError(f"fraction must be above 0 and at most 1, found {fraction}: type for instance --fraction 0.5.")
    if not 0 <= drop_hardest < 1:
        raise QueryError(f"drop-hardest must be from 0 to below 1, found {drop_hardest}: type for instance 0.02.")
    if stages < 1:
        raise QueryError(f"stages must be at least 1, found {stages}.")


def _only(session: Session, run: str) -> list[StoredRun]:
    if len(session.runs) != 1:
        raise StoreError(
            f"a curriculum comes from one run, but {run} stands for {len(session.runs)}: type its id or name."
        )
    return session.runs


def _check_source(source: StoredRun) -> None:
    splits = source.splits()
    if "train" not in splits:
        raise StoreError(
            f"run {source.name} has no split train (found: {', '.join(splits) or 'nothing recorded'}): a curriculum "
            "orders what is trained on. Record it with `-P record=both`, or with recorder.add(…, split='train')."
        )


def _check_gradients(session: Session, source: StoredRun, score: str) -> None:
    """Refuse a score that only trainings have that were asked for it: no order would follow from it."""
    asked = next((asked for asked, columns in GRADIENT_SCORES.items() if score in columns), None)
    if (
        asked
        and not session.sql(f"select 1 from scores where split = 'train' and {score} is not null limit 1").num_rows
    ):
        raise QueryError(
            f"run {source.name} has no {score} of its training samples: train it with -P gradients={asked}."
        )


def _free(source: StoredRun, usual: str, table: pa.Table) -> str:
    """The usual name, with a number where other samples have taken it: people have marked more since."""
    name, number = usual, 1
    while source.has(_artifact(name)) and not _holds(source, name, table):
        number += 1
        name = f"{usual}-{number}"
    return name


def _holds(source: StoredRun, name: str, table: pa.Table) -> bool:
    """Whether a curriculum of this name has the same samples in the same order and stages."""
    if not source.has(_artifact(name)):
        return False
    columns = ["sample_id", "stage"]
    there = parquet.read(source.local(_artifact(name)), columns)
    return all(there[column].equals(table[column].cast(there[column].type)) for column in columns)


def _artifact(name: str) -> str:
    return f"{layout.CURRICULA}/{name}.parquet"


def _check_name(source: StoredRun, name: str) -> None:
    if source.has(_artifact(name)):
        raise StoreError(f"run {source.name} has another curriculum {name} already: choose another --name.")
    if not re.fullmatch(r"[\w.=-]+", name):
        raise QueryError(f"a curriculum's name has letters, digits, '-', '_' and '.', found {name!r}.")


def _marks(without_marked: str) -> list[str]:
    """The marks that are named, in the order of the house: the same marks make the same name.

    >>> _marks("unusable, mislabelled")
    ['mislabelled', 'unusable']
    """
    named = {word.strip() for word in without_marked.split(",")} - {""}
    unknown = sorted(named - set(MARKS))
    if unknown:
        raise QueryError(f"there is no mark {unknown[0]}. {nearest(unknown[0], MARKS)}")
    return [mark for mark in MARKS if mark in named]


def _leave_out(session: Session, source: StoredRun, marks: list[str]) -> int:
    """Let the session's scores be without the training samples that somebody marked so; return how many these are.

    The view changes and not the query, which so stays the one that Spark runs too.
    """
    if not marks:
        return 0
    session.sql("select 1 from scores limit 0")  # makes the view
    marked = session.sql(
        "select distinct sample_id from marks where list_contains(string_split($marks, ','), mark) "
        "and dataset_digest = $digest and sample_id in (select sample_id from scores where split = 'train')",
        marks=",".join(marks),
        digest=source.run.data.tags.get(layout.TAG_DIGEST, ""),
    )
    session.engine.view_without("scores", marked)
    return int(marked.num_rows)


def _name(order: str, score: str, chosen: dict[str, Value]) -> str:
    """A name that says what is not as usual: the same name is the same curriculum.

    >>> _name("easy-first", "action", {**PLAIN, "fraction": 0.5, "balanced": True})
    'easy-first-action-fraction0.5-balanced'
    """
    unusual = [
        key.replace("_", "-") + ("" if value is True else f"{value:g}")
        for key, value in chosen.items()
        if value != PLAIN[key]
    ]
    return "-".join([order, score, *unusual])


def _facts(source: StoredRun, parameters: dict[str, Value]) -> dict[str, Any]:
    tags = source.run.data.tags
    return {
        "run_id": source.run_id,
        "split": "train",
        "dataset": tags.get(layout.TAG_DATASET),
        "dataset_digest": tags.get(layout.TAG_DIGEST),
        "query": QUERY,
        "sql": files.load(QUERY).sql,
        "parameters": parameters,
    }
