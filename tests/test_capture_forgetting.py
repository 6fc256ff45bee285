"""Forgetting over epochs: right when it was last seen, wrong now."""

from __future__ import annotations

import pytest

from actionflow.capture import EpochRecorder
from actionflow.capture.forgetting import LastSeen

RIGHT, WRONG, AWAY = "right", "wrong", "away"


def forgotten_epochs(**fates):
    """For samples named s0, s1, … and what they did in each epoch: the epochs in which each was forgotten."""
    ids = {name: int(name[1:]) for name in fates}
    found = {name: [] for name in fates}
    seen = LastSeen.nothing()
    for epoch in range(max(map(len, fates.values()))):
        here = [name for name in fates if fates[name][epoch] != AWAY]
        recorder = EpochRecorder("val", epoch, seen)
        logits = [[1.0, 0.0] if fates[name][epoch] == RIGHT else [0.0, 1.0] for name in here]
        recorder.add([ids[name] for name in here], logits, [0] * len(here))
        table = recorder.table()
        lost = table.filter(table["forgotten"])["sample_id"].to_pylist()
        for name in fates:
            found[name] += [epoch] if ids[name] in lost else []
        seen = seen.after(table)
    return found


def test_a_sample_is_forgotten_when_it_turns_from_right_to_wrong():
    assert forgotten_epochs(s0=[RIGHT, WRONG, WRONG, RIGHT, WRONG]) == {"s0": [1, 4]}


def test_nothing_is_forgotten_in_the_first_epoch():
    assert forgotten_epochs(s0=[WRONG], s1=[RIGHT]) == {"s0": [], "s1": []}


def test_a_sample_never_learnt_is_never_forgotten():
    assert forgotten_epochs(s0=[WRONG, WRONG, WRONG]) == {"s0": []}


def test_a_sample_that_missed_an_epoch_is_compared_with_when_it_was_last_seen():
    assert forgotten_epochs(s0=[RIGHT, AWAY, WRONG], s1=[WRONG, RIGHT, RIGHT]) == {"s0": [2], "s1": []}


def test_a_sample_that_comes_late_was_never_right_before():
    assert forgotten_epochs(s1=[RIGHT, WRONG], s9=[AWAY, WRONG]) == {"s1": [1], "s9": []}


@pytest.mark.parametrize("away", [0, 1, 2])
def test_samples_that_come_and_go_do_not_disturb_their_neighbours(away):
    fates = {f"s{n}": [RIGHT, RIGHT, WRONG] for n in range(3)}
    fates[f"s{away}"] = [RIGHT, AWAY, WRONG]
    assert forgotten_epochs(**fates) == {"s0": [2], "s1": [2], "s2": [2]}


def test_the_order_of_a_shuffled_loader_does_not_matter():
    assert forgotten_epochs(s2=[RIGHT, WRONG], s0=[WRONG, RIGHT], s1=[RIGHT, RIGHT]) == {"s2": [1], "s0": [], "s1": []}


def test_what_was_last_seen_is_kept_sorted_and_whole():
    seen = LastSeen.nothing()
    for epoch, ids in enumerate([[5, 1], [3], [1, 9]]):
        recorder = EpochRecorder("val", epoch, seen)
        recorder.add(ids, [[1.0, 0.0]] * len(ids), [epoch % 2] * len(ids))
        seen = seen.after(recorder.table())
    assert seen.sample_ids.tolist() == [1, 3, 5, 9]
    assert seen.correct.tolist() == [True, False, True, True]
