"""Everything that a report of one run draws: asked once, of one session."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from actionflow.clustering import Curves, curves
from actionflow.errors import ActionFlowError
from actionflow.reporting.asking import Answer, ask
from actionflow.reporting.neighbours import ask_neighbours, sample_ids_of
from actionflow.reporting.samples import Described, pictures_of
from actionflow.session import Session
from actionflow.store.reading import StoredRun

# More points are one blot, and make the page slow.
MOST_POINTS = 20_000
# More classes are not looked at one by one.
MOST_CLASSES = 30
PER_CLASS, PER_CLASS_OF_TEXTS = 8, 3
# The same number of rows in each run, so that MLflow's table view can lay them side by side.
HARDEST_ROWS = 24
BINS = 10
NOBODY = -1


@dataclass(frozen=True)
class Findings:
    """What the queries say of one split of a run."""

    points: Answer
    classes: Answer
    hardest: Answer
    extremes: Answer
    hardest_by_class: Answer
    easiest_by_class: Answer
    confusion: Answer
    accuracy: Answer
    neighbours: Answer
    described: Described
    pictures: dict[int, bytes]
    curves: Curves | None
    no_curves: str

    @property
    def samples(self) -> int:
        """How many samples the split has."""
        return int(self.points.table.num_rows)

    @property
    def against(self) -> str:
        """The score that action is drawn against."""
        return str(self.points.parameters["score_y"])

    @cached_property
    def class_rows(self) -> list[dict[str, Any]]:
        """The classes, hardest first; none where the task has none."""
        return [row for row in self.classes.rows() if row["label"] is not None]

    @cached_property
    def shown_classes(self) -> list[dict[str, Any]]:
        """The classes that are looked at one by one: the hardest where there are too many."""
        return self.class_rows[:MOST_CLASSES]

    @cached_property
    def names(self) -> dict[int, str]:
        """What each class is called: by its number where its name is not known."""
        numbers = {row["label"] for row in self.class_rows} | {row["prediction"] for row in self.confusion.rows()}
        return {**{number: str(number) for number in numbers}, **self.described.names()}

    @property
    def judged(self) -> bool:
        """Whether samples are right or wrong."""
        return bool(self.points.table["correct"].null_count < self.samples)

    @property
    def correct(self) -> NDArray[np.int8]:
        """1 right, 0 wrong, -1 where nobody judged, in the order of the points."""
        column = pc.fill_null(self.points.table["correct"].cast(pa.int8()), NOBODY)
        return np.asarray(column.to_numpy(), np.int8)

    def column(self, name: str) -> NDArray[np.float64]:
        """A column of the points as numbers; NULL is NaN."""
        return np.asarray(self.points.table[name].cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)

    def numbers(self, name: str) -> NDArray[np.int64]:
        """A column of the points as whole numbers; NULL is -1."""
        return np.asarray(pc.fill_null(self.points.table[name].cast(pa.int64()), NOBODY).to_numpy(), np.int64)

    def called(self, label: int | None) -> str:
        """The name of a class."""
        return "–" if label is None else self.names.get(label, str(label))


def find(session: Session, run: StoredRun, split: str, known: Curves | None, tracking_uri: str | None) -> Findings:
    """Ask everything about one split; `known` are its curves where somebody has grouped them already."""

    def asked(name: str, **parameters: Any) -> Answer:
        return ask(session, run.run_id, name, split=split, **parameters)

    points = _points(session, run, split)
    described = Described.of(session, run.run_id)
    per_class = PER_CLASS_OF_TEXTS if described.table["text"].null_count < described.table.num_rows else PER_CLASS
    answers = {
        "classes": asked("class_difficulty"),
        "hardest": asked("hardest", k=HARDEST_ROWS, per_class=0),
        "extremes": asked("extremes", k=HARDEST_ROWS),
        "hardest_by_class": asked("hardest", k=per_class, per_class=1),
        "easiest_by_class": asked("easiest", k=per_class, per_class=1),
        "confusion": asked("confusion"),
        "accuracy": asked("accuracy_by_score", score="action", bins=BINS),
        "neighbours": ask_neighbours(session, run.run_id, split),
    }
    wanted: list[Iterable[int]] = [_few(answers[name]) for name in ("hardest", "extremes")]
    wanted.append(sample_ids_of(answers["neighbours"].rows()))
    wanted += _of_shown_classes(answers)
    wanted.append(points.table["sample_id"].to_numpy()[drawn(points.table.num_rows)].tolist())
    pictures = pictures_of(session, run, (each for ids in wanted for each in ids))
    found, why_not = _curves(run, split, known, tracking_uri)
    return Findings(points=points, described=described, pictures=pictures, curves=found, no_curves=why_not, **answers)


def _points(session: Session, run: StoredRun, split: str) -> Answer:
    """Action against entropy; against the last loss where a task has no entropy. In the order of action."""
    answer = ask(session, run.run_id, "score_vs_score", split=split, score_x="action", score_y="entropy")
    if answer.table["y"].null_count == answer.table.num_rows:
        answer = ask(session, run.run_id, "score_vs_score", split=split, score_x="action", score_y="last_loss")
    table = answer.table.sort_by([("x", "descending"), ("sample_id", "ascending")])
    return Answer(answer.name, answer.parameters, table, run.run_id)


def drawn(count: int) -> NDArray[np.int64]:
    """The places of the points that are drawn: all, or evenly spaced ones where they are too many."""
    if count <= MOST_POINTS:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, MOST_POINTS).round().astype(np.int64))


def _few(answer: Answer) -> list[int]:
    ids: list[int] = answer.table["sample_id"].to_pylist()
    return ids


def _of_shown_classes(answers: dict[str, Answer]) -> list[Iterable[int]]:
    """The samples that stand in the lists by class."""
    labels = [row["label"] for row in answers["classes"].rows()[:MOST_CLASSES]]
    shown = pa.array(labels, answers["hardest_by_class"].table["label"].type)
    tables = [answers[name].table for name in ("hardest_by_class", "easiest_by_class")]
    return [table.filter(pc.is_in(table["label"], shown))["sample_id"].to_pylist() for table in tables]


def _curves(run: StoredRun, split: str, known: Curves | None, tracking_uri: str | None) -> tuple[Curves | None, str]:
    """The loss curves by cluster, or why there are none."""
    if known is not None:
        return known, ""
    try:
        return curves(run.run_id, split=split, tracking_uri=tracking_uri), ""
    except ActionFlowError as error:
        return None, str(error)
