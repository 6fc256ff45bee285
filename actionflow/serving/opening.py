"""What all pages of a run share: the run that an address names, and its samples as cells of a wall."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from actionflow.errors import StoreError
from actionflow.questions.files import Value
from actionflow.serving.albums import Sample
from actionflow.serving.asking import Desk
from actionflow.serving.remembering import once
from actionflow.serving.visitors import Visitor
from actionflow.session import Session
from actionflow.store import layout
from actionflow.store.finding import ID
from actionflow.store.reading import StoredRun

EVERY_SCORE = (
    "action",
    "action_mean",
    "action_variance",
    "last_loss",
    "entropy",
    "confidence",
    "variability",
    "correctness",
    "aum",
    "forgetting",
    "el2n",
    "vog",
    "vog_early",
    "vog_late",
    "grand",
)


@contextmanager
def open_run(desk: Desk, visitor: Visitor, run_id: str) -> Iterator[tuple[Session, StoredRun]]:
    """The run of an address, open to be asked; addresses have whole ids, for names may change."""
    check_id(run_id)
    with desk.session(visitor, [run_id]) as session:
        yield session, session.runs[0]


def check_id(run_id: str) -> None:
    """Refuse what cannot be the id of a run."""
    if not ID.fullmatch(run_id):
        raise StoreError(f"there is no run {run_id[:80]}: the list of runs has all that you may read.")


def digest_of(run: StoredRun) -> str:
    """The digest of the run's data set; empty when it does not say."""
    return str(run.run.data.tags.get(layout.TAG_DIGEST, ""))


def facts_of(run: StoredRun) -> dict[str, Any]:
    """What the head of a run's pages says."""
    info, tags = run.run.info, run.run.data.tags
    return {
        "run_id": run.run_id,
        "name": run.name,
        "experiment_id": info.experiment_id,
        "status": info.status,
        "is_training": info.status in ("RUNNING", "SCHEDULED"),
        "dataset": tags.get(layout.TAG_DATASET),
        "model": tags.get(layout.TAG_MODEL),
        "digest": digest_of(run),
    }


def splits_of(session: Session, run_id: str) -> list[dict[str, Any]]:
    """The splits of a run: how many samples and epochs each has, and which scores."""
    there = ", ".join(f"count({name}) > 0 as {name}" for name in EVERY_SCORE)
    rows = session.sql(
        f"""select split, count(*) as samples, max(epochs_seen) as epochs, count(label) > 0 as has_labels,
            count(correct) > 0 as has_correct, {there}
        from scores where run_id = $run_id group by split order by split <> 'val', split""",
        run_id=run_id,
    ).to_pylist()
    return [{**row, "scores": [name for name in EVERY_SCORE if row[name]]} for row in rows]


def chosen_split(splits: Sequence[Mapping[str, Any]], run: StoredRun, wanted: str) -> dict[str, Any]:
    """The split that an address names; the validation split when it names none."""
    for split in splits:
        if wanted in ("", split["split"]):
            return dict(split)
    there = ", ".join(split["split"] for split in splits)
    raise StoreError(f"run {run.name} recorded no split {wanted[:80]}, only {there}.")


def class_names(session: Session, digest: str) -> dict[int, str]:
    """What the classes of a data set are called."""
    return once(session, ("names", digest), lambda: _class_names(session, digest))


def _class_names(session: Session, digest: str) -> dict[int, str]:
    rows = session.sql(
        """select label, max(label_name) as name from samples
        where digest = $digest and label is not null and label_name is not null group by label order by label""",
        digest=digest,
    ).to_pylist()
    return {row["label"]: row["name"] for row in rows}


def whole_number(text: str, name: str, default: int | None = None) -> int | None:
    """A number of an address; what is none is told."""
    if not text.strip():
        return default
    try:
        return _in_range(int(text))
    except ValueError:
        raise StoreError(f"{name} is a whole number, found {text[:40]!r}.") from None


def number(text: str, name: str, default: float) -> float:
    """The same for numbers with a point."""
    if not text.strip():
        return default
    try:
        return float(text)
    except ValueError:
        raise StoreError(f"{name} is a number, found {text[:40]!r}.") from None


def _in_range(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise ValueError(value)
    return value


def cells(
    run: StoredRun, split: str, rows: Sequence[dict[str, Any]], samples: Mapping[int, Sample], names: Mapping[int, str]
) -> list[dict[str, Any]]:
    """Rows of scores as a wall shows them."""
    return [_cell(run, split, row, samples.get(row["sample_id"]), names) for row in rows]


def _cell(
    run: StoredRun, split: str, row: dict[str, Any], sample: Sample | None, names: Mapping[int, str]
) -> dict[str, Any]:
    return {
        "mark": None,
        **row,
        "href": f"/actionflow/runs/{run.run_id}/samples/{split}/{row['sample_id']}",
        "picture": picture_address(run, row["sample_id"]) if sample is not None and sample.has_picture else None,
        "text": sample.text if sample is not None else None,
        "label_name": named(row.get("label"), names),
        "prediction_name": named(row.get("prediction"), names),
    }


def picture_address(run: StoredRun, sample_id: int) -> str:
    """Where the picture of a sample is; the digest in it lets browsers keep it for good."""
    return f"/actionflow/runs/{run.run_id}/pictures/{digest_of(run)}/{sample_id}.png"


def named(label: int | None, names: Mapping[int, str]) -> str | None:
    """What a class is called, or its number."""
    return None if label is None else names.get(label, str(label))


def marks_on(session: Session, digest: str) -> dict[int, str]:
    """The latest mark of each sample of a data set, whoever made it."""
    rows = session.sql(
        """select sample_id, arg_max(mark, marked_at) as mark from marks
        where dataset_digest = $digest group by sample_id""",
        digest=digest,
    ).to_pylist()
    return {row["sample_id"]: row["mark"] for row in rows}


Asked = dict[str, Value]
