"""Other people's Lightning trainings, recorded: what `actionflow.integrations.lightning.ActionCallback` promises."""

import logging
import subprocess
import sys

import mlflow
import numpy as np
import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import MLFlowLogger
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset, WeightedRandomSampler

import actionflow
from actionflow.errors import RecordingError
from actionflow.integrations.lightning import ActionCallback

pytestmark = pytest.mark.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

SAMPLES, CLASSES = 23, 3
X = torch.randn(SAMPLES, 4, generator=torch.Generator().manual_seed(1))
Y = torch.randint(0, CLASSES, (SAMPLES,), generator=torch.Generator().manual_seed(2))
DATA = TensorDataset(X, Y)


class Classifier(LightningModule):
    """A module as people write them."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, CLASSES)

    def forward(self, x):
        return self.layer(x)

    def loss(self, batch):
        return functional.cross_entropy(self(batch[0]), batch[1])

    def training_step(self, batch, batch_idx):
        return self.loss(batch)

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.5)


class Truth(Callback):
    """What every sample's loss really was: in the training steps, and in a plain loop over the data in order."""

    def __init__(self):
        self.train, self.val = [], []

    def on_train_epoch_start(self, trainer, module):
        self.train.append({})

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        with torch.no_grad():
            losses = functional.cross_entropy(module.layer(batch[0]), batch[1], reduction="none")
        places = [int((row == X).all(dim=1).nonzero()) for row in batch[0]]
        self.train[-1] |= dict(zip(places, losses.tolist(), strict=True))

    def on_train_epoch_end(self, trainer, module):
        with torch.no_grad():
            self.val.append(functional.cross_entropy(module.layer(X), Y, reduction="none").numpy())


def trainer(*callbacks, **settings):
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    kept = any(isinstance(each, ModelCheckpoint) for each in callbacks)
    settings = {"max_epochs": 2, "accelerator": "cpu", "enable_checkpointing": kept, **quiet, **settings}
    return Trainer(callbacks=list(callbacks), **settings)


def loader(data=DATA, **settings):
    return DataLoader(data, **{"batch_size": 5, **settings})


def dynamics(run_id, split="val"):
    return actionflow.query(
        "select epoch, sample_id, loss, label from dynamics where split = $split order by epoch, sample_id",
        runs=run_id,
        split=split,
    ).to_pylist()


def epochs(run_id, split="val"):
    return sorted({row["epoch"] for row in dynamics(run_id, split)})


@pytest.mark.parametrize("workers", [0, 2])
def test_what_is_recorded_is_what_happened_in_spite_of_shuffling_workers_and_a_ragged_last_batch(store, workers):
    truth, recording = Truth(), ActionCallback()
    way = {"num_workers": workers, "persistent_workers": workers > 0}
    trainer(truth, recording).fit(Classifier(), loader(shuffle=True, **way), loader(shuffle=True, **way))
    for epoch in (0, 1):
        val = [row for row in dynamics(recording.run_id) if row["epoch"] == epoch]
        assert [row["sample_id"] for row in val] == list(range(SAMPLES))
        assert [row["label"] for row in val] == Y.tolist()
        np.testing.assert_allclose([row["loss"] for row in val], truth.val[epoch], atol=1e-6)
        train = {row["sample_id"]: row["loss"] for row in dynamics(recording.run_id, "train") if row["epoch"] == epoch}
        assert train == pytest.approx(truth.train[epoch], abs=1e-6)


def test_recording_changes_nothing_in_the_training(store):
    weights = []
    for callbacks in ([], [ActionCallback()]):
        module = Classifier()
        torch.manual_seed(3)
        one = trainer(*callbacks)
        one.fit(module, loader(shuffle=True), loader())
        weights.append(module.layer.weight.detach().clone())
        assert "process_dataloader" not in vars(one.strategy)
        assert "convert_input" not in vars(one.precision_plugin)
        assert not module._forward_hooks
    assert torch.equal(*weights)


def test_the_place_in_a_subset_is_told_as_the_place_in_the_whole(store):
    recording = ActionCallback()
    outer = Subset(DATA, [20, 3, 11, 7])
    trainer(recording).fit(Classifier(), loader(outer, shuffle=True), loader(Subset(outer, [3, 0])))
    assert {row["sample_id"] for row in dynamics(recording.run_id, "train")} == {20, 3, 11, 7}
    assert {row["sample_id"] for row in dynamics(recording.run_id, "val")} == {7, 20}


def test_others_may_look_into_the_loaders_meanwhile(store):
    class Curious(Callback):
        def on_train_batch_start(self, trainer, module, batch, batch_idx):
            assert len(next(iter(trainer.train_dataloader))) == 2
            assert trainer.train_dataloader.dataset is DATA
            assert sum(len(y) for _, y in trainer.val_dataloaders) == SAMPLES

        on_validation_batch_start = on_train_batch_start

    recording, truth = ActionCallback(), Truth()
    trainer(Curious(), truth, recording, num_sanity_val_steps=0).fit(Classifier(), loader(shuffle=True), loader())
    train = {row["sample_id"]: row["loss"] for row in dynamics(recording.run_id, "train") if row["epoch"] == 1}
    assert train == pytest.approx(truth.train[1], abs=1e-6)


def test_ids_that_a_batch_brings_along_are_taken(store):
    recording = ActionCallback()
    data = TensorDataset(X, Y, torch.arange(SAMPLES) + 1000)
    trainer(recording, max_epochs=1).fit(Classifier(), loader(data, shuffle=True), loader(data))
    assert dynamics(recording.run_id)[0]["sample_id"] == 1000
    assert dynamics(recording.run_id, "train")[-1]["sample_id"] == 1000 + SAMPLES - 1


class Rows(Dataset):
    """Items that are dictionaries."""

    def __init__(self, **columns):
        self.columns = columns

    def __len__(self):
        return SAMPLES

    def __getitem__(self, place):
        return {name: column[place] for name, column in self.columns.items()}


class OfRows(Classifier):
    def loss(self, batch):
        return functional.cross_entropy(self(batch["x"]), batch["truth" if "truth" in batch else "label"])


def test_batches_may_be_dictionaries_with_names_of_ones_own(store):
    usual, own = ActionCallback(), ActionCallback(ids="key", targets="truth")
    trainer(usual, max_epochs=1).fit(OfRows(), loader(Rows(x=X, label=Y), shuffle=True), loader(Rows(x=X, label=Y)))
    rows = Rows(x=X, truth=Y, key=torch.arange(SAMPLES) * 2)
    trainer(own, max_epochs=1).fit(OfRows(), loader(rows, shuffle=True), loader(rows))
    assert [row["sample_id"] for row in dynamics(usual.run_id)] == list(range(SAMPLES))
    assert [row["sample_id"] for row in dynamics(own.run_id)] == list(range(0, 2 * SAMPLES, 2))


def test_a_third_element_that_is_no_id_is_told_and_can_be_passed_over(store):
    lengths = TensorDataset(X, Y, torch.ones(SAMPLES, dtype=torch.long))
    with pytest.raises(RecordingError, match=r'ids="loader"'):
        trainer(ActionCallback()).fit(Classifier(), loader(lengths))
    recording = ActionCallback(ids="loader")
    trainer(recording, max_epochs=1).fit(Classifier(), loader(lengths, shuffle=True))
    assert [row["sample_id"] for row in dynamics(recording.run_id, "train")] == list(range(SAMPLES))


class Stream(IterableDataset):
    def __iter__(self):
        return zip(X, Y, strict=True)


class Batches:
    """No DataLoader at all."""

    def __iter__(self):
        return iter([(X, Y)])


def longest_first(items):
    items.sort(key=lambda item: -float(item[0][0]))
    return torch.stack([x for x, _ in items]), torch.stack([y for _, y in items])


@pytest.mark.parametrize(
    ("batches", "reason"),
    [
        (lambda: loader(Stream()), "do not come from a DataLoader over a data set with places"),
        (Batches, "do not come from a DataLoader"),
        (lambda: loader(collate_fn=longest_first), "puts the samples into another order"),
        (lambda: loader(TensorDataset(X[None], Y[None]), batch_size=None), "no row of whole numbers"),
    ],
)
def test_where_ids_cannot_be_known_nothing_is_guessed(store, batches, reason):
    with pytest.raises(RecordingError, match=reason) as told:
        trainer(ActionCallback()).fit(Classifier(), batches())
    assert "as its third element" in str(told.value)
    assert store.runs()[0].info.status == "FAILED"


def test_a_collate_fn_that_drops_samples_is_told(store):
    def without_the_last(items):
        return torch.stack([x for x, _ in items[:-1]]), torch.stack([y for _, y in items[:-1]])

    with pytest.raises(RecordingError, match="4 labels but 5 sample ids"):
        trainer(ActionCallback()).fit(Classifier(), loader(collate_fn=without_the_last))


def test_samples_drawn_more_than_once_are_told_and_validation_can_be_recorded_alone(store):
    drawn = WeightedRandomSampler(torch.ones(SAMPLES), num_samples=40)
    with pytest.raises(RecordingError, match="came more than once in epoch 0 of split train"):
        trainer(ActionCallback()).fit(Classifier(), loader(sampler=drawn), loader())
    recording = ActionCallback(record=["val"])
    trainer(recording).fit(Classifier(), loader(sampler=drawn), loader())
    assert not dynamics(recording.run_id, "train")
    assert epochs(recording.run_id) == [0, 1]


def test_of_several_validations_in_an_epoch_the_last_counts_and_the_sanity_check_does_not(store):
    truth, recording = Truth(), ActionCallback()
    trainer(truth, recording, val_check_interval=0.2, num_sanity_val_steps=2).fit(
        Classifier(), loader(shuffle=True), loader()
    )
    rows = dynamics(recording.run_id)
    assert len(rows) == 2 * SAMPLES
    np.testing.assert_allclose([row["loss"] for row in rows], np.concatenate(truth.val), atol=1e-6)


def test_an_epoch_without_validation_has_training_samples_alone(store):
    both, val = ActionCallback(), ActionCallback(record=["val"])
    for recording in (both, val):
        trainer(recording, max_epochs=4, check_val_every_n_epoch=2).fit(Classifier(), loader(), loader())
        assert epochs(recording.run_id) == [1, 3]
    assert epochs(both.run_id, "train") == [0, 1, 2, 3]


def test_several_validation_loaders_are_splits_of_their_own(store):
    recording = ActionCallback()
    trainer(recording).fit(Classifier(), loader(), [loader(), loader(Subset(DATA, [1, 2]))])
    assert len(dynamics(recording.run_id, "val")) == 2 * SAMPLES
    assert {row["sample_id"] for row in dynamics(recording.run_id, "val_1")} == {1, 2}


def test_validate_test_and_rehearsals_leave_no_trace(store):
    class Testable(Classifier):
        def test_step(self, batch, batch_idx):
            self.loss(batch)

    module, recording = Testable(), ActionCallback()
    trainer(recording, fast_dev_run=True).fit(module, loader(), loader())
    assert not store.runs()
    one = trainer(recording)
    one.fit(module, loader(), loader())
    one.validate(module, loader(), verbose=False)
    one.test(module, loader(), verbose=False)
    assert epochs(recording.run_id) == [0, 1]
    assert len(store.runs()) == 1


def test_epochs_that_never_ran_do_not_exist(store):
    recording = ActionCallback()
    stopping = EarlyStopping("val_loss", mode="max", patience=1)
    trainer(recording, stopping, max_epochs=50).fit(Classifier(), loader(), loader())
    assert epochs(recording.run_id) == [0, 1]


def test_a_part_that_gives_logits_is_found_or_named(store):
    class OfParts(LightningModule):
        def __init__(self):
            super().__init__()
            self.body, self.head, self.criterion = nn.Linear(4, 6), nn.Linear(6, CLASSES), nn.CrossEntropyLoss()

        def training_step(self, batch, batch_idx):
            return self.criterion(self.head(self.body(batch[0])), batch[1])

        configure_optimizers = Classifier.configure_optimizers

    class OfOnePart(OfParts):
        def __init__(self):
            super().__init__()
            self.model = nn.Sequential(self.body, self.head)

        def training_step(self, batch, batch_idx):
            return self.criterion(self.model(batch[0]), batch[1])

    with pytest.raises(RecordingError, match=r"2 outputs .*\(body, head\).*logits="):
        trainer(ActionCallback()).fit(OfParts(), loader())
    with pytest.raises(RecordingError, match=r'no part "haed".*body, head'):
        trainer(ActionCallback(logits="haed")).fit(OfParts(), loader())
    for module, named in ((OfParts(), "head"), (OfOnePart(), "model")):
        recording = ActionCallback(logits=named)
        trainer(recording).fit(module, loader())
        assert epochs(recording.run_id, "train") == [0, 1]


def test_a_model_inside_the_module_needs_no_name(store):
    class Wrapped(LightningModule):
        def __init__(self):
            super().__init__()
            self.model, self.criterion = Classifier().layer, nn.CrossEntropyLoss(reduction="none")

        def training_step(self, batch, batch_idx):
            return self.criterion(self.model(batch[0]), batch[1]).mean()

        configure_optimizers = Classifier.configure_optimizers

    recording = ActionCallback()
    trainer(recording).fit(Wrapped(), loader())
    assert len(dynamics(recording.run_id, "train")) == 2 * SAMPLES


def test_logits_that_a_step_returns_are_taken(store):
    class Telling(Classifier):
        def training_step(self, batch, batch_idx):
            scaled = self.layer(batch[0]) * 2
            return {"loss": functional.cross_entropy(scaled, batch[1]), "logits": scaled}

    recording = ActionCallback()
    module = Telling()
    with torch.no_grad():
        truth = functional.cross_entropy(module.layer(X) * 2, Y, reduction="none")
    trainer(recording, max_epochs=1).fit(module, loader(batch_size=SAMPLES))
    np.testing.assert_allclose([row["loss"] for row in dynamics(recording.run_id, "train")], truth, atol=1e-6)


def test_probabilities_are_no_logits(store):
    class Soft(Classifier):
        def forward(self, x):
            return self.layer(x).softmax(dim=1)

        def loss(self, batch):
            return functional.nll_loss(self(batch[0]).log(), batch[1])

    with pytest.raises(RecordingError, match="probabilities, not logits"):
        trainer(ActionCallback()).fit(Soft(), loader())
    recording = ActionCallback(logits="layer")
    trainer(recording).fit(Soft(), loader())
    assert epochs(recording.run_id, "train") == [0, 1]


def test_a_single_logit_is_a_yes_or_no(store):
    class YesOrNo(Classifier):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 1)

        def loss(self, batch):
            return functional.binary_cross_entropy_with_logits(self(batch[0]), batch[1])

    module, recording = YesOrNo(), ActionCallback()
    answers = (Y == 0).float().unsqueeze(1)
    with torch.no_grad():
        truth = functional.binary_cross_entropy_with_logits(module(X), answers, reduction="none").flatten()
    trainer(recording, max_epochs=1).fit(module, loader(TensorDataset(X, answers), batch_size=SAMPLES))
    np.testing.assert_allclose([row["loss"] for row in dynamics(recording.run_id, "train")], truth, atol=1e-6)


def test_another_task_gives_its_own_signals(store):
    class Autoencoder(Classifier):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def training_step(self, batch, batch_idx):
            errors = (self(batch[0]) - batch[0]).square().mean(dim=1)
            return {"loss": errors.mean(), "errors": errors}

    module, recording = Autoencoder(), ActionCallback(signals=lambda batch, outputs: {"loss": outputs["errors"]})
    with torch.no_grad():
        truth = (module(X) - X).square().mean(dim=1)
    trainer(recording, max_epochs=1).fit(module, loader(TensorDataset(X), batch_size=SAMPLES, shuffle=True))
    np.testing.assert_allclose([row["loss"] for row in dynamics(recording.run_id, "train")], truth, atol=1e-6)


def test_what_is_not_a_classification_says_what_to_pass(store):
    soft = TensorDataset(X, torch.full((SAMPLES, CLASSES), 1 / CLASSES))
    with pytest.raises(RecordingError, match=r"not one-hot.*signals="):
        trainer(ActionCallback()).fit(Classifier(), loader(soft))


def test_the_run_is_the_active_one_the_loggers_or_a_new_one(store, tmp_path):
    new = ActionCallback()
    trainer(new).fit(Classifier(), loader())
    assert mlflow.active_run() is None
    assert store.client.get_run(new.run_id).info.status == "FINISHED"

    with mlflow.start_run() as active:
        recording = ActionCallback()
        trainer(recording).fit(Classifier(), loader())
        assert mlflow.active_run() is not None
    assert recording.run_id == active.info.run_id

    logger = MLFlowLogger(experiment_name="tests", tracking_uri=store.uri)
    logged = ActionCallback()
    trainer(logged, logger=logger, log_every_n_steps=1).fit(Classifier(), loader())
    assert logged.run_id == logger.run_id
    assert epochs(logged.run_id, "train") == [0, 1]
    assert len(logged.scores) == SAMPLES


def test_two_trainings_do_not_fit_into_one_run(store):
    with mlflow.start_run():
        trainer(ActionCallback()).fit(Classifier(), loader())
        with pytest.raises(RecordingError, match=r"holds the epochs of another training.*mlflow\.start_run\(\)"):
            trainer(ActionCallback()).fit(Classifier(), loader())


class Breaking(Callback):
    def __init__(self, epoch):
        self.epoch = epoch

    def on_train_batch_end(self, trainer, *_):
        if trainer.current_epoch == self.epoch:
            raise ZeroDivisionError


def test_a_training_that_breaks_keeps_its_epochs(store):
    recording, module = ActionCallback(), Classifier()
    with pytest.raises(ZeroDivisionError):
        trainer(recording, Breaking(2), max_epochs=5).fit(module, loader(), loader())
    assert epochs(recording.run_id) == epochs(recording.run_id, "train") == [0, 1]
    assert store.client.get_run(recording.run_id).info.status == "FAILED"
    assert mlflow.active_run() is None
    assert not module._forward_hooks


@pytest.mark.parametrize("at_train_end", [False, True])
def test_a_training_that_goes_on_from_a_checkpoint_goes_on_in_its_run(store, tmp_path, at_train_end):
    keeping = {"dirpath": tmp_path, "filename": "{epoch}", "save_top_k": -1, "save_on_train_epoch_end": at_train_end}
    whole = ActionCallback()
    torch.manual_seed(0)
    trainer(whole, max_epochs=4).fit(Classifier(), loader(), loader())

    broken = ActionCallback()
    with pytest.raises(ZeroDivisionError):
        trainer(broken, ModelCheckpoint(**keeping), Breaking(3), max_epochs=4).fit(Classifier(), loader(), loader())
    resumed = ActionCallback()
    # From the epoch before the last that was written: that one is taken again.
    trainer(resumed, max_epochs=4).fit(Classifier(), loader(), loader(), ckpt_path=tmp_path / "epoch=1.ckpt")
    assert resumed.run_id == broken.run_id
    assert dynamics(resumed.run_id) == dynamics(whole.run_id)
    assert dynamics(resumed.run_id, "train") == dynamics(whole.run_id, "train")
    assert resumed.scores["epochs_seen"].unique().to_pylist() == [4]

    with mlflow.start_run(), pytest.raises(RecordingError, match=f"goes on in run {broken.run_id}"):
        trainer(ActionCallback()).fit(Classifier(), loader(), loader(), ckpt_path=tmp_path / "epoch=0.ckpt")


def test_an_epoch_that_was_lost_between_its_checkpoint_and_its_file_is_told(store, tmp_path):
    class BreakingBeforeItIsWritten(Callback):
        def on_train_epoch_end(self, trainer, module):
            if trainer.current_epoch == 1:
                raise ZeroDivisionError

    recording, keeping = ActionCallback(), ModelCheckpoint(tmp_path, "{epoch}", save_on_train_epoch_end=False)
    with pytest.raises(ZeroDivisionError):
        trainer(BreakingBeforeItIsWritten(), recording, keeping).fit(Classifier(), loader(), loader())
    with pytest.raises(RecordingError, match=f"run {recording.run_id} lacks epoch 1"):
        trainer(ActionCallback(), max_epochs=3).fit(
            Classifier(), loader(), loader(), ckpt_path=tmp_path / "epoch=1.ckpt"
        )


def test_a_second_fit_of_the_same_trainer_goes_on(store):
    recording = ActionCallback()
    one, module = trainer(recording), Classifier()
    one.fit(module, loader(), loader())
    one.fit_loop.max_epochs = 4
    one.fit(module, loader(), loader())
    assert epochs(recording.run_id) == epochs(recording.run_id, "train") == [0, 1, 2, 3]


def test_half_an_epoch_is_refused(store, tmp_path):
    keeping = ModelCheckpoint(dirpath=tmp_path, filename="{step}", every_n_train_steps=3, save_top_k=-1)
    trainer(ActionCallback(), keeping, max_epochs=1).fit(Classifier(), loader())
    with pytest.raises(RecordingError, match="in the middle of epoch 0"):
        trainer(ActionCallback()).fit(Classifier(), loader(), ckpt_path=tmp_path / "step=3.ckpt")


def test_two_processes_record_every_sample_once(store):
    trainer(ActionCallback(), strategy="ddp_fork", devices=2).fit(Classifier(), loader(shuffle=True), loader())
    run_id = store.runs()[0].info.run_id
    for split in ("train", "val"):
        # 23 samples in two processes: the sampler fills up with one that counts once.
        assert [row["sample_id"] for row in dynamics(run_id, split)] == 2 * list(range(SAMPLES))
        assert [row["label"] for row in dynamics(run_id, split)] == 2 * Y.tolist()


def test_without_lightning_the_message_says_what_to_install():
    code = "import sys; sys.modules['lightning'] = sys.modules['pytorch_lightning'] = None\n"
    done = subprocess.run(
        [sys.executable, "-c", code + "import actionflow.integrations.lightning"], capture_output=True, text=True
    )
    assert done.stderr.splitlines()[-1].endswith("needs lightning: pip install lightning")
