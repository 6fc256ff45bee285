"""Other people's Hugging Face trainings, recorded: what `integrations.huggingface.ActionCallback` promises."""

import copy
import gc
import subprocess
import sys
import weakref

import datasets
import mlflow
import numpy as np
import pytest
import torch
from torch.nn import functional
from torch.utils.data import Dataset, IterableDataset, Subset
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    DataCollatorForSeq2Seq,
    DataCollatorWithPadding,
    EarlyStoppingCallback,
    GPT2Config,
    GPT2LMHeadModel,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    T5Config,
    T5ForConditionalGeneration,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

import actionflow
from actionflow.errors import RecordingError
from actionflow.integrations.huggingface import ActionCallback
from actionflow.training.language.tiny import reading_tokenizer

pytestmark = pytest.mark.filterwarnings("ignore")
datasets.disable_progress_bars()

TOKENIZER = reading_tokenizer(["a small cat and one big dog ran far away from here to see the sea at last"] * 9)
CLASSES = 3
SIZES = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}


def rows(count, seed, **columns):
    """Token rows of many lengths: drawn, so that a row is known by its tokens."""
    draw = np.random.default_rng(seed)
    tokens = [draw.integers(4, len(TOKENIZER), int(draw.integers(3, 14))).tolist() for _ in range(count)]
    labels = draw.integers(0, CLASSES, count).tolist()
    return {"input_ids": tokens, "attention_mask": [[1] * len(row) for row in tokens], "labels": labels, **columns}


TRAIN, VAL = rows(22, seed=1), rows(13, seed=2)


class Items(Dataset):
    """A plain PyTorch data set of dictionaries."""

    def __init__(self, columns):
        self.columns = columns

    def __len__(self):
        return len(self.columns["input_ids"])

    def __getitem__(self, place):
        return {name: column[place] for name, column in self.columns.items()}


def table(columns):
    return datasets.Dataset.from_dict(columns)


def bert(kind=BertForSequenceClassification, **settings):
    set_seed(0)
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return kind(BertConfig(**{"vocab_size": len(TOKENIZER), "num_labels": CLASSES, **SIZES, **still, **settings}))


def arguments(folder, kind, **settings):
    quiet = {"use_cpu": True, "report_to": [], "save_strategy": "no", "disable_tqdm": True, "logging_strategy": "no"}
    size = {"per_device_train_batch_size": 5, "per_device_eval_batch_size": 4, "num_train_epochs": 2}
    own = {"output_dir": str(folder), "learning_rate": 0.01, "eval_strategy": "epoch"}
    return kind(**{**quiet, **size, **own, **settings})


class Truth(TrainerCallback):
    """The losses of a plain loop over the validation data in order, after every epoch."""

    def __init__(self, columns=VAL):
        self.columns = columns
        self.val = []

    def on_epoch_end(self, args, state, control, model, **_):
        self.val.append(plain_losses(model, self.columns))


def plain_losses(model, columns):
    """One row after the other, no padding, no batches."""
    was_training = model.training
    model.eval()
    with torch.no_grad():
        logits = torch.cat([model(input_ids=torch.tensor([row])).logits for row in columns["input_ids"]])
    model.train(was_training)
    return functional.cross_entropy(logits, torch.tensor(columns["labels"]), reduction="none").numpy()


def trainer_of(
    folder, model=None, train=None, val=None, kind=Trainer, callbacks=(), collator=None, more=(), **settings
):
    """A Trainer as people set it up."""
    return kind(
        model=model or bert(),
        args=arguments(folder, Seq2SeqTrainingArguments if kind is Seq2SeqTrainer else TrainingArguments, **settings),
        train_dataset=table(TRAIN) if train is None else train,
        eval_dataset=table(VAL) if val is None else val,
        data_collator=collator or DataCollatorWithPadding(TOKENIZER),
        processing_class=TOKENIZER,
        callbacks=list(callbacks),
        **dict(more),
    )


def recorded(trainer, **recording):
    """Train it with the one line more."""
    callback = ActionCallback(trainer, **recording)
    trainer.add_callback(callback)
    trainer.train()
    return callback


def dynamics(run_id, split="val", columns="epoch, sample_id, loss"):
    asked = f"select {columns} from dynamics where split = $split order by epoch, sample_id"
    return actionflow.query(asked, runs=run_id, split=split).to_pylist()


def losses(run_id, split="val"):
    """The losses of each epoch, in the order of the ids."""
    found = {}
    for row in dynamics(run_id, split):
        found.setdefault(row["epoch"], []).append(row["loss"])
    return found


def ids(run_id, split="val", epoch=0):
    return [row["sample_id"] for row in dynamics(run_id, split) if row["epoch"] == epoch]


def assert_val_is(truth, run_id, split="val"):
    found = losses(run_id, split)
    assert list(found) == list(range(len(truth)))
    for epoch, expected in enumerate(truth):
        np.testing.assert_allclose(found[epoch], expected, atol=1e-5)


def shuffled_table():
    """A data set that was taken from a larger one: its rows lie elsewhere than they stand."""
    larger = {name: VAL[name] + TRAIN[name] for name in VAL}
    backwards = table(larger).select(list(reversed(range(len(VAL["labels"])))))
    return backwards, {name: column[::-1] for name, column in VAL.items()}


def strict_collator(items):
    assert all(set(item) == {"input_ids", "attention_mask", "labels"} for item in items)
    return DataCollatorWithPadding(TOKENIZER)(items)


def weighted_loss(outputs, labels, num_items_in_batch=None):
    return functional.cross_entropy(outputs["logits"], labels, weight=torch.tensor([1.0, 2.0, 3.0]))


class OwnSteps(Trainer):
    """A subclass with a loss and a step of its own."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = functional.cross_entropy(outputs.logits, labels)
        return (loss, outputs) if return_outputs else loss

    def training_step(self, model, inputs, num_items_in_batch=None):
        assert set(inputs) == {"input_ids", "attention_mask", "labels", "token_type_ids"} & set(inputs)
        return super().training_step(model, inputs, num_items_in_batch)


GROUPED = {"train_sampling_strategy": "group_by_length"}
LONG = {"length": [len(row) for row in TRAIN["input_ids"]]}
SPARE = {"text": ["…"] * len(VAL["labels"]), "source": list(range(len(VAL["labels"])))}

WAYS = {
    "shuffled": {},
    "grouped by length": GROUPED,
    "grouped by a column": {**GROUPED, "train": table({**TRAIN, **LONG})},
    "columns to spare": {"val": table({**VAL, **SPARE})},
    "all columns kept": {"remove_unused_columns": False, "collator": strict_collator},
    "torch tensors": {"train": table(TRAIN).with_format("torch"), "val": table(VAL).with_format("torch")},
    "some columns in torch": {"val": table({**VAL, **SPARE}).with_format("torch", columns=list(VAL))},
    "made on the fly": {"val": table(VAL).with_transform(lambda some: dict(some)), "remove_unused_columns": False},
    "plain data sets": {"train": Items(TRAIN), "val": Items({**VAL, **SPARE})},
    # Workers that persist: the Trainer keeps the loaders of evaluations.
    "workers": {"dataloader_num_workers": 2, "dataloader_persistent_workers": True, "train": Items(TRAIN)},
    "accumulated": {"gradient_accumulation_steps": 2},
    "label smoothing": {"label_smoothing_factor": 0.2},
    "a loss of one's own": {"more": {"compute_loss_func": weighted_loss}},
    "a strict collator": {"collator": strict_collator, "train": Items(TRAIN), "val": Items(VAL)},
    "a subclass": {"kind": OwnSteps},
    "batches of one": {"per_device_eval_batch_size": 1, "per_device_train_batch_size": 1},
    "with metrics": {"more": {"compute_metrics": lambda said: {"n": len(said.predictions)}}},
}


@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
def test_what_is_recorded_is_what_a_plain_loop_over_the_data_gives(store, tmp_path, way):
    truth = Truth()
    callback = recorded(trainer_of(tmp_path, callbacks=[truth], **way))
    assert_val_is(truth.val, callback.run_id)
    assert ids(callback.run_id) == list(range(len(VAL["labels"])))
    assert ids(callback.run_id, "train", 1) == list(range(len(TRAIN["labels"])))
    labels = [row["label"] for row in dynamics(callback.run_id, "train", "epoch, sample_id, label")]
    assert labels == 2 * TRAIN["labels"]
    assert len(callback.scores) == len(VAL["labels"]) + len(TRAIN["labels"])


@pytest.mark.parametrize("settings", [{}, {"gradient_accumulation_steps": 2}, {"label_smoothing_factor": 0.2}])
def test_training_losses_are_those_of_the_batches_as_trained(store, tmp_path, settings):
    # Nothing moves, so every batch is met with the same weights.
    trainer = trainer_of(tmp_path, learning_rate=0.0, num_train_epochs=1, **settings)
    callback = recorded(trainer)
    np.testing.assert_allclose(losses(callback.run_id, "train")[0], plain_losses(trainer.model, TRAIN), atol=1e-5)


def test_recording_changes_nothing_in_the_training(store, tmp_path):
    trained = []
    for is_recorded in (False, True):
        model = bert(classifier_dropout=0.3)
        trainer = trainer_of(tmp_path, model)
        recorded(trainer) if is_recorded else trainer.train()
        assert not model._forward_hooks
        trained.append(torch.cat([weights.detach().flatten() for weights in model.parameters()]))
    assert torch.equal(*trained)


def test_a_trainer_that_is_dropped_is_gone_at_once_with_its_model_and_workers(store, tmp_path):
    trainer = trainer_of(tmp_path, num_train_epochs=1)
    callback, here = recorded(trainer), weakref.ref(trainer)
    gc.disable()
    try:
        del trainer
        assert here() is None
    finally:
        gc.enable()
    assert len(callback.scores) == 35


def test_places_are_those_of_the_data_set_that_the_trainer_was_given(store, tmp_path):
    backwards, columns = shuffled_table()
    truth = Truth(columns)
    callback = recorded(trainer_of(tmp_path, val=backwards, callbacks=[truth]))
    assert_val_is(truth.val, callback.run_id)


def test_the_place_in_a_subset_is_told_as_the_place_in_the_whole(store, tmp_path):
    callback = recorded(trainer_of(tmp_path, train=Subset(Items(TRAIN), [20, 3, 11]), val=Subset(table(VAL), [7, 2])))
    assert ids(callback.run_id, "train") == [3, 11, 20]
    assert ids(callback.run_id) == [2, 7]


@pytest.mark.parametrize("kind", [table, Items])
@pytest.mark.parametrize("settings", [{}, {"id_column": "key"}, {"id_column": None}])
def test_a_column_of_ids_is_taken(store, tmp_path, kind, settings):
    column = settings.get("id_column", "sample_id") or "sample_id"
    numbers = [1000 - place for place in range(len(VAL["labels"]))]
    trainer = trainer_of(tmp_path, val=kind({**VAL, column: numbers}), num_train_epochs=1)
    callback = recorded(trainer, **settings)
    expected = plain_losses(trainer.model, VAL)
    by_place = settings.get("id_column", "") is None
    assert ids(callback.run_id) == (list(range(len(numbers))) if by_place else sorted(numbers))
    np.testing.assert_allclose(losses(callback.run_id)[0], expected if by_place else expected[::-1], atol=1e-5)


def test_ids_that_are_no_whole_numbers_or_come_twice_are_told(store, tmp_path):
    names = {**VAL, "sample_id": [f"s{place}" for place in range(len(VAL["labels"]))]}
    for kind in (table, Items):
        with pytest.raises(RecordingError, match=r"must hold whole numbers.*id_column="):
            recorded(trainer_of(tmp_path, val=kind(names), num_train_epochs=1))
    with pytest.raises(RecordingError, match="came more than once in epoch 0 of split val"):
        recorded(trainer_of(tmp_path, val=table({**VAL, "sample_id": [7] * len(VAL["labels"])}), num_train_epochs=1))
    assert {run.info.status for run in store.runs()} == {"FAILED"}


def test_duplicate_texts_are_kept_apart(store, tmp_path):
    twice = {name: column[:1] * 3 for name, column in VAL.items()}
    callback = recorded(trainer_of(tmp_path, val=table(twice)))
    assert ids(callback.run_id) == [0, 1, 2]
    assert len({row["loss"] for row in dynamics(callback.run_id) if row["epoch"] == 0}) == 1


def longest_first(items):
    items.sort(key=lambda item: -len(item["input_ids"]))
    return DataCollatorWithPadding(TOKENIZER)(items)


def test_a_collator_that_reorders_its_items_is_told(store, tmp_path):
    with pytest.raises(RecordingError, match="puts the samples into another order"):
        recorded(trainer_of(tmp_path, collator=longest_first))


# When an epoch is over


def test_several_evaluation_sets_are_splits_of_their_names(store, tmp_path):
    truth = Truth()
    sets = {"easy": table({name: column[:3] for name, column in VAL.items()}), "train": table(TRAIN), "all": table(VAL)}
    callback = recorded(trainer_of(tmp_path, val=sets, callbacks=[truth]))
    assert_val_is(truth.val, callback.run_id, "all")
    assert_val_is([epoch[:3] for epoch in truth.val], callback.run_id, "easy")
    assert ids(callback.run_id, "eval_train", 1) == ids(callback.run_id, "train", 1) == list(range(22))
    assert losses(callback.run_id, "eval_train") != losses(callback.run_id, "train")


@pytest.mark.parametrize("record", [["train"], ["all"]])
def test_only_the_splits_that_are_asked_for_are_recorded(store, tmp_path, record):
    sets = {"easy": table(VAL), "all": table(VAL)}
    way = {"eval_strategy": "steps", "eval_steps": 2}
    callback = recorded(trainer_of(tmp_path, val=sets, **way), record=record)
    assert {split for split in ("train", "easy", "all") if dynamics(callback.run_id, split)} == set(record)
    assert len(ids(callback.run_id, record[0], 1)) == (22 if record == ["train"] else 13)
    with pytest.raises(RecordingError, match="has no split val: there are train, easy, all"):
        ActionCallback(trainer_of(tmp_path, val=sets), record=["val"])


class OnItsOwn(TrainerCallback):
    """Evaluates what it likes, when it likes."""

    def on_epoch_end(self, args, state, control, **_):
        control = copy.copy(control)  # evaluate() takes back that one is due
        self.trainer.evaluate(self.trainer.train_dataset, metric_key_prefix="train")
        self.trainer.evaluate(table(TRAIN), metric_key_prefix="other")
        self.trainer.predict(self.trainer.eval_dataset)
        return control


def test_other_evaluations_during_training_are_not_mixed_in(store, tmp_path):
    truth, own = Truth(), OnItsOwn()
    own.trainer = trainer = trainer_of(tmp_path, callbacks=[truth, own])
    callback = recorded(trainer)
    assert_val_is(truth.val, callback.run_id)
    assert ids(callback.run_id, "train", 1) == list(range(22))


def test_of_several_evaluations_in_an_epoch_the_last_counts(store, tmp_path):
    # 22 samples by 5 are 5 steps: evaluations after 2 and 4, 6 and 8 and 10.
    truths = []

    class AtEvaluation(TrainerCallback):
        def on_evaluate(self, args, state, control, model, **_):
            truths.append((state.global_step, plain_losses(model, VAL)))

    way = {"eval_strategy": "steps", "eval_steps": 2, "eval_on_start": True}
    callback = recorded(trainer_of(tmp_path, callbacks=[AtEvaluation()], **way))
    by_step = dict(truths)
    assert list(by_step) == [0, 2, 4, 6, 8, 10]
    assert_val_is([by_step[4], by_step[10]], callback.run_id)
    assert ids(callback.run_id, "train", 1) == list(range(22))


def test_evaluations_before_and_after_the_training_work_and_are_not_recorded(store, tmp_path):
    truth = Truth()
    trainer = trainer_of(tmp_path, callbacks=[truth], eval_on_start=True)
    callback = ActionCallback(trainer)
    trainer.add_callback(callback)
    trainer.evaluate()
    trainer.train()
    before = dynamics(callback.run_id)
    assert trainer.evaluate()["eval_loss"] == pytest.approx(truth.val[-1].mean(), abs=1e-2)
    assert len(trainer.predict(table(VAL)).predictions) == len(trainer.predict(trainer.eval_dataset).predictions) == 13
    assert dynamics(callback.run_id) == before
    assert_val_is(truth.val, callback.run_id)


def test_without_evaluation_the_training_is_recorded_alone(store, tmp_path):
    callback = recorded(trainer_of(tmp_path, eval_strategy="no"))
    assert not dynamics(callback.run_id)
    assert list(losses(callback.run_id, "train")) == [0, 1]


def test_epochs_without_evaluation_keep_their_numbers(store, tmp_path):
    truth = Truth()
    callback = recorded(trainer_of(tmp_path, callbacks=[truth], eval_delay=2, num_train_epochs=3), record=["val"])
    assert list(losses(callback.run_id)) == [1, 2]
    np.testing.assert_allclose(losses(callback.run_id)[2], truth.val[2], atol=1e-5)


@pytest.mark.parametrize(("steps", "train_epochs"), [(3, [0]), (5, [0]), (8, [0]), (10, [0, 1])])
def test_an_epoch_that_is_cut_short_counts_for_train_only_when_no_sample_was_met_before(
    store, tmp_path, caplog, steps, train_epochs
):
    callback = recorded(trainer_of(tmp_path, max_steps=steps))
    assert list(losses(callback.run_id, "train")) == train_epochs
    assert len(ids(callback.run_id, "train")) == min(22, 5 * steps)
    assert ids(callback.run_id, "val", (steps - 1) // 5) == list(range(13))
    assert ("in the middle of epoch 1 (step 8)" in caplog.text) == (steps == 8)


def test_the_best_model_can_be_loaded_and_training_stopped_early(store, tmp_path):
    truth = Truth()
    keeping = {"save_strategy": "epoch", "load_best_model_at_end": True, "metric_for_best_model": "eval_loss"}
    patience = EarlyStoppingCallback(early_stopping_patience=1)
    # A step far too large: it only gets worse.
    way = {"learning_rate": 1.0, "num_train_epochs": 9, **keeping}
    callback = recorded(trainer_of(tmp_path, callbacks=[truth, patience], **way))
    assert 1 < len(truth.val) < 9
    assert_val_is(truth.val, callback.run_id)
    assert list(losses(callback.run_id, "train")) == list(losses(callback.run_id))


# The run


def test_the_run_is_the_active_one_the_reported_one_or_a_new_one(store, tmp_path):
    new = recorded(trainer_of(tmp_path))
    assert mlflow.active_run() is None
    assert store.client.get_run(new.run_id).info.status == "FINISHED"

    with mlflow.start_run() as active:
        inside = recorded(trainer_of(tmp_path))
        assert mlflow.active_run() is not None
    assert inside.run_id == active.info.run_id

    reported = recorded(trainer_of(tmp_path, report_to=["mlflow"], logging_strategy="epoch"))
    run = store.client.get_run(reported.run_id)
    assert "eval_loss" in run.data.metrics
    assert run.info.status == "FINISHED"
    assert list(losses(reported.run_id)) == [0, 1]
    assert len({new.run_id, inside.run_id, reported.run_id}) == 3


def test_a_second_training_is_another_run_and_does_not_fit_into_the_same(store, tmp_path):
    trainer = trainer_of(tmp_path, num_train_epochs=1)
    callback = recorded(trainer)
    first = callback.run_id
    trainer.train()
    assert callback.run_id != first
    assert list(losses(callback.run_id)) == [0]
    with mlflow.start_run():
        trainer.train()
        with pytest.raises(RecordingError, match="holds the epochs of another training"):
            trainer.train()


class Breaking(TrainerCallback):
    def __init__(self, step, error=ZeroDivisionError):
        self.step, self.error = step, error

    def on_step_end(self, args, state, control, **_):
        if state.global_step == self.step:
            raise self.error


@pytest.mark.parametrize(("error", "status"), [(ZeroDivisionError, "FAILED"), (KeyboardInterrupt, "KILLED")])
def test_a_training_that_breaks_keeps_its_epochs(store, tmp_path, error, status):
    truth = Truth()
    trainer = trainer_of(tmp_path, callbacks=[truth, Breaking(12, error)], num_train_epochs=5)
    callback = ActionCallback(trainer)
    trainer.add_callback(callback)
    with pytest.raises(error):
        trainer.train()
    assert_val_is(truth.val, callback.run_id)
    assert list(losses(callback.run_id, "train")) == [0, 1]
    assert store.client.get_run(callback.run_id).info.status == status
    assert mlflow.active_run() is None
    assert not trainer.model._forward_hooks


def going_on(folder, *callbacks, **settings):
    """A trainer whose dropout and shuffling are part of what a checkpoint restores."""
    way = {"num_train_epochs": 3, "save_strategy": "epoch", **settings}
    return trainer_of(folder, bert(classifier_dropout=0.2), callbacks=callbacks, **way)


def test_a_training_that_goes_on_from_a_checkpoint_goes_on_in_its_run(store, tmp_path):
    whole = recorded(going_on(tmp_path / "whole"))
    broken = going_on(tmp_path / "broken", Breaking(12))
    with pytest.raises(ZeroDivisionError):
        recorded(broken)
    resumed = going_on(tmp_path / "broken")
    callback = ActionCallback(resumed)
    resumed.add_callback(callback)
    # From the epoch before the last that was written: that one is taken again.
    resumed.train(resume_from_checkpoint=str(tmp_path / "broken" / "checkpoint-5"))
    assert callback.run_id == store.runs()[1].info.run_id
    assert dynamics(callback.run_id) == dynamics(whole.run_id)
    assert dynamics(callback.run_id, "train") == dynamics(whole.run_id, "train")
    assert callback.scores["epochs_seen"].unique().to_pylist() == [3]
    assert store.client.get_run(callback.run_id).info.status == "FINISHED"

    again = going_on(tmp_path / "broken")
    again.add_callback(ActionCallback(again))
    with mlflow.start_run(), pytest.raises(RecordingError, match=f"goes on in run {callback.run_id}"):
        again.train(resume_from_checkpoint=True)


def test_half_an_epoch_is_refused_for_train_and_taken_for_val(store, tmp_path):
    way = {"save_strategy": "steps", "save_steps": 7}
    whole = recorded(going_on(tmp_path, **way))
    checkpoint = str(tmp_path / "checkpoint-7")
    refused = going_on(tmp_path, **way)
    refused.add_callback(ActionCallback(refused))
    with pytest.raises(RecordingError, match=r"in the middle of epoch 1.*record=\[\"val\"\]"):
        refused.train(resume_from_checkpoint=checkpoint)
    before = dynamics(whole.run_id)
    resumed = going_on(tmp_path, **way)
    resumed.add_callback(ActionCallback(resumed, record=["val"]))
    resumed.train(resume_from_checkpoint=checkpoint)
    assert dynamics(whole.run_id) == before
    # The steps after the checkpoint are not recorded again, and those of before would not be theirs.
    assert list(losses(whole.run_id, "train")) == [0]


def test_an_epoch_that_was_lost_between_its_checkpoint_and_its_file_is_told(store, tmp_path):
    # Saved at the epoch's last step, broken before the evaluation that follows it.
    way = {"save_strategy": "steps", "save_steps": 5}

    class BreakingBeforeItIsWritten(TrainerCallback):
        def on_epoch_end(self, *_, **__):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        recorded(going_on(tmp_path, BreakingBeforeItIsWritten(), **way))
    resumed = going_on(tmp_path, **way)
    resumed.add_callback(ActionCallback(resumed))
    with pytest.raises(RecordingError, match="lacks epoch 0: the training broke before it was written"):
        resumed.train(resume_from_checkpoint=True)


# Tasks


def targets(count, seed):
    draw = np.random.default_rng(seed)
    return [draw.integers(4, len(TOKENIZER), int(draw.integers(1, 8))).tolist() for _ in range(count)]


WRITTEN = {"train": {**TRAIN, "labels": targets(22, 3)}, "val": {**VAL, "labels": targets(13, 4)}}


def t5():
    set_seed(0)
    sizes = {"d_model": 32, "d_kv": 16, "d_ff": 32, "num_layers": 1, "num_heads": 2, "dropout_rate": 0.0}
    start = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 3}
    return T5ForConditionalGeneration(T5Config(vocab_size=len(TOKENIZER), **sizes, **start))


def sequence_losses(model, columns, shifted=False):
    """The losses of each target token, text by text."""
    model.eval()
    found = []
    for row, labels in zip(columns["input_ids"], columns["labels"], strict=True):
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([row]), labels=torch.tensor([labels])).logits[0]
        wanted = torch.tensor(labels)
        if shifted:
            logits, wanted = logits[:-1], wanted[1:]
        kept = wanted != -100
        found.append(functional.cross_entropy(logits[kept], wanted[kept], reduction="none").numpy())
    return found


@pytest.fixture
def written(store, tmp_path):
    """A Seq2SeqTrainer that generates while it evaluates, just trained and recorded."""
    trainer = trainer_of(
        tmp_path,
        t5(),
        *(table(WRITTEN[split]) for split in ("train", "val")),
        kind=Seq2SeqTrainer,
        collator=DataCollatorForSeq2Seq(TOKENIZER),
        more={"compute_metrics": lambda said: {"n": len(said.predictions)}},
        predict_with_generate=True,
        generation_max_length=12,
        generation_num_beams=2,
    )
    return trainer, recorded(trainer)


def test_the_loss_of_a_text_is_the_mean_over_its_target_tokens(written):
    trainer, callback = written
    expected = sequence_losses(trainer.model, WRITTEN["val"])
    np.testing.assert_allclose(losses(callback.run_id)[1], [each.mean() for each in expected], atol=1e-5)
    tokens = [row["tokens"] for row in dynamics(callback.run_id, columns="epoch, sample_id, tokens")]
    assert tokens == 2 * [len(each) for each in expected]
    assert ids(callback.run_id, "train", 1) == list(range(22))


def test_the_words_of_a_text_and_their_losses_are_in_the_outputs(written):
    trainer, callback = written
    expected = sequence_losses(trainer.model, WRITTEN["val"])
    said = "select sample_id, tokens, token_losses from outputs where split = 'val' order by sample_id"
    found = actionflow.query(said, runs=callback.run_id).to_pylist()
    assert [row["sample_id"] for row in found] == list(range(13))
    assert [row["tokens"] for row in found] == [
        TOKENIZER.convert_ids_to_tokens(row) for row in WRITTEN["val"]["labels"]
    ]
    for row, truth in zip(found, expected, strict=True):
        np.testing.assert_allclose(row["token_losses"], truth, atol=1e-5)


def test_a_model_that_goes_on_with_a_text_is_asked_about_the_next_token(store, tmp_path):
    set_seed(0)
    still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(TOKENIZER), n_embd=32, n_layer=1, n_head=2, **still))
    # The first two tokens are a prompt: no target.
    continued = [{**part, "labels": [[-100, -100, *row[2:]] for row in part["input_ids"]]} for part in (TRAIN, VAL)]
    trainer = trainer_of(tmp_path, model, *map(table, continued), collator=DataCollatorForSeq2Seq(TOKENIZER))
    callback = recorded(trainer)
    expected = sequence_losses(model, continued[1], shifted=True)
    np.testing.assert_allclose(losses(callback.run_id)[1], [each.mean() for each in expected], atol=1e-5)


def test_masked_words_are_targets_at_their_own_place(store, tmp_path):
    masked = [{**part, "labels": [[-100, *row[1:]] for row in part["input_ids"]]} for part in (TRAIN, VAL)]
    trainer = trainer_of(
        tmp_path, bert(BertForMaskedLM), *map(table, masked), collator=DataCollatorForSeq2Seq(TOKENIZER)
    )
    callback = recorded(trainer)
    expected = sequence_losses(trainer.model, masked[1])
    np.testing.assert_allclose(losses(callback.run_id)[1], [each.mean() for each in expected], atol=1e-5)


def test_question_answering_is_known_by_its_two_ends(store, tmp_path):
    asked = [{name: part[name] for name in ("input_ids", "attention_mask")} for part in (TRAIN, VAL)]
    for part in asked:
        part["start_positions"] = [1] * len(part["input_ids"])
        part["end_positions"] = [len(row) - 1 for row in part["input_ids"]]
    trainer = trainer_of(tmp_path, bert(BertForQuestionAnswering, num_labels=2), *map(table, asked))
    callback = recorded(trainer)
    found = [row for row in dynamics(callback.run_id, columns="*") if row["epoch"] == 1]
    trainer.model.eval()
    for row, tokens in zip(found, asked[1]["input_ids"], strict=True):
        with torch.no_grad():
            said = trainer.model(torch.tensor([tokens]))
        start = functional.cross_entropy(said.start_logits, torch.tensor([1])).item()
        end = functional.cross_entropy(said.end_logits, torch.tensor([len(tokens) - 1])).item()
        found_here = [row["start_loss"], row["end_loss"], row["loss"], row["confidence"]]
        assert found_here == pytest.approx([start, end, (start + end) / 2, np.exp(-start - end)], abs=1e-5)
        assert row["correct"] == (said.start_logits.argmax() == 1 and said.end_logits.argmax() == len(tokens) - 1)


@pytest.mark.parametrize("many", [False, True])
def test_numbers_and_several_labels_are_recorded_by_their_loss(store, tmp_path, many):
    model = bert(problem_type="multi_label_classification") if many else bert(num_labels=1)
    draw = np.random.default_rng(5)
    parts = []
    for part in (TRAIN, VAL):
        count = len(part["labels"])
        labels = draw.integers(0, 2, (count, CLASSES)).astype(float) if many else draw.normal(size=count)
        parts.append({**part, "labels": labels.tolist()})
    trainer = trainer_of(tmp_path, model, *map(table, parts))
    callback = recorded(trainer)
    model.eval()
    with torch.no_grad():
        expected = [
            model(input_ids=torch.tensor([row]), labels=torch.tensor([labels])).loss.item()
            for row, labels in zip(parts[1]["input_ids"], parts[1]["labels"], strict=True)
        ]
    np.testing.assert_allclose(losses(callback.run_id)[1], expected, atol=1e-5)


def test_outputs_that_are_a_tuple_are_understood(store, tmp_path):
    trainer = trainer_of(tmp_path, bert(return_dict=False), num_train_epochs=1)
    callback = recorded(trainer)
    trainer.model.config.return_dict = True
    np.testing.assert_allclose(losses(callback.run_id)[0], plain_losses(trainer.model, VAL), atol=1e-5)


def test_an_unknown_task_says_what_to_pass(store, tmp_path):
    class Odd(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            outputs = model.bert(inputs["input_ids"])
            loss = outputs.pooler_output.square().mean()
            return (loss, {"pooled": outputs.pooler_output}) if return_outputs else loss

    with pytest.raises(RecordingError, match=r"no task is known by these outputs.*signals=function"):
        recorded(trainer_of(tmp_path, kind=Odd))
    callback = recorded(
        trainer_of(tmp_path, kind=Odd), signals=lambda batch, outputs: {"loss": batch["sample_id"].float() / 2}
    )
    assert losses(callback.run_id)[1] == [place / 2 for place in range(13)]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(Items(TRAIN))


@pytest.mark.parametrize("stream", [Stream(), table(TRAIN).to_iterable_dataset()], ids=["torch", "datasets"])
def test_a_stream_is_refused_and_can_be_left_out(store, tmp_path, stream):
    trainer = trainer_of(tmp_path, train=stream, max_steps=4)
    with pytest.raises(RecordingError, match=r"a stream \(\w+\) has no places.*record=\[\"val\"\]"):
        ActionCallback(trainer)
    callback = recorded(trainer, record=["val"])
    assert ids(callback.run_id) == list(range(13))


def test_without_transformers_the_message_says_what_to_install():
    code = "import sys; sys.modules['transformers'] = None\nimport actionflow.integrations.huggingface"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].endswith("needs transformers: pip install transformers")
