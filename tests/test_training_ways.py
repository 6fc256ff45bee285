"""Determinism, what is recorded when, and how many passes it costs."""

import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import SMALL, train

from actionflow.training import loop

FAST = {**SMALL, "epochs": 2}


def scores(store, run_id, split="val"):
    return pq.read_table(store.artifacts(run_id) / "actionflow" / "scores" / f"{split}.parquet").drop_columns(
        ["run_id"]
    )


def splits_in(store, run_id, folder="dynamics"):
    return sorted(path.stem for path in (store.artifacts(run_id) / "actionflow" / folder).iterdir())


def test_the_same_seed_gives_the_same_scores_bit_for_bit_and_another_seed_others(module_store):
    first, again, other = (train(**FAST, seed=seed) for seed in (3, 3, 4))
    for split in ("train", "val"):
        assert scores(module_store, first, split).equals(scores(module_store, again, split))
        assert not scores(module_store, first, split).equals(scores(module_store, other, split))


@pytest.fixture
def passes(monkeypatch):
    """The number of samples of every pass, in order, with the mode the model was in."""
    counted = []
    forward = loop.Trainer._forward

    def counting(self, pixels):
        mode = "train" if self.model.training else "look"
        if not counted or counted[-1][0] != mode or counted[-1][2] != self.epoch:
            counted.append([mode, 0, self.epoch])
        counted[-1][1] += len(pixels)
        return forward(self, pixels)

    monkeypatch.setattr(loop.Trainer, "_forward", counting)
    return counted


def test_recording_online_costs_no_forward_pass(module_store, passes):
    train(**FAST)
    each_epoch = [("train", 160), ("look", 160)]
    features_of_val = [("look", 160)]
    assert [(mode, samples) for mode, samples, _ in passes] == each_epoch * 2 + features_of_val


def test_exact_training_signals_cost_one_pass_an_epoch(module_store, passes):
    train(**FAST, train_signals="exact")
    looked = sum(samples for mode, samples, _ in passes if mode == "look")
    assert looked == 2 * (160 + 160) + 160


@pytest.mark.parametrize(("record", "splits"), [("val", ["val"]), ("train", ["train"]), ("both", ["train", "val"])])
def test_only_what_is_asked_for_is_recorded(module_store, record, splits):
    run_id = train(**{**FAST, "epochs": 1}, record=record)
    assert splits_in(module_store, run_id) == splits
    assert splits_in(module_store, run_id, "scores") == splits
    assert (module_store.artifacts(run_id) / "hardest.png").exists()


def test_a_fraction_for_validation_scores_the_test_set_too(module_store):
    run_id = train(**{**FAST, "epochs": 1}, validation=0.25)
    assert splits_in(module_store, run_id) == ["test", "train", "val"]
    counts = {split: scores(module_store, run_id, split).num_rows for split in ("train", "val", "test")}
    assert counts["train"] + counts["val"] == 160
    assert abs(counts["val"] - 40) <= 5
    assert counts["test"] == 160


def test_features_of_every_split_when_asked_for(module_store):
    run_id = train(**{**FAST, "epochs": 1}, features="both")
    assert splits_in(module_store, run_id, "features") == ["train", "val"]


@pytest.mark.parametrize("batch_size", [1, 7, 53, 160])
def test_ragged_batches_record_every_sample_once(module_store, batch_size):
    """159 = 3 x 53 and 160 = 22 x 7 + 6: the last batch is whole, ragged, or a lone sample that joins the others."""
    run_id = train(limit=160, epochs=1, batch_size=batch_size)
    table = pq.read_table(module_store.artifacts(run_id) / "actionflow/dynamics/train/epoch-0000.parquet")
    assert table.num_rows == 160
    assert np.unique(table["sample_id"].to_numpy()).size == 160


def test_bf16_trains_and_keeps_float32_losses(module_store):
    run_id = train(**{**FAST, "epochs": 1}, precision="bf16")
    losses = pq.read_table(module_store.artifacts(run_id) / "actionflow/dynamics/val/epoch-0000.parquet")["loss"]
    assert losses.type == "float"
    assert np.isfinite(losses.to_numpy()).all()
    # Values that bfloat16 cannot hold show that the loss was not computed in it.
    assert (losses.to_numpy().view(np.uint32) & 0xFFFF).any()


def test_early_stopping_leaves_no_zeros_for_epochs_that_never_ran(module_store):
    run_id = train(limit=160, epochs=30, stop_patience=1, learning_rate=0.05)
    run = module_store.client.get_run(run_id)
    epochs = int(run.data.metrics["epochs"])
    assert epochs < 30
    assert set(scores(module_store, run_id)["epochs_seen"].to_pylist()) == {epochs}


def test_the_learning_rate_is_reduced_after_its_patience(module_store):
    run_id = train(limit=160, epochs=8, stop_patience=0, reduce_patience=1, learning_rate=0.05)
    rates = [point.value for point in module_store.client.get_metric_history(run_id, "learning_rate")]
    losses = [point.value for point in module_store.client.get_metric_history(run_id, "val/loss")]
    assert rates == pytest.approx(expected_rates(losses, 0.05))
    assert rates[-1] < rates[0]


def expected_rates(losses, rate):
    """Keras' rule with a patience of one: the epoch after one that was not better by 1e-4 has a tenth of the rate."""
    best, rates = float("inf"), []
    for loss in losses:
        rates.append(rate)
        if loss < best - 1e-4:
            best = loss
        else:
            rate /= 10
    return rates


def test_a_curriculum_file_decides_which_samples_are_trained_on(module_store, tmp_path):
    import pyarrow as pa

    ids = pq.read_table(
        module_store.artifacts(train(limit=160, epochs=1)) / "actionflow/scores/train.parquet", columns=["sample_id"]
    )["sample_id"].to_numpy()
    chosen = ids[:64]
    table = pa.table(
        {"position": np.arange(64), "sample_id": chosen, "score": np.zeros(64), "stage": np.arange(64) // 32}
    )
    pq.write_table(table, tmp_path / "half.parquet")
    run_id = train(limit=160, epochs=1, curriculum=tmp_path / "half.parquet")
    trained_on = pq.read_table(module_store.artifacts(run_id) / "actionflow/dynamics/train/epoch-0000.parquet")
    assert trained_on["sample_id"].to_pylist() == chosen.tolist()
