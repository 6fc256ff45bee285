"""What is explained, and by what: the failures of a split, and the features or attributes of its samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from actionflow.analysis.attributes import Attributes, attributes_of, numbered, text_attributes
from actionflow.errors import DataError, SettingsError, StoreError, either, nearest
from actionflow.session import Session
from actionflow.store import layout, schema
from actionflow.store.finding import find_runs
from actionflow.store.reading import StoredRun

GROUPINGS = ("label", "prediction")
TARGETS = ("error", "action")
# The readable attributes of texts, where columns are named.
TEXT = "text"
# The class of samples that have none.
NO_CLASS = -1

Say = Callable[[str], None]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Asked:
    """The samples of a split, which of them failed, their classes by grouping, and what may explain it.

    `source` says in words where the attributes come from; `seer` is the run whose model sees the features, if they are
    features: the first `seen` attributes.
    """

    sample_ids: Ints
    failed: Bools
    classes: Mapping[str, Ints]
    attributes: Attributes
    source: str
    seer: StoredRun | None = None
    seen: int = 0


def gather(
    session: Session, run: StoredRun, split: str, target: str, high: float, features: str, attributes: str, say: Say
) -> Asked:
    """Read what there is, and say in one line what is missing."""
    check(target, high)
    scores = session.sql(
        """select sample_id, label, prediction, correct, action from scores
        where run_id = $run_id and split = $split order by sample_id""",
        run_id=run.run_id,
        split=split,
    )
    if run.threshold_class != NO_CLASS:
        # They have a class of their own, and were mistaken on purpose.
        scores = scores.filter(pc.not_equal(scores["label"], run.threshold_class))
    sample_ids = scores["sample_id"].to_numpy()
    failed = _mistakes(scores, run, split) if target == "error" else _hardest(scores, high)
    described = _described(session, run, sample_ids)
    wanted = [name.strip() for name in attributes.split(",") if name.strip()]
    has_texts = described is not None and described["text"].null_count < len(sample_ids)
    by = features if features != "auto" else _usual(run, wanted, has_texts, split, say)
    if by == "none" and not wanted and has_texts:
        wanted = [TEXT]
    parts, seer, source = [], None, []
    if by != "none":
        seer = _seer(run, by)
        vectors = _vectors(seer, sample_ids, run, split)
        parts.append(numbered(vectors))
        source.append(f"{vectors.shape[1]:,} features of {_called(seer, run)}")
    seen = len(parts[0].names) if parts else 0
    if wanted:
        made = _own(described, wanted, run)
        parts.append(made)
        source.append(f"{len(made.names):,} attributes from {', '.join(wanted)}")
    if not parts:
        raise SettingsError("features=none leaves nothing to explain failures by: type -P attributes=<columns> too.")
    return Asked(
        sample_ids, failed, _classes(scores, target), Attributes.beside(parts), " and ".join(source), seer, seen
    )


def check(target: str, high: float) -> None:
    """Refuse what cannot be meant."""
    if target not in TARGETS:
        raise SettingsError(f"target is {either(TARGETS)}, found {target}.")
    if not 0 < high < 1:
        raise SettingsError(f"high is the share of samples whose action counts as high, found {high}: type 0.2.")


def _mistakes(scores: pa.Table, run: StoredRun, split: str) -> Bools:
    if not scores.num_rows or scores["correct"].null_count == scores.num_rows:
        raise DataError(
            f"run {run.name} ({run.run_id[:8]}) recorded no predictions of split {split}, so it has no errors to "
            "explain: type --target action to explain high losses."
        )
    failed = ~pc.fill_null(scores["correct"], True).to_numpy(zero_copy_only=False)
    if not failed.any():
        raise DataError(
            f"run {run.name} ({run.run_id[:8]}) made no error on its {len(failed):,} {split} samples: type "
            "--target action to explain high losses instead."
        )
    return np.asarray(failed, np.bool_)


def _hardest(scores: pa.Table, high: float) -> Bools:
    action = scores["action"].to_numpy().astype(np.float64)
    # What has no number was never learnt from in peace: it counts as high.
    action = np.nan_to_num(action, nan=np.inf, posinf=np.inf)
    return np.asarray(action > np.quantile(action, 1 - high, method="lower"), np.bool_)


def _classes(scores: pa.Table, target: str) -> dict[str, Ints]:
    """The class of each sample, by grouping; where there are no classes all samples are one."""
    known = {
        name: pc.fill_null(scores[name], NO_CLASS).to_numpy().astype(np.int64)
        for name in GROUPINGS
        if scores[name].null_count < scores.num_rows
    }
    return known or {"label": np.full(scores.num_rows, NO_CLASS, np.int64)}


def _usual(run: StoredRun, wanted: Sequence[str], has_texts: bool, split: str, say: Say) -> str:
    """What explains failures when nobody says by what: named columns, what a text shows, a robust model, its own."""
    if wanted or has_texts:
        return "none"
    if _robust_runs(run):
        return "robust"
    say(
        f"No robust model was trained on the data of run {run.name}, so that its own features explain it: what they "
        f"see may be nothing that a person can. `mlflow run . -e robust -P dataset={_dataset(run)}` trains one."
    )
    return "own"


def _seer(run: StoredRun, by: str) -> StoredRun:
    """The run whose features explain."""
    if by == "own":
        return run
    if by == "robust":
        found = _robust_runs(run)
        if not found:
            raise DataError(
                f"no robust model was trained on the data of run {run.name} ({run.run_id[:8]}): train one with `mlflow "
                f"run . -e robust -P dataset={_dataset(run)}` and the same -P limit, or type --features own."
            )
        return found[0]
    found = find_runs([by], run.client)
    if len(found) != 1:
        raise StoreError(f"features are of one run, but {by} stands for {len(found)}: type its id or name.")
    theirs, ours = (each.run.data.tags.get(layout.TAG_DATASET) for each in (found[0], run))
    if theirs != ours:
        raise DataError(
            f"run {found[0].name} has features of other data ({theirs}) than run {run.name} ({ours}): type "
            "--features robust, own, or a run on the same data."
        )
    return found[0]


def _robust_runs(run: StoredRun) -> list[StoredRun]:
    """Finished adversarial trainings on the same data, newest first."""
    digest = run.run.data.tags.get(layout.TAG_DIGEST)
    if not digest:
        return []
    wanted = f"tags.`{layout.TAG_ROBUST}` != '' and tags.`{layout.TAG_DIGEST}` = '{digest}' and status = 'FINISHED'"
    try:
        found = find_runs([wanted], run.client)
    except StoreError:
        return []
    # One that was trained robustly explains itself only when it is asked to.
    return [each for each in found if each.run_id != run.run_id]


def _vectors(seer: StoredRun, sample_ids: Ints, run: StoredRun, split: str) -> NDArray[np.float32]:
    """The features (n, d) of these samples, whatever split they were in when they were kept."""
    with Session([seer]) as session:
        rows = session.sql("select sample_id, any_value(feature) as feature from features group by sample_id")
    if not rows.num_rows:
        raise DataError(
            f"run {seer.name} ({seer.run_id[:8]}) kept no features: train it with -P features=both, or type --features "
            "robust, or --attributes with columns of your own."
        )
    places = pc.index_in(pa.array(sample_ids), rows["sample_id"].combine_chunks())
    if places.null_count:
        raise DataError(
            f"run {seer.name} ({seer.run_id[:8]}) has features of {len(places) - places.null_count:,} of the "
            f"{len(places):,} {split} samples of run {run.name}: train it with -P features=both on the same data."
        )
    lists = rows["feature"].take(places).combine_chunks()
    widths = np.unique(np.diff(lists.offsets.to_numpy())) if pa.types.is_list(lists.type) else [lists.type.list_size]
    if len(widths) != 1:
        raise DataError(f"run {seer.name} has features of different lengths ({', '.join(map(str, widths))}).")
    vectors: NDArray[np.float32] = lists.flatten().to_numpy().astype(np.float32).reshape(len(places), -1)
    _check_finite(vectors, seer)
    return vectors


def _check_finite(vectors: NDArray[np.float32], seer: StoredRun) -> None:
    bad = ~np.isfinite(vectors)
    if not bad.any():
        return
    columns = np.flatnonzero(bad.any(axis=0))
    raise DataError(
        f"features of run {seer.name} ({seer.run_id[:8]}) are no numbers (NaN or infinite) in "
        f"{bad.any(axis=1).sum():,} samples, feature {columns[0]} first: train it anew, or type --features robust."
    )


def _described(session: Session, run: StoredRun, sample_ids: Ints) -> pa.Table | None:
    """All that the data set says of these samples but their pictures, in their order; None when it says nothing."""
    rows = session.sql(
        "select * exclude (image, run_id) from (select samples.*, runs.run_id from samples inner join runs on "
        "samples.digest = runs.dataset_digest where runs.run_id = $run_id)",
        run_id=run.run_id,
    )
    if not rows.num_rows:
        return None
    return rows.take(pc.index_in(pa.array(sample_ids), rows["sample_id"].combine_chunks()))


def _own(described: pa.Table | None, wanted: Sequence[str], run: StoredRun) -> Attributes:
    """The columns that somebody named, and what can be read off the texts."""
    house = {field.name for field in schema.SAMPLES}
    there = [name for name in described.column_names if name not in house] if described is not None else []
    texts = [
        name for name in ("text", "context") if described is not None and described[name].null_count < len(described)
    ]
    known = [*there, *([TEXT] if texts else [])]
    for name in wanted:
        if name not in known:
            found = f"{nearest(name, known)}" if known else "Its samples have no columns of your own."
            raise DataError(f"the samples of run {run.name} ({run.run_id[:8]}) have no column {name}. {found}")
    assert described is not None
    parts = [attributes_of({name: described[name]}) for name in wanted if name != TEXT or TEXT in there]
    if TEXT in wanted and texts:
        parts += [text_attributes(described[name].to_pylist(), name) for name in texts]
    return Attributes.beside(parts)


def _called(seer: StoredRun, run: StoredRun) -> str:
    radius = seer.run.data.tags.get(layout.TAG_ROBUST)
    kind = f"the robust model {seer.name} (l2 radius {radius})" if radius else f"the model {seer.name}"
    return kind if seer.run_id != run.run_id else f"{kind} itself"


def _dataset(run: StoredRun) -> str:
    return str(run.run.data.tags.get(layout.TAG_DATASET) or "<data set>")
