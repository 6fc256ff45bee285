"""Figures of scores, drawn without a display."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure
from numpy.typing import NDArray

INK, WRONG, RIGHT = "#222222", "#c8442f", "#2f6f9f"
COLUMNS = 8


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
