"""What the action-score papers show of runs on one data set: asked, and put into tables and figures."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
from matplotlib.figure import Figure

from actionflow.present import paper
from actionflow.present.pages.grids import Cell
from actionflow.present.strips import PictureRow, picture_rows
from actionflow.reporting.findings import MOST_CLASSES
from actionflow.reporting.keepsakes import is_right
from actionflow.reporting.neighbours import (
    ABOVE_EACH,
    ask_neighbours,
    neighbours_table,
    origins_of,
    picture_rows_of,
    sample_ids_of,
    why_none,
)
from actionflow.reporting.samples import Described, pictures_of
from actionflow.session import Session
from actionflow.store import layout
from actionflow.store.reading import StoredRun

Row = dict[str, Any]
Draw = Callable[[], Figure]

SCORES = ("action", "action_variance", "entropy")
# Of these the paper draws the first two against the last; the words name the files.
AGAINST_ENTROPY = {"action": "action", "action_variance": "variance"}
BINS, AT_EITHER_END = 10, 9
NOT_IN_A_FILE = re.compile(r"[^\w.-]+")
LONGEST_FILE_NAME = 60


@dataclass
class Exhibits:
    """Tables, and figures that are drawn when they are asked for, by the names of their files."""

    tables: dict[str, pa.Table] = field(default_factory=dict)
    figures: dict[str, Draw] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Shown:
    """A run, what a person and a file call it, and what is known of its samples."""

    run: StoredRun
    name: str
    file: str
    described: Described
    class_names: Mapping[int, str]

    def called(self, label: int | None) -> str:
        """The name of a class, by its number where there is none."""
        return "–" if label is None else self.class_names.get(label, str(label))


def exhibits(session: Session, names: Mapping[str, str], split: str) -> Exhibits:
    """Ask everything of runs that are open, whose `names` are given by id."""
    found = Exhibits()
    found.tables["runs"] = _with_names(session.query("runs"), names)
    _accuracy(session, names, split, found)
    _entropy(session, names, split, found)
    shown = _shown(session, names)
    for each in shown:
        _neighbours(session, each, split, found)
    _extremes(session, shown, split, found)
    return found


def file_name(text: str) -> str:
    """A name that every file system takes.

    >>> file_name("T-shirt/top"), file_name("../.."), file_name("お")
    ('T-shirt_top', 'unnamed', 'お')
    """
    return NOT_IN_A_FILE.sub("_", text)[:LONGEST_FILE_NAME].strip("._") or "unnamed"


def _accuracy(session: Session, names: Mapping[str, str], split: str, found: Exhibits) -> None:
    answers = [session.query("accuracy_by_score", score=score, split=split, bins=BINS) for score in SCORES]
    table = _with_names(pa.concat_tables(answers), names)
    found.tables["accuracy_by_score"] = table
    lines = [row for row in table.to_pylist() if row["accuracy"] is not None]
    silent = set(names) - {row["run_id"] for row in lines}
    found.notes += [f"No accuracy of {names[run]}: nobody judged its samples." for run in names if run in silent]
    if lines:
        drawn = {run: name for run, name in names.items() if run not in silent}
        found.figures["accuracy_by_score"] = partial(paper.accuracy_by_score, lines, drawn, split)


def _entropy(session: Session, names: Mapping[str, str], split: str, found: Exhibits) -> None:
    asked = {
        score: session.query("action_entropy_correlation", score=score, split=split).to_pylist()
        for score in AGAINST_ENTROPY
    }
    table = pa.Table.from_pylist([row for rows in asked.values() for row in rows])
    found.tables["entropy_correlation"] = _with_names(table, names)
    silent = {row["run_id"] for row in asked["action"] if not row["samples"]}
    found.notes += [f"No entropy of {names[run]}: its training recorded none." for run in names if run in silent]
    for score, word in AGAINST_ENTROPY.items():
        by_run = {row["run_id"]: row for row in asked[score] if row["samples"]}
        rows = [by_run[run] for run in names if run in by_run]
        if rows:
            points = session.query("score_vs_score", score_x=score, score_y="entropy", split=split)
            found.figures[f"{word}_against_entropy"] = partial(paper.against_entropy, points, rows, names, score, split)


def _neighbours(session: Session, shown: Shown, split: str, found: Exhibits) -> None:
    answer = ask_neighbours(session, shown.run.run_id, split)
    mine = [row for row in answer.rows() if row["run_id"] == shown.run.run_id]
    if not mine:
        found.notes.append(why_none(shown.name, split))
        return
    origins = origins_of(mine)
    table = pa.table(neighbours_table(origins, shown.described, shown.called))
    _append(found, "neighbours", table.add_column(0, "run", pa.array([shown.name] * table.num_rows)))
    pictures = picture_rows_of(origins, pictures_of(session, shown.run, sample_ids_of(mine)), shown.called)
    if pictures:
        title = f"{shown.name}: the {len(pictures)} hardest {split} samples, each with the nearest in feature space"
        found.figures[f"neighbours/{shown.file}"] = partial(picture_rows, pictures, title, ABOVE_EACH, first_apart=True)


def _extremes(session: Session, shown: Sequence[Shown], split: str, found: Exhibits) -> None:
    """The easiest and the hardest of each class; of each run where a task has no classes."""
    asked = {
        end: session.query(end, k=AT_EITHER_END, per_class=1, split=split).to_pylist() for end in ("easiest", "hardest")
    }
    hardest_first = session.query("class_difficulty", split=split).to_pylist()
    written = session.query("extremes", k=AT_EITHER_END, split=split).to_pylist()
    said = {(row["run_id"], row["sample_id"]): row["predicted"] for row in written}
    for each in shown:
        mine = [{**row, "end": end} for end, rows in asked.items() for row in rows if row["run_id"] == each.run.run_id]
        _append(found, "easiest_and_hardest", _extremes_table(each, mine, said))
        classes = [row["label"] for row in hardest_first if row["run_id"] == each.run.run_id]
        _draw_classes(session, each, mine, classes, split, found)


def _extremes_table(shown: Shown, mine: Sequence[Row], said: Mapping[tuple[str, int], str | None]) -> pa.Table:
    texts = shown.described.some(row["sample_id"] for row in mine)
    lines = [
        {
            "run": shown.name,
            "class": None if row["label"] is None else shown.called(row["label"]),
            "end": row["end"],
            "place": row["hardness_rank"] if row["end"] == "hardest" else row["easiness_rank"],
            "sample_id": row["sample_id"],
            "action": row["action"],
            "prediction": _predicted(shown, row, said),
            **{name: texts.get(row["sample_id"], {}).get(name) for name in ("text", "context", "target_text")},
        }
        for row in mine
    ]
    return pa.Table.from_pylist(lines)


def _predicted(shown: Shown, row: Row, said: Mapping[tuple[str, int], str | None]) -> str | None:
    """What the model chose last, or wrote."""
    if row["prediction"] is None:
        return said.get((row["run_id"], row["sample_id"]))
    return shown.called(row["prediction"])


def _draw_classes(
    session: Session, shown: Shown, mine: Sequence[Row], classes: Sequence[int | None], split: str, found: Exhibits
) -> None:
    few = classes[:MOST_CLASSES]
    of_few = [row for row in mine if row["label"] in few]
    pictures = pictures_of(session, shown.run, (row["sample_id"] for row in of_few))
    if not pictures:
        return
    if len(few) < len(classes):
        told = f"the {len(few)} hardest of {len(classes):,} classes are drawn; easiest_and_hardest.csv has all."
        found.notes.append(f"{shown.name}: {told}")
    for label in few:
        rows = _rows_of_class(shown, [row for row in of_few if row["label"] == label], pictures)
        if not any(row.cells for row in rows):
            continue
        name = "" if label is None else shown.called(label)
        title = f"{name or 'All samples'}: the easiest and the hardest {split} samples, {shown.name}"
        about = "Above each: its action; in red what it was taken for at the end."
        file = "all" if label is None else str(label) if name == str(label) else f"{label}_{file_name(name)}"
        found.figures[f"easiest_and_hardest/{shown.file}/{file}"] = partial(picture_rows, rows, title, about)


def _rows_of_class(shown: Shown, rows: Sequence[Row], pictures: Mapping[int, bytes]) -> list[PictureRow]:
    def cell(row: Row) -> Cell:
        told = f"→ {shown.called(row['prediction'])}" if is_right(row) is False else ""
        return Cell(pictures[row["sample_id"]], told, f"{row['action']:.3g}", is_right(row))

    return [
        PictureRow(end, [cell(row) for row in rows if row["end"] == end and row["sample_id"] in pictures])
        for end in ("easiest", "hardest")
    ]


def _shown(session: Session, names: Mapping[str, str]) -> list[Shown]:
    """The runs; what is known of samples is asked once for each data set."""
    known: dict[str, Described] = {}
    taken: set[str] = set()
    found = []
    for run in session.runs:
        data = run.run.data.tags.get(layout.TAG_DATASET_RUN, run.run_id)
        if data not in known:
            known[data] = Described.of(session, run.run_id)
        name = names[run.run_id]
        file = file_name(name)
        # Some file systems take A for a.
        file = f"{file}_{run.run_id[:8]}" if file.casefold() in taken else file
        taken.add(file.casefold())
        found.append(Shown(run, name, file, known[data], known[data].names()))
    return found


def _with_names(table: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """Rows in the order of the runs, and what each run is called."""
    order = {run: place for place, run in enumerate(names)}
    ids = table["run_id"].to_pylist()
    places = sorted(range(len(ids)), key=lambda place: order[ids[place]])
    named = table.add_column(0, "run", pa.array([names[each] for each in ids], pa.string()))
    return named.take(pa.array(places, pa.int64()))


def _append(found: Exhibits, name: str, table: pa.Table) -> None:
    tables = [found.tables[name], table] if name in found.tables else [table]
    found.tables[name] = pa.concat_tables(tables, promote_options="permissive")
