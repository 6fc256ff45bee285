"""What may be marked: samples that a run recorded, with right labels that are classes of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from actionflow.errors import QueryError
from actionflow.session import Session
from actionflow.store.marks import Mark
from actionflow.store.reading import StoredRun

# So many are named where one was mistaken for another.
MOST_NAMED = 20


def check_marks(session: Session, run: StoredRun, marks: Sequence[Mark]) -> None:
    """Refuse marks on samples that the run does not have, and right labels that are none of its classes."""
    _check_samples(session, run, {mark.sample_id for mark in marks})
    labels = {mark.right_label for mark in marks if mark.right_label is not None}
    if labels:
        _check_labels(run, labels, classes_of(session, run))


def classes_of(session: Session, run: StoredRun) -> dict[int, str]:
    """The classes of a run by number: those of its data set, and those that its samples had or were taken for.

    That of its threshold samples is none.
    """
    rows = session.sql(
        """with labels as (
            select label, null as label_name from scores where run_id = $run_id
            union all select prediction, null from scores where run_id = $run_id
            union all select samples.label, samples.label_name from samples
            inner join runs on samples.digest = runs.dataset_digest where runs.run_id = $run_id
        )
        select label, max(label_name) as name from labels where label is not null group by label order by label""",
        run_id=run.run_id,
    ).to_pylist()
    return {row["label"]: row["name"] or str(row["label"]) for row in rows if row["label"] != run.threshold_class}


def _check_samples(session: Session, run: StoredRun, wanted: Iterable[int]) -> None:
    # Numbers alone: nothing that anybody typed comes into this statement.
    listed = ", ".join(f"({int(each)})" for each in sorted(wanted))
    if not listed:
        return
    unknown = session.sql(
        f"""select sample_id from (values {listed}) as wanted (sample_id)
        where sample_id not in (select sample_id from scores where run_id = $run_id) order by sample_id""",
        run_id=run.run_id,
    )["sample_id"].to_pylist()
    if unknown:
        raise QueryError(
            f"run {run.name} has no sample {_some(unknown)}, only {_recorded(session, run)}: "
            f"`actionflow scores {run.run_id[:8]} --split {run.splits()[-1]}` lists them."
        )


def _recorded(session: Session, run: StoredRun) -> str:
    rows = session.sql(
        """select split, count(*) as samples, min(sample_id) as low, max(sample_id) as high
        from scores where run_id = $run_id group by split order by split""",
        run_id=run.run_id,
    ).to_pylist()
    return ", ".join(f"{row['samples']:,} from {row['low']} to {row['high']} in {row['split']}" for row in rows)


def _check_labels(run: StoredRun, labels: Iterable[int], classes: Mapping[int, str]) -> None:
    if not classes:
        raise QueryError(f"run {run.name} has no classes, so its samples have no right label: leave right_label out.")
    unknown = sorted(set(labels) - set(classes))
    if unknown:
        told = [str(label) if name == str(label) else f"{label} ({name})" for label, name in classes.items()]
        raise QueryError(f"run {run.name} has no class {_some(unknown)}. Give a right_label of {_some(told)}.")


def _some(things: Sequence[object]) -> str:
    """The first of many.

    >>> _some([1, 2])
    '1, 2'
    >>> _some(range(22))[-13:]
    '19 and 2 more'
    """
    named = ", ".join(map(str, things[:MOST_NAMED]))
    return f"{named} and {len(things) - MOST_NAMED:,} more" if len(things) > MOST_NAMED else named
