"""The figure of a rule: rows of pictures, each with a line that says what they are."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from actionflow.present.figures import INK
from actionflow.present.pages.grids import font

SIDE, GAP, LINE = 96, 8, 16
# What is hot is seen through, so that one sees of what it is hot.
STRENGTH = 0.55

Pictures = NDArray[np.uint8]


@dataclass(frozen=True)
class Row:
    """Pictures (n, channels, height, width) and what they are."""

    told: str
    pictures: Pictures


def rule_figure(title: str, rows: Sequence[Row]) -> Image.Image:
    """A title above rows of pictures, on white."""
    columns = max([len(row.pictures) for row in rows] + [6])
    width = columns * (SIDE + GAP) + GAP
    lines = textwrap.wrap(title, max(20, width // 7))
    top = GAP + LINE * len(lines)
    figure = Image.new("RGB", (width, top + len(rows) * (SIDE + LINE + GAP) + GAP), "white")
    draw = ImageDraw.Draw(figure)
    for place, line in enumerate(lines):
        draw.text((GAP, GAP // 2 + LINE * place), line, fill=INK, font=font())
    for row in rows:
        draw.text((GAP, top), row.told, fill=INK, font=font())
        for place, picture in enumerate(row.pictures):
            figure.paste(_drawn(picture), (GAP + place * (SIDE + GAP), top + LINE))
        top += SIDE + LINE + GAP
    return figure


def heated(pictures: Pictures, heat: NDArray[np.float32]) -> Pictures:
    """Pictures with heat (n, height, width) from 0 to 1 laid over them, in colour."""
    if not len(pictures):
        return pictures
    colours = matplotlib.colormaps["inferno"](heat)[..., :3].transpose(0, 3, 1, 2) * 255
    grey = pictures.astype(np.float32).mean(axis=1, keepdims=True).repeat(3, axis=1)
    mixed: Pictures = ((1 - STRENGTH) * grey + STRENGTH * colours).round().astype(np.uint8)
    return mixed


def _drawn(picture: NDArray[np.uint8]) -> Image.Image:
    pixels = picture[0] if len(picture) == 1 else picture.transpose(1, 2, 0)
    image = Image.fromarray(np.ascontiguousarray(pixels))
    resampling = Image.Resampling.NEAREST if max(image.size) < SIDE else Image.Resampling.BOX
    return image.convert("RGB").resize((SIDE, SIDE), resampling)
