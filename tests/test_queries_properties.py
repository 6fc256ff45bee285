"""What is true of the query files whatever the numbers are."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_queries import INF, NAN, actions, ask, losses, scores

LOSSES = st.floats(0, 100, width=32)
# Ties are frequent among them, and they are exact in binary: what should be equal is.
COARSE = st.integers(0, 12).map(lambda n: n / 4)
BROKEN = st.sampled_from([NAN, INF])
few = settings(max_examples=25, deadline=None)


def named(values):
    return {f"s{n}": x for n, x in enumerate(values)}


def labelled(run_id, values, labels):
    rows = [{"sample_id": n, "action": x, "label": c} for n, (x, c) in enumerate(zip(values, labels, strict=True))]
    return scores(*rows, run_id=run_id)


def brute_correlation(a, b):
    """Pearson's correlation by its definition; None where there is none."""
    a, b = np.asarray(a) - np.mean(a), np.asarray(b) - np.mean(b)
    spread = math.sqrt((a * a).sum()) * math.sqrt((b * b).sum())
    return (a * b).sum() / spread if spread > 1e-12 else None


def mean_ranks(values):
    """Rank by counting: those below, and half of those that are equal."""
    values = np.asarray(values)
    return [(values < x).sum() + ((values == x).sum() + 1) / 2 for x in values]


@few
@given(fate=st.lists(LOSSES, min_size=2, max_size=10), data=st.data())
def test_action_is_additive_over_epochs(fate, data):
    cut = data.draw(st.integers(1, len(fate) - 1))
    whole, rest = (ask("action_scores", {"burn_in": n}, dynamics=losses(s0=fate))[0]["action"] for n in (0, cut))
    (first,) = ask("action_scores", dynamics=losses(s0=fate[:cut]))
    assert whole == pytest.approx(first["action"] + rest, rel=1e-12)


SINGLE_RUN = [
    ("action_scores", {}),
    ("scores", {}),
    ("hardest", {"k": 3}),
    ("hardest", {"k": 2, "per_class": 1}),
    ("easiest", {"k": 3}),
    ("class_difficulty", {}),
    ("confusion", {}),
    ("accuracy_by_score", {"bins": 3}),
    ("curriculum", {"run_id": "a", "split": "val", "order": "random", "balanced": 1, "stages": 2}),
    ("run_correlation", {"run_a": "a", "run_b": "b"}),
    ("quantile_correlation", {"run_a": "a", "run_b": "b", "quantiles": 3, "least": 2}),
    ("disagreement", {"run_a": "a", "run_b": "b"}),
]


@pytest.mark.parametrize(("name", "parameters"), SINGLE_RUN)
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 1000))
def test_the_order_of_rows_does_not_matter(name, parameters, seed):
    draw = np.random.default_rng(seed)
    rows = [
        {
            "run_id": run_id,
            "sample_id": n,
            "action": draw.integers(0, 9) / 2,
            "label": n % 3,
            "prediction": draw.integers(0, 3),
        }
        for run_id in "ab"
        for n in range(12)
    ]
    view = scores(*({**row, "correct": row["label"] == row["prediction"]} for row in rows))
    epochs = losses(**named(draw.integers(0, 8, (5, 4)) / 2))
    views, shuffled = (
        {"scores": view.take(order), "dynamics": epochs.take(other)}
        for order, other in [(np.arange(24), np.arange(20)), (draw.permutation(24), draw.permutation(20))]
    )
    for row, expected in zip(ask(name, parameters, **shuffled), ask(name, parameters, **views), strict=True):
        assert row == {key: pytest.approx(x, rel=1e-12) if isinstance(x, float) else x for key, x in expected.items()}


@few
@given(pairs=st.lists(st.tuples(COARSE, COARSE, st.integers(0, 2)), min_size=1, max_size=24))
def test_correlations_agree_with_a_brute_force_loop(pairs):
    a, b, labels = (np.array(x) for x in zip(*pairs, strict=True))
    views = {"scores": [labelled("a", a.tolist(), labels.tolist()), labelled("b", b.tolist(), labels.tolist())]}
    rows = ask("run_correlation", {"run_a": "a", "run_b": "b"}, **views)
    assert [row["label"] for row in rows] == [None, *sorted(set(labels.tolist()))]
    for row in rows:
        members = np.ones(len(a), bool) if row["label"] is None else labels == row["label"]
        assert row["samples"] == members.sum()
        for name, (x, y) in {
            "pearson": (a[members], b[members]),
            "spearman": (mean_ranks(a[members]), mean_ranks(b[members])),
        }.items():
            expected = brute_correlation(x, y)
            assert row[name] == (None if expected is None else pytest.approx(expected, abs=1e-9))
            assert row[name] is None or -1 <= row[name] <= 1


@few
@given(
    pairs=st.lists(st.tuples(COARSE, COARSE), min_size=2, max_size=24),
    quantiles=st.integers(1, 8),
    side=st.sampled_from(["above", "below", "within"]),
)
def test_quantile_sets_agree_with_a_brute_force_loop(pairs, quantiles, side):
    a, b = (np.array(x) for x in zip(*pairs, strict=True))
    asked = {"run_a": "a", "run_b": "b", "quantiles": quantiles, "side": side, "least": 2}
    rows = ask(
        "quantile_correlation", asked, scores=[actions("a", **named(a.tolist())), actions("b", **named(b.tolist()))]
    )
    ordered, last = np.sort(a), len(a) - 1
    for n, row in enumerate(rows):
        at_or_above = a >= ordered[-(-last * n // quantiles)]
        above_next = a >= ordered[-(-last * (n + 1) // quantiles)] if n + 1 < quantiles else np.zeros(len(a), bool)
        at_or_below = a <= ordered[last * (n + 1) // quantiles]
        members = {"above": at_or_above, "below": at_or_below, "within": at_or_above & ~above_next}[side]
        assert row["samples"] == members.sum()
        expected = brute_correlation(a[members], b[members]) if members.sum() >= 2 else None
        assert row["pearson"] == (None if expected is None else pytest.approx(expected, abs=1e-9))


@few
@given(values=st.lists(COARSE, min_size=1, max_size=30), bins=st.integers(1, 12))
def test_bins_are_in_order_cover_all_samples_and_split_no_tie(values, bins):
    given_scores = scores(*({"sample_id": n, "action": x, "correct": True} for n, x in enumerate(values)))
    rows = ask("accuracy_by_score", {"bins": bins}, scores=given_scores)
    assert sum(row["samples"] for row in rows) == len(values)
    assert all(1 <= row["bin"] <= bins for row in rows)
    assert all(low["score_high"] < high["score_low"] for low, high in pairwise(rows))
    expected = {}
    for x in values:
        expected.setdefault(sum(y < x for y in values) * bins // len(values) + 1, []).append(x)
    assert {row["bin"]: row["samples"] for row in rows} == {
        number: len(members) for number, members in expected.items()
    }


@few
@given(samples=st.integers(1, 40), bins=st.integers(1, 12))
def test_bins_of_different_scores_are_as_equal_as_can_be(samples, bins):
    given_scores = scores(*({"sample_id": n, "action": float(n), "correct": True} for n in range(samples)))
    sizes = [row["samples"] for row in ask("accuracy_by_score", {"bins": bins}, scores=given_scores)]
    assert max(sizes) - min(sizes) <= 1


@few
@given(values=st.lists(COARSE, min_size=2, max_size=10), broken=st.lists(BROKEN, min_size=1, max_size=3))
def test_what_is_not_finite_is_reported_everywhere_and_never_averaged_away(values, broken):
    everything = values + broken
    view = labelled("a", everything, [0] * len(everything))
    (row,) = ask("class_difficulty", scores=view)
    assert (row["not_finite"], math.isfinite(row["mean_action"])) == (len(broken), False)
    hardest = ask("hardest", {"k": len(broken)}, scores=view)
    assert not any(math.isfinite(each["action"]) for each in hardest)
    judged = ask("accuracy_by_score", {"bins": 2}, scores=view)
    assert not math.isfinite(judged[-1]["score_mean"])
    both = [view, labelled("b", [1.0] * len(everything), [0] * len(everything))]
    for name in ("run_correlation", "quantile_correlation"):
        for each in ask(name, {"run_a": "a", "run_b": "b"}, scores=both):
            assert each["not_finite"] == len(broken)
            assert each["samples"] <= len(values)
    (curve,) = ask("loss_curves", dynamics=losses(**{name: [x] for name, x in named(everything).items()}))
    assert (curve["not_finite"], math.isfinite(curve["mean_loss"])) == (len(broken), False)


@few
@given(
    values=st.lists(COARSE, min_size=1, max_size=30),
    order=st.sampled_from(["easy-first", "hard-first", "random"]),
    fraction=st.integers(0, 20).map(lambda n: n / 20),
    drop=st.integers(0, 20).map(lambda n: n / 20),
    balanced=st.booleans(),
    stages=st.integers(1, 5),
    seed=st.integers(0, 2**40),
)
def test_a_curriculum_keeps_what_its_rules_say(values, order, fraction, drop, balanced, stages, seed):
    labels = [n % 3 for n in range(len(values))]
    asked = {
        "order": order,
        "fraction": fraction,
        "drop_hardest": drop,
        "balanced": int(balanced),
        "stages": stages,
        "seed": seed,
    }
    rows = ask("curriculum", {"run_id": "a", "split": "val", **asked}, scores=labelled("a", values, labels))
    sizes = np.bincount(labels) if balanced else [len(values)]
    left = [n - math.floor(drop * n + 0.5) for n in sizes]
    kept = sum(math.floor(fraction * m + 0.5) for m in left)
    assert [row["position"] for row in rows] == list(range(kept))
    assert len({row["sample_id"] for row in rows}) == kept
    assert [row["stage"] for row in rows] == [p * stages // kept for p in range(kept)]
    if not balanced and order != "random":
        found = [row["score"] for row in rows]
        assert found == sorted(found, reverse=order == "hard-first")


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_a_random_order_is_as_good_as_random(seed):
    """Neighbours in the data set, or the same sample under the next seed, do not come near each other."""
    assume(seed % 2147483647 < 2147483646)
    many = actions(**{f"s{n}": 0.0 for n in range(4000)})
    orders = [
        np.argsort(
            [
                row["sample_id"]
                for row in ask(
                    "curriculum", {"run_id": "a", "split": "val", "order": "random", "seed": each}, scores=many
                )
            ]
        )
        for each in (seed, seed + 1)
    ]
    position = orders[0]
    assert abs(np.corrcoef(position, np.arange(4000))[0, 1]) < 0.08
    assert abs(np.corrcoef(position[1:], position[:-1])[0, 1]) < 0.08
    assert abs(np.corrcoef(position, orders[1])[0, 1]) < 0.08
    halves = np.histogram(position[:400], bins=4, range=(0, 4000))[0]
    assert halves.min() > 60


def test_the_random_order_is_the_documented_formula():
    prime = 2147483647
    ids = [0, 1, 5, 49999, 2147483646, 2147483650]
    key = {
        n: pow((pow((48271 * (n % prime) + 69621 * 7 + 11) % prime, 5, prime) * 40692 + 7) % prime, 5, prime)
        for n in ids
    }
    view = actions(**{f"s{n}": 0.0 for n in ids})
    rows = ask("curriculum", {"run_id": "a", "split": "val", "order": "random", "seed": 7}, scores=view)
    assert [row["sample_id"] for row in rows] == sorted(ids, key=lambda n: (key[n], n))


def test_tables_in_pieces_are_whole():
    """A view over several files is one view."""
    pieces = [actions(s0=1.0), actions(s1=2.0)]
    assert ask("hardest", scores=pieces) == ask("hardest", scores=pa.concat_tables(pieces).combine_chunks())
