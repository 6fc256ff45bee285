"""What all pages of a run share: the run that an address names, and what its samples are."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from actionflow.errors import StoreError
from actionflow.questions.files import Value
from actionflow.serving.asking import Desk
from actionflow.serving.visitors import Visitor
from actionflow.session import Session
from actionflow.store import layout
from actionflow.store.finding import ID
from actionflow.store.reading import StoredRun

# Pictures that a page has just shown are asked for next; they are small and few.
KEPT_PICTURES, LARGEST_KEPT, KEPT_SAMPLES = 2048, 16 * 1024, 20_000
# Texts on a wall are read on the sample's own page.
SHORT_TEXT = 280
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
)


@dataclass(frozen=True)
class Sample:
    """What a sample is, as far as its data set says: its class, its texts, whether there is a picture of it."""

    sample_id: int
    key: str | None = None
    label_name: str | None = None
    text: str | None = None
    context: str | None = None
    target_text: str | None = None
    has_picture: bool = False


T = TypeVar("T")


class Lately(Generic[T]):
    """What pages have lately shown of samples, by data set and sample: it never changes.

    Each session has its own, for a session is of one visitor: what one may read is no answer to another.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[str, int], T] = OrderedDict()

    def keep(self, digest: str, sample_id: int, thing: T) -> None:
        """Have it ready for the next page, or for the browser, which will ask for a picture."""
        self._kept[digest, sample_id] = thing
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def get(self, digest: str, sample_id: int) -> T | None:
        """The thing, if it is still here."""
        return self._kept.get((digest, sample_id))


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


# What holds for a whole session, which is made anew whenever a file of its runs changes.
_known: WeakKeyDictionary[Session, dict[Hashable, Any]] = WeakKeyDictionary()


def once(session: Session, key: Hashable, ask: Callable[[], T]) -> T:
    """The answer to a question that every page of a session asks; the caller has the session's lock."""
    answers = _known.setdefault(session, {})
    if key not in answers:
        answers[key] = ask()
    answer: T = answers[key]
    return answer


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


def samples_of(
    session: Session, digest: str, sample_ids: Iterable[int], longest: int = SHORT_TEXT
) -> dict[int, Sample]:
    """What these samples are, by id; their pictures are kept for the browser."""
    wanted = [int(each) for each in sample_ids]
    if longest != SHORT_TEXT:
        return _ask_samples(session, digest, wanted, longest)
    described: Lately[Sample] = once(session, "described", lambda: Lately(KEPT_SAMPLES))
    known = {each: sample for each in wanted if (sample := described.get(digest, each)) is not None}
    asked = _ask_samples(session, digest, [each for each in wanted if each not in known], longest)
    for each, sample in asked.items():
        described.keep(digest, each, sample)
    return known | asked


def _ask_samples(session: Session, digest: str, sample_ids: Sequence[int], longest: int) -> dict[int, Sample]:
    # Numbers alone: nothing that anybody typed comes into this statement.
    listed = ", ".join(map(str, sample_ids))
    if not listed or not digest:
        return {}
    rows = session.sql(
        f"""select sample_id, any_value(key) as key, any_value(label_name) as label_name,
            any_value(left(text, $longest)) as text, any_value(left(context, $longest)) as context,
            any_value(left(target_text, $longest)) as target_text, any_value(image) as image
        from samples where digest = $digest and sample_id in ({listed}) group by sample_id""",
        digest=digest,
        longest=longest,
    ).to_pylist()
    return {row["sample_id"]: _sample(_pictures(session), digest, row) for row in rows}


def _pictures(session: Session) -> Lately[bytes]:
    return once(session, "pictures", lambda: Lately(KEPT_PICTURES))


def _sample(pictures: Lately[bytes], digest: str, row: dict[str, Any]) -> Sample:
    image = row.pop("image")
    if image is not None and len(image) <= LARGEST_KEPT:
        pictures.keep(digest, row["sample_id"], image)
    return Sample(**row, has_picture=image is not None)


def picture_of(session: Session, digest: str, sample_id: int) -> bytes | None:
    """The stored picture of a sample."""
    lately = _pictures(session).get(digest, sample_id)
    if lately is not None:
        return lately
    rows = session.sql(
        "select image from samples where digest = $digest and sample_id = $sample_id and image is not null limit 1",
        digest=digest,
        sample_id=sample_id,
    ).to_pylist()
    return bytes(rows[0]["image"]) if rows else None


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
