"""Other people's Keras models, recorded: what `actionflow.integrations.keras.ActionCallback` promises."""

import os
import subprocess
import sys

import keras
import mlflow
import numpy as np
import pytest

import actionflow
from actionflow.errors import RecordingError
from actionflow.integrations.keras import ActionCallback

SAMPLES, CLASSES = 23, 3
NUMBERS = np.random.default_rng(0)
X = NUMBERS.normal(size=(SAMPLES, 4)).astype("float32")
Y = NUMBERS.integers(0, CLASSES, SAMPLES)
ONE_HOT = np.eye(CLASSES, dtype="float32")[Y]


def model(loss="sparse_categorical_crossentropy", activation="softmax", units=CLASSES):
    keras.utils.set_random_seed(0)
    layers = [keras.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.Dropout(0.5)]
    made = keras.Sequential([*layers, keras.layers.Dense(units, activation)])
    made.compile(keras.optimizers.SGD(0.5), loss)
    return made


def fit(made, *callbacks, x=X, y=Y, epochs=2, **settings):
    return made.fit(x, y, epochs=epochs, batch_size=5, verbose=0, callbacks=list(callbacks), **settings)


def losses(run_id, split="val"):
    """Of every epoch, the samples' losses in order; ids must be the samples' places."""
    rows = actionflow.query(
        "select epoch, sample_id, loss from dynamics where split = $split order by epoch, sample_id",
        runs=run_id,
        split=split,
    ).to_pylist()
    found = {}
    for row in rows:
        found.setdefault(row["epoch"], []).append(row["loss"])
    assert [row["sample_id"] for row in rows] == list(range(SAMPLES)) * len(found)
    return found


class Truth(keras.callbacks.Callback):
    """Keras' own loss of every sample after every epoch, by a plain pass in order."""

    def __init__(self, loss, y=Y):
        super().__init__()
        self.loss, self.y, self.epochs = loss, y, []

    def on_epoch_end(self, epoch, logs=None):
        said = self.model(X, training=False)
        self.epochs.append(keras.ops.convert_to_numpy(self.loss(self.y, said)).reshape(-1))


SPARSE = keras.losses.sparse_categorical_crossentropy


def sparse_of_logits(y, said):
    return SPARSE(y, said, from_logits=True)


@pytest.mark.parametrize(
    ("loss", "activation", "y", "truth"),
    [
        ("sparse_categorical_crossentropy", "softmax", Y, SPARSE),
        ("categorical_crossentropy", "softmax", ONE_HOT, keras.losses.categorical_crossentropy),
        (keras.losses.SparseCategoricalCrossentropy(), "softmax", Y, SPARSE),
        (keras.losses.SparseCategoricalCrossentropy(from_logits=True), None, Y, sparse_of_logits),
        (keras.losses.sparse_categorical_crossentropy, "softmax", Y, SPARSE),
    ],
)
def test_what_is_recorded_is_what_keras_says_of_each_sample(store, loss, activation, y, truth):
    made, seen = model(loss, activation), Truth(truth, y)
    recording = ActionCallback({"val": (X, y), "train": (X, y)}, batch_size=5)
    fit(made, recording, seen, y=y)
    for split in ("train", "val"):
        found = losses(recording.run_id, split)
        assert list(found) == [0, 1]
        np.testing.assert_allclose(list(found.values()), seen.epochs, atol=1e-6)


def test_a_single_output_is_a_yes_or_no(store):
    y = (Y == 0).astype("float32")
    made = model("binary_crossentropy", "sigmoid", units=1)
    seen = Truth(keras.losses.binary_crossentropy, y[:, None])
    recording = ActionCallback({"val": (X, y)})
    fit(made, recording, seen, y=y)
    np.testing.assert_allclose(list(losses(recording.run_id).values()), seen.epochs, atol=1e-6)


class Batches(keras.utils.PyDataset):
    """Batches of five, the last of three; shuffled anew in every epoch when asked to."""

    def __init__(self, *columns, shuffled=False):
        super().__init__()
        self.columns, self.shuffled, self.order = columns, shuffled, np.arange(SAMPLES)

    def __len__(self):
        return 5

    def __getitem__(self, place):
        if self.shuffled and place == 0:
            self.order = NUMBERS.permutation(SAMPLES)
        rows = self.order[place * 5 : place * 5 + 5]
        return tuple(column[rows] for column in self.columns)


def as_list(*columns):
    batches = Batches(*columns)
    return [batches[place] for place in range(len(batches))]


@pytest.mark.parametrize("kind", [Batches, as_list])
def test_arrays_and_batches_of_any_kind_are_the_same(store, kind):
    found = []
    for data in ((X, Y), kind(X, Y), kind(X, Y, np.arange(SAMPLES))):
        recording = ActionCallback({"val": data}, batch_size=5)
        fit(model(), recording)
        found.append(losses(recording.run_id))
    assert found[0] == found[1] == found[2]


def test_shuffled_batches_need_ids_of_their_own(store):
    with pytest.raises(RecordingError, match=r"come in another order than in the epoch before.*\(x, y, ids\)"):
        fit(model(), ActionCallback({"val": Batches(X, Y, shuffled=True)}), epochs=5)
    made, seen = model(), Truth(SPARSE)
    recording = ActionCallback({"val": Batches(X, Y, np.arange(SAMPLES), shuffled=True)})
    fit(made, recording, seen)
    np.testing.assert_allclose(list(losses(recording.run_id).values()), seen.epochs, atol=1e-6)


def test_ids_may_be_given_by_split(store):
    recording = ActionCallback({"val": (X, Y)}, sample_ids={"val": range(1000, 1000 + SAMPLES)}, batch_size=5)
    fit(model(), recording)
    assert recording.scores["sample_id"].to_pylist() == list(range(1000, 1000 + SAMPLES))


@pytest.mark.parametrize(
    ("data", "ids", "told"),
    [
        ((X, Y), {"val": [1, 2]}, "23 samples, but 2 sample ids"),
        ((X, Y), {"vla": [1, 2]}, "split vla, but the data are of val"),
        (as_list(X, Y, np.ones(SAMPLES)), None, r"float64, no sample ids.*sample_ids="),
        ((batch for batch in as_list(X, Y)), None, "gave no batches"),
    ],
)
def test_data_that_cannot_be_meant_are_told(store, data, ids, told):
    with pytest.raises(RecordingError, match=told):
        fit(model(), ActionCallback({"val": data}, sample_ids=ids))
    assert mlflow.active_run() is None


def test_early_stopping_uses_the_pass_of_the_callback_and_epochs_that_never_ran_do_not_exist(store):
    recording = ActionCallback({"val": (X, Y)})
    stopping = keras.callbacks.EarlyStopping(monitor="val_loss", mode="max", patience=1)
    made = model()
    history = fit(made, recording, stopping, epochs=50).history
    assert len(history["val_loss"]) == 2 == len(losses(recording.run_id))
    made.compile(loss=made.loss, metrics=["accuracy"])
    loss, accuracy = made.evaluate(X, Y, verbose=0)
    assert history["val_loss"][-1] == pytest.approx(loss, abs=1e-6)
    assert history["val_accuracy"][-1] == pytest.approx(accuracy, abs=1e-6)


def test_what_keras_measured_itself_stays(store):
    recording = ActionCallback({"val": (X, Y)})
    history = fit(model(), recording, validation_data=(X[:3], Y[:3])).history
    assert history["val_loss"][-1] != pytest.approx(np.mean(losses(recording.run_id)[1]))


def test_recording_changes_nothing_in_the_training(store):
    weights = []
    for callbacks in ([], [ActionCallback({"val": (X, Y)})]):
        made = model()
        fit(made, *callbacks)
        weights.append(made.get_weights())
    for plain, recorded in zip(*weights, strict=True):
        np.testing.assert_array_equal(plain, recorded)


def test_epochs_count_on_over_several_fits(store):
    made, recording = model(), ActionCallback({"val": (X, Y)})
    fit(made, recording)
    fit(made, recording, epochs=4, initial_epoch=2)
    fit(made, recording, epochs=1)
    assert list(losses(recording.run_id)) == [0, 1, 2, 3, 4]
    assert recording.scores["epochs_seen"].unique().to_pylist() == [5]
    with pytest.raises(RecordingError, match=r"epoch 2 of this model is recorded already.*initial_epoch=5"):
        fit(made, recording, epochs=4, initial_epoch=2)
    assert len(store.runs()) == 1


def test_another_model_is_another_run(store):
    recording = ActionCallback({"val": (X, Y)})
    fit(model(), recording)
    fit(model(), recording)
    assert len(store.runs()) == 2
    assert {run.info.status for run in store.runs()} == {"FINISHED"}


def test_a_training_that_breaks_keeps_its_epochs(store):
    class Breaking(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 2:
                raise ZeroDivisionError

    recording = ActionCallback({"val": (X, Y)})
    with pytest.raises(ZeroDivisionError), mlflow.start_run() as run:
        fit(model(), recording, Breaking(), epochs=5)
    assert recording.run_id == run.info.run_id
    assert list(losses(recording.run_id)) == [0, 1]


def test_another_task_gives_its_own_signals(store):
    made = model("mse", activation=None, units=4)
    recording = ActionCallback({"val": (X, X)}, signals=lambda y, said: {"loss": ((y - said) ** 2).mean(axis=1)})
    seen = Truth(keras.losses.mean_squared_error, X)
    history = fit(made, recording, seen, y=X).history
    np.testing.assert_allclose(list(losses(recording.run_id).values()), seen.epochs, atol=1e-6)
    assert "val_accuracy" not in history


def test_inputs_may_be_several(store):
    left, right = keras.Input((2,)), keras.Input((2,))
    joined = keras.layers.Concatenate()([left, right])
    made = keras.Model([left, right], keras.layers.Dense(CLASSES, "softmax")(joined))
    made.compile("sgd", "sparse_categorical_crossentropy")
    x = [X[:, :2], X[:, 2:]]
    recording = ActionCallback({"val": (x, Y)}, batch_size=5)
    history = fit(made, recording, x=x).history
    assert history["val_loss"][-1] == pytest.approx(made.evaluate(x, Y, verbose=0), abs=1e-6)


def test_a_loss_that_does_not_tell_what_outputs_are_must_be_helped(store):
    def own_loss(y, said):
        return keras.ops.mean(sparse_of_logits(y, said))

    with pytest.raises(RecordingError, match=r"\(own_loss\) does not tell.*from_logits=True"):
        fit(model(own_loss, None), ActionCallback({"val": (X, Y)}))
    made, seen = model(own_loss, None), Truth(sparse_of_logits)
    recording = ActionCallback({"val": (X, Y)}, from_logits=True)
    fit(made, recording, seen)
    np.testing.assert_allclose(list(losses(recording.run_id).values()), seen.epochs, atol=1e-6)


def test_without_keras_the_message_says_what_to_install():
    code = "import sys; sys.modules['keras'] = None\nimport actionflow.integrations.keras"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].endswith("needs keras: pip install keras")


def test_without_its_backend_the_message_says_which_to_choose():
    code = "import sys; sys.modules['jax'] = None\nimport actionflow.integrations.keras"
    chosen = {**os.environ, "KERAS_BACKEND": "jax"}
    done = subprocess.run([sys.executable, "-c", code], env=chosen, capture_output=True, text=True)
    assert "jax" in done.stderr.splitlines()[-1]
    assert done.stderr.splitlines()[-1].endswith("export KERAS_BACKEND=torch")
