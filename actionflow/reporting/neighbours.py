"""The hardest samples beside those that the model finds most alike: do they say why it failed?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from actionflow.present.pages.grids import Cell
from actionflow.present.pages.page import Group, Sample, Section, Strip
from actionflow.present.pages.thumbnails import Thumbnails
from actionflow.present.strips import PictureRow
from actionflow.reporting.asking import Answer, ask
from actionflow.reporting.samples import Described, written
from actionflow.session import Session

Row = dict[str, Any]
Called = Callable[[int | None], str]

HARDEST, NEAREST = 5, 8
COLOURS = "Blue: labelled as the sample itself is; red: as it was taken for."
ABOVE_EACH = f"Above each neighbour: its label and its distance. {COLOURS}"


@dataclass(frozen=True)
class Origin:
    """A hard sample, and rows of queries/neighbours.sql for those nearest to it."""

    sample_id: int
    label: int | None
    prediction: int | None
    action: float
    neighbours: Sequence[Row]

    def shares_a_label(self, row: Row) -> bool | None:
        """True for a neighbour labelled as this is, False for one labelled as this was taken for."""
        if row["label"] is None:
            return None
        return True if row["label"] == self.label else False if row["label"] == self.prediction else None

    def said(self, called: Called) -> str:
        """How far the neighbours' labels explain what it was taken for; nothing where there are no labels."""
        if self.label is None:
            return ""
        votes = [self.shares_a_label(row) for row in self.neighbours]
        told = f"{votes.count(True)} of {len(votes)} neighbours are labelled {called(self.label)}, as it is"
        if self.prediction in (None, self.label):
            return told
        return f"{told}; {votes.count(False)} {called(self.prediction)}, as it was taken for"


def ask_neighbours(session: Session, run_id: str, split: str) -> Answer:
    """The nearest of the hardest; no rows where a run kept no features of the split."""
    return ask(session, run_id, "neighbours", split=split, hardest=HARDEST, k=NEAREST)


def why_none(run_name: str, split: str) -> str:
    """What is told of a run without features."""
    return (
        f"No neighbours: {run_name} kept no features of its {split} samples. Trainings keep those of val, and with "
        "-P features=both those of train too."
    )


def origins_of(rows: Sequence[Row]) -> list[Origin]:
    """The hard samples of one run, the hardest first."""
    return [_origin(list(near)) for _, near in groupby(rows, key=lambda row: row["origin_rank"])]


def sample_ids_of(rows: Sequence[Row]) -> list[int]:
    """All samples that are shown."""
    return list(dict.fromkeys(row[name] for row in rows for name in ("sample_id", "neighbour_id")))


def picture_rows_of(origins: Sequence[Origin], pictures: Mapping[int, bytes], called: Called) -> list[PictureRow]:
    """A row for each hard sample that has a picture: itself, then the nearest."""
    return [_picture_row(origin, pictures, called) for origin in origins if origin.sample_id in pictures]


def neighbours_table(origins: Sequence[Origin], described: Described, called: Called) -> dict[str, list[Any]]:
    """The same as columns of a table: a line for each hard sample (neighbour 0), then one for each neighbour."""
    lines = [line for place, origin in enumerate(origins, 1) for line in _lines(place, origin, called)]
    texts = described.some(line["sample_id"] for line in lines)
    lines = [{**line, **texts.get(line["sample_id"], {})} for line in lines]
    names = dict.fromkeys(name for line in lines for name in line)
    columns = {name: [line.get(name) for line in lines] for name in names}
    return {name: values for name, values in columns.items() if any(value is not None for value in values)}


def neighbours_section(answer: Answer, described: Described, pictures: Thumbnails, called: Called) -> Section:
    """The part of a page that shows them."""
    origins = origins_of(answer.rows())
    texts = described.some(sample_ids_of(answer.rows()))
    return Section(
        title="The hardest and what the model finds alike",
        words=(
            f"Each of the {len(origins)} hardest samples, then the samples that are nearest to it in the model's last "
            f"layer, with their distance. {COLOURS}"
        ),
        groups=[
            Group(f"Sample {origin.sample_id}", origin.said(called), [_strip(origin, pictures, texts, called)])
            for origin in origins
        ],
        questions=[answer.question()],
    )


def _origin(near: Sequence[Row]) -> Origin:
    first = near[0]
    return Origin(
        first["sample_id"], first["origin_label"], first["origin_prediction"], first["origin_action"] or 0.0, near
    )


def _picture_row(origin: Origin, pictures: Mapping[int, bytes], called: Called) -> PictureRow:
    itself = Cell(pictures[origin.sample_id], _named(origin.label, called), _taken_for(origin, called), True)
    nearest = [
        Cell(
            pictures[row["neighbour_id"]],
            _named(row["label"], called),
            f"{row['distance']:.3g}",
            origin.shares_a_label(row),
        )
        for row in origin.neighbours
        if row["neighbour_id"] in pictures
    ]
    return PictureRow(f"sample {origin.sample_id}\naction {origin.action:.3g}", [itself, *nearest])


def _lines(place: int, origin: Origin, called: Called) -> list[Row]:
    itself = {"label": origin.label, "prediction": origin.prediction, "action": origin.action}
    itself |= {"neighbour_rank": 0, "neighbour_id": origin.sample_id, "distance": 0.0}
    return [
        {
            "hardest": place,
            "neighbour": row["neighbour_rank"],
            "sample_id": row["neighbour_id"],
            "distance": round(row["distance"], 4),
            "label": None if row["label"] is None else called(row["label"]),
            "prediction": None if row["prediction"] is None else called(row["prediction"]),
            "action": None if row["action"] is None else round(row["action"], 4),
        }
        for row in (itself, *origin.neighbours)
    ]


def _strip(origin: Origin, pictures: Thumbnails, texts: dict[int, dict[str, str]], called: Called) -> Strip:
    def sample(number: int, facts: list[tuple[str, str]], verdict: str) -> Sample:
        told = [*(fact for fact in facts if fact[1]), ("sample", str(number))]
        return Sample(number, pictures.cells.get(number), told, written(texts.get(number, {})), verdict)

    labels = f"{_named(origin.label, called)} {_taken_for(origin, called)}".strip()
    itself = sample(origin.sample_id, [("", labels), ("action", f"{origin.action:.3g}")], "")
    nearest = [
        sample(
            row["neighbour_id"],
            [("", _named(row["label"], called)), ("distance", f"{row['distance']:.3g}")],
            {True: "right", False: "wrong", None: ""}[origin.shares_a_label(row)],
        )
        for row in origin.neighbours
    ]
    return Strip("itself, then the nearest", [itself, *nearest])


def _named(label: int | None, called: Called) -> str:
    return "" if label is None else called(label)


def _taken_for(origin: Origin, called: Called) -> str:
    return "" if origin.prediction is None else f"→ {called(origin.prediction)}"
