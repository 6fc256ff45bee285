"""Axes of scores: what they are called, and which are logarithmic."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Values that differ less are read more easily on a plain axis.
WORTH_A_LOGARITHM = 20
AXES = {
    "action": "action: loss summed over the epochs",
    "action_variance": "variance of the loss over the epochs",
    "entropy": "entropy of the last prediction (nats)",
    "last_loss": "loss in the last epoch",
}


def on_an_axis(values: Floats) -> tuple[Floats, bool, int]:
    """Where values lie on the axis, whether it is logarithmic, and how many stand at its edge for want of a place."""
    if not len(values) or values.min() < 0:
        return values, False, 0
    above = values[values > 0]
    if not len(above) or above.max() < WORTH_A_LOGARITHM * above.min():
        return values, False, 0
    # Beyond ten powers of ten there is only rounding.
    lowest = max(above.min(), above.max() * 1e-10)
    return np.maximum(values, lowest), True, int((values < lowest).sum())


def plain(text: str) -> str:
    r"""A name as it is: matplotlib would read $…$ as a formula.

    >>> plain("cnn $1$")
    'cnn \\$1\\$'
    """
    return text.replace("$", r"\$")
