"""The signals of a classification batch, against packages that people trust."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from scipy.stats import entropy
from sklearn.metrics import accuracy_score, log_loss

from actionflow.capture import classification_signals

INF = math.inf


def signals_of(logits, targets):
    """Signals as plain lists."""
    found = classification_signals(torch.as_tensor(logits), torch.as_tensor(targets))
    return {name: values.tolist() for name, values in found.items()}


@pytest.fixture
def batch():
    draw = np.random.default_rng(0)
    return draw.normal(0, 3, (200, 7)).astype(np.float32), draw.integers(0, 7, 200)


@pytest.fixture
def found(batch):
    return {name: values.numpy() for name, values in classification_signals(*map(torch.from_numpy, batch)).items()}


# Against oracles


def test_loss_is_the_negative_log_softmax_of_the_target(batch, found):
    logits, targets = batch
    expected = -log_softmax(logits, axis=1)[np.arange(200), targets]
    np.testing.assert_allclose(found["loss"], expected, rtol=1e-5, atol=1e-6)


def test_the_mean_loss_is_scikit_learns_log_loss(batch, found):
    logits, targets = batch
    assert found["loss"].mean() == pytest.approx(log_loss(targets, softmax(logits.astype(float), axis=1)), rel=1e-5)


def test_loss_is_what_torch_trains_on(batch, found):
    logits, targets = map(torch.from_numpy, batch)
    expected = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    np.testing.assert_allclose(found["loss"], expected, rtol=1e-6)


def test_confidence_is_the_probability_of_the_target(batch, found):
    logits, targets = batch
    np.testing.assert_allclose(found["confidence"], softmax(logits, axis=1)[np.arange(200), targets], rtol=1e-5)


def test_entropy_is_scipys_in_nats(batch, found):
    np.testing.assert_allclose(found["entropy"], entropy(softmax(batch[0], axis=1), axis=1), rtol=1e-4, atol=1e-6)


def test_margin_is_the_target_logit_minus_the_largest_other(batch, found):
    logits, targets = batch
    expected = [row[t] - np.delete(row, t).max() for row, t in zip(logits, targets, strict=True)]
    np.testing.assert_array_equal(found["margin"], expected)


def test_el2n_is_the_norm_and_not_its_square(batch, found):
    logits, targets = batch
    expected = np.linalg.norm(softmax(logits, axis=1) - np.eye(7)[targets], axis=1)
    np.testing.assert_allclose(found["el2n"], expected, rtol=1e-5, atol=1e-6)


def test_prediction_and_correct_are_argmax(batch, found):
    logits, targets = batch
    np.testing.assert_array_equal(found["prediction"], logits.argmax(axis=1))
    assert found["correct"].mean() == pytest.approx(accuracy_score(targets, found["prediction"]))


# Small numbers


def test_an_even_bet_of_four_has_the_entropy_of_two_bits():
    found = signals_of([[1.0, 1.0, 1.0, 1.0]], [2])
    assert found["entropy"] == [pytest.approx(2 * math.log(2))]
    assert found["confidence"] == [pytest.approx(0.25)]
    assert found["margin"] == [0.0]


def test_a_sure_mistake_has_the_el2n_of_a_diagonal():
    found = signals_of([[0.0, 100.0]], [0])
    assert (found["el2n"], found["loss"]) == ([pytest.approx(math.sqrt(2))], [100.0])
    assert (found["margin"], found["correct"], found["prediction"]) == ([-100.0], [False], [1])


def test_a_tie_goes_to_the_first_class():
    assert signals_of([[5.0, 5.0]], [0])["correct"] == [True]
    assert signals_of([[5.0, 5.0]], [1])["correct"] == [False]


def test_a_batch_of_one_and_one_of_none():
    assert signals_of([[2.0, 0.0]], [0])["margin"] == [2.0]
    assert signals_of(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64))["loss"] == []


def test_a_single_class_is_always_right_by_an_infinite_margin():
    found = signals_of([[3.0]], [0])
    assert (found["loss"], found["entropy"], found["el2n"], found["margin"]) == ([0.0], [0.0], [0.0], [INF])


@pytest.mark.parametrize("kind", [torch.uint8, torch.int32, torch.int64])
def test_targets_may_be_any_whole_numbers(kind):
    assert signals_of([[2.0, 0.0]], torch.tensor([1], dtype=kind))["margin"] == [-2.0]


# Precision


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float64])
def test_the_arithmetic_is_float32_whatever_the_model_ran_in(kind):
    logits = torch.tensor([[1.0, 0.5, -3.0]], dtype=kind)  # all three are exact in each kind
    assert signals_of(logits, [1]) == signals_of(logits.float(), [1])
    floats = ["loss", "confidence", "entropy", "margin", "el2n"]
    found = classification_signals(logits, torch.tensor([1]))
    assert {found[name].dtype for name in floats} == {torch.float32}


def test_signals_carry_no_gradient():
    logits = torch.zeros(2, 3, requires_grad=True)
    assert not any(values.requires_grad for values in classification_signals(logits, torch.tensor([0, 1])).values())


def test_huge_logits_do_not_overflow():
    found = signals_of([[1e30, -1e30]], [0])
    assert (found["loss"], found["entropy"], found["confidence"]) == ([0.0], [0.0], [1.0])


def test_a_class_that_is_masked_out_takes_no_part():
    masked, without = signals_of([[1.0, -INF, 0.0]], [0]), signals_of([[1.0, 0.0]], [0])
    assert {name: masked[name] for name in without if name != "prediction"} == {
        name: without[name] for name in without if name != "prediction"
    }


def test_a_target_that_is_masked_out_has_an_infinite_loss_and_a_finite_el2n():
    found = signals_of([[-INF, 0.0]], [0])
    assert (found["loss"], found["margin"], found["confidence"], found["entropy"]) == ([INF], [-INF], [0.0], [0.0])
    assert found["el2n"] == [pytest.approx(math.sqrt(2))]


def test_a_nan_stays_a_nan_and_is_never_right():
    """argmax points at the NaN: label 0 would look predicted."""
    found = signals_of([[math.nan, 0.0]], [0])
    assert math.isnan(found["loss"][0])
    assert found["correct"] == [False]
