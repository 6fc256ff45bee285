"""Pictures whose sides are no multiple of what a network halves: padded with zeros, as evenly as it goes."""

from __future__ import annotations

from torch import Tensor

# As torch counts: before and after the last side, then before and after the one before it.
Padding = tuple[int, int, int, int]


def padded(image_size: tuple[int, int], step: int) -> Padding:
    """The zeros around a picture of this height and width that make both sides multiples of `step`.

    >>> padded((28, 32), 16), padded((9, 9), 16)
    ((0, 0, 2, 2), (3, 4, 3, 4))
    """
    height, width = image_size
    return (*_around(width, step), *_around(height, step))


def cropped(images: Tensor, padding: Padding, image_size: tuple[int, int]) -> Tensor:
    """Padded pictures as they were before."""
    left, _, top, _ = padding
    height, width = image_size
    return images[..., top : top + height, left : left + width]


def _around(side: int, step: int) -> tuple[int, int]:
    lacking = -side % step
    return lacking // 2, lacking - lacking // 2
