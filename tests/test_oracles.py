"""Scores and correlations equal those of the packages that people trust, on the same logits."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
import torch
from test_queries import FEATURES, answer, scores, trainings

from actionflow.capture import EpochRecorder
from actionflow.capture.forgetting import LastSeen
from actionflow.store import schema
from actionflow.store.writing import conform

stats = pytest.importorskip("scipy.stats")

SAMPLES, CLASSES, EPOCHS = 90, 5, 7
IDS = range(SAMPLES)


def close(value):
    return pytest.approx(value, rel=1e-6, abs=1e-6)


@pytest.fixture(scope="module")
def logits():
    """The logits of a training that learns: noise first, then more and more of the label."""
    draw, labels = np.random.default_rng(3), np.random.default_rng(4).integers(0, CLASSES, SAMPLES)
    talent = draw.uniform(-0.5, 1.5, SAMPLES)
    epochs = [draw.normal(0, 1.5, (SAMPLES, CLASSES)) for _ in range(EPOCHS)]
    for n, each in enumerate(epochs):
        each[np.arange(SAMPLES), labels] += n * talent
    return torch.tensor(np.stack(epochs), dtype=torch.float32), torch.tensor(labels)


@pytest.fixture(scope="module")
def dynamics(logits):
    """What the recorder makes of it."""
    epochs, labels = logits
    tables, seen = [], LastSeen.nothing()
    for n, each in enumerate(epochs):
        recorder = EpochRecorder("val", n, seen)
        recorder.add(torch.arange(SAMPLES), each, labels)
        table = recorder.table()
        seen = seen.after(table)
        tables.append(conform(table, "a"))
    return pa.concat_tables(tables)


@pytest.fixture(scope="module")
def scored(dynamics):
    """The rows of scores.sql, by sample."""
    rows = answer("scores", {"dynamics": dynamics}, {"el2n_epochs": 3}).to_pylist()
    assert [row["sample_id"] for row in rows] == list(IDS)
    return rows


def column(rows, name):
    return [row[name] for row in rows]


# Scores


def test_aum_is_that_of_the_aum_package(logits, scored, tmp_path):
    aum = pytest.importorskip("aum")
    calculator, (epochs, labels) = aum.AUMCalculator(str(tmp_path)), logits
    for each in epochs:
        last = calculator.update(each, labels, list(IDS))
    assert column(scored, "aum") == close([last[n].aum for n in IDS])


def test_aum_and_its_ranking_are_those_of_traintools(logits, dynamics, scored):
    traintools = pytest.importorskip("traintools")
    tracker, (epochs, labels) = traintools.AUMTracker(), logits
    for each in epochs:
        tracker.update(list(IDS), each, labels)
    assert column(scored, "aum") == close([tracker.examples[n].aum for n in IDS])
    listed = answer("aum", {"scores": as_scores(scored)}, {"k": 20}).to_pylist()
    assert column(listed, "sample_id") == [example.example_id for example in tracker.lowest_aum(20)]
    suspects = answer("label_suspects", {"scores": as_scores(scored)}, {"k": 20}).to_pylist()
    assert column(suspects, "sample_id") == column(listed, "sample_id")


def as_scores(rows):
    return pa.Table.from_pylist(rows, schema=schema.SCORES)


def test_cartography_and_forgetting_are_those_of_traintools(logits, scored):
    traintools = pytest.importorskip("traintools")
    tracker, (epochs, labels) = traintools.ExampleDynamicsTracker(), logits
    for n, each in enumerate(epochs):
        tracker.update(list(IDS), each, labels, step=n)
    expected = [tracker.examples[n] for n in IDS]
    assert column(scored, "confidence") == close([each.mean_confidence for each in expected])
    assert column(scored, "variability") == close([each.confidence_variability for each in expected])
    assert column(scored, "correctness") == close([each.accuracy for each in expected])
    assert column(scored, "ever_learnt") == [each.first_learned_step is not None for each in expected]
    learnt = [n for n in IDS if scored[n]["ever_learnt"]]
    assert [scored[n]["forgetting"] for n in learnt] == [expected[n].forgetting_events for n in learnt]
    assert 0 < len(learnt) < SAMPLES
    assert max(scored[n]["forgetting"] for n in learnt) > 1


def test_el2n_and_its_ranking_are_those_of_traintools(logits, dynamics, scored):
    traintools = pytest.importorskip("traintools")
    tracker, (epochs, labels) = traintools.EL2NTracker(), logits
    for each in epochs[:3]:
        tracker.update(list(IDS), each, labels)
    assert column(scored, "el2n") == close([tracker.examples[n].score for n in IDS])
    listed = answer("el2n", {"dynamics": dynamics}, {"k": 20, "el2n_epochs": 3}).to_pylist()
    assert column(listed, "sample_id") == [example.example_id for example in tracker.highest(20)]
    assert column(listed, "el2n") == close([example.score for example in tracker.highest(20)])


def test_confidence_is_the_mean_self_confidence_of_cleanlab(logits, scored):
    rank = pytest.importorskip("cleanlab.rank")
    epochs, labels = logits
    each = [
        rank.get_self_confidence_for_each_label(labels.numpy(), epoch.softmax(1).double().numpy()) for epoch in epochs
    ]
    assert column(scored, "confidence") == close(np.mean(each, axis=0))
    suspects = answer("label_suspects", {"scores": as_scores(scored)}, {"by": "confidence", "k": 10}).to_pylist()
    assert column(suspects, "sample_id") == np.argsort(np.mean(each, axis=0))[:10].tolist()


def test_action_and_entropy_are_those_of_numpy(logits, dynamics, scored):
    epochs, labels = logits[0].double().numpy(), logits[1].numpy()
    log_p = epochs - np.log(np.exp(epochs).sum(axis=2, keepdims=True))
    losses = -log_p[:, np.arange(SAMPLES), labels]
    assert column(scored, "action") == close(losses.sum(axis=0))
    assert column(scored, "action_mean") == close(losses.mean(axis=0))
    assert column(scored, "action_variance") == close(losses.var(axis=0))
    assert column(scored, "last_loss") == close(losses[-1])
    assert column(scored, "entropy") == close(-(np.exp(log_p[-1]) * log_p[-1]).sum(axis=1))
    ranked = answer("action_scores", {"dynamics": dynamics}, {"burn_in": 2}).to_pylist()
    late = losses[2:].sum(axis=0)
    assert column(ranked, "sample_id") == np.argsort(-late).tolist()
    assert column(ranked, "hardness_rank") == list(range(1, SAMPLES + 1))


# Correlations


def run_scores(run_id, values, labels):
    rows = [{"sample_id": n, "action": x, "label": c} for n, (x, c) in enumerate(zip(values, labels, strict=True))]
    return scores(*rows, run_id=run_id)


@pytest.fixture(scope="module", params=["smooth", "ties", "skewed"])
def two_runs(request):
    """Action of 300 samples in two runs: all different, many equal, or nearly all near zero and a few huge."""
    draw = np.random.default_rng(5)
    a = draw.gamma(1.5, 10, 300)
    b = a * np.exp(draw.normal(0, 0.5, 300))
    if request.param == "ties":
        a, b = np.round(a / 8), np.round(b / 8)
    if request.param == "skewed":
        a, b = np.exp(a / 2), np.exp(b / 2)
    return a, b, draw.integers(0, 4, 300)


@pytest.fixture(scope="module")
def two_runs_scores(two_runs):
    a, b, labels = two_runs
    return pa.concat_tables([run_scores("a", a, labels), run_scores("b", b, labels)])


AB = {"run_a": "a", "run_b": "b"}


def test_correlations_overall_and_by_class_are_those_of_scipy(two_runs, two_runs_scores):
    a, b, labels = two_runs
    rows = answer("run_correlation", {"scores": two_runs_scores}, AB).to_pylist()
    assert column(rows, "label") == [None, 0, 1, 2, 3]
    for row in rows:
        members = np.ones(300, bool) if row["label"] is None else labels == row["label"]
        pearson = stats.pearsonr(a[members], b[members])
        assert row["samples"] == members.sum()
        assert row["pearson"] == pytest.approx(pearson.statistic, abs=1e-9)
        assert (row["pearson_low"], row["pearson_high"]) == pytest.approx(
            tuple(pearson.confidence_interval(0.95)), abs=1e-9
        )
        assert row["spearman"] == pytest.approx(stats.spearmanr(a[members], b[members]).statistic, abs=1e-9)
        assert row["spearman_low"] < row["spearman"] < row["spearman_high"]


@pytest.mark.parametrize("quantiles", [1, 4, 20])
@pytest.mark.parametrize("side", ["above", "below", "within"])
def test_quantile_correlations_are_those_of_a_loop_over_scipy(two_runs, two_runs_scores, side, quantiles):
    a, b, _ = two_runs
    rows = answer(
        "quantile_correlation", {"scores": two_runs_scores}, {**AB, "side": side, "quantiles": quantiles}
    ).to_pylist()
    edges = np.sort(a), 299 * np.arange(quantiles + 1) / quantiles
    low = edges[0][np.ceil(edges[1] - 1e-9).astype(int)]
    high = edges[0][np.floor(edges[1] + 1e-9).astype(int)]
    for n, row in enumerate(rows):
        members = {
            "above": a >= low[n],
            "below": a <= high[n + 1],
            "within": (a >= low[n]) & ((a < low[n + 1]) | (n == quantiles - 1)),
        }[side]
        assert row["quantile"] == pytest.approx((n + (side == "below")) / quantiles)
        assert row["samples"] == members.sum()
        if members.sum() < 10 or np.ptp(a[members]) == 0:
            assert row["pearson"] is None
            continue
        expected = stats.pearsonr(a[members], b[members])
        assert row["pearson"] == pytest.approx(expected.statistic, abs=1e-8)
        assert (row["pearson_low"], row["pearson_high"]) == pytest.approx(
            tuple(expected.confidence_interval(0.95)), abs=1e-8
        )
    assert len(rows) == quantiles


def test_the_matrix_agrees_with_scipy_for_every_pair():
    draw = np.random.default_rng(6)
    base, labels = draw.gamma(1.5, 10, 80), np.zeros(80, int)
    values = {run_id: np.round(base * np.exp(draw.normal(0, 0.5, 80))) for run_id in "abc"}
    views = {
        "scores": pa.concat_tables([run_scores(run_id, x, labels) for run_id, x in values.items()]),
        "runs": trainings(*({"run_id": run_id, "name": run_id, "model": "cnn"} for run_id in "abc")),
    }
    rows = answer("agreement_matrix", views, {}).to_pylist()
    assert [(row["run_a"], row["run_b"]) for row in rows] == list(combinations("abc", 2))
    for row in rows:
        pair = values[row["run_a"]], values[row["run_b"]]
        assert row["pearson"] == pytest.approx(stats.pearsonr(*pair).statistic, abs=1e-9)
        assert row["spearman"] == pytest.approx(stats.spearmanr(*pair).statistic, abs=1e-9)


def test_disagreement_is_the_gap_of_scipys_ranks(two_runs, two_runs_scores):
    a, b, _ = two_runs
    hardness = [(stats.rankdata(x, "min") - 1) / 299 for x in (a, b)]
    gap = hardness[0] - hardness[1]
    rows = answer("disagreement", {"scores": two_runs_scores}, {**AB, "k": 5}).to_pylist()
    order = [np.lexsort((np.arange(300), -gap))[:5], np.lexsort((np.arange(300), gap))[:5]]
    assert column(rows, "sample_id") == np.concatenate(order).tolist()
    assert column(rows, "gap") == pytest.approx(np.abs(gap[np.concatenate(order)]))


# Distributions


def test_quantiles_of_a_class_are_numpys(two_runs, two_runs_scores):
    a, _, labels = two_runs
    rows = answer("class_difficulty", {"scores": two_runs_scores}, {}).to_pylist()
    for row in (row for row in rows if row["run_id"] == "a"):
        members = a[labels == row["label"]]
        assert row["mean_action"] == pytest.approx(members.mean())
        found = [row["action_p10"], row["action_p50"], row["action_p90"]]
        assert found == pytest.approx(np.quantile(members, [0.1, 0.5, 0.9]))


def test_the_ambiguous_are_above_numpys_quantile(scored):
    confidence, variability = np.array(column(scored, "confidence")), np.array(column(scored, "variability"))
    ambiguous = variability >= np.quantile(variability, 0.67)
    expected = np.where(ambiguous, "ambiguous", np.where(confidence >= 0.5, "easy", "hard"))
    rows = answer("cartography", {"scores": as_scores(scored)}, {}).to_pylist()
    assert {row["sample_id"]: row["region"] for row in rows} == dict(enumerate(expected.tolist()))
    assert len(set(expected)) == 3


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_distances_are_scipys(metric):
    spatial = pytest.importorskip("scipy.spatial")
    points = np.array(FEATURES["feature"].to_pylist())
    rows = answer("neighbours", {"features": FEATURES}, {"sample_id": 2, "metric": metric}).to_pylist()
    expected = spatial.distance.cdist(points[2:3], points, metric)[0]
    assert column(rows, "distance") == close([expected[row["neighbour_id"]] for row in rows])
    assert column(rows, "distance") == sorted(column(rows, "distance"))
