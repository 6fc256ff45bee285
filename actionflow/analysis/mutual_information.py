"""Mutual information of many numbers with one yes or no: which features tell most about failure.

The estimate is that of Ross (2014), as in scikit-learn's `mutual_info_classif`, and equal to it up to rounding:

    psi(n) + mean psi(k) - mean psi(samples of its kind) - mean psi(samples as near as its k-th neighbour of its kind)

scikit-learn builds trees of neighbours for each feature. In one dimension neighbours stand side by side once they are
sorted, so here all features are sorted together, and sorted only once for however many shuffled yes and no.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

# scikit-learn's default.
NEIGHBOURS = 3
# Features are taken so many numbers at a time: what a core keeps close to it is read fastest.
NUMBERS_AT_ONCE = 100_000

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Sorted:
    """Features side by side (d, n), each sorted, and which sample stands at each place."""

    values: Floats
    order: NDArray[np.intp]


def sort_features(features: NDArray[np.floating], seed: int = 0) -> Sorted:
    """Scale features (n, d), tell equal values apart by noise too small to matter, as scikit-learn does, and sort."""
    values = features.astype(np.float64)
    spread = values.std(axis=0)
    # What scikit-learn calls constant.
    spread[spread < 10 * np.finfo(np.float64).eps] = 1
    values /= spread
    size = 1e-10 * np.maximum(1, np.abs(values).mean(axis=0))
    values += size * np.random.RandomState(seed).standard_normal(values.shape)
    rows = np.ascontiguousarray(values.T)
    order = np.argsort(rows, axis=1)
    return Sorted(np.take_along_axis(rows, order, axis=1), order)


def mutual_information(features: Sorted, failed: Bools, neighbours: int = NEIGHBOURS) -> Floats:
    """What each feature tells of failure, in nats; never negative.

    >>> draw = np.random.default_rng(0)
    >>> failed = np.arange(200) % 2 == 0
    >>> telling, noise = draw.normal(3 * failed), draw.normal(size=200)
    >>> mutual_information(sort_features(np.column_stack([telling, noise])), failed).round(1).tolist()
    [0.5, 0.0]
    """
    kinds = (int(failed.sum()), int((~failed).sum()))
    if min(kinds) < 2:
        raise ValueError(f"two samples of each kind are needed, found {kinds}")
    block = max(1, NUMBERS_AT_ONCE // len(failed))
    starts = range(0, len(features.values), block)
    psi = np.concatenate([[0.0], digamma(np.arange(1, len(failed) + 1))])
    near = [_near(features.values[at : at + block], failed[features.order[at : at + block]], psi) for at in starts]
    nearest = [min(neighbours, kind - 1) for kind in kinds]
    known = sum(kind * (psi[k] - psi[kind]) for kind, k in zip(kinds, nearest, strict=True)) / len(failed)
    return np.asarray(np.maximum(0, psi[len(failed)] + known - np.concatenate(near)))


def _near(values: Floats, failed: Bools, psi: Floats, neighbours: int = NEIGHBOURS) -> Floats:
    """For each feature, the mean psi of how many samples stand within the radius of each sample."""
    fails, rest = (values[kind].reshape(len(values), -1) for kind in (failed, ~failed))
    total = _sum_near(fails, rest, psi, neighbours) + _sum_near(rest, fails, psi, neighbours)
    mean: Floats = total / values.shape[1]
    return mean


def _sum_near(own: Floats, others: Floats, psi: Floats, neighbours: int) -> Floats:
    k = min(neighbours, own.shape[1] - 1)
    radius = _radius(own, k)
    # Of its own kind there are k within the radius, itself among them and the k-th neighbour not.
    near = _between(others, own - radius, own + radius) + k
    total: Floats = psi[near].sum(axis=1)
    return total


def _radius(own: Floats, k: int) -> Floats:
    """The distance to the k-th nearest neighbour in sorted rows: the narrowest of the windows of k + 1 around it."""
    windows = own.shape[1] - k
    radius = np.full(own.shape, np.inf)
    for before in range(k + 1):
        here = own[:, before : windows + before]
        far = np.maximum(here - own[:, :windows], own[:, k:] - here)
        known = radius[:, before : windows + before]
        np.minimum(known, far, out=known)
    return radius


def _between(rows: Floats, low: Floats, high: Floats) -> NDArray[np.intp]:
    """How many numbers of each sorted row lie strictly between bounds, which rise along the row and are soon found."""
    count = np.empty(low.shape, np.intp)
    for place, row in enumerate(rows):
        count[place] = row.searchsorted(high[place], "left")
        count[place] -= row.searchsorted(low[place], "right")
    return count
