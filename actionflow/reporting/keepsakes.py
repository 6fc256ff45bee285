"""What a run keeps at its root beside the page: the histogram, the hardest samples, grids of each class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlflow import MlflowClient

from actionflow.present.figures import action_histogram
from actionflow.present.pages.grids import Cell, enlarged, grid
from actionflow.present.pages.thumbnails import opened
from actionflow.present.strips import picture_rows
from actionflow.reporting.asking import Answer
from actionflow.reporting.findings import Findings
from actionflow.reporting.neighbours import ABOVE_EACH, neighbours_table, origins_of, picture_rows_of
from actionflow.store.showing import THUMBNAIL, log_stepped_images, log_table, log_table_images

Row = dict[str, Any]


def log_keepsakes(client: MlflowClient, run_id: str, found: Findings, title: str, named: Callable[[str], str]) -> None:
    """Write them into the run; `named` gives an artifact the name that it has for this split."""
    histogram = action_histogram(found.column("x"), found.correct, title)
    client.log_figure(run_id, histogram, f"{named('action_histogram')}.png")
    _log_hardest(client, run_id, found, named("hardest"))
    _log_neighbours(client, run_id, found, title, named("neighbours"))
    if found.pictures:
        for key, answer in {"hardest": found.hardest_by_class, "easiest": found.easiest_by_class}.items():
            images = {step: grid(cells) for step, cells in grids_of(found, answer).items()}
            log_stepped_images(client, run_id, images, named(key))


def grids_of(found: Findings, answer: Answer) -> dict[int, list[Cell]]:
    """The samples of each shown class that have a picture, by the class's number; of all where there are no classes."""
    shown = {row["label"] for row in found.shown_classes}
    cells: dict[int, list[Cell]] = {}
    for row in answer.rows():
        if row["sample_id"] in found.pictures and (row["label"] in shown or not shown):
            cells.setdefault(row["label"] or 0, []).append(_cell(found, row))
    return cells


def is_right(row: Row) -> bool | None:
    """Whether the last prediction was the label; None where there is none."""
    return None if row["prediction"] is None or row["label"] is None else row["prediction"] == row["label"]


def _log_hardest(client: MlflowClient, run_id: str, found: Findings, name: str) -> None:
    rows = found.hardest.rows()
    images = [opened(found.pictures[row["sample_id"]]) for row in rows if row["sample_id"] in found.pictures]
    columns = hardest_table(found, rows)
    # MLflow takes a column of pictures only whole.
    if rows and len(images) == len(rows):
        client.log_image(run_id, grid([_cell(found, row) for row in rows]), f"{name}.png")
        cells = log_table_images(client, run_id, [enlarged(image, THUMBNAIL) for image in images], name)
        columns = {"rank": columns.pop("rank"), "image": cells, **columns}
    log_table(client, run_id, columns, f"{name}.json")


def _log_neighbours(client: MlflowClient, run_id: str, found: Findings, title: str, name: str) -> None:
    origins = origins_of(found.neighbours.rows())
    if not origins:
        return
    rows = picture_rows_of(origins, found.pictures, found.called)
    if rows:
        heading = f"The {len(rows)} hardest of {title}, each with the nearest in feature space"
        client.log_figure(run_id, picture_rows(rows, heading, ABOVE_EACH, first_apart=True), f"{name}.png")
    log_table(client, run_id, neighbours_table(origins, found.described, found.called), f"{name}.json")


def hardest_table(found: Findings, rows: list[Row]) -> dict[str, list[Any]]:
    """The hardest samples, a column for everything that is known of one of them."""
    texts = found.described.some(row["sample_id"] for row in rows)
    said = {row["sample_id"]: row["predicted"] for row in found.extremes.rows() if row["difficulty"] == "most"}
    columns: dict[str, list[Any]] = {
        "rank": list(range(1, len(rows) + 1)),
        "sample_id": [row["sample_id"] for row in rows],
        **{
            name: [texts.get(row["sample_id"], {}).get(name) for row in rows]
            for name in ("text", "context", "target_text")
        },
    }
    if found.class_rows:
        columns["label"] = [found.called(row["label"]) for row in rows]
        columns["prediction"] = [None if row["prediction"] is None else found.called(row["prediction"]) for row in rows]
    else:
        columns["predicted_text"] = [said.get(row["sample_id"]) for row in rows]
    columns |= {name: [_rounded(row[name]) for row in rows] for name in ("action", "entropy", "correctness")}
    return {name: values for name, values in columns.items() if any(value is not None for value in values)}


def _cell(found: Findings, row: Row) -> Cell:
    return Cell(found.pictures[row["sample_id"]], _taken_for(found, row), f"{row['action']:.3g}", is_right(row))


def _taken_for(found: Findings, row: Row) -> str:
    if row["label"] is None:
        return ""
    told = found.called(row["label"])
    return told if row["prediction"] is None else f"{told} → {found.called(row['prediction'])}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
