"""Figures of scores, drawn without a display."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from actionflow.present.axes import AXES, plain
from actionflow.present.curves import mean_lengths

INK, WRONG, RIGHT = "#222222", "#c8442f", "#2f6f9f"
# What became of a sample: right, wrong, or nobody judged.
VERDICTS = {1: (RIGHT, "right at the end"), 0: (WRONG, "wrong at the end"), -1: ("#777777", "samples")}
PAIR_COLOURS = ("#c8442f", "#2f6f9f", "#3f8f4f", "#b8862b", "#7a4f9a", "#2a9d9a", "#b0457b", "#6b6f2a")
BASELINE_GREYS = ("#555555", "#8a8a8a", "#b0b0b0")
# More bands hide one another, more names hide the curves, more ticks hide their counts.
MOST_BANDS, MOST_NAMED, MOST_TICKS = 6, 12, 10
# From light to dark as clusters get harder: they differ in grey and to the colour-blind, and by their marks.
EASY_TO_HARD, LIGHTEST, DARKEST = "plasma", 0.76, 0.0
MARKS = "osD^vPX*"
# With more epochs marks run into one another.
MOST_MARKS = 30
AMONG = {
    "above": "samples at or above this quantile of the first run's action",
    "below": "samples at or below this quantile of the first run's action",
    "within": "samples from this quantile of the first run's action to the next",
}


def action_histogram(action: NDArray[np.float64], correct: NDArray[np.int8], title: str) -> Figure:
    """How action is spread over the samples, right (1) and wrong (0) ones apart, on a logarithmic axis.

    Most samples are easy: on a linear axis they would be one bar and the rest invisible. Where nobody judged (-1), as
    of texts that are written, the samples are of one colour. What is not finite is told in the title.
    """
    finite = np.isfinite(action)
    lost = f", {(~finite).sum():,} of them not finite" if not finite.all() else ""
    action, correct = action[finite], correct[finite]
    edges = _log_edges(action)
    shown = np.maximum(action, edges[0])
    kinds = {kind: (correct == kind).sum() for kind in VERDICTS if (correct == kind).any()}
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    if kinds:
        axes.hist(
            [shown[correct == kind] for kind in kinds],
            bins=edges.tolist(),
            stacked=True,
            color=[VERDICTS[kind][0] for kind in kinds],
            label=[f"{VERDICTS[kind][1]} ({count:,})" for kind, count in kinds.items()],
        )
        middle = max(float(np.median(action)), edges[0])
        axes.axvline(middle, color=INK, linewidth=1, linestyle=":")
        axes.text(middle, 1.01, "median", transform=axes.get_xaxis_transform(), ha="center", color=INK)
        axes.legend(frameon=False)
    axes.set(xscale="log", yscale="log", ylim=(0.6, None), xlabel=AXES["action"], ylabel="samples")
    axes.set_title(title + lost, loc="left", fontsize=10, pad=18)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


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
    pairs = pairs_of(curve)
    figure = Figure(figsize=(8, 4.8), layout="constrained")
    axes = figure.subplots()
    colours = pair_colours(pairs)
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


def pairs_of(curve: pa.Table) -> dict[str, list[dict[str, Any]]]:
    """The rows of each pair of runs, by what the pair is called."""
    pairs: dict[str, list[dict[str, Any]]] = {}
    for row in curve.to_pylist():
        mark = " (baseline: same model)" if row["baseline"] else ""
        pairs.setdefault(f"{row['name_a']} vs {row['name_b']}{mark}", []).append(row)
    return pairs


def pair_colours(pairs: dict[str, list[dict[str, Any]]]) -> dict[str, str]:
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
    axes.plot(quantiles, values, style, marker=".", color=colour, label=plain(pair))
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


def loss_curves(title: str, measure: str, clusters: pa.Table, centres: pa.Table, closest: pa.Table) -> Figure:
    """The centres of clusters of loss curves, thick, each with the curves closest to it, thin; hardest on top."""
    epochs = sorted(set(centres["epoch"].to_pylist()))
    figure = Figure(figsize=(7, 4.6), dpi=160, layout="constrained")
    axes = figure.subplots()
    for cluster, colour, mark in dressed(clusters.to_pylist()):
        around = [row["losses"] for row in closest.to_pylist() if row["cluster"] == cluster["cluster"]]
        centre = [row["loss"] for row in centres.to_pylist() if row["cluster"] == cluster["cluster"]]
        _draw_cluster(axes, epochs, centre, around, colour, mark, _size(cluster))
    axes.set(xlabel="epoch", ylabel=measure, ylim=(None if _below_zero(centres) else 0, None))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if len(epochs) == 1:
        axes.set_xlim(epochs[0] - 0.5, epochs[0] + 0.5)
    axes.set_title(title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    small: dict[str, Any] = {"frameon": False, "fontsize": 8, "title_fontsize": 8, "alignment": "left"}
    figure.legend(handles[::-1], labels[::-1], loc="outside lower left", title=_key(closest), **small)
    return figure


def _draw_cluster(
    axes: Any, epochs: list[int], centre: list[float], around: list[list[float]], colour: Any, mark: str, label: str
) -> None:
    for losses in around:
        # A curve of one epoch is a point.
        axes.plot(epochs, losses, color=colour, linewidth=0.9, alpha=0.65, marker="_" if len(epochs) == 1 else "")
    marked = mark if len(epochs) <= MOST_MARKS else ""
    # A thin white edge keeps marks apart where curves meet; what lies on the axis is not cut in half.
    edge = {"markeredgecolor": "white", "markeredgewidth": 0.8, "clip_on": False, "zorder": 3}
    axes.plot(epochs, centre, color=colour, linewidth=2.6, marker=marked, markersize=7.5, label=label, **edge)


def _below_zero(centres: pa.Table) -> bool:
    """Densities have losses below zero; cross-entropy has none."""
    return bool(min(centres["loss"].to_pylist()) < 0)


def dressed(clusters: list[dict[str, Any]]) -> list[tuple[dict[str, Any], Any, str]]:
    """Each cluster with its colour and its mark."""
    shades = np.linspace(LIGHTEST, DARKEST, len(clusters)) if len(clusters) > 1 else [DARKEST]
    colours = [colormaps[EASY_TO_HARD](shade) for shade in shades]
    return list(zip(clusters, colours, cycle(MARKS), strict=False))


def detection(title: str, table: pa.Table, share: float) -> Figure:
    """How well each score finds wrong labels: means over seeds with their 95 % intervals, the best on top."""
    rows = table.to_pylist()[::-1]
    figure = Figure(figsize=(9, 1.4 + 0.26 * len(rows)), layout="constrained")
    panels = (("average_precision", "average precision", share), ("auroc", "AUROC", 0.5))
    for axes, (measure, label, chance) in zip(figure.subplots(1, 2, sharey=True), panels, strict=True):
        axes.axvline(chance, color=BASELINE_GREYS[1], linewidth=1, linestyle=":")
        axes.text(chance, 1.005, "random", transform=axes.get_xaxis_transform(), ha="center", fontsize=8, color=INK)
        for place, row in enumerate(rows):
            colour = WRONG if row["other_package"] else RIGHT
            margin = row[f"{measure}_plus_minus"] or 0.0
            axes.errorbar(row[measure], place, xerr=margin, fmt="o", color=colour, markersize=5, capsize=2)
        axes.set_yticks(range(len(rows)), [row["score"] for row in rows])
        axes.set(xlabel=label)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#eeeeee")
        axes.set_axisbelow(True)
    figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    kinds = {RIGHT: "scores of the house", WRONG: "other packages"}
    handles = [Line2D([], [], color=colour, marker="o", linestyle="") for colour in kinds]
    figure.legend(handles, list(kinds.values()), loc="outside lower left", frameon=False, fontsize=8, ncols=2)
    return figure


def _size(cluster: dict[str, Any]) -> str:
    told = [
        f"{cluster['name']}: {cluster['samples']:,} samples ({100 * cluster['share']:.1f} %)",
        mean_lengths(cluster),
    ]
    return ", ".join(filter(None, told))


def _key(closest: pa.Table) -> str:
    most = max(closest["place"].to_pylist(), default=0)
    return f"thick: the centre of a cluster, thin: the {most} samples closest to it" if most else "centres"
