"""Real processes are killed while they train; what they finished is kept, and going on ends where it would have."""

import signal

import pyarrow.parquet as pq
import pytest
from conftest import Training, train

import actionflow

LONG = {"limit": 160, "epochs": 6, "stop_patience": 0, "seed": 5}


def scores(store, run_id, split):
    return pq.read_table(store.artifacts(run_id) / "actionflow" / "scores" / f"{split}.parquet").drop_columns(
        ["run_id"]
    )


@pytest.fixture(scope="module")
def unbroken(module_store):
    """The scores of the same training when nobody kills it."""
    run_id = train(**LONG)
    return {split: scores(module_store, run_id, split) for split in ("train", "val")}


MOMENTS = {
    "in the first epoch": "run.json",
    "between the splits of an epoch": "dynamics/train/epoch-0002.parquet",
    "between an epoch and its checkpoint": "dynamics/val/epoch-0001.parquet",
    "after a checkpoint": "checkpoint/epoch-0003.pt",
    "while it finishes": "scores/*.parquet",
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_run_ends_with_the_scores_of_an_unbroken_one(store, unbroken, moment):
    training = Training(store, **LONG)
    run_id = training.wait_for(MOMENTS[moment])
    training.kill()
    assert store.client.get_run(run_id).info.status == "RUNNING"

    assert train(resume=run_id) == run_id

    assert store.client.get_run(run_id).info.status == "FINISHED"
    for split in ("train", "val"):
        assert scores(store, run_id, split).equals(unbroken[split])
    assert [run.info.run_id for run in store.runs()] == [run_id]


@pytest.fixture(scope="module")
def killed(module_store):
    """A run that was killed in its fourth epoch, and its id."""
    training = Training(module_store, **LONG, run_name="killed")
    run_id = training.wait_for("dynamics/train/epoch-0003.parquet")
    training.kill()
    return run_id


def test_a_killed_run_is_read_like_any_other(killed):
    with actionflow.connect(killed) as session:
        rows = session.sql(
            "select split, max(epochs_seen) as epochs from scores group by split order by split"
        ).to_pylist()
    epochs = {row["split"]: row["epochs"] for row in rows}
    assert epochs["train"] == epochs["val"] >= 3


def test_a_half_written_epoch_is_named_and_left_out(module_store, killed, capsys):
    folder = module_store.artifacts(killed) / "actionflow" / "dynamics"
    last = sorted((folder / "val").iterdir())[-1]
    whole = last.read_bytes()
    last.write_bytes(whole[: len(whole) // 2])
    try:
        with actionflow.connect(killed) as session:
            epochs = session.sql("select max(epoch) as last from dynamics").to_pylist()[0]["last"]
    finally:
        last.write_bytes(whole)
    assert f"val/{last.name} is half-written, so it is left out" in capsys.readouterr().err
    assert epochs == int(last.stem.removeprefix("epoch-")) - 1


def test_an_epoch_that_was_lost_is_refused_and_not_summed_over(module_store, killed):
    lost = module_store.artifacts(killed) / "actionflow/dynamics/val/epoch-0001.parquet"
    content = lost.read_bytes()
    lost.unlink()
    try:
        with (
            actionflow.connect(killed) as session,
            pytest.raises(actionflow.ActionFlowError, match=r"lacks val/epoch-0001"),
        ):
            session.sql("select * from dynamics")
    finally:
        lost.write_bytes(content)


def test_a_run_that_still_trains_is_not_resumed(store):
    training = Training(store, **{**LONG, "epochs": 10_000})
    run_id = training.wait_for("dynamics/val/epoch-0000.parquet")
    try:
        with pytest.raises(SystemExit, match="is still being trained by another process"):
            train(resume=run_id)
        assert store.client.get_run(run_id).info.status == "RUNNING"
    finally:
        training.kill()


def test_a_finished_run_has_nothing_to_resume(store):
    run_id = train(limit=64, epochs=1)
    with pytest.raises(SystemExit, match="has finished: there is nothing to resume"):
        train(resume=run_id)


def test_other_data_are_refused_with_both_digests(store, tmp_path):
    from PIL import Image

    for name, grey in (("a", 10), ("b", 200)):
        for number in range(20):
            path = tmp_path / "pictures" / name / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("L", (12, 12), grey + number).save(path)
    training = Training(
        store, dataset="images", data_dir=tmp_path / "pictures", epochs=10_000, batch_size=8, stop_patience=0
    )
    run_id = training.wait_for("dynamics/val/epoch-0000.parquet")
    training.kill()
    Image.new("L", (12, 12), 77).save(tmp_path / "pictures" / "a" / "0.png")
    known = store.client.get_run(run_id).data.tags["actionflow.dataset_digest"]
    with pytest.raises(
        SystemExit, match=rf"trained on other data: its digest is {known}, this data's is [0-9a-f]{{16}}"
    ):
        train(resume=run_id, dataset="images")


def test_an_unknown_run_is_told_with_the_nearest(killed):
    with pytest.raises(SystemExit, match=r"no run is called kiled .*Did you mean killed"):
        train(resume="kiled")


def test_a_run_that_is_told_to_end_says_so_and_can_be_resumed(store, unbroken):
    training = Training(store, **LONG)
    run_id = training.wait_for("dynamics/val/epoch-0001.parquet")
    training.process.terminate()
    code, said = training.end()
    assert code == 130
    assert f"go on with -P resume={run_id}" in said
    assert store.client.get_run(run_id).info.status == "KILLED", said
    train(resume=run_id)
    assert scores(store, run_id, "val").equals(unbroken["val"])


def test_a_run_that_is_told_to_end_twice_is_marked_all_the_same(store):
    training = Training(store, **{**LONG, "epochs": 10_000})
    run_id = training.wait_for("dynamics/val/epoch-0001.parquet")
    training.process.terminate()
    training.hear("Stopped.")
    training.process.send_signal(signal.SIGINT)
    training.end()
    assert store.client.get_run(run_id).info.status == "KILLED"
