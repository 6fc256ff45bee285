"""Figures of scores, drawn without a display."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure
from numpy.typing import NDArray

INK, WRONG, RIGHT = "#222222", "#c8442f", "#2f6f9f"
COLUMNS = 8
PAIR_COLOURS = ("#c8442f", "#2f6f9f", "#3f8f4f", "#b8862b", "#7a4f9a", "#2a9d9a", "#b0457b", "#6b6f2a")
BASELINE_GREYS = ("#555555", "#8a8a8a", "#b0b0b0")
# More bands hide one another, more names hide the curves, more ticks hide their counts.
MOST_BANDS, MOST_NAMED, MOST_TICKS = 6, 12, 10
AMONG = {
    "above": "samples at or above this quantile of the first run's action",
    "below": "samples at or below this quantile of the first run's action",
    "within": "samples from this quantile of the first run's action to the next",
}


def action_histogram(scores: pa.Table) -> Figure:
    """How action is spread over the samples, right and wrong ones apart, on a logarithmic axis.

    Most samples are easy: on a linear axis they would be one bar and the rest invisible.
    """
    action = scores["action"].to_numpy()
    correct = scores["correct"].to_numpy(zero_copy_only=False).astype(bool)
    edges = _log_edges(action)
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    shown = np.maximum(action, edges[0])
    axes.hist(
        [shown[correct], shown[~correct]],
        bins=edges.tolist(),
        stacked=True,
        color=[RIGHT, WRONG],
        label=[f"right at the end ({correct.sum():,})", f"wrong at the end ({(~correct).sum():,})"],
    )
    axes.axvline(float(np.median(action)), color=INK, linewidth=1, linestyle=":")
    axes.text(float(np.median(action)), 1.01, "median", transform=axes.get_xaxis_transform(), ha="center", color=INK)
    axes.set(
        xscale="log", yscale="log", ylim=(0.6, None), xlabel="action: loss summed over the epochs", ylabel="samples"
    )
    axes.set_title(_title(scores), loc="left", fontsize=10, pad=18)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return figure


def hardest_sheet(rows: list[dict[str, Any]], images: list[NDArray[np.uint8]], class_names: tuple[str, ...]) -> Figure:
    """The hardest samples as pictures, each with its label, its prediction and its action."""
    lines = -(-len(rows) // COLUMNS)
    figure = Figure(figsize=(1.45 * COLUMNS, 1.95 * lines), layout="constrained")
    cells = figure.subplots(lines, COLUMNS, squeeze=False).ravel()
    for cell in cells:
        cell.set_axis_off()
    for cell, row, image in zip(cells, rows, images, strict=False):
        cell.imshow(image, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        told = f"{class_names[row['label']]} → {class_names[row['prediction']]}"
        cell.set_title(f"{told}\n{row['action']:.3g}", fontsize=8, color=RIGHT if row["correct"] else WRONG)
    return figure


def _title(scores: pa.Table) -> str:
    epochs = scores["epochs_seen"].to_numpy().max()
    return f"{scores.num_rows:,} {scores['split'][0].as_py()} samples, {epochs} epochs"


def _log_edges(action: NDArray[np.float64]) -> NDArray[np.float64]:
    """Edges of equal width on a logarithmic axis, over six powers of ten at most."""
    finite = action[np.isfinite(action) & (action > 0)]
    highest = finite.max() if len(finite) else 1.0
    lowest = max(finite.min() if len(finite) else 0.1, highest * 1e-6)
    if lowest == highest:
        lowest = highest / 10
    return np.geomspace(lowest, highest * 1.0001, 41)


def quantile_correlation(curve: pa.Table) -> Figure:
    """Correlation above (below, within) each quantile, a line for each pair of runs; pairs of one model are dashed.

    Under each quantile stands how many samples it has: a correlation of few swings, whatever the models do.
    """
    pairs = _pairs(curve)
    figure = Figure(figsize=(8, 4.8), layout="constrained")
    axes = figure.subplots()
    colours = _colours(pairs)
    for pair, rows in pairs.items():
        _draw_pair(axes, pair, rows, colours[pair], banded=len(pairs) <= MOST_BANDS)
    axes.axhline(0, color=INK, linewidth=0.6)
    places = _every_few(next(iter(pairs.values())))
    axes.set_xticks([row["quantile"] for row in places], [_tick(row["quantile"], pairs) for row in places])
    first = places[0]
    shaded = "\n(shaded: 95 % interval)" if len(pairs) <= MOST_BANDS else ""
    axes.set(xlabel=AMONG[first["side"]], ylabel=f"Pearson correlation of action{shaded}", ylim=(None, 1.02))
    axes.set_title(f"How far runs agree on which {first['split']} samples are hard", loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    _legend(figure, axes, many=len(pairs) > MOST_NAMED)
    return figure


def _every_few(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many rows as have room on the axis, the last among them: it has the fewest samples."""
    return rows[::-1][:: -(-len(rows) // MOST_TICKS)][::-1]


def _pairs(curve: pa.Table) -> dict[str, list[dict[str, Any]]]:
    pairs: dict[str, list[dict[str, Any]]] = {}
    for row in curve.to_pylist():
        mark = " (baseline: same model)" if row["baseline"] else ""
        pairs.setdefault(f"{row['name_a']} vs {row['name_b']}{mark}", []).append(row)
    return pairs


def _colours(pairs: dict[str, list[dict[str, Any]]]) -> dict[str, str]:
    """Grey for the baseline, colours for what is held against it."""
    colours, greys = cycle(PAIR_COLOURS), cycle(BASELINE_GREYS)
    return {pair: next(greys if rows[0]["baseline"] else colours) for pair, rows in pairs.items()}


def _draw_pair(axes: Any, pair: str, rows: list[dict[str, Any]], colour: str, banded: bool) -> None:
    quantiles = [row["quantile"] for row in rows]
    # None is drawn as a gap.
    values, low, high = (
        np.array([row[name] for row in rows], np.float64) for name in ("pearson", "pearson_low", "pearson_high")
    )
    style = "--" if rows[0]["baseline"] else "-"
    axes.plot(quantiles, values, style, marker=".", color=colour, label=pair)
    if banded:
        axes.fill_between(quantiles, low, high, color=colour, alpha=0.12, linewidth=0)


def _tick(quantile: float, pairs: dict[str, list[dict[str, Any]]]) -> str:
    counts = sorted(row["samples"] for rows in pairs.values() for row in rows if row["quantile"] == quantile)
    told = f"{counts[0]:,}" if counts[0] == counts[-1] else f"{counts[0]:,}–{counts[-1]:,}"
    return f"{quantile:.3g}\nn {told}"


def _legend(figure: Figure, axes: Any, many: bool) -> None:
    """Under the axes, where long names have room; of very many pairs only the two kinds are told apart."""
    handles, labels = axes.get_legend_handles_labels()
    if many:
        kinds = {("same model" if handle.get_linestyle() == "--" else "pairs of runs"): handle for handle in handles}
        handles, labels = list(kinds.values()), list(kinds)
    columns = 2 if len(labels) > 4 else 1
    figure.legend(handles, labels, loc="outside lower left", frameon=False, fontsize=8, ncols=columns)
