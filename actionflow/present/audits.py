"""An audit as a person reads it: what was found in words, the most suspicious samples, and a figure of both."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from actionflow.present.rows import text_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image

    from actionflow.present.pages.grids import Cell

Floats = NDArray[np.float64]

# How the axis of a histogram is called: scores as they were judged, higher for labels that the model agrees with.
AXES = {
    "aum": "aum: by how much the label won over the best other class, mean over the epochs",
    "confidence": "log-odds of the mean probability of the label",
    "action": "how small the mean loss is: log(log 2 / mean loss)",
}
MOST_PAIRS = 8


def _nothing() -> Floats:
    return np.empty(0)


@dataclass(frozen=True, eq=False)
class Spread:
    """How a score is spread: the judged samples, the line between wrong and right, and what it comes from.

    `wrong` and `right` are densities at the places `at`; they and `known`, the scores of samples that are known to be
    wrong, are empty where there are none.
    """

    judged: Floats
    line: float | None
    known: Floats
    at: Floats = field(default_factory=_nothing)
    wrong: Floats = field(default_factory=_nothing)
    right: Floats = field(default_factory=_nothing)


def audit_text(title: str, findings: list[str], pairs: pa.Table, shown: pa.Table, width: int) -> str:
    """A title, what was found, the most frequent pairs of classes, and the rows of some samples."""
    told = [title, "", *(textwrap.fill(each, width) for each in findings)]
    if pairs.num_rows:
        told += [textwrap.fill(f"Given → suggested: {_pairs(pairs)}", width)]
    if shown.num_rows:
        told += ["", text_table(_columns(shown))]
    return "\n".join(told)


def _pairs(pairs: pa.Table) -> str:
    """The most frequent pairs, and how many there are beside them."""
    rows = pairs.to_pylist()
    told = [f"{_called(row, 'label')} → {_called(row, 'suggested')} ({row['samples']:,})" for row in rows[:MOST_PAIRS]]
    more = [f"{len(rows) - MOST_PAIRS:,} other pairs"] if len(rows) > MOST_PAIRS else []
    return ", ".join(told + more)


def _called(row: Mapping[str, Any], column: str) -> str:
    """The name of a class, its number where it has none; a sample that was never taken for another has none."""
    found = row.get(f"{column}_name")
    if found is None:
        found = row[column]
    return "?" if found is None else str(found)


def _columns(shown: pa.Table) -> pa.Table:
    rows = shown.to_pylist()
    known = {
        "rank": shown["suspect_rank"],
        "sample_id": shown["sample_id"],
        "given": pa.array([_called(row, "label") for row in rows]),
        "suggested": pa.array([_called(row, "suggested") for row in rows]),
        rows[0]["score_name"]: shown["score"],
    }
    if shown["chance_wrong"].null_count < shown.num_rows:
        known["chance_wrong"] = shown["chance_wrong"]
    if "text" in shown.column_names:
        known["text"] = shown["text"]
    return pa.table(known)


def audit_figure(title: str, by: str, spread: Spread, shown: pa.Table, pictures: Mapping[int, bytes]) -> Image:
    """The histogram of a score as a picture, and below it the most suspicious samples that have one."""
    from PIL import Image as Pictures

    from actionflow.present.pages.grids import grid

    histogram = _rendered(score_histogram(title, by, spread))
    cells = [_cell(row, pictures) for row in shown.to_pylist() if row["sample_id"] in pictures]
    if not cells:
        return histogram
    below = grid(cells)
    whole = Pictures.new("RGB", (max(histogram.width, below.width), histogram.height + below.height), "white")
    whole.paste(histogram, (0, 0))
    whole.paste(below, (0, histogram.height))
    return whole


def _cell(row: Mapping[str, Any], pictures: Mapping[int, bytes]) -> Cell:
    from actionflow.present.pages.grids import Cell

    told = f"{_called(row, 'label')} → {_called(row, 'suggested')}"
    return Cell(pictures[row["sample_id"]], told, f"{row['score']:.3g}", False if row["suspect"] else None)


def score_histogram(title: str, by: str, spread: Spread) -> Figure:
    """How many samples have which score; suspects apart, the distributions that were fitted as lines."""
    from matplotlib.figure import Figure

    from actionflow.present.figures import INK, RIGHT, WRONG

    figure = Figure(figsize=(8.58, 3.6), dpi=100, layout="constrained")
    axes = figure.subplots()
    edges = np.histogram_bin_edges(spread.judged, 60)
    below = spread.judged < spread.line if spread.line is not None else np.zeros(len(spread.judged), np.bool_)
    kinds = [(spread.judged[~below], RIGHT, "others"), (spread.judged[below], WRONG, "suspects")]
    kinds = [kind for kind in kinds if len(kind[0])]
    axes.hist(
        [values for values, _, _ in kinds],
        bins=edges.tolist(),
        stacked=True,
        alpha=0.55,
        color=[colour for _, colour, _ in kinds],
        label=[f"{name} ({len(values):,})" for values, _, name in kinds],
    )
    per_bar = len(spread.judged) * (edges[1] - edges[0])
    if len(spread.at):
        axes.plot(spread.at, spread.wrong * per_bar, color=WRONG, linewidth=1.5)
        axes.plot(spread.at, spread.right * per_bar, color=RIGHT, linewidth=1.5)
    if len(spread.known):
        axes.hist(
            spread.known,
            bins=edges.tolist(),
            histtype="step",
            color=INK,
            label=f"threshold samples ({len(spread.known):,})",
        )
    if spread.line is not None:
        axes.axvline(spread.line, color=INK, linewidth=1, linestyle=":")
        axes.text(spread.line, 1.01, "threshold", transform=axes.get_xaxis_transform(), ha="center", color=INK)
    axes.set(xlabel=AXES[by], ylabel="samples")
    axes.set_title(title, loc="left", fontsize=10, pad=18)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _rendered(figure: Figure) -> Image:
    from PIL import Image as Pictures

    file = io.BytesIO()
    figure.savefig(file, format="png")
    return Pictures.open(file).convert("RGB")
