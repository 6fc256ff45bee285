"""From a name to a language model with its tokenizer: from the hub, from a folder, or made small on the spot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)
from transformers.utils import logging as transformers_logging

from actionflow.errors import DataError, SettingsError
from actionflow.training.language import tiny
from actionflow.training.texts import TextDataset
from actionflow.training.texts.hub import soon_given_up

TINY = "tiny"
LONGEST = 512
AUTO_CLASSES: dict[str, Any] = {
    "classification": AutoModelForSequenceClassification,
    "text-to-text": AutoModelForSeq2SeqLM,
    "question-answering": AutoModelForQuestionAnswering,
}
# What each task is called when a model cannot do it, and one that can.
ABILITIES = {
    "classification": ("classify texts", "bert-base-uncased"),
    "text-to-text": ("write texts", "t5-base"),
    "question-answering": ("answer questions", "bert-base-uncased"),
}

WAYS_OUT = (
    "download it where there is a network and type -P model=<its folder>, or type -P model=tiny for a small one that "
    "needs no download."
)


@dataclass(frozen=True)
class LanguageModel:
    """A model, its tokenizer, and how many tokens it reads at most."""

    model: Any
    tokenizer: Any
    longest: int

    @property
    def kind(self) -> str:
        """The architecture, as `bert` or `t5`."""
        return str(self.model.config.model_type)


def load_language_model(name: str, dataset: TextDataset, max_length: int = 0) -> LanguageModel:
    """The model of this name for the data set's task, with a head that knows its classes."""
    with _quiet():
        model, tokenizer = _tiny(dataset) if name == TINY else _pretrained(name, dataset)
    _ensure_padding(name, model, tokenizer)
    return LanguageModel(model, tokenizer, _longest(name, model, tokenizer, max_length))


def _tiny(dataset: TextDataset) -> tuple[Any, Any]:
    texts = [text for column in dataset.parts["train"].columns.values() for text in column]
    auto = AUTO_CLASSES[dataset.task]
    if dataset.task == "text-to-text":
        tokenizer = tiny.writing_tokenizer(texts)
        return auto.from_config(tiny.t5_config(tokenizer)), tokenizer
    tokenizer = tiny.reading_tokenizer(texts)
    return auto.from_config(tiny.bert_config(tokenizer, **_head(dataset))), tokenizer


def _pretrained(name: str, dataset: TextDataset) -> tuple[Any, Any]:
    folder = Path(name).expanduser()
    if folder.is_dir():
        return _loaded(str(folder), name, dataset)
    with soon_given_up() as reachable:
        try:
            return _loaded(name, name, dataset)
        except SettingsError as error:
            if isinstance(error.__cause__, OSError):
                why = "the hub has none for you" if reachable else "the hub does not answer"
                raise DataError(f"model {name} is not on this machine, and {why}: {WAYS_OUT}") from error
            raise


def _loaded(place: str, name: str, dataset: TextDataset) -> tuple[Any, Any]:
    try:
        tokenizer = AutoTokenizer.from_pretrained(place)
        # A head of another size than the checkpoint's is drawn anew.
        model = AUTO_CLASSES[dataset.task].from_pretrained(place, ignore_mismatched_sizes=True, **_head(dataset))
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise SettingsError(_cannot(name, dataset.task, error)) from error
    return model, tokenizer


def _cannot(name: str, task: str, error: Exception) -> str:
    able, example = ABILITIES[task]
    return (
        f"model {name} cannot {able} ({_first_line(error)}): type -P model={example}, or -P model=tiny for a small one "
        "that needs no download."
    )


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:160] if lines else type(error).__name__


def _head(dataset: TextDataset) -> dict[str, Any]:
    if not dataset.class_names:
        return {}
    return {
        "num_labels": len(dataset.class_names),
        "id2label": dict(enumerate(dataset.class_names)),
        "label2id": {name: number for number, name in enumerate(dataset.class_names)},
        "problem_type": "single_label_classification",
    }


def _ensure_padding(name: str, model: Any, tokenizer: Any) -> None:
    """A tokenizer that was made to go on with texts may know no padding: the end of a text serves."""
    if tokenizer.pad_token is None:
        if tokenizer.eos_token is None:
            raise SettingsError(
                f"the tokenizer of {name} knows neither padding nor the end of a text, so texts of different length "
                "cannot share a batch: set its pad_token and save it, or type -P batch_size=1 with another model."
            )
        tokenizer.pad_token = tokenizer.eos_token
    if getattr(model.config, "pad_token_id", None) is None:
        model.config.pad_token_id = tokenizer.pad_token_id


def _longest(name: str, model: Any, tokenizer: Any, wanted: int) -> int:
    positions = getattr(model.config, "max_position_embeddings", None)
    takes = min([int(limit) for limit in (tokenizer.model_max_length, positions) if limit])
    if wanted > takes:
        raise SettingsError(f"max_length={wanted} is more than {name} takes: type at most -P max_length={takes}.")
    return wanted or min(takes, LONGEST)


@contextmanager
def _quiet() -> Iterator[None]:
    """No reports of weights that were drawn anew: a head always is."""
    level = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
