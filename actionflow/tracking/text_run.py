"""A training on texts in its MLflow run."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from transformers import TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from actionflow.errors import SettingsError, TrainingError
from actionflow.present.progress import Progress
from actionflow.store import layout
from actionflow.tracking import text_keepsakes
from actionflow.tracking.registering import ModelFacts, introduction
from actionflow.tracking.tracked_run import TrackedRun, shown_scores
from actionflow.training.language import Encoded, LanguageModel, Task
from actionflow.training.language.features import text_features
from actionflow.training.language.gradients import Texts
from actionflow.training.language.writing import rouge, write_texts
from actionflow.training.settings import TextSettings
from actionflow.training.texts import TextDataset, TextSamples

# Columns of an epoch whose mean says how it went, and what that mean is called.
FIGURES = {"loss": "loss", "correct": "accuracy", "token_accuracy": "token_accuracy", "f1": "f1"}


class TextRun(TrackedRun[TextSettings]):
    """Writes a training on texts into its run. `projects/text.py` shows how it is used."""

    settings_class = TextSettings
    entry = "text"

    @property
    def checkpoints(self) -> Path:
        """Where Hugging Face keeps what an interrupted training needs: on this machine, for it is large."""
        return layout.local_checkpoints(self.run_id)

    @property
    def recorded_splits(self) -> list[str]:
        """The splits whose signals the settings ask for."""
        chosen = {"train": self.settings.records_train}
        return [split for split in self.splits if chosen.get(split, self.settings.records_held_out)]

    def begin(
        self,
        dataset: TextDataset,
        splits: dict[str, TextSamples],
        encoded: dict[str, Encoded],
        language: LanguageModel,
        task: Task,
    ) -> str | None:
        """Write down what is trained, say what was cut; return the checkpoint that a resumed training goes on from."""
        self.dataset, self.splits, self.encoded, self.language = dataset, splits, encoded, language
        self.gradients.check(lambda: self._texts(task, "train"), self.settings.model)
        model = ModelFacts.of(language.model, str(language.model.device))
        self._open(dataset, splits, model)
        self.progress.say(introduction(self.settings, dataset, splits, model))
        for split, each in encoded.items():
            self._tell_what_was_cut(split, each)
        return self._go_on() if self.resumes else None

    def progress_bar(self) -> TrainerCallback:
        """Shows how far an epoch is, on a terminal."""
        return ProgressBar(self.progress, len(self.splits["train"]))

    def end_epoch(self, tables: dict[str, pa.Table]) -> None:
        """Log how an epoch went: the recorder has written it."""
        epoch = self.recorder.epoch - 1
        self.gradients.keep(epoch, self.language.model, self.writer.sender)
        figures = {split: _figures(table) for split, table in tables.items()}
        metrics = {f"{split}/{name}": value for split, each in figures.items() for name, value in each.items()}
        self.writer.sender.send_metrics(metrics, step=epoch)
        self.progress.end_epoch(epoch, figures)
        self._last = figures
        if not all(math.isfinite(each["loss"]) for each in figures.values()):
            raise TrainingError(
                f"the loss is not a number any more in epoch {epoch}: training stops, the epochs are kept. Try a "
                "smaller -P learning_rate, or -P precision=fp32."
            )

    def finish(self, task: Task, token_losses: dict[str, dict[str, Any]]) -> None:
        """Write scores, features, what the model said, loss curves, the model, and the report of it all."""
        scores = self.recorder.finish(self.gradients.more_scores(lambda *chosen: self._texts(task, *chosen)))
        split, rows = shown_scores(scores)
        self._log_features(task)
        said = self._said(split, rows, task)
        self._log_outputs(split, said, token_losses)
        with self.writer.sender.border("report and model"):
            self._log_report()
            text_keepsakes.log_model(self.client, self.language, self.dataset, self.run_id)
        last = {f"last/{split}_{name}": value for split, each in self._last.items() for name, value in each.items()}
        self._close(last, self.recorder.epoch - 1, f"actionflow query extremes --run {self.run_id[:8]}")
        shutil.rmtree(self.checkpoints, ignore_errors=True)

    def _texts(self, task: Task, split: str, sample_ids: NDArray[np.int64] | None = None) -> Texts:
        encoded, labels = self.encoded[split], self.splits[split].labels
        places = np.arange(len(encoded))
        if sample_ids is not None:
            places = np.flatnonzero(np.isin(self.splits[split].sample_ids, sample_ids))
        return Texts(
            self.language.model, Encoded([encoded.items[place] for place in places]), labels[places], task.collator
        )

    def _go_on(self) -> str | None:
        if self.settings.curriculum and self.settings.pacing != "full":
            raise SettingsError(
                f"run {self.run_id} cannot be resumed: Hugging Face's Trainer counts epochs of one length, and its "
                f"curriculum opens by {self.settings.pacing}. Train it again; its finished epochs are kept."
            )
        folder = self.checkpoints
        found: str | None = get_last_checkpoint(str(folder)) if folder.is_dir() else None  # type: ignore[no-untyped-call]
        self._go_on_after(_epochs_in(found) - 1 if found else -1)
        return found

    def _tell_what_was_cut(self, split: str, encoded: Encoded) -> None:
        if encoded.truncated:
            lost = f", {encoded.answers_lost:,} of them without their answer" if encoded.answers_lost else ""
            self.progress.say(
                f"{encoded.truncated:,} of {len(encoded):,} {split} texts are longer than {self.language.longest} "
                f"tokens: their ends are cut off{lost}."
            )

    def _log_features(self, task: Task) -> None:
        wanted = ["val"] if self.settings.features == "val" else list(self.splits)
        for split in wanted:
            ids, features = text_features(self.language.model, self.encoded[split], task.collator)
            self.writer.log_features(split, ids, features)

    def _said(self, split: str, scores: pa.Table, task: Task) -> dict[int, str]:
        """What the model answers, or writes for the hardest and the easiest; by sample id."""
        if task.answering is not None:
            return {number: task.answering.said[number] for number in self.splits[split].sample_ids.tolist()}
        if self.dataset.task != "text-to-text":
            return {}
        chosen = _extremes(scores, self.settings.generate)
        samples, encoded = self.splits[split], self.encoded[split]
        places = np.flatnonzero(np.isin(samples.sample_ids, chosen))
        some = Encoded([encoded.items[place] for place in places])
        longest = self.settings.max_target_length
        return write_texts(self.language.model, self.language.tokenizer, some, task.collator, longest) if some else {}

    def _log_outputs(self, split: str, said: dict[int, str], token_losses: dict[str, dict[str, Any]]) -> None:
        """One row per sample: its words with the loss of each, and what was written for it."""
        for each, columns in token_losses.items():
            if each != split:
                self.writer.log_outputs(each, columns)
        columns = token_losses.get(split, {"sample_id": list(said)})
        ids = [int(number) for number in columns["sample_id"]]
        if not ids:
            return
        columns = {**columns, "predicted_text": [said.get(number) for number in ids]}
        if self.dataset.task == "text-to-text":
            samples = self.splits[split]
            targets = dict(zip(samples.sample_ids.tolist(), samples.columns["target_text"], strict=True))
            columns |= {name: [found.get(number) for number in ids] for name, found in rouge(said, targets).items()}
        self.writer.log_outputs(split, columns)


class ProgressBar(TrainerCallback):
    """Moves the house's bar by the steps of a Trainer."""

    def __init__(self, progress: Progress, samples: int) -> None:
        self._progress = progress
        self._samples = samples

    def on_epoch_begin(self, args: TrainingArguments, state: Any, control: Any, **_: Any) -> None:
        """A bar for the epoch."""
        self._advance = self._progress.bar("train", self._samples)

    def on_step_end(self, args: TrainingArguments, state: Any, control: Any, **_: Any) -> None:
        """A step is a batch."""
        self._advance(range(args.train_batch_size), None, None)


def _figures(table: pa.Table) -> dict[str, float]:
    """The means that say how an epoch went."""
    return {
        name: float(np.mean(table[column].to_numpy(), dtype=np.float64))
        for column, name in FIGURES.items()
        if column in table.column_names
    }


def _epochs_in(checkpoint: str) -> int:
    """How many epochs a checkpoint has behind it."""
    state = json.loads((Path(checkpoint) / "trainer_state.json").read_text())
    return round(float(state["epoch"]))


def _extremes(scores: pa.Table, count: int) -> list[int]:
    """The ids of the hardest and of the easiest samples."""
    ranked: list[int] = scores.sort_by([("action", "descending"), ("sample_id", "ascending")])["sample_id"].to_pylist()
    return ranked[:count] + ranked[max(count, len(ranked) - count) :]
