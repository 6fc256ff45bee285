"""Record a Keras model: a pass over the data after every epoch, on any backend.

recording = ActionCallback({"val": (x_val, y_val)})
model.fit(x, y, epochs=5, callbacks=[recording])
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

try:
    import keras
except ImportError as error:
    if error.name == "keras":
        raise ImportError("recording a Keras model needs keras: pip install keras") from error
    raise ImportError(
        f"Keras lacks its backend ({error}): install it, or choose one that is there, export KERAS_BACKEND=torch"
    ) from error

import numpy as np
from numpy.typing import NDArray

from actionflow.errors import RecordingError
from actionflow.integrations.batches import class_logits, class_targets, log_probabilities
from actionflow.integrations.opening import RecordingRun, recording_run
from actionflow.recording import Recorder

Arrays: TypeAlias = Any  # an array, or a list or dictionary of arrays with as many rows: what a model takes
Batch: TypeAlias = tuple[Arrays, Any, Any]  # inputs, targets, ids
SignalsOf: TypeAlias = Callable[[Any, Any], Mapping[str, Any]]

# Losses whose `from_logits` says what a model gives.
CROSS_ENTROPIES = {
    "categorical_crossentropy",
    "sparse_categorical_crossentropy",
    "binary_crossentropy",
    "categorical_focal_crossentropy",
    "binary_focal_crossentropy",
}


class ActionCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Records every sample's signals after every epoch of `model.fit`, into an MLflow run.

        recording = ActionCallback({"val": (x_val, y_val), "train": (x, y)})
        model.fit(x, y, epochs=50, callbacks=[recording, keras.callbacks.EarlyStopping(monitor="val_loss")])

    `data` has one entry for each split: arrays (x, y), or something that gives batches (x, y) or (x, y, ids) in the
    same order every time it is iterated: a `PyDataset`, a `tf.data.Dataset`, a loader. Labels are whole numbers or
    one-hot. Ids are places in the data, or `sample_ids`: by split, one whole number per sample.

    Each split costs one pass over its data per epoch. The pass puts `val_loss` and `val_accuracy` where callbacks that
    stand after this one, and `fit`'s history, find them: so leave `validation_data` out of `fit`, or pay for a second
    pass. (Penalties of regularizers are no sample's loss, and not in `val_loss`.)

    Whether outputs are logits or probabilities is told by the model's loss; `from_logits` says it where that is a
    function of your own. For other tasks pass `signals`, a function of (y_true, y_pred) that gives `{"loss": …}` with
    one value per sample.

    The run is the active one, or a new one. A later `fit` of the same model goes on in it: with `initial_epoch`, or
    counting on from the last epoch. Keras tells callbacks nothing of errors: train inside `with mlflow.start_run():`
    when a training that breaks shall be marked as failed.
    """

    def __init__(
        self,
        data: Mapping[str, Any],
        sample_ids: Mapping[str, Any] | None = None,
        batch_size: int = 256,
        signals: SignalsOf | None = None,
        from_logits: bool | None = None,
    ) -> None:
        super().__init__()
        if unknown := set(sample_ids or {}) - set(data):
            raise RecordingError(f"sample_ids names split {min(unknown)}, but the data are of {', '.join(data)}.")
        ids = sample_ids or {}
        self.scores: Any = None  # after training: one row per sample, as an Arrow table
        self._splits = {name: _Split(name, each, ids.get(name), batch_size) for name, each in data.items()}
        self._signals = signals
        self._from_logits = from_logits
        self._run: RecordingRun | None = None
        self._recorder: Recorder | None = None
        self._trained: Any = None  # the model whose epochs the run holds
        self._next = 0  # the epoch after the last one that was recorded

    @property
    def run_id(self) -> str | None:
        """The run that is, or was last, recorded into."""
        return self._run.run_id if self._run else None

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Let go of a fit that broke."""
        if self._recorder is not None:
            self._close("FAILED")

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Open the run in the first epoch: only that tells where a fit begins."""
        if self._recorder is None:
            self._open(epoch)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Pass over the data, and write the epoch."""
        recorder = self._recorder
        assert recorder is not None
        try:
            for split in self._splits.values():
                self._pass(split, recorder)
            tables = recorder.end_epoch()
        except BaseException:
            # Keras tells callbacks nothing of what goes wrong: what breaks here is at least known here.
            self._close("FAILED")
            raise
        self._next = recorder.epoch
        for name, table in tables.items():
            _tell(logs, f"{name}_loss", table["loss"])
            if "correct" in table.column_names:
                _tell(logs, f"{name}_accuracy", table["correct"])

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Write the scores."""
        if self._recorder is not None:
            self.scores = self._recorder.finish()
            self._close("FINISHED")

    def _open(self, epoch: int) -> None:
        goes_on = self._trained is self.model and self._next > 0
        if goes_on and 0 < epoch < self._next:
            raise RecordingError(
                f"epoch {epoch} of this model is recorded already: go on with fit(initial_epoch={self._next}), or "
                "record a new training with a new ActionCallback."
            )
        first = max(epoch, self._next) if goes_on else epoch
        self._run = recording_run(self.run_id if goes_on else None)
        self._recorder = self._run.recorder_from(first)
        self._trained = self.model

    def _close(self, status: str) -> None:
        if self._run is not None:
            self._run.end(status)
        self._recorder = None

    def _pass(self, split: _Split, recorder: Recorder) -> None:
        """What the model says of every sample as it is now."""
        for x, y, ids in split.batches():
            outputs = self.model.predict_on_batch(x)
            if self._signals is not None:
                recorder.add_signals(ids, dict(self._signals(y, outputs)), split.name)
            else:
                recorder.add(ids, self._logits(outputs), class_targets(y), split.name)

    def _logits(self, outputs: Any) -> Any:
        if isinstance(outputs, (list, tuple, dict)):
            raise RecordingError(
                f"the model has {len(outputs)} outputs: pass signals=, a function of (y_true, y_pred) that gives "
                '{"loss": one value per sample}.'
            )
        if self._from_logits is None:
            self._from_logits = _gives_logits(self.model)
        return class_logits(outputs) if self._from_logits else log_probabilities(outputs)


class _Split:
    """The data of a split, batch by batch, with the id of every sample."""

    def __init__(self, name: str, data: Any, sample_ids: Any, batch_size: int) -> None:
        self.name = name
        self._data = data
        self._ids = None if sample_ids is None else np.asarray(sample_ids)
        self._batch_size = batch_size
        self._mark: int | None = None  # what tells the order of the targets in the first pass
        if _is_arrays(data):
            self._data = data[0], np.asarray(data[1]) if isinstance(data[1], list) else data[1]
            self._check_lengths(_rows(data[1]))

    def batches(self) -> Iterator[Batch]:
        """Inputs, targets and ids, the last batch as long as it comes."""
        seen, mark, counted = 0, 0, False
        for batch in self._raw_batches():
            y = keras.tree.map_structure(_numpy, batch[1])
            rows = _rows(y)
            counted = counted or (self._ids is None and len(batch) < 3)
            mark = _marked(y, mark)
            yield batch[0], y, self._ids_of(batch, seen, rows)
            seen += rows
        self._check_lengths(seen)
        if counted and self._mark not in (None, mark):
            raise RecordingError(
                f"the data of split {self.name} come in another order than in the epoch before, so places do not name "
                "samples: give them in a fixed order, or as batches (x, y, ids)."
            )
        self._mark = mark

    def _raw_batches(self) -> Iterator[Any]:
        if _is_arrays(self._data):
            return _slices(self._data, self._batch_size)
        if isinstance(self._data, keras.utils.PyDataset):
            return (self._data[place] for place in range(self._data.num_batches))
        return iter(self._data)

    def _ids_of(self, batch: Any, seen: int, rows: int) -> NDArray[Any]:
        if self._ids is not None:
            return self._ids[seen : seen + rows]
        if len(batch) < 3:
            return np.arange(seen, seen + rows)
        ids = _numpy(batch[2])
        if not np.issubdtype(ids.dtype, np.integer):
            raise RecordingError(
                f"the third element of a batch of split {self.name} holds {ids.dtype}, no sample ids: if these are "
                "sample weights, name the samples with ActionCallback(sample_ids={…})."
            )
        return ids

    def _check_lengths(self, rows: int) -> None:
        if not rows:
            raise RecordingError(
                f"split {self.name} gave no batches: give data that can be passed over once per epoch, such as a list, "
                "a PyDataset or arrays (x, y)."
            )
        if self._ids is not None and len(self._ids) != rows:
            raise RecordingError(f"split {self.name} has {rows} samples, but {len(self._ids)} sample ids.")


def _is_arrays(data: Any) -> bool:
    """Whether these are the arrays (x, y) of a whole split, and no batches."""
    return isinstance(data, tuple) and len(data) == 2 and not isinstance(data[1], tuple)


def _rows(arrays: Arrays) -> int:
    return len(arrays if isinstance(arrays, list) else keras.tree.flatten(arrays)[0])


def _marked(arrays: Arrays, mark: int) -> int:
    """A number that follows from everything in these arrays, and from `mark` before them."""
    for each in keras.tree.flatten(arrays):
        mark = zlib.crc32(np.ascontiguousarray(each).tobytes(), mark)
    return mark


def _slices(data: tuple[Arrays, Any], size: int) -> Iterator[tuple[Arrays, Any]]:
    for start in range(0, _rows(data[1]), size):
        x, y = keras.tree.map_structure(lambda each, part=slice(start, start + size): each[part], data)
        yield x, y


def _numpy(values: Any) -> NDArray[Any]:
    return np.asarray(keras.ops.convert_to_numpy(values))


def _tell(logs: dict[str, Any] | None, name: str, column: Any) -> None:
    """Put a mean where later callbacks look; what Keras measured itself stays."""
    if logs is not None:
        logs.setdefault(name, float(column.to_numpy().mean(dtype=np.float64)))


def _gives_logits(model: Any) -> bool:
    """Whether a model's outputs are logits, as the loss it was compiled with takes them."""
    loss = model.loss
    name = loss if isinstance(loss, str) else getattr(loss, "name", None) or getattr(loss, "__name__", "")
    if hasattr(loss, "get_config") and "from_logits" in (config := loss.get_config()):
        return bool(config["from_logits"])
    if name in CROSS_ENTROPIES:
        return False
    raise RecordingError(
        f"the model's loss ({name or type(loss).__name__}) does not tell whether its outputs are logits: write "
        "ActionCallback(from_logits=True), or False for probabilities, or pass signals= for a task without classes."
    )
