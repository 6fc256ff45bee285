"""Hugging Face's Trainer, set up as the NLP study trained: the order of every epoch follows from the seed alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset
from transformers import PrinterCallback, Trainer, TrainingArguments
from transformers.trainer_pt_utils import get_length_grouped_indices

from actionflow.errors import SettingsError
from actionflow.training.curriculum import Curriculum
from actionflow.training.language.encoding import Encoded
from actionflow.training.language.models import LanguageModel
from actionflow.training.language.tasks import Task
from actionflow.training.loop import choose_device, epoch_seed
from actionflow.training.settings import TextSettings

EVALUATION_BATCH = 64

Order = Callable[[int], NDArray[np.int64]]


class Ordered(Dataset[dict[str, Any]]):
    """Items in the order of an epoch, which the Trainer names before it starts one.

    A curriculum may leave some closed at first; the length that the Trainer plans with is that of all.
    """

    def __init__(self, items: Dataset[dict[str, Any]], order: Order, all_of: int) -> None:
        self._items = items
        self._order = order
        self._places = np.arange(all_of)

    def set_epoch(self, epoch: int) -> None:
        """Take the order of this epoch."""
        self._places = self._order(epoch)

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, place: int) -> dict[str, Any]:
        return self._items[int(self._places[place])]


def make_trainer(
    language: LanguageModel,
    task: Task,
    encoded: dict[str, Encoded],
    settings: TextSettings,
    curriculum: Curriculum | None,
    checkpoints: Path,
) -> Trainer:
    """A Trainer that trains on `train` and evaluates all other splits after each epoch, longest texts first."""
    trainer = Trainer(
        model=language.model,
        args=_arguments(settings, checkpoints),
        train_dataset=_ordered(encoded["train"], settings, curriculum),
        eval_dataset={split: each.by_length() for split, each in encoded.items() if split != "train"},
        data_collator=task.collator,
        processing_class=language.tokenizer,
    )
    # It prints metrics on standard output, which is for data.
    trainer.remove_callback(PrinterCallback)
    return trainer


def _ordered(train: Encoded, settings: TextSettings, curriculum: Curriculum | None) -> Ordered:
    seed = settings.seed
    if curriculum is not None:
        return Ordered(train, lambda epoch: curriculum.order(seed, epoch), len(curriculum))
    if settings.group_by_length == "yes":
        lengths = train.lengths.tolist()
        return Ordered(train, lambda epoch: _grouped(lengths, settings.batch_size, seed, epoch), len(train))
    return Ordered(train, lambda epoch: _shuffled(len(train), seed, epoch), len(train))


def _shuffled(count: int, seed: int, epoch: int) -> NDArray[np.int64]:
    return np.random.default_rng(epoch_seed(seed, epoch)).permutation(count)


def _grouped(lengths: list[int], batch_size: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """Shuffled, but texts of about one length stand together."""
    draw = torch.Generator().manual_seed(epoch_seed(seed, epoch))
    return np.array(get_length_grouped_indices(lengths, batch_size, generator=draw))  # type: ignore[no-untyped-call]


def _arguments(settings: TextSettings, checkpoints: Path) -> TrainingArguments:
    device = choose_device(settings.device)
    if device.index:
        raise SettingsError(
            f"device {settings.device} cannot be chosen for texts: type CUDA_VISIBLE_DEVICES={device.index} before the "
            "command, and -P device=cuda."
        )
    precision = _precision(settings.precision, device)
    return TrainingArguments(
        output_dir=str(checkpoints),
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.batch_size,
        per_device_eval_batch_size=EVALUATION_BATCH,
        learning_rate=settings.learning_rate,
        seed=settings.seed,
        bf16=precision == "bf16",
        fp16=precision == "fp16",
        use_cpu=device.type == "cpu",
        dataloader_pin_memory=device.type == "cuda",
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        logging_strategy="no",
        train_sampling_strategy="sequential",
        report_to=[],
        disable_tqdm=True,
    )


def _precision(wanted: str, device: torch.device) -> str:
    if wanted == "auto":
        if device.type != "cuda":
            return "fp32"
        return "bf16" if torch.cuda.is_bf16_supported() else "fp16"
    if wanted == "fp16" and device.type == "cpu":
        raise SettingsError("precision=fp16 needs a GPU: type -P precision=bf16 or -P precision=fp32.")
    return wanted
