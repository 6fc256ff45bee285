"""How much longer does an epoch of a Hugging Face Trainer take when it is recorded, and how fast are grouped batches?

A network of MiniLM's size (six layers of 384) trains an epoch and evaluates, once with the callback and once without,
by turns; the figure is the median of the pairs' ratios. Beside it stands the time that was spent inside the callback,
which a machine that other people use disturbs less. An epoch goes from its first batch to its files, all signals of
both splits among them; opening a run and its scores come once and are left out.

Then a Trainer evaluates texts whose lengths spread as those of tweets do: in batches of equals, longest first, as our
own trainings evaluate, and in batches of one, as the study did. Both give the same losses. The target is for the
house's `tiny`, where a batch of one costs mostly the loop around it; on a CPU a network of MiniLM's size is busy with
arithmetic either way, so what it gains is printed beside and held to nothing.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import torch
from measuring import Target, end, is_quick, seconds, show
from torch.nn import functional
from torch.utils.data import DataLoader
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from actionflow.integrations.huggingface import ActionCallback
from actionflow.training.language import Encoded
from actionflow.training.language.tiny import reading_tokenizer
from actionflow.training.language.trainer import EVALUATION_BATCH

VOCABULARY, CLASSES, BATCH = 30_522, 6, 16
COLLATOR = DataCollatorWithPadding(reading_tokenizer(["only its padding is used"]))


class Clock(TrainerCallback):
    """Takes the time of an epoch and its evaluation; added last, it sees the files written."""

    took = 0.0

    def on_epoch_begin(self, *_: Any, **__: Any) -> None:
        self._started = perf_counter()

    def on_evaluate(self, *_: Any, **__: Any) -> None:
        self.took = perf_counter() - self._started


class Training:
    """One network, and how long an epoch of it takes."""

    def __init__(self, folder: str, train: Encoded, val: Encoded, layers: int, is_recorded: bool) -> None:
        self.trainer = Trainer(network(layers), arguments(folder), COLLATOR, train, val)
        self.trainer.remove_callback(PrinterCallback)
        self.clock, self.inside = Clock(), 0.0
        if is_recorded:
            callback = ActionCallback(self.trainer)
            for name in ("_record", "_close"):
                setattr(callback, name, self._timed(getattr(callback, name)))
            self.trainer.add_callback(callback)
        self.trainer.add_callback(self.clock)

    def epoch(self) -> float:
        self.inside = 0.0
        self.trainer.train()
        return self.clock.took

    def _timed(self, work: Callable[..., None]) -> Callable[..., None]:
        def timed(*arguments: Any) -> None:
            self.inside += seconds(lambda: work(*arguments))

        return timed


@dataclass(frozen=True)
class Pair:
    """The same epoch with and without the callback, and what was spent inside it."""

    plain: float
    recorded: float
    inside: float

    @property
    def ratio(self) -> float:
        return self.recorded / self.plain


def main() -> None:
    quick = is_quick(__doc__)
    targets = [*recording(quick), *grouping(quick)]
    end(targets, quick)


def recording(quick: bool) -> list[Target]:
    count, layers, pairs = (32, 1, 2) if quick else (320, 6, 9)
    train, val = texts(count, 20, 64, seed=0), texts(count // 2, 20, 64, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/mlflow.db"
        os.environ["ACTIONFLOW_HOME"] = f"{folder}/home"
        os.chdir(folder)  # MLflow puts the files of runs beside
        plain, watched = (Training(folder, train, val, layers, is_recorded) for is_recorded in (False, True))
        pair(plain, watched, 0)  # warms up
        measured = [pair(plain, watched, number) for number in range(1, pairs + 1)]
        os.chdir("/")
    show(
        f"An epoch of {layers} layers of 384 on {len(train)} + {len(val)} texts, batches of {BATCH}",
        ["pair", "plain s", "recorded s", "ratio", "inside the callback s"],
        ([str(number), each.plain, each.recorded, each.ratio, each.inside] for number, each in enumerate(measured, 1)),
    )
    share = median(each.inside / (each.recorded - each.inside) for each in measured)
    print(f"inside the callback: {1 + share:.4f}x (median)")
    return [Target("a Trainer's epoch with recording, times one without", median(e.ratio for e in measured), 1.02)]


def grouping(quick: bool) -> list[Target]:
    count, rounds = (48, 1) if quick else (512, 3)
    encoded = texts(count, 3, 90, seed=2)
    tiny, minilm = (evaluations(encoded, *size, rounds) for size in ((2, 128), (2, 384) if quick else (6, 384)))
    spread = f"{encoded.lengths.min()} to {encoded.lengths.max()} tokens"
    show(
        f"Evaluation of {count} texts of {spread}, by a Trainer",
        ["network", "batches of one s", f"of {EVALUATION_BATCH}, by length s", "times faster", "largest difference"],
        [
            [name, each.alone, each.grouped, each.faster, each.apart]
            for name, each in {"tiny": tiny, "MiniLM's size": minilm}.items()
        ],
    )
    return [
        Target("evaluation by length, times faster than by one", tiny.faster, 5, at_least=True),
        Target("largest difference of a loss", max(tiny.apart, minilm.apart), 1e-4),
    ]


@dataclass(frozen=True)
class Evaluations:
    """The same texts one by one and in batches by length, and how far a loss of theirs lies apart."""

    alone: float
    grouped: float
    apart: float

    @property
    def faster(self) -> float:
        return self.alone / self.grouped


def evaluations(encoded: Encoded, layers: int, width: int, rounds: int) -> Evaluations:
    model = network(layers, width).eval()
    ways = ((encoded, 1), (encoded.by_length(), EVALUATION_BATCH))
    one, grouped = (losses(model, *how) for how in ways)  # warms up
    with tempfile.TemporaryDirectory() as folder:
        trainers = [Trainer(model, arguments(folder, batch), COLLATOR, eval_dataset=each) for each, batch in ways]
        for trainer in trainers:
            trainer.remove_callback(PrinterCallback)
        took = [[seconds(trainer.evaluate) for trainer in trainers] for _ in range(rounds)]
    alone, together = (median(times) for times in zip(*took, strict=True))
    return Evaluations(alone, together, max(abs(one[number] - grouped[number]) for number in one))


def pair(plain: Training, watched: Training, number: int) -> Pair:
    """Both, the one that goes first changing from pair to pair."""
    if number % 2:
        recorded = watched.epoch()
        return Pair(plain.epoch(), recorded, watched.inside)
    alone = plain.epoch()
    return Pair(alone, watched.epoch(), watched.inside)


def losses(model: Any, encoded: Encoded, batch_size: int) -> dict[int, float]:
    """Every sample's loss, by its id."""
    found: dict[int, float] = {}
    with torch.inference_mode():
        for batch in DataLoader(encoded, batch_size=batch_size, collate_fn=COLLATOR):
            labels, numbers = batch.pop("labels"), batch.pop("sample_id").tolist()
            each = functional.cross_entropy(model(**batch).logits, labels, reduction="none")
            found.update(zip(numbers, each.tolist(), strict=True))
    return found


def texts(count: int, shortest: int, longest: int, seed: int) -> Encoded:
    """Texts of drawn tokens; most are short, few are long."""
    draw = np.random.default_rng(seed)
    lengths = np.clip(draw.lognormal(np.log(20), 0.6, count).astype(int), shortest, longest)
    items = []
    for number, length in enumerate(lengths.tolist()):
        tokens = draw.integers(1000, VOCABULARY, length).tolist()
        label = int(draw.integers(CLASSES))
        items.append({"input_ids": tokens, "attention_mask": [1] * length, "labels": label, "sample_id": number})
    return Encoded(items)


def network(layers: int, width: int = 384) -> BertForSequenceClassification:
    torch.manual_seed(0)
    sizes = {"hidden_size": width, "num_attention_heads": width // 32, "intermediate_size": 4 * width}
    sizes["num_hidden_layers"] = layers
    return BertForSequenceClassification(BertConfig(vocab_size=VOCABULARY, num_labels=CLASSES, **sizes))


def arguments(folder: str, evaluated_at_once: int = BATCH) -> TrainingArguments:
    return TrainingArguments(
        output_dir=folder,
        num_train_epochs=1,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=evaluated_at_once,
        use_cpu=True,
        dataloader_pin_memory=False,
        eval_strategy="epoch",
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )


if __name__ == "__main__":
    main()
