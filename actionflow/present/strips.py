"""Rows of pictures as a figure for print: every picture with its pixels, words as letters in each format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from actionflow.present.figures import INK
from actionflow.present.pages.grids import Cell, shortened
from actionflow.present.pages.thumbnails import opened

# In inches. A cell is as wide as eight letters are large, for which `shortened` cuts its words.
SIDE, GAP, LINE, HEAD, TOP, EDGE = 0.9, 0.1, 0.15, 1.0, 0.52, 0.06
LETTERS = SIDE * 72 / 8
# More pixels than are printed make the file large and nothing clearer.
MOST_PIXELS = 192


@dataclass(frozen=True)
class PictureRow:
    """Pictures side by side, and the words to the left of them."""

    head: str
    cells: Sequence[Cell]


def picture_rows(rows: Sequence[PictureRow], title: str, about: str = "", first_apart: bool = False) -> Figure:
    """The rows below one another; `first_apart` draws a line behind the first picture of each."""
    apart = 2 * GAP if first_apart else 0.0
    width = 2 * EDGE + HEAD + max(len(row.cells) for row in rows) * (SIDE + GAP) + apart
    height = TOP + len(rows) * _row_height() + EDGE
    figure = Figure(figsize=(width, height), dpi=150)
    axes = figure.add_axes((0, 0, 1, 1))
    _write(axes, EDGE, EDGE + LINE, title, fontsize=10)
    _write(axes, EDGE, EDGE + 2.3 * LINE, about, color="#555555")
    for place, row in enumerate(rows):
        _draw_row(axes, row, TOP + place * _row_height(), apart)
    if first_apart:
        line = EDGE + HEAD + SIDE + GAP / 2 + apart / 2
        axes.plot([line, line], [TOP, height - EDGE], color="#bbbbbb", linewidth=0.8)
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    return figure


def _row_height() -> float:
    return SIDE + 2 * LINE + GAP


def _draw_row(axes: Any, row: PictureRow, top: float, apart: float) -> None:
    for number, line in enumerate(row.head.splitlines()):
        _write(axes, EDGE, top + (2.8 + number) * LINE, shortened(line))
    for place, cell in enumerate(row.cells):
        left = EDGE + HEAD + place * (SIDE + GAP) + (apart if place else 0.0)
        _write(axes, left, top + 0.75 * LINE, shortened(cell.told), color=cell.colour)
        _write(axes, left, top + 1.75 * LINE, shortened(cell.score))
        _draw_picture(axes, cell.picture, left, top + 2 * LINE)


def _draw_picture(axes: Any, picture: bytes, left: float, top: float) -> None:
    """Fitted into its square, in the middle."""
    image = opened(picture)
    image.thumbnail((MOST_PIXELS, MOST_PIXELS))
    width, height = (SIDE * each / max(image.size) for each in image.size)
    left, top = left + (SIDE - width) / 2, top + (SIDE - height) / 2
    box = (left, left + width, top + height, top)
    axes.imshow(np.asarray(image), extent=box, cmap="gray", vmin=0, vmax=255, interpolation="none", aspect="auto")


def _write(axes: Any, left: float, base: float, text: str, **how: Any) -> None:
    """Words as they are: a class called $x$ is no formula."""
    axes.text(left, base, text, parse_math=False, **{"fontsize": LETTERS, "color": INK, **how})
