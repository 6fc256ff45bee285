"""Samples as one picture: a grid, each with its label, its prediction and its score above it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import matplotlib
from PIL import Image, ImageDraw, ImageFont

from actionflow.present.figures import INK, RIGHT, WRONG
from actionflow.present.pages.thumbnails import opened

COLUMNS = 8
SIDE, GAP, LINE = 96, 10, 15
FONT_SIZE = 12


@dataclass(frozen=True)
class Cell:
    """One sample of a grid."""

    picture: bytes
    told: str
    score: str
    correct: bool | None

    @property
    def colour(self) -> str:
        """That of what is told."""
        return INK if self.correct is None else RIGHT if self.correct else WRONG


def grid(cells: Sequence[Cell]) -> Image.Image:
    """The cells row by row on white, as many in a row as fit."""
    rows = -(-len(cells) // COLUMNS)
    columns = min(COLUMNS, len(cells))
    height = SIDE + 2 * LINE + GAP
    image = Image.new("RGB", (columns * (SIDE + GAP) + GAP, rows * height + GAP), "white")
    draw = ImageDraw.Draw(image)
    for place, cell in enumerate(cells):
        row, column = divmod(place, COLUMNS)
        _draw(image, draw, cell, GAP + column * (SIDE + GAP), GAP // 2 + row * height)
    return image


def _draw(image: Image.Image, draw: ImageDraw.ImageDraw, cell: Cell, left: int, top: int) -> None:
    draw.text((left, top), shortened(cell.told), fill=cell.colour, font=font())
    draw.text((left, top + LINE), shortened(cell.score), fill=INK, font=font())
    picture = enlarged(opened(cell.picture), SIDE)
    image.paste(picture, (left + (SIDE - picture.width) // 2, top + 2 * LINE + (SIDE - picture.height) // 2))


def enlarged(picture: Image.Image, side: int) -> Image.Image:
    """Small pictures are shown pixel by pixel, large ones smoothly, both fitted into a square."""
    factor = side / max(picture.size)
    if factor >= 1:
        whole = int(factor)
        return picture.resize((picture.width * whole, picture.height * whole), Image.Resampling.NEAREST)
    size = (max(1, round(picture.width * factor)), max(1, round(picture.height * factor)))
    return picture.resize(size, Image.Resampling.BOX)


def shortened(text: str) -> str:
    """As much of a text as a cell is wide, which is eight times the size of its letters."""
    text = " ".join(text.split())[:SIDE]
    if font().getlength(text) <= SIDE:
        return text
    while text and font().getlength(text + "…") > SIDE:
        text = text[:-1]
    return text + "…"


@cache
def font() -> ImageFont.FreeTypeFont:
    """Matplotlib's own font: it is there wherever this runs, and knows most alphabets."""
    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf", FONT_SIZE)
