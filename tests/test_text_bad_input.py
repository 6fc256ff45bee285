"""Text trainings that cannot be meant, and such as are killed."""

import json

import made_up_texts
import pyarrow.parquet as pq
import pytest
from conftest import Training, train_text

import actionflow

TINY = {"dataset": "emotion", "model": "tiny", "epochs": 3, "learning_rate": 0.003}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return made_up_texts.emotion(tmp_path_factory.mktemp("corpus"))


MISTAKES = {
    "unknown data set": ({"dataset": "emotions"}, "no text data set 'emotions'.*emotion"),
    "no such folder": ({"data_dir": "/nowhere"}, "/nowhere"),
    "model out of reach": ({"model": "nobody/no-such-model"}, "no-such-model is not on this machine.*-P model=tiny"),
    "no tokens": ({"max_length": 9999}, "max_length=9999 is more than tiny takes"),
    "a batch larger than the data": ({"batch_size": 500}, "batch_size 500 is larger than the data"),
    "half precision without a GPU": ({"precision": "fp16", "device": "cpu"}, "precision=fp16 needs a GPU"),
    "a lone class": ({"limit": 1, "batch_size": 1}, "all of class"),
    "a missing column": ({"dataset": "text", "data": "{csv}"}, "no column text.*found.*(body|topic)"),
    "no data named": ({"dataset": "text"}, "-P data="),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_the_run_is_marked_failed(store, corpus, tmp_path, mistake):
    (tmp_path / "own.csv").write_text("body,topic\nsun,warm\nsnow,cold\n")
    parameters, said = MISTAKES[mistake]
    chosen = {name: str(value).format(csv=tmp_path / "own.csv") for name, value in parameters.items()}
    with pytest.raises(SystemExit, match=f"^Error: .*{said}") as told:
        train_text(**{**TINY, "data_dir": corpus, **chosen})
    assert "\n" not in str(told.value)
    (run,) = store.client.search_runs([store.experiment])
    assert run.info.status == "FAILED"
    assert not store.artifacts(run.info.run_id).exists()


def test_a_loss_that_is_no_number_ends_the_training_and_keeps_its_epochs(store, corpus):
    with pytest.raises(SystemExit, match="not a number any more in epoch 0"):
        train_text(**{**TINY, "data_dir": corpus, "learning_rate": 1e30})
    (run,) = store.runs()
    assert run.info.status == "FAILED"
    rows = actionflow.query("select count(*) as n from dynamics where split = 'train'", runs=run.info.run_id)
    assert rows.to_pylist() == [{"n": 60}]


def test_long_texts_are_counted_told_and_cut(store, tmp_path, capsys):
    lines = [json.dumps({"text": "word " * n, "label": "ab"[n % 2]}) for n in range(1, 41)]
    (tmp_path / "long.jsonl").write_text("\n".join(lines))
    train_text(dataset="text", data=tmp_path / "long.jsonl", model="tiny", epochs=1, max_length=16)
    said = capsys.readouterr().err
    assert "train texts are longer than 16 tokens: their ends are cut off" in said


def scores(store, run_id, split):
    table = pq.read_table(store.artifacts(run_id) / "actionflow" / "scores" / f"{split}.parquet")
    return table.drop_columns(["run_id"])


def test_a_killed_text_training_ends_with_the_scores_of_an_unbroken_one(store, corpus):
    chosen = {**TINY, "data_dir": corpus, "epochs": 4}
    unbroken = train_text(**chosen)
    training = Training(store, "text", **chosen)
    run_id = training.wait_for("dynamics/val/epoch-0002.parquet")
    training.kill()
    assert store.client.get_run(run_id).info.status == "RUNNING"

    assert train_text(resume=run_id) == run_id

    assert store.client.get_run(run_id).info.status == "FINISHED"
    for split in ("train", "val", "test"):
        assert scores(store, run_id, split).equals(scores(store, unbroken, split))
    assert not (store.folder / "home" / "checkpoints" / run_id).exists()
