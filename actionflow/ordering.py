"""Makes curricula: the training samples of a run in the order of a score, written into that run."""

from __future__ import annotations

import re
from typing import Any

from actionflow.errors import QueryError, StoreError
from actionflow.questions import files
from actionflow.questions.files import Value
from actionflow.session import Session, connect
from actionflow.store import layout
from actionflow.store.reading import StoredRun
from actionflow.store.writing import RunWriter

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
) -> str:
    """Order a run's training samples, write the order into the run, and return its address.

    address = actionflow.curriculum("digits-seed-0", order="easy-first", fraction=0.5)
    # mlflow run . -e digits -P curriculum=<address>
    """
    chosen: dict[str, Value] = {
        "fraction": fraction,
        "drop_hardest": drop_hardest,
        "balanced": balanced,
        "stages": stages,
        "seed": seed,
    }
    _check(order, fraction, drop_hardest, stages)
    with connect(run, tracking_uri=tracking_uri) as session:
        (source,) = _only(session, run)
        name = name or _name(order, score, chosen)
        _check_source(source, name)
        parameters: dict[str, Value] = {
            "run_id": source.run_id,
            "order": order,
            "score": score,
            **chosen,
            "balanced": int(balanced),
        }
        table = session.query(QUERY, **parameters).sort_by("position")
    if not table.num_rows:
        raise QueryError(f"the curriculum would be empty: {source.name} has no training samples with a {score}.")
    writer = RunWriter(source.run_id, source.client)
    address = writer.log_curriculum(name, table, **_facts(source, parameters))
    writer.sender.close()
    return address


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


def _check_source(source: StoredRun, name: str) -> None:
    splits = source.splits()
    if "train" not in splits:
        raise StoreError(
            f"run {source.name} has no split train (found: {', '.join(splits) or 'nothing recorded'}): a curriculum "
            "orders what is trained on. Record it with `-P record=both`, or with recorder.add(…, split='train')."
        )
    if source.has(f"{layout.CURRICULA}/{name}.parquet"):
        raise StoreError(f"run {source.name} has a curriculum {name} already: choose another --name.")
    if not re.fullmatch(r"[\w.=-]+", name):
        raise QueryError(f"a curriculum's name has letters, digits, '-', '_' and '.', found {name!r}.")


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
