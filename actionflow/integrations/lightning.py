"""Record a Lightning Trainer: no change to the module, the data or the loaders.

trainer = Trainer(max_epochs=5, callbacks=[ActionCallback()])
trainer.fit(module, train_loader, val_loader)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ImportError:
    try:
        from pytorch_lightning import Callback, LightningModule, Trainer  # type: ignore[assignment]
    except ImportError as error:
        raise ImportError("recording a Lightning Trainer needs lightning: pip install lightning") from error

import torch
from mlflow import MlflowClient
from torch import Tensor

from actionflow.errors import RecordingError
from actionflow.integrations.batches import are_probabilities, class_logits, class_targets, ids_in, targets_in
from actionflow.integrations.numbered_loader import UNNUMBERED, Ids, NumberedBatches
from actionflow.integrations.opening import RecordingRun, recording_run
from actionflow.integrations.ranks import GatheringRecorder
from actionflow.integrations.watching import ForwardWatch
from actionflow.recording import Recorder

OfBatch: TypeAlias = Callable[[Any], Any]
OfStep: TypeAlias = Callable[[Any, Any], Any]


class ActionCallback(Callback):
    """Records every sample's signals in every epoch of a `Trainer`, into an MLflow run.

        trainer = Trainer(max_epochs=5, callbacks=[ActionCallback()])
        trainer.fit(module, train_loader, val_loader)

    The splits are `train`, as met in the training steps, and `val`, from the validations that happen anyway (further
    validation loaders are `val_1`, `val_2`, …). Of several validations in an epoch the last counts; the sanity check,
    `trainer.validate`, `test` and `predict` do not. Where a default does not fit, say so:

    - `record` the splits to record, all by default. A sampler that draws samples more than once needs `["val"]`.
    - `ids` where the sample ids are in a batch: a key, a place, or a function of the batch. By default its third
      element or an entry such as "sample_id"; when there is none, or with "loader", the sample's place in the data set
      that the DataLoader reads (of a `Subset`: in the whole), in spite of shuffling and workers.
    - `targets` the same for labels: by default the second element, or an entry such as "label".
    - `logits` the name of the part of the module that gives them, or a function of (batch, what the step returned).
      By default "logits" in what the step returned, else what `forward` gave.
    - `signals` for other tasks: a function of (batch, what the step returned) that gives `{"loss": …}` per sample.

    The run is the active one, or the MLFlowLogger's, or a new one. A training that goes on from a checkpoint
    (`ckpt_path`) goes on in its run.
    """

    def __init__(
        self,
        record: Iterable[str] = (),
        ids: str | int | OfBatch | None = None,
        targets: str | int | OfBatch | None = None,
        logits: str | OfStep | None = None,
        signals: OfStep | None = None,
    ) -> None:
        self.scores: Any = None  # after training: one row per sample, as an Arrow table
        self._wanted = set(record)
        self._ids = ids
        self._targets = _getter(targets, "targets") if targets is not None else targets_in
        self._logits = logits
        self._signals = signals
        self._numbers = NumberedBatches()
        self._loader_ids: Ids = UNNUMBERED  # of the batch that the trainer fetched last
        self._undo: list[Callable[[], None]] = []
        self._run: RecordingRun | None = None
        self._writer: Recorder | None = None  # in the first process of several
        self._recorder: Recorder | GatheringRecorder | None = None  # while a training is recorded
        self._watch: ForwardWatch | None = None
        self._steps = 0  # training steps that this fit has begun
        self._checked: set[str] = set()  # splits whose logits have been looked at
        self._before: dict[str, Any] = {}  # what a checkpoint, or an earlier fit, says of the run

    @property
    def run_id(self) -> str | None:
        """The run that is, or was last, recorded into."""
        return self._before.get("run_id")

    # -- beginning and end ---------------------------------------------------------------------------------------------

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Let the loaders number their batches, before the trainer makes their iterators."""
        if stage != "fit" or _is_rehearsal(trainer):
            return
        # These two see every loader before its first batch, and every batch before it is moved or changed.
        process, convert = trainer.strategy.process_dataloader, trainer.precision_plugin.convert_input

        def note_ids(batch: Any) -> Any:
            self._loader_ids = self._numbers.take(batch)
            return convert(batch)

        self._steps = 0
        self._undo = [
            _replaced(trainer.strategy, "process_dataloader", lambda loader: process(self._numbers.of(loader))),
            _replaced(trainer.precision_plugin, "convert_input", note_ids),
        ]

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write the scores."""
        if self._writer is not None and self._run is not None:
            self.scores = self._writer.finish()
            self._run.end()
        self._let_go()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Keep the finished epochs; the one that broke is not one."""
        if self._run is not None:
            self._run.end("KILLED" if isinstance(exception, KeyboardInterrupt) else "FAILED")
        self._let_go()
        self._put_back()

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Leave the trainer as it was."""
        self._put_back()

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps: the run, and the last epoch that it has something of."""
        return dict(self._before)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The training goes on where a checkpoint was taken."""
        self._before = dict(state_dict)

    # -- epochs --------------------------------------------------------------------------------------------------------

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Count as the trainer does."""
        if self._writer is not None:
            self._writer.epoch = trainer.current_epoch

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """A later validation of the same epoch replaces an earlier one."""
        if self._recorder is not None:
            for place in range(len(trainer.num_val_batches)):
                self._recorder.forget(_val_split(place))

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write the epoch: its validation is over."""
        if isinstance(self._recorder, GatheringRecorder) or (self._recorder is not None and self._recorder.has_batches):
            self._recorder.end_epoch()

    # -- batches -------------------------------------------------------------------------------------------------------

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Look at the step that follows."""
        if not self._steps and not _is_rehearsal(trainer):
            self._begin(trainer, pl_module, batch_idx)
        self._steps += 1
        self._look("train")

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Look at the step that follows."""
        self._look(_val_split(dataloader_idx))

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Record a training step."""
        self._record("train", batch, outputs)

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Record a validation step."""
        self._record(_val_split(dataloader_idx), batch, outputs)

    def _wants(self, split: str) -> bool:
        return not self._wanted or split in self._wanted

    def _look(self, split: str) -> None:
        if self._watch is not None and self._wants(split):
            self._watch.start()

    def _record(self, split: str, batch: Any, outputs: Any) -> None:
        if self._recorder is None or not self._wants(split):
            return
        if self._writer is not None:
            self._before["last_epoch"] = self._writer.epoch
        ids = self._ids_of(batch)
        if self._signals is not None:
            self._recorder.add_signals(ids, self._signals(batch, outputs), split)
            return
        targets = class_targets(self._targets_of(batch))
        logits = self._logits_of(batch, outputs, rows=len(targets))
        self._refuse_probabilities(split, logits)
        if len(ids) != len(targets):
            raise RecordingError(f"a {split} batch has {len(targets)} labels but {len(ids)} sample ids: {_GIVE_IDS}.")
        self._recorder.add(ids, class_logits(logits), targets, split)

    def _ids_of(self, batch: Any) -> Any:
        if self._ids is not None and self._ids != "loader":
            return _getter(self._ids, "ids")(batch)
        found = ids_in(batch) if self._ids is None else None
        if found is not None:
            if len(torch.unique(found)) < len(found):
                raise RecordingError(
                    "what stands where sample ids are expected in a batch (its third element, or an entry such as "
                    '"id") repeats: write ActionCallback(ids="loader") to number samples by their place in the data.'
                )
            return found
        if isinstance(self._loader_ids, str):
            raise RecordingError(f"the samples of a batch cannot be told, for {self._loader_ids}: {_GIVE_IDS}.")
        return self._loader_ids

    def _targets_of(self, batch: Any) -> Any:
        targets = self._targets(batch)
        if targets is None:
            raise RecordingError(
                f"no labels were found in a batch ({_told(batch)}): say where they are, "
                'ActionCallback(targets="my_label"), or pass signals= for a task without classes.'
            )
        return targets

    def _logits_of(self, batch: Any, outputs: Any, rows: int) -> Tensor:
        if callable(self._logits):
            return torch.as_tensor(self._logits(batch, outputs))
        assert self._watch is not None
        if self._logits is None and isinstance(outputs, Mapping) and "logits" in outputs:
            return torch.as_tensor(outputs["logits"])
        return self._watch.logits(rows)

    def _refuse_probabilities(self, split: str, logits: Tensor) -> None:
        if split not in self._checked and are_probabilities(logits):
            raise RecordingError(
                "the module gives probabilities, not logits: name the part before its softmax, "
                'ActionCallback(logits="model.head"), or pass logits=lambda batch, outputs: … with their logarithm.'
            )
        self._checked.add(split)

    # -- the run -------------------------------------------------------------------------------------------------------

    def _begin(self, trainer: Trainer, pl_module: LightningModule, batch_idx: int) -> None:
        """Open the run, and look at what the module says.

        In the first step and not before: a trainer that goes on from a checkpoint first ends the epoch it was taken in.
        """
        if batch_idx and self._wants("train"):
            raise RecordingError(
                f"this training goes on in the middle of epoch {trainer.current_epoch}, so not all its samples would "
                'be met: resume from a checkpoint of an epoch\'s end, or write ActionCallback(record=["val"]).'
            )
        if trainer.is_global_zero:
            self._writer = self._open(trainer)
        self._recorder = GatheringRecorder(self._writer) if trainer.world_size > 1 else self._writer
        self._checked = set()
        if self._signals is None and not callable(self._logits):
            self._watch = ForwardWatch(pl_module, self._logits)

    def _open(self, trainer: Trainer) -> Recorder:
        """The run that the trainer's epochs go into; one that has epochs before these is gone on with."""
        first = trainer.current_epoch
        before = self._before if first else {}
        self._run = recording_run(before.get("run_id"), _logged(trainer))
        last = before.get("last_epoch", first)
        # A checkpoint that was taken at an epoch's end says nothing of whether the epoch was written after it.
        if last < first and not self._run.holds(last):
            raise RecordingError(
                f"run {self._run.run_id} lacks epoch {last}: the training broke before it was written. Resume from an "
                "earlier checkpoint."
            )
        recorder = self._run.recorder_from(first)
        self._before = {"run_id": self._run.run_id}
        return recorder

    def _let_go(self) -> None:
        if self._watch is not None:
            self._watch.close()
        self._run = self._writer = self._recorder = self._watch = None

    def _put_back(self) -> None:
        while self._undo:
            self._undo.pop()()


_GIVE_IDS = 'return them with every batch, as its third element or under "sample_id", or pass ActionCallback(ids=…)'


def _val_split(place: int) -> str:
    return f"val_{place}" if place else "val"


def _getter(where: str | int | OfBatch, what: str) -> OfBatch:
    """What takes something out of a batch: by its key or place, or by the user's own function."""
    if callable(where):
        return where

    def get(batch: Any) -> Any:
        try:
            return batch[where]
        except (KeyError, IndexError, TypeError) as error:
            raise RecordingError(f"a batch has no {where!r} to take {what} from: it has {_told(batch)}.") from error

    return get


def _told(batch: Any) -> str:
    if isinstance(batch, Mapping):
        return ", ".join(map(str, batch)) or "nothing"
    return f"{len(batch)} elements" if isinstance(batch, (tuple, list)) else type(batch).__name__


def _replaced(owner: Any, name: str, new: Callable[..., Any]) -> Callable[[], None]:
    """Put `new` in the place of one object's method; calling what is returned puts the method back."""
    before = owner.__dict__.get(name)
    setattr(owner, name, new)
    return lambda: delattr(owner, name) if before is None else setattr(owner, name, before)


def _is_rehearsal(trainer: Trainer) -> bool:
    """Whether this is `fast_dev_run`, which leaves no traces."""
    return bool(getattr(trainer, "fast_dev_run", False))


def _logged(trainer: Trainer) -> tuple[str, MlflowClient] | None:
    """The run of the trainer's MLFlowLogger and how to reach it. By name: two packages have a class of that name."""
    loggers: Iterable[Any] = trainer.loggers
    for logger in loggers:
        if any(kind.__name__ == "MLFlowLogger" for kind in type(logger).__mro__):
            return logger.run_id, logger.experiment
    return None
