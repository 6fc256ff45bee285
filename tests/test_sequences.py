"""The signals of texts that a model writes, and of answers that it points at, against plain loops."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from scipy.stats import entropy
from torch.nn import functional

from actionflow.capture import best_spans, sequence_signals, sequences, span_signals

NONE = -100


def drawn(seed, rows=5, length=7, vocabulary=11, missing=0.3):
    """Logits and targets, some of which are missing."""
    draw = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, length, vocabulary, generator=draw) * 3
    targets = torch.randint(0, vocabulary, (rows, length), generator=draw)
    return logits, targets.masked_fill(torch.rand(rows, length, generator=draw) < missing, NONE)


def mean_entropy(logits, targets):
    kept = targets != NONE
    return entropy(softmax(logits[kept].numpy().astype(float), axis=1), axis=1).mean() if kept.any() else np.nan


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**31),
    rows=st.integers(1, 6),
    length=st.integers(1, 9),
    missing=st.sampled_from([0.0, 0.3, 0.9, 1.0]),
)
def test_a_sequence_is_the_mean_over_its_target_tokens(seed, rows, length, missing):
    logits, targets = drawn(seed, rows, length, missing=missing)
    signals, tokens = sequence_signals(logits, targets)
    pairs = list(zip(logits, targets, strict=True))
    # A text without any target has a mean of nothing: NaN in torch as here.
    expected = [functional.cross_entropy(*pair, ignore_index=NONE).item() for pair in pairs]
    np.testing.assert_allclose(signals["loss"], expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(signals["entropy"], [mean_entropy(*pair) for pair in pairs], rtol=1e-4, atol=1e-5)
    hits = [(some.argmax(1) == wanted)[wanted != NONE].float().mean().item() for some, wanted in pairs]
    np.testing.assert_allclose(signals["token_accuracy"], hits, rtol=1e-6)
    counts = [int((wanted != NONE).sum()) for wanted in targets]
    assert signals["tokens"].tolist() == tokens.counts.tolist() == counts


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**31))
def test_token_losses_come_text_after_text(seed):
    logits, targets = drawn(seed)
    _, tokens = sequence_signals(logits, targets)
    each = functional.cross_entropy(logits.transpose(1, 2), targets, ignore_index=NONE, reduction="none")
    by_text = torch.split(tokens.losses, tokens.counts.tolist())
    for found, losses, wanted in zip(by_text, each, targets, strict=True):
        np.testing.assert_allclose(found, losses[wanted != NONE], rtol=1e-5, atol=1e-5)
    assert tokens.tokens.tolist() == [token for row in targets.tolist() for token in row if token != NONE]


def test_a_text_without_targets_is_to_be_seen_and_leaves_the_others_alone():
    logits, targets = drawn(1)
    alone, _ = sequence_signals(logits[:2], targets[:2])
    targets[2] = NONE
    signals, _ = sequence_signals(logits, targets)
    assert signals["loss"].isnan().tolist() == signals["entropy"].isnan().tolist() == [False, False, True, False, False]
    assert torch.equal(signals["loss"][:2], alone["loss"])
    assert signals["tokens"][2] == 0


def test_padding_changes_nothing():
    logits, targets = drawn(2, missing=0.0)
    longer = torch.cat([logits, torch.full((5, 4, 11), 1e4)], dim=1)
    padded = functional.pad(targets, (0, 4), value=NONE)
    for name, values in sequence_signals(longer, padded)[0].items():
        assert torch.equal(values, sequence_signals(logits, targets)[0][name])


@pytest.mark.parametrize("at_once", [1, 77, 80, 300])
def test_it_does_not_matter_how_many_logits_are_looked_at_at_once(monkeypatch, at_once):
    logits, targets = drawn(3, rows=6)
    targets[4] = NONE
    whole, whole_tokens = sequence_signals(logits, targets)
    monkeypatch.setattr(sequences, "LOGITS_AT_ONCE", at_once)
    parts, part_tokens = sequence_signals(logits, targets)
    for name, values in whole.items():
        assert torch.equal(values.nan_to_num(-1), parts[name].nan_to_num(-1))
    assert torch.equal(whole_tokens.losses, part_tokens.losses)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
def test_logits_of_every_precision_are_taken(kind):
    logits, targets = drawn(4, missing=0.0)
    rounded = logits.to(kind)
    signals, _ = sequence_signals(rounded, targets)
    expected = [functional.cross_entropy(*pair).item() for pair in zip(rounded.float(), targets, strict=True)]
    assert signals["loss"].dtype == torch.float32
    np.testing.assert_allclose(signals["loss"], expected, rtol=1e-5)


def test_recording_leaves_the_gradients_alone():
    logits, targets = drawn(5)
    signals, tokens = sequence_signals(logits.requires_grad_(), targets)
    assert not any(values.requires_grad for values in [*signals.values(), tokens.losses])


# Answers


def pointed(seed, rows=6, length=8):
    draw = torch.Generator().manual_seed(seed)
    starts, ends = (torch.randn(rows, length, generator=draw) * 3 for _ in range(2))
    return starts, ends, *(torch.randint(0, length, (rows,), generator=draw) for _ in range(2))


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**31))
def test_an_answer_is_judged_by_both_its_ends(seed):
    starts, ends, first, last = pointed(seed)
    signals = span_signals(starts, ends, first, last)
    start = functional.cross_entropy(starts, first, reduction="none")
    end = functional.cross_entropy(ends, last, reduction="none")
    np.testing.assert_allclose(signals["start_loss"], start, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(signals["end_loss"], end, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(signals["loss"], (start + end) / 2, rtol=1e-5, atol=1e-6)
    together = softmax(starts.numpy(), axis=1)[range(6), first] * softmax(ends.numpy(), axis=1)[range(6), last]
    np.testing.assert_allclose(signals["confidence"], together, rtol=1e-4)
    spread = [entropy(softmax(each.numpy().astype(float), axis=1), axis=1) for each in (starts, ends)]
    np.testing.assert_allclose(signals["entropy"], sum(spread) / 2, rtol=1e-4, atol=1e-6)
    assert signals["correct"].tolist() == ((starts.argmax(1) == first) & (ends.argmax(1) == last)).tolist()


def test_how_long_the_others_in_a_batch_are_changes_no_answer():
    starts, ends, first, last = pointed(1)
    alone = span_signals(starts, ends, first, last)
    # What a model says of padding is noise, and may be loud.
    mask = functional.pad(torch.ones(6, 8), (0, 3))
    padded = span_signals(*(functional.pad(each, (0, 3), value=9.0) for each in (starts, ends)), first, last, mask)
    for name, values in alone.items():
        np.testing.assert_allclose(values, padded[name], rtol=1e-6)


def test_an_answer_that_was_cut_away_has_no_loss_and_is_not_right():
    starts, ends, first, last = pointed(2)
    last[0], first[1] = 8, -1
    signals = span_signals(starts, ends, first, last)
    assert signals["loss"].isnan().tolist() == [True, True, False, False, False, False]
    assert signals["correct"][:2].tolist() == [False, False]


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**31), longest=st.integers(1, 9), some=st.lists(st.booleans(), min_size=8, max_size=8))
def test_the_best_span_is_the_likeliest_of_all(seed, longest, some):
    starts, ends, *_ = pointed(seed)
    places = [place for place, is_allowed in enumerate(some) if is_allowed]
    if not places:
        return
    found = best_spans(starts, ends, torch.tensor([some] * 6), longest)
    for row in range(6):
        possible = [(a, b) for a in places for b in places if a <= b < a + longest]
        best = max(possible, key=lambda span: (starts[row, span[0]] + ends[row, span[1]]).item())
        assert tuple(found[row].tolist()) == best
