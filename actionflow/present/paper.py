"""Figures that the action-score papers draw of several runs: accuracy by a score, a score against entropy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.figure import Figure

from actionflow.present.axes import AXES, on_an_axis, plain
from actionflow.present.figures import INK, MARKS, PAIR_COLOURS, VERDICTS

Row = dict[str, Any]

STROKES = ("-", "--", "-.", ":")
COLUMNS = 3
# Right ones are many and small; wrong ones are crosses, which are told apart without colour too.
POINTS: dict[int, dict[str, Any]] = {
    1: {"marker": "o", "s": 7, "linewidths": 0, "alpha": 0.45},
    0: {"marker": "x", "s": 16, "linewidths": 0.9, "alpha": 0.8},
    -1: {"marker": "o", "s": 7, "linewidths": 0, "alpha": 0.45},
}


def accuracy_by_score(rows: Sequence[Row], names: Mapping[str, str], split: str) -> Figure:
    """Accuracy in bins of each score, a panel for each score and a line for each run (`names`, by id)."""
    scores = list(dict.fromkeys(row["score"] for row in rows))
    figure = Figure(figsize=(3.6 * len(scores), 3.7), dpi=200, layout="constrained")
    panels = figure.subplots(1, len(scores), sharey=True, squeeze=False)[0]
    for axes, score in zip(panels, scores, strict=True):
        _draw_lines(axes, [row for row in rows if row["score"] == score], names)
        axes.set_xlabel(AXES[score])
        _quiet(axes)
    panels[0].set(ylabel="accuracy at the end", ylim=(None, 1.02))
    bins = max(row["bin"] for row in rows)
    about = f"Accuracy in {bins} bins of as many {split} samples each, at the mean score of each bin"
    figure.suptitle(about, x=0.01, ha="left", fontsize=10)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower left", frameon=False, fontsize=8, ncols=min(len(labels), len(scores) + 1)
    )
    return figure


def against_entropy(
    points: pa.Table, correlations: Sequence[Row], names: Mapping[str, str], score: str, split: str
) -> Figure:
    """A score against entropy, a panel for each run (a row of `correlations`), a point for each sample."""
    lines = -(-len(correlations) // COLUMNS)
    columns = min(COLUMNS, len(correlations))
    figure = Figure(figsize=(max(3.4 * columns, 4.2), 0.5 + 3.1 * lines), dpi=200, layout="constrained")
    panels = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).ravel()
    of_runs = [_finite(points, row["run_id"]) for row in correlations]
    # Panels share their axes: what has no place on a logarithmic one stands at the same edge in all of them.
    places, logarithmic, _ = on_an_axis(np.concatenate([x for x, _, _ in of_runs]))
    placed = np.split(places, np.cumsum([len(x) for x, _, _ in of_runs])[:-1])
    for axes, row, x, (_, y, verdicts) in zip(panels, correlations, placed, of_runs, strict=False):
        _draw_points(axes, x, y, verdicts)
        if logarithmic:
            axes.set_xscale("log")
        axes.set_title(f"{plain(names[row['run_id']])}\n{_agreement(row)}", loc="left", fontsize=8)
        _quiet(axes)
    for axes in panels[len(correlations) :]:
        axes.remove()
    figure.supxlabel(AXES[score], fontsize=9)
    figure.supylabel(AXES["entropy"], fontsize=9)
    _legend_of_points(figure, np.concatenate([verdicts for _, _, verdicts in of_runs]), split, columns)
    return figure


def _draw_lines(axes: Any, rows: Sequence[Row], names: Mapping[str, str]) -> None:
    told = [row for row in rows if row["accuracy"] is not None and np.isfinite(row["score_mean"])]
    places, logarithmic, _ = on_an_axis(np.array([row["score_mean"] for row in told], np.float64))
    where = dict(zip(((row["run_id"], row["bin"]) for row in told), places, strict=True))
    for run, colour, mark, stroke in zip(names, cycle(PAIR_COLOURS), cycle(MARKS), cycle(STROKES), strict=False):
        own = [row for row in told if row["run_id"] == run]
        axes.plot(
            [where[run, row["bin"]] for row in own],
            [row["accuracy"] for row in own],
            stroke,
            color=colour,
            marker=mark,
            markersize=4,
            linewidth=1.2,
            label=plain(names[run]),
        )
    if logarithmic:
        axes.set_xscale("log")


def _finite(points: pa.Table, run_id: str) -> tuple[Any, Any, Any]:
    """Score, entropy and verdict (1 right, 0 wrong, -1 nobody judged) of the samples of a run that have a place."""
    own = points.filter(pc.equal(points["run_id"].cast(pa.string()), run_id))
    x, y = (np.asarray(own[name].cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64) for name in "xy")
    verdicts = pc.fill_null(own["correct"].cast(pa.int8()), -1).to_numpy(zero_copy_only=False)
    kept = np.isfinite(x) & np.isfinite(y)
    return x[kept], y[kept], verdicts[kept]


def _draw_points(axes: Any, x: Any, y: Any, verdicts: Any) -> None:
    # Thousands of points are a picture in a file of lines and letters, which stays small so. Wrong ones on top.
    for verdict in (-1, 1, 0):
        chosen = verdicts == verdict
        if chosen.any():
            axes.scatter(x[chosen], y[chosen], color=VERDICTS[verdict][0], rasterized=True, **POINTS[verdict])


def _legend_of_points(figure: Figure, verdicts: Any, split: str, columns: int) -> None:
    there = [verdict for verdict in VERDICTS if (verdicts == verdict).any()]
    handles = [
        figure.axes[0].scatter([], [], color=VERDICTS[verdict][0], **{**POINTS[verdict], "alpha": 1.0})
        for verdict in there
    ]
    words = [f"{split} samples, {VERDICTS[verdict][1]}" if verdict >= 0 else f"{split} samples" for verdict in there]
    figure.legend(handles, words, loc="outside upper left", frameon=False, fontsize=8, ncols=columns)


def _agreement(row: Row) -> str:
    def told(value: float | None) -> str:
        return "–" if value is None else f"{value:.2f}"

    return f"Pearson {told(row['pearson'])}, Spearman {told(row['spearman'])}, n {row['samples']:,}"


def _quiet(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8, colors=INK)
    axes.xaxis.label.set_size(9)
    axes.yaxis.label.set_size(9)
