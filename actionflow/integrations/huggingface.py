"""Record a Hugging Face Trainer: no subclass, no change to the data, the model or the arguments.

trainer = Trainer(model, args, train_dataset=train, eval_dataset=val)
trainer.add_callback(ActionCallback(trainer))
trainer.train()
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

import pyarrow as pa
from torch import Tensor

from actionflow.capture import Signals
from actionflow.errors import RecordingError
from actionflow.integrations.numbering import SAMPLE, refuse_streams, with_ids
from actionflow.integrations.opening import RecordingRun, recording_run
from actionflow.recording import Recorder

try:
    from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
except ImportError as error:
    raise ImportError("recording a Hugging Face Trainer needs transformers: pip install transformers") from error

from actionflow.integrations.outputs import LastTokens, Watched, shifts_labels, signals_of

# From a batch, as the model got it, and the model's outputs to one value per sample: at least {"loss": …}.
SignalsOf: TypeAlias = Callable[[Mapping[str, Any], Any], Signals]
Method: TypeAlias = Callable[..., Any]

# What a checkpoint says of the recording, beside the state of the callbacks that Hugging Face restores itself.
IN_CHECKPOINT = "ActionFlow"


class ActionCallback(TrainerCallback):
    """Records every sample's signals in every epoch of a `Trainer` or `Seq2SeqTrainer`, into an MLflow run.

        trainer.add_callback(ActionCallback(trainer))
        trainer.train()

    The splits are `train`, as met in training, and `val`, from the evaluations that happen anyway. An `eval_dataset`
    that is a dictionary names its own (one called `train` is `eval_train`, as in the metrics). Of several evaluations
    in an epoch the last counts; those before and after the training do not. Where a default does not fit, say so:

    - `record` the splits to record, all by default.
    - `id_column` the column that holds the samples' ids. Without it, or with None, ids are places in your data sets;
      shuffling, grouping by length and column removal do not touch them.
    - `signals` for a task that its outputs do not give away, as classification, sequences (mean over the target
      tokens), question answering and regression do: a function of the batch (with its `sample_id`) and the model's
      outputs that gives `{"loss": …}` per sample.
    - `recorder` and `after_epoch` for a run of your own: what to record with, and what to call with the epoch's
      tables by split. It is then yours to finish.

    The run is the active one, or the one that `report_to="mlflow"` opens, or a new one. A training that goes on from a
    checkpoint goes on in its run.
    """

    def __init__(
        self,
        trainer: Trainer,
        record: Iterable[str] = (),
        signals: SignalsOf | None = None,
        id_column: str | None = "sample_id",
        recorder: Recorder | None = None,
        after_epoch: Callable[[dict[str, pa.Table]], None] | None = None,
    ) -> None:
        # Weakly: a Trainer that holds itself would keep its model and its workers after it is dropped.
        self._trainer = weakref.ref(trainer)
        self.scores: Any = None  # after training: one row per sample, as an Arrow table
        self._signals = signals
        self._id_column = id_column
        self._recorder = recorder
        self._own_recorder = recorder is None
        self._after_epoch = after_epoch
        self._run: RecordingRun | None = None  # while a training is recorded with a recorder of our own
        self._names = _chosen(trainer, list(record))
        self._in_checkpoint: dict[str, Any] = {}
        self._next_epoch = 0
        self._open = False  # an epoch is being trained, or evaluated after it
        self._evaluated: str | None = None  # the split that is being evaluated
        self._awaited: set[str] = set()  # splits whose evaluation still belongs to the epoch that is over
        self._tokens: dict[str, LastTokens] = {}
        self._install(trainer)

    @property
    def trainer(self) -> Any:
        """The Trainer that is recorded."""
        return self._trainer()

    @property
    def recorder(self) -> Recorder:
        """What the epochs are written with; there is one once training has begun."""
        if self._recorder is None:
            raise RecordingError("nothing is recorded yet: call trainer.train() first.")
        return self._recorder

    @property
    def run_id(self) -> str:
        """The run that is, or was last, recorded into."""
        return self.recorder.run_id

    def token_losses(self) -> dict[str, dict[str, Any]]:
        """Of sequences, by split: each sample's target tokens in the last evaluation, and the loss of each."""
        tokenizer = self.trainer.processing_class
        return {split: last.columns(tokenizer) for split, last in self._tokens.items() if last.batches}

    # -- what the Trainer tells ----------------------------------------------------------------------------------------

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Open the run."""
        if args.world_size > 1:
            raise RecordingError(
                f"this training has {args.world_size} processes, and each would write its own part of the samples: "
                "record it in one process (with several GPUs too), or use actionflow.Recorder in your own loop."
            )
        self._open, self._tokens = False, {}
        if self._own_recorder:
            self._recorder = self._opened(args, state)
        self._next_epoch = self.recorder.epoch

    def on_epoch_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """From here on steps count."""
        self._close()
        self._open = True
        # An epoch that has nothing to record still counts.
        self.recorder.epoch = self._next_epoch
        self._next_epoch += 1

    def on_epoch_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Write the epoch, or wait for the evaluation that follows it."""
        if _is_cut_short(state, control):
            self._leave_out_what_was_cut(state)
        self._awaited = set(self._names) - {"train"} if control.should_evaluate else set()
        if not self._awaited:
            self._close()

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """A split has been passed over; the last one that an epoch waits for ends it."""
        split, self._evaluated = self._evaluated, None
        if self._awaited:
            self._awaited.discard(split or "")
            if not self._awaited:
                self._close()

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Write the scores."""
        self._close()
        if self._run is not None:
            for split, columns in self.token_losses().items():
                self.recorder.writer.log_outputs(split, columns)
            self.scores = self.recorder.finish()
            self._run.end()
            self._run = None

    # -- the run -------------------------------------------------------------------------------------------------------

    def _opened(self, args: TrainingArguments, state: TrainerState) -> Recorder:
        """What writes into the run; one that has epochs before these is gone on with."""
        done = state.epoch or 0.0
        first = int(done)
        if done > first and "train" in self._names and not args.ignore_data_skip:
            raise RecordingError(
                f"this training goes on in the middle of epoch {first}, so not all its samples would be met: resume "
                'from a checkpoint of an epoch\'s end (save_strategy="epoch"), or write '
                'ActionCallback(trainer, record=["val"]).'
            )
        checkpoint: Any = state.stateful_callbacks  # a dictionary by now
        before = checkpoint.get(IN_CHECKPOINT, {}) if state.global_step else {}
        # A Trainer that looks for a batch size that fits begins several times.
        self._run = self._run or recording_run(before.get("run_id"))
        _refuse_a_lost_epoch(self._run, before.get("last_epoch", first), first)
        self._in_checkpoint = checkpoint[IN_CHECKPOINT] = {"run_id": self._run.run_id}
        return self._run.recorder_from(first)

    def _close(self) -> None:
        """Write what the epoch has."""
        if self._open and self.recorder.has_batches:
            tables = self.recorder.end_epoch()
            if self._after_epoch:
                self._after_epoch(tables)
        self._open, self._awaited = False, set()

    def _leave_out_what_was_cut(self, state: TrainerState) -> None:
        """Samples that were met once more than others would look harder; in a first epoch none was."""
        if self.recorder.epoch and "train" in self._names:
            self.recorder.forget("train")
            logging.getLogger(__name__).warning(
                "training ended in the middle of epoch %d (step %d): its train samples are not recorded, for only some "
                "of them were met.",
                self.recorder.epoch,
                state.global_step,
            )

    # -- batches -------------------------------------------------------------------------------------------------------

    def _install(self, trainer: Trainer) -> None:
        """Stand before the Trainer's methods: as attributes of this one object, whatever its class made of them."""
        _replace(trainer, "train", self._keeping_what_was_finished)
        _replace(trainer, "get_train_dataloader", self._numbering_train)
        _replace(trainer, "get_eval_dataloader", self._numbering_evaluation)
        _replace(trainer, "training_step", lambda step: self._watching(step, lambda: "train"))
        _replace(trainer, "prediction_step", lambda step: self._watching(step, lambda: self._evaluated))

    def _keeping_what_was_finished(self, train: Method) -> Method:
        """A training that breaks ends the run that it opened; its finished epochs are there."""

        def guarded_train(*args: Any, **kwargs: Any) -> Any:
            try:
                return train(*args, **kwargs)
            except BaseException as error:
                self._open = False
                if self._run is not None:
                    self._run.end("KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")
                    self._run = None
                raise

        return guarded_train

    def _numbering_train(self, get: Method) -> Method:
        def get_train_dataloader() -> Any:
            wanted = "train" in self._names
            return with_ids(get(), self.trainer.train_dataset, self._id_column) if wanted else get()

        return get_train_dataloader

    def _numbering_evaluation(self, get: Method) -> Method:
        def get_eval_dataloader(eval_dataset: Any = None) -> Any:
            loader = get(eval_dataset)
            split, dataset = _evaluated(self.trainer, eval_dataset)
            self._evaluated = split if split in self._names else None
            if self._evaluated is None:
                return loader
            self._start_anew(self._evaluated)
            return with_ids(loader, dataset, self._id_column)

        return get_eval_dataloader

    def _start_anew(self, split: str) -> None:
        """A later evaluation in the same epoch replaces an earlier one."""
        if self._open:
            self.recorder.forget(split)
            self._tokens[split] = LastTokens()

    def _watching(self, step: Method, split_now: Callable[[], str | None]) -> Method:
        """A step of the Trainer that takes the ids out of its batch before, and records it afterwards."""

        def watched_step(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            ids, split = inputs.pop(SAMPLE, None), split_now()
            if ids is None or split is None or not self._open:
                return step(model, inputs, *args, **kwargs)
            if isinstance(ids, str):
                raise RecordingError(f"the samples of a batch cannot be told, for {ids}: let it keep them in order.")
            # A copy: with label smoothing the Trainer takes the labels out.
            watched = Watched({**inputs, "sample_id": ids})
            with _looking_at(model, watched):
                result = step(model, inputs, *args, **kwargs)
            self._record(split, ids, watched)
            return result

        return watched_step

    def _record(self, split: str, ids: Tensor, watched: Watched) -> None:
        self._in_checkpoint["last_epoch"] = self.recorder.epoch
        if self._signals is not None:
            self.recorder.add_signals(ids, self._signals(watched.batch, watched.outputs), split)
        elif (classes := watched.classes) is not None:
            self.recorder.add(ids, *classes, split)
        else:
            signals, tokens = signals_of(watched, shifts_labels(self.trainer.model))
            self.recorder.add_signals(ids, signals, split)
            if tokens is not None and split in self._tokens:
                self._tokens[split].add(ids, tokens)


def _replace(trainer: Any, name: str, around: Callable[[Method], Method]) -> None:
    reference, own = weakref.ref(trainer), trainer.__dict__.get(name)

    def before(*args: Any, **kwargs: Any) -> Any:
        here = reference()
        return own(*args, **kwargs) if own is not None else getattr(type(here), name)(here, *args, **kwargs)

    setattr(trainer, name, around(before))


@contextmanager
def _looking_at(model: Any, watched: Watched) -> Any:
    hook = model.register_forward_hook(watched.see, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


def _refuse_a_lost_epoch(run: RecordingRun, last: int, first: int) -> None:
    """A checkpoint that was taken at an epoch's end says nothing of whether the epoch was written after it."""
    if last < first and not run.holds(last):
        raise RecordingError(
            f"run {run.run_id} lacks epoch {last}: the training broke before it was written. Resume from an earlier "
            "checkpoint."
        )


def _held_out(trainer: Any) -> dict[str, Any]:
    """The data sets that a Trainer evaluates, by the names of their splits."""
    given = trainer.eval_dataset
    if isinstance(given, dict):
        return {_split_of(name): dataset for name, dataset in given.items()}
    return {} if given is None else {"val": given}


def _split_of(name: str) -> str:
    return "eval_train" if name == "train" else name


def _evaluated(trainer: Any, asked: Any) -> tuple[str | None, Any]:
    """The split, and its data set, that an evaluation is about: all or one by name, or one that was handed over."""
    held_out = _held_out(trainer)
    if asked is None:
        return "val", held_out.get("val")
    if isinstance(asked, str):
        return _split_of(asked), held_out[_split_of(asked)]
    return next((split for split, dataset in held_out.items() if dataset is asked), None), asked


def _chosen(trainer: Any, wanted: list[str]) -> list[str]:
    """The splits of a Trainer that are wanted; all when none is named."""
    train = {} if trainer.train_dataset is None else {"train": trainer.train_dataset}
    known = {**train, **_held_out(trainer)}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise RecordingError(f"the Trainer has no split {unknown[0]}: there are {', '.join(known)}.")
    chosen = [name for name in known if not wanted or name in wanted]
    for name in chosen:
        refuse_streams(known[name])
    return chosen


def _is_cut_short(state: TrainerState, control: TrainerControl) -> bool:
    """Whether max_steps, or early stopping, ends the epoch before its last batch."""
    ends = control.should_training_stop or control.should_epoch_stop
    return ends and not float(state.epoch or 0).is_integer()
