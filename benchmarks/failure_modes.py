"""How long does it take to explain the failures of 100 classes x 1,300 samples x 2,048 features, in both groupings?

Trees of depth 3, cut off at each depth, with the permutation control of five shuffles for each class. Nearly all of it
is mutual information, which is what was worked on: all features of a class are sorted at once, neighbours are then
found by a window and by binary search, and a shuffle needs no second sort. Beside it scikit-learn's call on the same
class, which gives the same numbers.
"""

from __future__ import annotations

import time

import numpy as np
from measuring import GIGABYTE, Target, end, forget_peak, is_quick, peak_memory, seconds, show
from numpy.typing import NDArray
from sklearn.feature_selection import mutual_info_classif

from actionflow.analysis.failure_modes import Group, Terms, explain_groups
from actionflow.analysis.mutual_information import mutual_information, sort_features

FAILING = 0.25


def made_up(
    classes: int, each: int, width: int
) -> tuple[NDArray[np.float32], dict[str, NDArray[np.int64]], NDArray[np.bool_]]:
    """Features as a ReLU leaves them, and failures that go with one of them in every class."""
    draw = np.random.default_rng(0)
    features = draw.standard_normal((classes * each, width), np.float32)
    np.maximum(features, 0, out=features)
    labels = np.repeat(np.arange(classes), each)
    failed = draw.random(len(labels)) < np.where(
        features[np.arange(len(labels)), labels % width] > 0.8, 0.6, FAILING / 2
    )
    taken_for = np.where(failed, draw.permutation(labels), labels)
    return features, {"label": labels, "prediction": taken_for}, failed


def main() -> None:
    quick = is_quick(__doc__)
    classes, each, width = (4, 120, 64) if quick else (100, 1_300, 2_048)
    features, groupings, failed = made_up(classes, each, width)
    forget_peak()
    started = time.perf_counter()
    groups: dict[str, list[Group]] = {
        name: explain_groups(features, labels, failed, Terms(), stream=place)
        for place, (name, labels) in enumerate(groupings.items())
    }
    took, memory = time.perf_counter() - started, peak_memory() / GIGABYTE
    one = groupings["label"] == 0
    some, wrong = features[one], failed[one]
    ours = seconds(lambda: mutual_information(sort_features(some), wrong))
    theirs = seconds(lambda: mutual_info_classif(some, wrong, random_state=0))
    explained = sum(group.reason is None for each_group in groups.values() for group in each_group)
    show(
        f"{classes} classes x {each:,} samples x {width:,} features, {explained} groups explained",
        ["", "seconds"],
        [
            ["both groupings, depths 1 to 3, five shuffles each", took],
            ["mutual information of one class, ours", ours],
            ["mutual information of one class, scikit-learn", theirs],
        ],
    )
    end([Target("seconds", took, 120), Target("gigabytes", memory, 4)], quick)


if __name__ == "__main__":
    main()
