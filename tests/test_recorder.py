"""Somebody else's loop, recorded: what `actionflow.Recorder` promises."""

import mlflow
import numpy as np
import pytest
import torch

import actionflow
from actionflow.errors import RecordingError, StoreError

LOGITS = np.array([[4.0, 0.0], [0.0, 4.0], [1.0, 0.0]])
LABELS = np.array([0, 1, 1])
IDS = np.array([30, 10, 20])


def recorded_run(epochs=2, **parameters):
    with mlflow.start_run() as run, actionflow.Recorder() as recorder:
        for _ in range(epochs):
            recorder.add(IDS, LOGITS, LABELS, **parameters)
            recorder.end_epoch()
    return run.info.run_id


def test_a_loop_of_ones_own_can_be_asked_like_any_run(store):
    run_id = recorded_run()
    with actionflow.connect(run_id) as session:
        rows = session.query("hardest", k=1).to_pylist()
    loss = np.log(1 + np.exp(1))
    assert rows[0]["sample_id"] == 20
    assert rows[0]["action"] == pytest.approx(2 * loss, rel=1e-6)


def test_torch_tensors_numpy_arrays_and_lists_are_the_same(store):
    kinds = [
        (IDS, LOGITS, LABELS),
        tuple(map(torch.tensor, (IDS, LOGITS, LABELS))),
        (IDS.tolist(), LOGITS.tolist(), LABELS.tolist()),
    ]
    actions = []
    for batch in kinds:
        with mlflow.start_run() as run, actionflow.Recorder() as recorder:
            recorder.add(*batch)
            recorder.end_epoch()
        with actionflow.connect(run.info.run_id) as session:
            actions.append(session.sql("select sample_id, action from scores order by sample_id").to_pylist())
    assert actions[0] == actions[1] == actions[2]


def test_a_task_without_classes_needs_only_its_loss(store):
    with mlflow.start_run() as run, actionflow.Recorder() as recorder:
        for epoch in (1.0, 2.0):
            recorder.add_signals([1, 2], {"loss": np.array([epoch, 3 * epoch], np.float32)})
            recorder.end_epoch()
    with actionflow.connect(run.info.run_id) as session:
        rows = session.sql(
            "select sample_id, action, forgetting, ever_learnt, correct from scores order by 1"
        ).to_pylist()
    assert [(row["sample_id"], row["action"]) for row in rows] == [(1, 3.0), (2, 9.0)]
    assert all(row["forgetting"] is row["ever_learnt"] is row["correct"] is None for row in rows)


def test_columns_of_ones_own_are_kept(store):
    with mlflow.start_run() as run, actionflow.Recorder() as recorder:
        recorder.add_signals([1, 2], {"loss": [1.0, 2.0], "word_errors": [3, 4]})
        recorder.end_epoch()
    with actionflow.connect(run.info.run_id) as session:
        assert session.sql("select sum(word_errors) as n from dynamics").to_pylist() == [{"n": 7}]


def test_without_a_run_the_message_says_what_to_write(store):
    with pytest.raises(StoreError, match=r"with mlflow\.start_run\(\), actionflow\.Recorder\(\)"):
        actionflow.Recorder()


def test_an_epoch_without_batches_is_an_error(store):
    with mlflow.start_run(), actionflow.Recorder() as recorder:
        with pytest.raises(RecordingError, match="epoch 0 has no batches"):
            recorder.end_epoch()
        recorder.add(IDS, LOGITS, LABELS)
        recorder.end_epoch()


def test_a_loop_that_breaks_keeps_its_epochs_and_is_scored_on_demand(store):
    def breaking_loop():
        with mlflow.start_run(run_name="broken"), actionflow.Recorder() as recorder:
            recorder.add(IDS, LOGITS, LABELS)
            recorder.end_epoch()
            recorder.add(IDS[:1], LOGITS[:1], LABELS[:1])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        breaking_loop()
    with actionflow.connect("broken") as session:
        assert session.sql("select distinct epochs_seen as n from scores").to_pylist() == [{"n": 1}]


def test_a_run_that_recorded_nothing_says_what_it_holds(store):
    with mlflow.start_run() as run:
        mlflow.log_text("x", "notes.txt")
    with (
        actionflow.connect(run.info.run_id) as session,
        pytest.raises(StoreError, match=r"no per-sample .*found: notes\.txt"),
    ):
        session.query("hardest")


def test_a_run_before_its_first_epoch_is_told_of_and_left_out(store, capsys):
    run_id = recorded_run()
    with mlflow.start_run(run_name="waiting"):
        waiting = actionflow.Recorder()
        with actionflow.connect() as session:
            rows = session.sql("select distinct run_id from scores").to_pylist()
    assert rows == [{"run_id": run_id}]
    assert f"run {waiting.run_id[:8]} has recorded no epoch yet" in capsys.readouterr().err
