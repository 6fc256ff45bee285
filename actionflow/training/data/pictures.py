"""From encoded pictures of any kind to arrays of one shape."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from actionflow.errors import DataError
from actionflow.training.data.dataset import Images
from actionflow.training.data.known_sets import KnownSet
from actionflow.training.data.trouble import read_as

if TYPE_CHECKING:
    from PIL.Image import Image

Size = tuple[int, int]  # height and width

ENDINGS = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})
# Pictures that differ in size, or are larger than this, are scaled to it.
LARGEST = 64
SIXTEEN_BITS = frozenset({"I", "I;16", "I;16B", "I;16L", "I;16N"})


@dataclass(frozen=True)
class Picture:
    """An encoded picture, and the words by which a person finds it."""

    where: str
    content: Path | bytes | None


def common_size(pictures: Iterable[Picture]) -> Size:
    """The size that all pictures share if they are small, else the size to scale them to; only headers are read."""
    sizes = set()
    for picture in pictures:
        with _opened(picture) as image:
            width, height = image.size
        sizes.add((height, width))
        if len(sizes) > 1 or max(width, height) > LARGEST:
            return LARGEST, LARGEST
    return sizes.pop()


def decoded(pictures: Iterable[Picture], count: int, size: Size) -> Images:
    """`count` pictures in colour (count, 3, height, width), scaled to this size."""
    images = np.empty((count, 3, *size), np.uint8)
    for place, picture in enumerate(pictures):
        images[place] = _pixels(_opened(picture), picture.where, size)
    return images


def decoded_as(known: KnownSet, pictures: Iterable[Picture], count: int) -> Images:
    """`count` pictures as they are; a size or colour that the data set does not have is refused."""
    images = np.empty((count, known.channels, *known.size), np.uint8)
    for place, picture in enumerate(pictures):
        image = _opened(picture)
        _check_size(image, picture.where, known)
        pixels = _pixels(image, picture.where, known.size)
        images[place] = pixels if known.channels == 3 else _one_channel(pixels, picture.where, known)
    return images


def grey_if_all_are(images: Images) -> Images:
    """One channel instead of three, if no picture of (n, 3, height, width) has any colour."""
    return images if (images[:, 1:] != images[:, :1]).any() else np.ascontiguousarray(images[:, :1])


def scaled(images: Images, size: Size) -> Images:
    """The images of (n, channels, height, width) in another size."""
    result = np.empty((*images.shape[:2], *size), np.uint8)
    for place, image in enumerate(images):
        result[place] = _channels_first(_fitted(as_picture(image), size))
    return result


def as_picture(image: Images) -> Image:
    """One image of (channels, height, width) as Pillow has it."""
    from PIL import Image

    return Image.fromarray(image[0] if len(image) == 1 else np.ascontiguousarray(image.transpose(1, 2, 0)))


def _opened(picture: Picture) -> Image:
    from PIL import Image

    if picture.content is None:
        raise DataError(f"{picture.where} has no picture: put one there or leave the row out.")
    # Pillow's decoders raise nearly anything on damaged files.
    with read_as("a picture", picture.where, Exception):
        return Image.open(picture.content if isinstance(picture.content, Path) else io.BytesIO(picture.content))


def _check_size(image: Image, where: str, known: KnownSet) -> None:
    width, height = image.size
    if (height, width) != known.size:
        raise DataError(
            f"{where} is {height}x{width}, but the pictures of {known.name} are {known.side}x{known.side}: for "
            "pictures of your own type -e images -P data_dir=<folder>."
        )


def _one_channel(pixels: Images, where: str, known: KnownSet) -> Images:
    if (pixels[1:] != pixels[:1]).any():
        raise DataError(
            f"{where} is in colour, but the pictures of {known.name} are grey: for pictures of your own type -e images "
            "-P data_dir=<folder>."
        )
    return pixels[:1]


def _pixels(image: Image, where: str, size: Size) -> Images:
    with read_as("a picture", where, Exception), image:
        height, width = size
        # A large JPEG need not be decoded to its last pixel; twice the size leaves enough to scale smoothly.
        image.draft(None, (2 * width, 2 * height))
        return _channels_first(_fitted(_in_colour(image), size))


def _in_colour(image: Image) -> Image:
    """Eight bits of red, green and blue; what is transparent becomes white."""
    from PIL import Image

    if image.mode in SIXTEEN_BITS:
        levels = np.asarray(image).clip(0, 65535) >> 8
        return Image.fromarray(levels.astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise ValueError("its pixels are floating-point numbers instead of 8 bits")
    if image.has_transparency_data:
        solid = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", solid.size, "white"), solid).convert("RGB")
    return image.convert("RGB")


def _fitted(image: Image, size: Size) -> Image:
    from PIL import Image

    height, width = size
    return image if image.size == (width, height) else image.resize((width, height), Image.Resampling.BILINEAR)


def _channels_first(image: Image) -> Images:
    pixels = np.asarray(image)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
