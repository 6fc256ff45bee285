"""The arithmetic of explained failures: mutual information, trees, their figures, and what chance gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_selection import mutual_info_classif
from sklearn.tree import DecisionTreeClassifier

from actionflow.analysis.failure_modes import Terms, cut, explain_group, explain_groups, half, shuffles
from actionflow.analysis.failure_trees import Figures, fit_tree, measure
from actionflow.analysis.mutual_information import mutual_information, sort_features

few = settings(max_examples=40, deadline=None)


def made_up(samples=400, width=12, seed=0, base=0.1, bad=0.6):
    """Samples of which those with a high feature 3 mostly fail, and the others hardly ever."""
    draw = np.random.default_rng(seed)
    features = draw.normal(size=(samples, width)).astype(np.float32)
    failed = draw.random(samples) < np.where(features[:, 3] > 0.5, bad, base)
    return features, failed


# Mutual information


@pytest.mark.parametrize("kind", ["normal", "relu", "whole", "one number"])
def test_mutual_information_is_that_of_scikit_learn(kind):
    features, failed = made_up(300)
    made = {
        "normal": features,
        "relu": np.maximum(0, features),
        "whole": features.round(),
        "one number": features[:, 3:4],
    }[kind].astype(np.float32)
    expected = mutual_info_classif(made, failed, random_state=0)
    assert mutual_information(sort_features(made), failed) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("failures", [2, 4, 297])
def test_so_it_is_of_few_failures_or_successes(failures):
    features, _ = made_up(300)
    failed = np.random.default_rng(1).permutation(np.arange(300) < failures)
    expected = mutual_info_classif(features, failed, random_state=0)
    # Of so few scikit-learn takes distances from squares: rounded, one of 300 neighbours may count twice or not.
    assert mutual_information(sort_features(features), failed) == pytest.approx(expected, abs=5e-4)


def test_the_choice_of_features_is_that_of_scikit_learn():
    features, failed = made_up(500, 200)
    expected = np.argsort(-mutual_info_classif(features, failed, random_state=0), kind="stable")[:20]
    found = np.argsort(-mutual_information(sort_features(features), failed), kind="stable")[:20]
    assert found.tolist() == expected.tolist()


def test_a_constant_feature_is_never_chosen():
    features, failed = made_up(60)
    features[:, :3] = 1
    tree = fit_tree(features, sort_features(features), failed, 9, 0)
    assert not {step.feature for rule in tree.rules(3).values() for step in rule} & {0, 1, 2}


# The paper's figures


def test_the_figures_are_those_of_the_paper():
    """The purse of its figure 6 has others; these are the known numbers of its code on 1,406 samples."""
    found = Figures(np.array([395, 1011]), np.array([139, 145]))
    assert found.samples.sum() == 1406
    assert found.failures.sum() == 284
    assert found.ber == pytest.approx(0.2020, abs=5e-5)
    assert found.er[0] == pytest.approx(0.3519, abs=5e-5)
    assert found.ec[0] == pytest.approx(0.4894, abs=5e-5)
    assert found.iv[0] == pytest.approx(0.1722, abs=5e-5)
    assert found.aler == pytest.approx(0.2455, abs=5e-5)
    assert found.gain == found.aler - found.ber


def test_a_leaf_is_valid_by_its_error_rate_and_by_what_it_covers():
    """Of 1,000 samples 100 fail, so that BER is 0.1: a leaf needs an ER above 0.2 and a fifth of the failures."""
    rare, common, good = (30, 15), (200, 60), (770, 25)
    samples, failures = (np.array(each) for each in zip(rare, common, good, strict=True))
    assert Figures(samples, failures).valid(delta=0.1, tau=0.2).tolist() == [False, True, False]
    assert Figures(samples, failures).valid(delta=0.25, tau=0.2).tolist() == [False, False, False]


def test_a_leaf_that_nothing_fell_into_has_no_error_rate_and_no_importance():
    found = measure(np.array([1, 1, 1]), np.array([True, False, False]), [1, 2])
    assert np.isnan(found.er[1])
    assert found.iv[1] == 0
    assert not found.valid(0.1, 0.2)[1]


leaves = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=8)


@few
@given(leaves=leaves)
def test_some_leaf_has_at_least_alers_error_rate_and_aler_at_least_the_base(leaves):
    failures, successes = (np.array(each) for each in zip(*leaves, strict=True))
    if not failures.sum():
        return
    found = Figures(failures + successes, failures)
    assert np.nanmax(found.er) >= found.aler - 1e-12
    assert found.aler >= found.ber - 1e-12
    assert found.ec.sum() == pytest.approx(1)


# Trees


def test_a_tree_is_scikit_learns_and_cut_off_it_is_the_shallower_one():
    features, failed = made_up()
    tree = fit_tree(features, sort_features(features), failed, 5, 0)
    told = mutual_info_classif(features, failed, random_state=0)
    chosen = np.argsort(-told, kind="stable")[:5]
    for depth in (1, 2, 3):
        weight = {False: 1, True: (~failed).sum() / failed.sum()}
        theirs = DecisionTreeClassifier(criterion="entropy", max_depth=depth, class_weight=weight, random_state=0)
        expected = theirs.fit(features[:, chosen], failed).apply(features[:, chosen])
        found = tree.node_of(features, depth)
        assert len(set(zip(expected, found, strict=True))) == len(set(expected)) == len(set(found))
        assert set(found) == set(tree.rules(depth))


def test_a_rule_holds_for_exactly_the_samples_of_its_leaf():
    features, failed = made_up()
    tree = fit_tree(features, sort_features(features), failed, 5, 0)
    node_of = tree.node_of(features, 3)
    for node, rule in tree.rules(3).items():
        holds = np.ones(len(features), bool)
        for step in rule:
            above = features[:, step.feature] > step.threshold
            holds &= above if step.above else ~above
        assert (holds == (node_of == node)).all()
        assert len({(step.feature, step.above) for step in rule}) == len(rule)


# Halves, and chance


def test_a_half_has_half_of_the_failures():
    failed = np.arange(101) < 21
    chosen = half(failed, np.random.default_rng(0))
    assert (chosen & failed).sum() == 11
    assert (chosen & ~failed).sum() == 40


def test_shuffling_keeps_how_many_fail_in_each_half():
    failed, fitted = np.arange(60) < 20, np.arange(60) % 2 == 0
    for shuffled in shuffles(failed, fitted, 5, np.random.default_rng(0)):
        assert shuffled[fitted].sum() == failed[fitted].sum()
        assert shuffled[~fitted].sum() == failed[~fitted].sum()
        assert (shuffled != failed).any()


def test_a_planted_failure_is_found_and_beats_chance():
    features, failed = made_up()
    (group,) = explain_groups(features, np.zeros(len(failed), np.int64), failed, Terms())
    found = group.cuts[1]
    assert [(step.feature, step.above) for step in found.rules[0]] == [(3, True)]
    assert found.rules[0][0].threshold == pytest.approx(0.5, abs=0.2)
    assert found.first_is_valid(Terms()) == (True, True)
    assert found.held.gain > group.chance[1].gains.max()
    assert not group.chance[1].valid.any()


def test_where_nothing_tells_the_other_half_shows_it():
    """On its own half a tree of depth 3 finds something in pure noise, which is what the original reports."""
    features, failed = made_up(bad=0.2, base=0.2)
    (group,) = explain_groups(features, np.zeros(len(failed), np.int64), failed, Terms())
    assert group.cuts[3].fitted.gain > 3 * group.cuts[3].held.gain
    assert group.cuts[3].held.gain <= group.chance[3].gains.max()


def test_figures_are_of_the_samples_that_the_tree_was_not_fitted_on():
    features, failed = made_up()
    group = explain_group(0, np.arange(400), features, failed, Terms(permutations=0), np.random.default_rng(0))
    for depth, found in group.cuts.items():
        for n in range(len(found.nodes)):
            held = (group.leaf_of[depth] == n + 1) & ~group.fitted
            assert (held.sum(), (held & failed).sum()) == (found.held.samples[n], found.held.failures[n])
    assert group.chance[1].gains.size == 0


def test_the_same_seed_gives_the_same_whatever_else_is_explained():
    features, failed = made_up()
    labels = np.arange(400) % 2
    alone = explain_groups(features, labels, failed, Terms(permutations=2), only=1)
    both = explain_groups(features, labels, failed, Terms(permutations=2))
    other = explain_groups(features, labels, failed, Terms(permutations=2, seed=1))
    assert (alone[0].fitted == both[1].fitted).all()
    assert alone[0].cuts[3].rules == both[1].cuts[3].rules
    assert (alone[0].chance[3].gains == both[1].chance[3].gains).all()
    assert (other[1].fitted != both[1].fitted).any()


@pytest.mark.parametrize(
    ("failures", "reason"),
    [(0, "no failure"), (400, "no success"), (9, "9 failures, 10 are needed"), (391, "9 successes, 10 are needed")],
)
def test_a_class_that_cannot_be_explained_says_why(failures, reason):
    features, _ = made_up()
    (group,) = explain_groups(features, np.zeros(400, np.int64), np.arange(400) < failures, Terms())
    assert group.reason == reason
    assert not group.cuts


def test_features_that_never_vary_in_a_class_explain_nothing():
    (group,) = explain_groups(np.ones((40, 3), np.float32), np.zeros(40, np.int64), np.arange(40) < 20, Terms())
    assert group.reason == "no feature varies"


def test_a_tree_that_finds_no_step_has_one_leaf_that_holds_all():
    """Its features vary, but not on the half it is fitted on."""
    features, failed = np.zeros((40, 1), np.float32), np.arange(40) < 20
    features[0] = 1
    fitted = np.arange(40) % 2 == 1
    tree = fit_tree(features[fitted], sort_features(features[fitted]), failed[fitted], 20, 0)
    found = cut(tree, features, failed, fitted, 3)
    assert found.rules == ((),)
    assert found.held.aler == found.held.ber
