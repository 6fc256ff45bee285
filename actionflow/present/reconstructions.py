"""The figure of an autoencoder: samples, what the model makes of them, and which pixels were hard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure, SubFigure
from numpy.typing import NDArray

from actionflow.present.figures import INK

Floats = NDArray[np.floating[Any]]

# From dark to light as pixels get harder, as in the paper; it falls evenly in grey and to the colour-blind.
EASY_TO_HARD = "magma"
CELL, LEGEND, HEAD = 1.05, 1.5, 0.4  # inches
# The scale ends here: a few pixels at an edge collect so much that all others would be one dark.
MOST_SHOWN = 0.995
ROWS = ("original", "reconstruction", "action")


@dataclass(frozen=True)
class Rebuilt:
    """A sample, from 0 to 1 in (channels, height, width), what was made of it, and the action of its pixels if kept."""

    name: str
    original: Floats
    rebuilt: Floats
    action: Floats | None = None

    @property
    def told(self) -> str:
        """What stands above it: its class, and its action, which is the mean over its pixels."""
        return self.name if self.action is None else f"{self.name}\n{self.action.mean(dtype=np.float64):.3g}"


def reconstructions(title: str, groups: Mapping[str, Sequence[Rebuilt]]) -> Figure:
    """Groups of samples, such as the hardest and the easiest, each as rows: original, reconstruction, action of pixels.

    Each group has a scale of its own: beside the hardest, nothing of the easiest would be seen.
    """
    widest = max(map(len, groups.values()))
    heights = [CELL * _rows(group) + 2 * HEAD for group in groups.values()]
    figure = Figure(figsize=(widest * CELL + LEGEND, sum(heights) + HEAD), dpi=110, layout="constrained")
    parts = np.ravel(np.array(figure.subfigures(len(groups), 1, squeeze=False, height_ratios=heights)))
    for part, (name, group) in zip(parts, groups.items(), strict=True):
        _draw_group(part, name, group, widest)
    has_action = any(each.action is not None for group in groups.values() for each in group)
    above = "its class and its action; each part has its own scale of colours" if has_action else "its class"
    figure.suptitle(f"{title}; above each {above}", x=0.01, ha="left", fontsize=10, color=INK)
    return figure


def _rows(group: Sequence[Rebuilt]) -> int:
    return len(ROWS) - (group[0].action is None)


def _draw_group(part: SubFigure, name: str, group: Sequence[Rebuilt], columns: int) -> None:
    cells = part.subplots(_rows(group), columns, squeeze=False)
    part.suptitle(f"the {name}", x=0.01, ha="left", fontsize=10, color=INK)
    scale = Normalize(*_range(group))
    for axes in cells.ravel():
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    for row, word in zip(cells, ROWS, strict=False):
        row[0].set_ylabel(word, fontsize=8, color=INK)
    for column, each in enumerate(group):
        _draw_sample(cells[:, column], each, scale)
    if _rows(group) == len(ROWS):
        mapped = ScalarMappable(scale, EASY_TO_HARD)
        bar = part.colorbar(mapped, ax=cells[-1].tolist(), fraction=0.03, pad=0.01, extend="max")
        bar.set_label("action of a pixel", fontsize=8, color=INK)
        bar.ax.tick_params(labelsize=7, colors=INK)
        bar.outline.set_visible(False)


def _draw_sample(cells: NDArray[Any], each: Rebuilt, scale: Normalize) -> None:
    cells[0].set_title(each.told, fontsize=8, color=INK)
    for axes, image in zip(cells, (each.original, each.rebuilt), strict=False):
        axes.imshow(_shown(image), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    if each.action is not None:
        cells[2].imshow(each.action, cmap=EASY_TO_HARD, norm=scale, interpolation="nearest")


def _shown(image: Floats) -> Floats:
    """As matplotlib wants it: grey pictures flat, colours last."""
    return image[0] if len(image) == 1 else image.transpose(1, 2, 0)


def _range(group: Sequence[Rebuilt]) -> tuple[float, float]:
    """From 0 to the hardest pixels of a group; pixels that are not numbers are left white."""
    masks = [each.action.ravel() for each in group if each.action is not None]
    pixels = np.concatenate(masks) if masks else np.ones(1)
    finite = pixels[np.isfinite(pixels)]
    return 0.0, (float(np.quantile(finite, MOST_SHOWN)) if finite.size else 1.0) or 1.0
