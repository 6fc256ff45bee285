"""Small pictures for a page: cells of a few large sheets, so that ten thousand of them take a moment and few bytes.

A picture file of its own costs a header each, and an encoder's start each. In a sheet neighbours share both, and the
page shows a cell by moving the sheet behind a window.
"""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import sqrt

from PIL import Image

# A sheet has as many rows as columns: large enough to save headers, small enough to fill a page's room to the brim.
COLUMNS = 16
PER_SHEET = COLUMNS * COLUMNS
SMALLEST, LARGEST = 24, 96
# Up to this side pixels are seen one by one, and are few: they stay as they are.
LOSSLESS_SIDE = 16
# JPEG works in blocks of 16: a cell of whole blocks keeps its neighbours' colours out.
BLOCK = 16
QUALITIES = (85, 70, 55, 40)
# With what all pictures share in pixels, so many of them fit into a page at the middle qualities.
MOST_PIXELS = 12_000_000
PAPER = (255, 255, 255)


@dataclass(frozen=True)
class Thumbnails:
    """Sheets as data URIs, and for each sample the number of its cell, counted through all sheets."""

    side: int
    cell: int
    sheets: tuple[str, ...]
    cells: dict[int, int]

    @property
    def is_coarse(self) -> bool:
        """Whether pixels are to be shown as they are when a picture is enlarged."""
        return self.side <= 32

    @property
    def sheet_side(self) -> int:
        """The width and height of a sheet in pixels."""
        return self.cell * COLUMNS


def thumbnails(pictures: Mapping[int, bytes], most_bytes: int) -> Thumbnails:
    """Bring encoded pictures, the most important first, into sheets of together at most `most_bytes`.

    What has no room is left out: its sample has no cell.
    """
    if not pictures:
        return Thumbnails(LOSSLESS_SIDE, LOSSLESS_SIDE, (), {})
    side = _side(pictures)
    cell = side if side <= LOSSLESS_SIDE else -(-side // BLOCK) * BLOCK
    sheets: list[str] = []
    cells: dict[int, int] = {}
    room, quality = most_bytes, 0
    for ids in _chunks(list(pictures)):
        sheet = _sheet([pictures[each] for each in ids], side, cell)
        quality = quality or _quality(sheet, len(ids), len(pictures), most_bytes, side)
        encoded = _encoded(sheet, side, quality)
        if len(encoded) > room:
            break
        room -= len(encoded)
        cells |= {sample: len(sheets) * PER_SHEET + place for place, sample in enumerate(ids)}
        sheets.append(encoded)
    return Thumbnails(side, cell, tuple(sheets), cells)


def opened(picture: bytes) -> Image.Image:
    """A stored picture as grey or RGB."""
    image: Image.Image = Image.open(io.BytesIO(picture))
    if image.mode in ("L", "RGB"):
        return image
    return image.convert("L" if image.mode in ("1", "I;16", "LA") else "RGB")


def _side(pictures: Mapping[int, bytes]) -> int:
    """As large as there is room for, and never larger than the pictures are."""
    native = max(max(opened(each).size) for each in islice(pictures.values(), 50))
    share = int(sqrt(MOST_PIXELS / max(len(pictures), 1)))
    return min(native, max(SMALLEST, min(share, LARGEST)))


def _chunks(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(ids), PER_SHEET):
        yield ids[start : start + PER_SHEET]


def _sheet(pictures: Sequence[bytes], side: int, cell: int) -> Image.Image:
    images = [opened(each) for each in pictures]
    mode = "L" if all(image.mode == "L" for image in images) else "RGB"
    sheet = Image.new(mode, (COLUMNS * cell, -(-len(images) // COLUMNS) * cell), PAPER[0] if mode == "L" else PAPER)
    for place, image in enumerate(images):
        row, column = divmod(place, COLUMNS)
        fitted = _fitted(image, side)
        left, top = (side - fitted.width) // 2, (side - fitted.height) // 2
        sheet.paste(fitted, (column * cell + left, row * cell + top))
    return sheet


def _fitted(image: Image.Image, side: int) -> Image.Image:
    if max(image.size) <= side:
        return image
    factor = side / max(image.size)
    size = (max(1, round(image.width * factor)), max(1, round(image.height * factor)))
    return image.resize(size, Image.Resampling.BOX)


def _quality(sheet: Image.Image, in_sheet: int, total: int, most_bytes: int, side: int) -> int:
    """The best quality at which all pictures have room, judged by the first sheet; else the lowest."""
    for quality in QUALITIES:
        if len(_encoded(sheet, side, quality)) * total / in_sheet <= most_bytes:
            return quality
    return QUALITIES[-1]


def _encoded(sheet: Image.Image, side: int, quality: int) -> str:
    file = io.BytesIO()
    if side <= LOSSLESS_SIDE:
        sheet.save(file, "PNG")
        kind = "png"
    else:
        sheet.save(file, "JPEG", quality=quality, optimize=True)
        kind = "jpeg"
    return f"data:image/{kind};base64,{b64encode(file.getvalue()).decode()}"
