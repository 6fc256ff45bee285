"""A shallow tree that tells failures from successes, its leaves as rules, and how much of the failures they hold.

The figures are those of Barlow (Singla et al., 2021), of a cluster C of a group, or of the leaves of a tree over it:

    ER    error rate: failures in C / samples in C; of the whole group it is BER, the base error rate
    EC    error coverage: failures in C / failures in the group
    IV    importance value: ER x EC
    ALER  average leaf error rate: the sum of IV over the leaves; some leaf has at least this error rate

ALER is never below BER, whatever the leaves are: it needs a comparison with what chance gives.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier

from actionflow.analysis.mutual_information import Sorted, mutual_information

DEEPEST = 3

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Features = NDArray[np.float32]


@dataclass(frozen=True)
class Condition:
    """One step of a rule: a feature, by its number among all of them, above a threshold or at most there."""

    feature: int
    above: bool
    threshold: float


@dataclass(frozen=True)
class Tree:
    """A binary tree as arrays over its nodes, the root first; at a leaf `left` and `right` are -1."""

    feature: Ints
    threshold: Floats
    left: Ints
    right: Ints

    def node_of(self, features: Features, depth: int) -> Ints:
        """The node where each sample (n, d) ends, in the tree cut off at a depth."""
        rows = np.arange(len(features))
        node = np.zeros(len(features), np.int64)
        for _ in range(depth):
            below = features[rows, self.feature[node]] <= self.threshold[node]
            node = np.where(self.left[node] < 0, node, np.where(below, self.left[node], self.right[node]))
        return node

    def rules(self, depth: int) -> dict[int, tuple[Condition, ...]]:
        """The leaves of the tree cut off at a depth: their nodes, and the conditions that lead there."""
        return self._rules_below(0, depth, ())

    def _rules_below(self, node: int, depth: int, path: tuple[Condition, ...]) -> dict[int, tuple[Condition, ...]]:
        if depth == 0 or self.left[node] < 0:
            return {node: _shortest(path)}
        found: dict[int, tuple[Condition, ...]] = {}
        for above, child in ((False, self.left[node]), (True, self.right[node])):
            step = Condition(int(self.feature[node]), above, float(self.threshold[node]))
            found |= self._rules_below(int(child), depth - 1, (*path, step))
        return found


@dataclass(frozen=True)
class Figures:
    """The leaves of a tree over a group, in numbers; a leaf that nothing fell into has no error rate."""

    samples: Ints
    failures: Ints

    @property
    def ber(self) -> float:
        """The base error rate: that of the whole group."""
        return float(self.failures.sum() / self.samples.sum())

    @property
    def er(self) -> Floats:
        """The error rate of each leaf; NaN where there is no sample."""
        unknown: Floats = np.full(len(self.samples), np.nan)
        return np.asarray(np.divide(self.failures, self.samples, out=unknown, where=self.samples > 0))

    @property
    def ec(self) -> Floats:
        """The error coverage of each leaf: its share of the group's failures."""
        coverage: Floats = self.failures / self.failures.sum()
        return coverage

    @property
    def iv(self) -> Floats:
        """The importance value of each leaf."""
        return np.nan_to_num(self.er) * self.ec

    @property
    def aler(self) -> float:
        """The average leaf error rate of the tree."""
        return float(self.iv.sum())

    @property
    def gain(self) -> float:
        """How far the tree lifts the error rate above that of the group: ALER - BER."""
        return self.aler - self.ber

    def valid(self, delta: float, tau: float) -> Bools:
        """Which leaves are worth a person's time: ER > BER + delta and EC > tau."""
        return (np.nan_to_num(self.er) > self.ber + delta) & (self.ec > tau)


def measure(node_of: Ints, failed: Bools, leaves: list[int]) -> Figures:
    """Count samples and failures in leaves, given where each sample ended."""
    places = np.searchsorted(leaves, node_of)
    return Figures(np.bincount(places, minlength=len(leaves)), np.bincount(places[failed], minlength=len(leaves)))


def fit_tree(features: Features, in_order: Sorted, failed: Bools, top: int, seed: int) -> Tree:
    """The tree over the features (n, d) that tell most about failure; a class weighs as much as the other."""
    told = mutual_information(in_order, failed)
    # What is the same everywhere tells nothing, though the noise that is added to it may seem to.
    told[np.ptp(features, axis=0) == 0] = -1
    chosen = np.argsort(-told, kind="stable")[:top]
    weight = {False: 1.0, True: float((~failed).sum() / failed.sum())}
    grower = DecisionTreeClassifier(criterion="entropy", max_depth=DEEPEST, class_weight=weight, random_state=seed)
    grown = grower.fit(features[:, chosen], failed).tree_
    # A leaf has no feature: any number will do, for it is never asked.
    feature = chosen[np.maximum(grown.feature, 0)]
    return Tree(feature, grown.threshold.copy(), grown.children_left.copy(), grown.children_right.copy())


def _shortest(path: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """Of two steps that bound a feature on the same side the later one is the tighter."""
    return tuple({(step.feature, step.above): step for step in path}.values())
