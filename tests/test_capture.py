"""One epoch of one split: batches of any size in any order go in, a table sorted by sample comes out."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
import torch

from actionflow.capture import EpochRecorder, classification_signals, recorder
from actionflow.errors import RecordingError

CLASSES = 3


def logits_of(ids):
    """Logits that tell their sample: class 0 says id, class 1 says -id."""
    ids = torch.as_tensor(ids, dtype=torch.float32)
    return torch.stack([ids, -ids, torch.zeros_like(ids)], dim=1)


def recorded(*batches, split="val", epoch=0):
    """The table of batches of ids, every sample labelled 0."""
    epoch_recorder = EpochRecorder(split, epoch)
    for ids in batches:
        epoch_recorder.add(ids, logits_of(ids), [0] * len(ids))
    return epoch_recorder.table()


def margins(table):
    """Margin by sample: the id itself for ids above 0, since class 2 says 0."""
    return dict(zip(table["sample_id"].to_pylist(), table["margin"].to_pylist(), strict=True))


# Batches


def test_rows_are_sorted_by_sample_whatever_the_order_of_the_loader():
    table = recorded([5, 2], [9, 1])
    assert table["sample_id"].to_pylist() == [1, 2, 5, 9]
    assert margins(table) == {1: 1.0, 2: 2.0, 5: 5.0, 9: 9.0}


def test_a_ragged_last_batch_shifts_nothing():
    assert margins(recorded([1, 2, 3, 4], [5, 6, 7, 8], [9])) == {n: float(n) for n in range(1, 10)}


def test_batches_of_one_are_batches():
    assert margins(recorded([3], [1], [2])) == {1: 1.0, 2: 2.0, 3: 3.0}


def test_an_empty_batch_adds_nothing():
    none = torch.zeros(0, dtype=torch.int64)
    assert margins(recorded(none, [1], none)) == {1: 1.0}


def test_ids_in_order_are_left_as_they_are():
    assert margins(recorded([1, 2], [3, 4])) == {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0}


def test_ids_may_be_big_and_far_apart():
    assert recorded([2**62, 7, 2**40]).column("sample_id").to_pylist() == [7, 2**40, 2**62]


def test_ids_may_start_anywhere():
    assert recorded([1003, 1001, 1002])["sample_id"].to_pylist() == [1001, 1002, 1003]


@pytest.mark.parametrize("batch_size", [1, 7, 32, 1000])
def test_the_size_of_batches_changes_no_signal(batch_size, monkeypatch):
    """Small batches wait for each other: the table is the one of all samples at once."""
    monkeypatch.setattr(recorder, "ROWS_PER_CHUNK", 50)
    draw = torch.Generator().manual_seed(0)
    ids, logits = torch.randperm(101, generator=draw), torch.randn(101, CLASSES, generator=draw)
    targets = torch.randint(0, CLASSES, (101,), generator=draw)
    epoch_recorder = EpochRecorder("train", 4)
    for start in range(0, 101, batch_size):
        cut = slice(start, start + batch_size)
        epoch_recorder.add(ids[cut], logits[cut], targets[cut])
    table = epoch_recorder.table()
    order = ids.argsort()
    for name, values in classification_signals(logits, targets).items():
        np.testing.assert_allclose(table[name].to_numpy(), values[order].numpy(), rtol=1e-6, err_msg=name)


def test_many_logits_are_settled_before_many_rows(monkeypatch):
    monkeypatch.setattr(recorder, "LOGITS_PER_CHUNK", 4)
    epoch_recorder = EpochRecorder("val", 0)
    epoch_recorder.add([1, 2], logits_of([1, 2]), [0, 0])
    assert not epoch_recorder._waiting
    assert margins(epoch_recorder.table()) == {1: 1.0, 2: 2.0}


# The table


def test_the_table_says_its_split_and_epoch_in_every_row():
    table = recorded([1, 2], split="train", epoch=7)
    assert table["split"].to_pylist() == ["train", "train"]
    assert table["epoch"].to_pylist() == [7, 7]


def test_the_table_has_the_columns_of_the_design():
    assert recorded([1]).schema.names == [
        *("split", "epoch", "sample_id", "label", "loss", "prediction", "correct"),
        *("confidence", "entropy", "margin", "el2n", "forgotten"),
    ]


def test_only_samples_that_came_have_rows():
    """No zeros for what never ran."""
    assert recorded([2, 9]).num_rows == 2


def test_an_epoch_without_batches_is_an_error_not_an_empty_table():
    with pytest.raises(RecordingError, match="nothing was recorded for split val in epoch 3"):
        EpochRecorder("val", 3).table()


def test_an_epoch_of_empty_batches_only_is_one_too():
    with pytest.raises(RecordingError, match="nothing was recorded"):
        recorded(torch.zeros(0, dtype=torch.int64))


def test_a_recorder_is_empty_after_its_table():
    epoch_recorder = EpochRecorder("val", 0)
    epoch_recorder.add([1], logits_of([1]), [0])
    epoch_recorder.table()
    with pytest.raises(RecordingError, match="nothing was recorded"):
        epoch_recorder.table()


# What people hand over


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor], ids=["list", "numpy", "torch"])
def test_lists_arrays_and_tensors_are_all_batches(kind):
    epoch_recorder = EpochRecorder("val", 0)
    epoch_recorder.add(kind([4, 2]), kind([[4.0, 0.0], [2.0, 0.0]]), kind([0, 0]))
    assert margins(epoch_recorder.table()) == {2: 2.0, 4: 4.0}


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.uint32, np.int64])
def test_ids_and_targets_may_be_any_whole_numbers(kind):
    epoch_recorder = EpochRecorder("val", 0)
    epoch_recorder.add(np.array([200], kind), [[0.0, 1.0]], np.array([1], kind))
    assert epoch_recorder.table().select(["sample_id", "label"]).to_pylist() == [{"sample_id": 200, "label": 1}]


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_logits_of_half_precision_are_scored_in_float32(kind):
    epoch_recorder = EpochRecorder("val", 0)
    epoch_recorder.add([1], torch.tensor([[1.0, 0.0]], dtype=kind), [0])
    assert epoch_recorder.table()["loss"].to_pylist() == [pytest.approx(math.log(1 + math.exp(-1)), rel=1e-6)]


def test_logits_with_a_gradient_are_detached():
    epoch_recorder = EpochRecorder("val", 0)
    epoch_recorder.add([1], torch.zeros(1, 2, requires_grad=True), [0])
    assert epoch_recorder.table().num_rows == 1


def test_a_caller_may_reuse_all_three_buffers():
    """Compiled models and pinned loaders write the next batch into the same memory."""
    ids, logits, targets = torch.tensor([1]), torch.tensor([[5.0, 0.0]]), torch.tensor([0])
    epoch_recorder = EpochRecorder("val", 0)
    epoch_recorder.add(ids, logits, targets)
    ids[0], logits[0, 0], targets[0] = 2, 7.0, 1
    epoch_recorder.add(ids, logits, targets)
    rows = epoch_recorder.table().select(["sample_id", "label", "margin"]).to_pylist()
    assert rows == [{"sample_id": 1, "label": 0, "margin": 5.0}, {"sample_id": 2, "label": 1, "margin": -7.0}]


def test_a_caller_may_reuse_the_buffers_of_signals():
    ids, loss = np.array([1]), np.array([0.5], np.float32)
    epoch_recorder = EpochRecorder("val", 0)
    epoch_recorder.add_signals(ids, {"loss": loss})
    ids[0], loss[0] = 2, 4.0
    epoch_recorder.add_signals(ids, {"loss": loss})
    assert epoch_recorder.table()["loss"].to_pylist() == [0.5, 4.0]


# Losses that are not numbers


def test_losses_that_are_not_finite_are_kept_as_they_are():
    epoch_recorder = EpochRecorder("val", 0)
    epoch_recorder.add([1, 2, 3], [[math.nan, 0.0], [-math.inf, 0.0], [0.0, 0.0]], [0, 0, 0])
    nan, infinite, fine = epoch_recorder.table()["loss"].to_pylist()
    assert math.isnan(nan)
    assert infinite == math.inf
    assert fine == pytest.approx(math.log(2))


# Mistakes


def table_of(ids, logits, targets):
    """The table of a single batch."""
    epoch_recorder = EpochRecorder("val", 0)
    epoch_recorder.add(ids, logits, targets)
    return epoch_recorder.table()


def refused(ids, logits, targets):
    """The one line that refuses a batch."""
    with pytest.raises(RecordingError) as told:
        table_of(ids, logits, targets)
    assert "\n" not in str(told.value)
    return str(told.value)


def test_a_sample_twice_is_told_by_its_id():
    with pytest.raises(RecordingError, match=r"^1 samples came more than once in epoch 0 of split val .*sample 2"):
        recorded([1, 2], [3, 2])


def test_a_sample_twice_is_told_among_ids_far_apart():
    with pytest.raises(RecordingError, match=f"sample {2**40}"):
        recorded([1, 2**40], [2**40])


def test_a_sample_twice_in_a_row_is_told():
    with pytest.raises(RecordingError, match="sample 1"):
        recorded([1, 1])


@pytest.mark.parametrize(
    ("ids", "rows", "targets"),
    [([1], 2, [0, 0]), ([1, 2], 1, [0, 0]), ([1, 2], 2, [0])],
    ids=["few ids", "few logits", "few targets"],
)
def test_lengths_that_differ_are_told(ids, rows, targets):
    told = refused(ids, torch.zeros(rows, CLASSES), targets)
    assert f"found {len(ids)} ids, {len(targets)} targets and logits of shape [{rows}, 3]" in told


def test_logits_need_a_row_per_sample():
    assert "logits of shape [2]" in refused([1, 2], [0.5, 0.5], [0, 0])


def test_logits_need_a_class():
    assert "logits of shape [1, 0]" in refused([1], torch.zeros(1, 0), [0])


def test_logits_of_other_classes_than_before_are_told():
    epoch_recorder = EpochRecorder("val", 0)
    epoch_recorder.add([1], torch.zeros(1, 3), [0])
    with pytest.raises(RecordingError, match="logits of 2 classes came after logits of 3 classes"):
        epoch_recorder.add([2], torch.zeros(1, 2), [0])


def test_ids_that_are_no_whole_numbers_are_told():
    told = refused([1.0, 2.0], torch.zeros(2, CLASSES), [0, 0])
    assert told == "sample ids must be one row of whole numbers, found float32 of shape [2]."


@pytest.mark.parametrize("ids", [["a.png"], [True], [[1]], [2**64], None], ids=str)
def test_other_things_than_ids_are_told(ids):
    assert "sample ids must be" in refused(ids, torch.zeros(1, CLASSES), [0])


def test_targets_that_are_one_hot_are_told():
    assert "targets must be one row of whole numbers" in refused([1], torch.zeros(1, 2), [[0, 1]])


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_out_of_range_is_told_with_its_sample(label):
    told = refused([8, 9], torch.zeros(2, CLASSES), [0, label])
    assert told == (f"label {label} of sample 9 is out of range: the logits have 3 classes, so labels go from 0 to 2.")


# Other tasks


def test_signals_of_another_task_need_only_a_loss():
    epoch_recorder = EpochRecorder("val", 2)
    epoch_recorder.add_signals([7, 3], {"loss": [0.5, 0.25]})
    assert epoch_recorder.table().to_pylist() == [
        {"split": "val", "epoch": 2, "sample_id": 3, "loss": 0.25},
        {"split": "val", "epoch": 2, "sample_id": 7, "loss": 0.5},
    ]


def test_signals_of_ones_own_become_columns():
    epoch_recorder = EpochRecorder("val", 0)
    epoch_recorder.add_signals([1], {"loss": [0.5], "tokens": [12], "bleu": torch.tensor([0.75], dtype=torch.bfloat16)})
    table = epoch_recorder.table()
    assert table.schema.field("tokens").type == pa.int64()
    assert table["bleu"].to_pylist() == [0.75]


def test_a_float64_loss_becomes_float32_as_in_the_files():
    epoch_recorder = EpochRecorder("val", 0)
    epoch_recorder.add_signals([1], {"loss": np.array([0.1])})
    assert epoch_recorder.table().schema.field("loss").type == pa.float32()


def test_signals_that_judge_right_and_wrong_get_forgetting():
    epoch_recorder = EpochRecorder("val", 0)
    epoch_recorder.add_signals([1, 2], {"loss": [0.5, 0.5], "correct": [1, 0]})
    assert epoch_recorder.table().select(["correct", "forgotten"]).to_pylist() == [
        {"correct": True, "forgotten": False},
        {"correct": False, "forgotten": False},
    ]


@pytest.mark.parametrize(
    ("signals", "told"),
    [
        ({"loss": [0.5, 0.5]}, r"signal loss has shape \[2\] for 1 sample ids"),
        ({"loss": [[0.5, 0.5]]}, r"signal loss has shape \[1, 2\]"),
        ({"loss": 0.5}, r"signal loss has shape \[\]"),
        ({"loss": ["high"]}, "signal loss must be numbers"),
        ({"bleu": [0.5]}, "needs a loss per sample, found only bleu"),
        ({}, "needs a loss per sample, found only nothing"),
        ({"loss": [0.5], "epoch": [1]}, "a signal cannot be called epoch"),
    ],
)
def test_signals_that_do_not_fit_are_told(signals, told):
    with pytest.raises(RecordingError, match=told):
        EpochRecorder("val", 0).add_signals([1], signals)


def test_a_signal_that_only_some_batches_have_is_told():
    """It would slide up to other samples."""
    epoch_recorder = EpochRecorder("val", 0)
    epoch_recorder.add_signals([1], {"loss": [0.5]})
    with pytest.raises(RecordingError, match="signals bleu, loss came after batches with loss"):
        epoch_recorder.add_signals([2], {"loss": [0.5], "bleu": [1.0]})


def test_classification_batches_and_bare_losses_do_not_mix():
    epoch_recorder = EpochRecorder("val", 0)
    epoch_recorder.add([1], logits_of([1]), [0])
    with pytest.raises(RecordingError, match="every batch of an epoch needs the same signals"):
        epoch_recorder.add_signals([2], {"loss": [0.5]})


# Probabilities


def test_the_probability_of_every_class_is_kept_when_asked():
    epoch_recorder = EpochRecorder("val", 0, probabilities=True)
    epoch_recorder.add([5, 2], [[0.0, math.log(3.0)], [0.0, 0.0]], [1, 0])
    table = epoch_recorder.table()
    assert table.schema.field("probabilities").type == pa.list_(pa.float32(), 2)
    assert table["probabilities"].to_pylist() == [[0.5, 0.5], pytest.approx([0.25, 0.75])]
    assert table["confidence"].to_pylist() == pytest.approx([0.5, 0.75])


def test_a_signal_of_ones_own_may_have_a_row_for_each_sample():
    epoch_recorder = EpochRecorder("val", 0)
    epoch_recorder.add_signals([2, 1], {"loss": [0.5, 0.5], "where": [[1.0, 2.0], [3.0, 4.0]]})
    assert epoch_recorder.table()["where"].to_pylist() == [[3.0, 4.0], [1.0, 2.0]]


def test_rows_of_another_length_than_before_are_told():
    epoch_recorder = EpochRecorder("val", 0)
    epoch_recorder.add_signals([1], {"loss": [0.5], "where": [[1.0, 2.0]]})
    with pytest.raises(RecordingError, match=r"where of shape \[1, 3\] came after one of shape \[1, 2\]"):
        epoch_recorder.add_signals([2], {"loss": [0.5], "where": [[1.0, 2.0, 3.0]]})
