"""Explain the failures of each class by short rules: halves, trees, and what chance would have said.

A tree is fitted on one half of a class's samples, and measured on the other. The control does all of it again with the
failures shuffled: what remains is chance.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from actionflow.analysis.failure_trees import DEEPEST, Condition, Features, Figures, Tree, fit_tree, measure
from actionflow.analysis.mutual_information import Sorted, sort_features
from actionflow.errors import SettingsError

DEPTHS = tuple(range(1, DEEPEST + 1))

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Terms:
    """On what terms failures are explained.

    `top` features are chosen for a tree; a valid leaf has ER > BER + `delta` and EC > `tau`; a class with fewer than
    `least` failures or successes is not explained; the control shuffles `permutations` times.
    """

    top: int = 20
    delta: float = 0.1
    tau: float = 0.2
    least: int = 10
    permutations: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("top", 1), ("least", 4), ("permutations", 0), ("seed", 0)):
            if getattr(self, name) < least:
                raise SettingsError(f"{name} must be at least {least}, found {getattr(self, name)}.")
        for name in ("delta", "tau"):
            if not 0 <= getattr(self, name) < 1:
                raise SettingsError(f"{name} is a share from 0 to 1, found {getattr(self, name)}.")


@dataclass(frozen=True)
class Cut:
    """A tree cut off at one depth: its leaves, the most important first, on both halves.

    The order is that of the half that the tree was fitted on: the other one has no say in which rule is the first.
    """

    nodes: tuple[int, ...]
    rules: tuple[tuple[Condition, ...], ...]
    fitted: Figures
    held: Figures

    def leaf_of(self, node_of: Ints) -> Ints:
        """The numbers of leaves, from 1, the most important, given the nodes where samples ended."""
        number = np.zeros(max(self.nodes) + 1, np.int64)
        number[list(self.nodes)] = np.arange(1, len(self.nodes) + 1)
        return number[node_of]

    def first_is_valid(self, terms: Terms) -> tuple[bool, bool]:
        """Whether the most important leaf is valid: on the half it was fitted on, and on the other."""
        found, holds = self.are_valid(terms)
        return bool(found[0]), bool(holds[0])

    def holds(self, terms: Terms) -> bool:
        """Whether some leaf is valid on both halves."""
        found, holds = self.are_valid(terms)
        return bool((found & holds).any())

    def are_valid(self, terms: Terms) -> tuple[Bools, Bools]:
        """Which leaves are valid: on the half they were fitted on, and on the other."""
        return self.fitted.valid(terms.delta, terms.tau), self.held.valid(terms.delta, terms.tau)


@dataclass(frozen=True)
class Chance:
    """What the same procedure finds when failures are shuffled, at one depth, for each shuffle."""

    gains: NDArray[np.float64]
    valid: Bools


@dataclass(frozen=True)
class Group:
    """The failures of one class, explained; or the reason why they are not.

    `cuts` has the tree by depth, `leaf_of` the leaf of each sample, numbered from 1, the most important.
    """

    label: int
    rows: Ints
    failed: Bools
    reason: str | None = None
    fitted: Bools = field(default_factory=lambda: np.zeros(0, bool))
    cuts: Mapping[int, Cut] = field(default_factory=dict)
    leaf_of: Mapping[int, Ints] = field(default_factory=dict)
    chance: Mapping[int, Chance] = field(default_factory=dict)


def explain_groups(
    features: Features, labels: Ints, failed: Bools, terms: Terms, only: int | None = None, stream: int = 0
) -> list[Group]:
    """Explain the failures of every class, or of one, from the features (n, d) of all samples.

    `labels` says of which class each sample is; `stream` tells the draws of different groupings apart.
    """
    wanted = [int(label) for label in np.unique(labels) if only is None or label == only]

    def explained(label: int) -> Group:
        rows = np.flatnonzero(labels == label)
        draw = np.random.default_rng([terms.seed, stream, label % 2**32])
        return explain_group(label, rows, features[rows], failed[rows], terms, draw)

    # Sorting and searching let go of Python's lock; each class has draws of its own, so the order is of no account.
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        return list(threads.map(explained, wanted))


def explain_group(
    label: int, rows: Ints, features: Features, failed: Bools, terms: Terms, draw: np.random.Generator
) -> Group:
    """Explain the failures of one class."""
    reason = why_not(features, failed, terms.least)
    if reason:
        return Group(label, rows, failed, reason)
    fitted = half(failed, draw)
    in_order = sort_features(features[fitted], terms.seed)
    tree = fit_tree(features[fitted], in_order, failed[fitted], terms.top, terms.seed)
    cuts = {depth: cut(tree, features, failed, fitted, depth) for depth in DEPTHS}
    leaf_of = {depth: each.leaf_of(tree.node_of(features, depth)) for depth, each in cuts.items()}
    meaningless = shuffles(failed, fitted, terms.permutations, draw)
    shuffled = [_by_chance(features, in_order, each, fitted, terms) for each in meaningless]
    return Group(label, rows, failed, None, fitted, cuts, leaf_of, _chances(shuffled))


def why_not(features: Features, failed: Bools, least: int) -> str | None:
    """Why the failures of a class cannot be explained; None when they can."""
    failures, successes = int(failed.sum()), int((~failed).sum())
    if not failures:
        return "no failure"
    if not successes:
        return "no success"
    for count, what in ((failures, "failure"), (successes, "success")):
        if count < least:
            return f"{count} {what}{'' if count == 1 else 's' if what == 'failure' else 'es'}, {least} are needed"
    return None if np.ptp(features, axis=0).any() else "no feature varies"


def half(failed: Bools, draw: np.random.Generator) -> Bools:
    """One half of the samples, with half of the failures and half of the successes; of odd ones the larger half."""
    chosen = np.zeros(len(failed), bool)
    for kind in (failed, ~failed):
        places = draw.permutation(np.flatnonzero(kind))
        chosen[places[: (len(places) + 1) // 2]] = True
    return chosen


def shuffles(failed: Bools, fitted: Bools, times: int, draw: np.random.Generator) -> Iterator[Bools]:
    """Failures shuffled among the samples of each half: nothing but how they go with features is lost."""
    for _ in range(times):
        shuffled = failed.copy()
        for part in (fitted, ~fitted):
            shuffled[part] = draw.permutation(failed[part])
        yield shuffled


def cut(tree: Tree, features: Features, failed: Bools, fitted: Bools, depth: int) -> Cut:
    """Cut a tree off at a depth and measure its leaves on both halves."""
    rules = tree.rules(depth)
    node_of = tree.node_of(features, depth)
    nodes = sorted(rules)
    both = [measure(node_of[part], failed[part], nodes) for part in (fitted, ~fitted)]
    first = np.argsort(-both[0].iv, kind="stable")
    ranked = [Figures(each.samples[first], each.failures[first]) for each in both]
    return Cut(tuple(nodes[n] for n in first), tuple(rules[nodes[n]] for n in first), *ranked)


def _by_chance(
    features: Features, in_order: Sorted, failed: Bools, fitted: Bools, terms: Terms
) -> list[tuple[float, bool]]:
    """The gain, and whether some leaf holds, at each depth, of a tree for failures that mean nothing."""
    tree = fit_tree(features[fitted], in_order, failed[fitted], terms.top, terms.seed)
    cuts = [cut(tree, features, failed, fitted, depth) for depth in DEPTHS]
    return [(each.held.gain, each.holds(terms)) for each in cuts]


def _chances(shuffled: list[list[tuple[float, bool]]]) -> dict[int, Chance]:
    """The findings of each shuffle, by depth."""
    found = np.array(shuffled, float).reshape(-1, len(DEPTHS), 2)
    return {depth: Chance(found[:, n, 0], found[:, n, 1] > 0) for n, depth in enumerate(DEPTHS)}
