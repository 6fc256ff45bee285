"""The parameters of trainings, with the papers' protocols as defaults, checked before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from actionflow.errors import SettingsError, either, nearest

# How training labels are made wrong.
NOISE_KINDS = ("symmetric", "pairs", "file")
YES_NO = ("false", "true")

# What -P gradients can name, and the columns of scores that each brings.
GRADIENT_SCORES = {"vog": ("vog", "vog_early", "vog_late"), "grand": ("grand",)}


def setting(
    default: Any, meaning: str, choices: tuple[str, ...] = (), least: int | None = None, words: tuple[str, ...] = ()
) -> Any:
    """A parameter; of `words` several may be named, with commas between them, and none when it is empty."""
    return field(default=default, metadata={"meaning": meaning, "choices": choices, "least": least, "words": words})


def _probabilities() -> Any:
    return setting("false", "whether the probability of every class is kept", YES_NO)


def _gradients() -> Any:
    return setting("", "scores that need gradients: vog, grand or vog,grand", words=tuple(GRADIENT_SCORES))


@dataclass(frozen=True)
class Parameters:
    """What an entry point can be told, as fields with a default and a meaning; checked as soon as they are there."""

    def __post_init__(self) -> None:
        for each in fields(self):
            _check(each.name, getattr(self, each.name), each.metadata)

    def as_dict(self) -> dict[str, Any]:
        """All of them by name."""
        return asdict(self)

    @classmethod
    def from_text(cls, words: Mapping[str, str]) -> Self:
        """As people type them: `{"epochs": "3"}`; what is not named has its default."""
        kinds = {each.name: type(each.default) for each in fields(cls)}
        for name in words:
            if name not in kinds:
                raise SettingsError(f"there is no parameter {name}. {nearest(name, kinds)}")
        defaults = {each.name: each.default for each in fields(cls)}
        return cls(**{name: _converted(name, word, kinds[name], defaults[name]) for name, word in words.items()})

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """As they were written down; names of later versions are passed over."""
        known = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known})


@dataclass(frozen=True)
class Settings(Parameters):
    """What every training can be told: the same settings on the same machine give the same scores."""

    dataset: str = setting("digits", "the data set")
    model: str = setting("keras_cnn", "the model")
    epochs: int = setting(100, "at most", least=1)
    batch_size: int = setting(32, "samples in a step", least=1)
    learning_rate: float = setting(0.001, "at the start")
    seed: int = setting(0, "decides weights, order and dropout", least=0)
    data_dir: str = setting("", "where the data lie; else $ACTIONFLOW_DATA or ./data")
    limit: int = setting(0, "first n samples of each split, for trying; 0 takes all", least=0)
    record: str = setting("both", "whose signals are kept", ("val", "train", "both"))
    features: str = setting("val", "whose features are kept at the end", ("val", "both"))
    precision: str = setting("fp32", "what the model computes in; losses are always float32", ("fp32", "bf16"))
    device: str = setting("auto", "auto, cpu, cuda, cuda:1, mps")
    validation: str = setting("test", "test: the official test set; or a fraction of the training set, as 0.1")
    curriculum: str = setting("", "a curriculum file, as runs:/<id>/actionflow/curriculum/<name>.parquet")
    pacing: str = setting("full", "how the curriculum opens", ("linear", "step", "root", "full"))
    pacing_epochs: int = setting(10, "epochs until all of the curriculum is open", least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if "vog" in self.gradient_scores and self.epochs < 2:
            raise SettingsError("gradients=vog compares epochs, and epochs is 1: type -P epochs=2 or more.")
        if not 0 < self.learning_rate < float("inf"):
            raise SettingsError(f"learning_rate must be a number above 0, found {self.learning_rate}.")

    @property
    def records_train(self) -> bool:
        """Whether the training split's signals are kept."""
        return self.record in ("train", "both")

    @property
    def records_held_out(self) -> bool:
        """Whether the signals of the splits that are not trained on are kept."""
        return self.record in ("val", "both")

    @property
    def entry_point(self) -> str:
        """What trains with such settings: `mlflow run . -e <this>`."""
        return self.dataset

    @property
    def gradient_scores(self) -> tuple[str, ...]:
        """The scores that need gradients, of those asked for."""
        return words_of(getattr(self, "gradients", ""))

    @property
    def keeps_probabilities(self) -> bool:
        """Whether the probability of every class is kept, for each sample and epoch."""
        return bool(getattr(self, "probabilities", "false") == "true")


@dataclass(frozen=True)
class PictureSettings(Settings):
    """What every training on pictures can be told; the paper's protocol by default."""

    dataset: str = setting("digits", "the data set, or images for your own")
    epochs: int = setting(100, "at most: early stopping ends most trainings before", least=1)
    learning_rate: float = setting(0.001, "Adam's, at the start")
    stop_patience: int = setting(5, "stop after so many epochs without a better validation loss; 0 never", least=0)
    reduce_patience: int = setting(2, "a tenth of the learning rate after as many; 0 never", least=0)
    image_size: int = setting(0, "scale pictures to n x n; 0 keeps them", least=0)
    train_signals: str = setting("online", "as met in training, or from a pass of their own", ("online", "exact"))
    steps: int = setting(0, "gradient steps at most, over all epochs; 0 counts epochs only", least=0)


@dataclass(frozen=True)
class VisionSettings(PictureSettings):
    """The parameters of a training that tells pictures apart."""

    model: str = setting("keras_cnn", "keras_cnn, resnet_v2, xception, or any classification model of torchvision")
    probabilities: str = _probabilities()
    gradients: str = _gradients()
    threshold_samples: str = setting(
        "false", "give some training samples a class of their own, which shows an audit how a wrong label looks", YES_NO
    )
    noise: float = setting(0.0, "share of the training labels that is made wrong, for studies")
    noise_kind: str = setting("symmetric", "to any other class, the next one, or as noise_file says", NOISE_KINDS)
    noise_file: str = setting(
        "", "noise_kind=file: a label for each training sample, as csv, tsv, jsonl, parquet or npy"
    )
    noise_column: str = setting("", "its column with the labels")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.noise <= 1:
            raise SettingsError(f"noise is a share from 0 to 1, found {self.noise}: type for instance -P noise=0.2.")
        if self.noise_kind == "file" and not self.noise_file:
            raise SettingsError("noise_kind=file needs labels: type -P noise_file=<file> -P noise_column=<its column>.")
        if self.noise_kind == "file" and self.noise:
            raise SettingsError(f"noise={self.noise} beside noise_kind=file: the file says which labels are wrong.")
        if self.noise_kind != "file" and (self.noise_file or self.noise_column):
            raise SettingsError("noise_file and noise_column are read with -P noise_kind=file only: type that too.")


@dataclass(frozen=True)
class RobustSettings(VisionSettings):
    """The parameters of a training that makes a model robust against small changes of its pictures, in l2."""

    features: str = setting("both", "whose features are kept at the end", ("val", "both"))
    radius: float = setting(0.5, "how far a picture is changed, in l2 of values from 0 to 1")
    attack_steps: int = setting(7, "steps of gradient ascent that change it", least=1)
    step_size: float = setting(0.0, "the length of a step; 0 stands for 2.5 x radius / steps")
    robust_samples: int = setting(200, "validation samples whose robust accuracy is measured at the end", least=1)
    checkpoint: str = setting("", "weights of your own robust model, which are recorded instead of trained")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.radius < float("inf"):
            raise SettingsError(f"radius must be a number above 0, found {self.radius}: type -P radius=0.5.")
        if not 0 <= self.step_size < float("inf"):
            raise SettingsError(f"step_size must be a number above 0, or 0, found {self.step_size}: leave it out.")

    @property
    def entry_point(self) -> str:
        """One for all data sets."""
        return "robust"


@dataclass(frozen=True)
class AutoencoderSettings(PictureSettings):
    """The parameters of a training that gives pictures back."""

    model: str = setting("autoencoder", "the paper's network", ("autoencoder",))
    pixels: str = setting("val", "whose action is kept for every pixel", ("val", "both", "none"))

    @property
    def entry_point(self) -> str:
        """One for all data sets."""
        return "autoencoder"


@dataclass(frozen=True)
class VaeSettings(PictureSettings):
    """The parameters of a training that learns to make pictures like those of a data set."""

    model: str = setting("vae", "a beta-VAE", ("vae",))
    batch_size: int = setting(128, "samples in a step", least=1)
    stop_patience: int = setting(10, "stop after so many epochs without a better validation loss; 0 never", least=0)
    reduce_patience: int = setting(0, "a tenth of the learning rate after as many; 0 never", least=0)
    record: str = setting("val", "whose signals are kept", ("val", "train", "both"))
    code: int = setting(0, "numbers in a code; 0: 10, for pictures beyond 64 pixels a side 15", least=0)
    channels: int = setting(0, "of the convolutions; 0: 32 for small grey pictures, 64 for others", least=0)
    beta: float = setting(0.4, "the weight of the KL divergence against the reconstruction loss")
    anneal_steps: int = setting(500, "gradient steps until that weight is reached, in a line from 0", least=0)
    reconstruction: str = setting(
        "bernoulli",
        "the reconstruction loss: bernoulli (cross-entropy of pixels) or gaussian (half squared error)",
        ("bernoulli", "gaussian"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.beta < float("inf"):
            raise SettingsError(f"beta must be a number from 0 on, found {self.beta}: type for instance -P beta=0.4.")

    @property
    def entry_point(self) -> str:
        """One for all data sets."""
        return "vae"


@dataclass(frozen=True)
class TextSettings(Settings):
    """The parameters of a training on texts; the NLP study's protocol by default."""

    dataset: str = setting("emotion", "the data set, or text for your own")
    model: str = setting("bert-base-uncased", "a hub name, a folder, or tiny: a small one that needs no download")
    epochs: int = setting(6, "all of them are trained", least=1)
    batch_size: int = setting(16, "samples in a step", least=1)
    learning_rate: float = setting(5e-5, "AdamW's, at the start; it falls to 0 in a line")
    precision: str = setting("auto", "auto: mixed where there is a GPU", ("auto", "fp32", "bf16", "fp16"))
    validation: str = setting("official", "official: the set made for it; test; or a fraction of the training set")
    pacing_epochs: int = setting(3, "epochs until all of the curriculum is open", least=1)
    group_by_length: str = setting("no", "batches of texts of about one length: less padding", ("no", "yes"))
    max_length: int = setting(0, "tokens that are read, at most; 0: what the model takes, up to 512", least=0)
    max_target_length: int = setting(128, "tokens of a target text, at most", least=2)
    generate: int = setting(10, "write texts for so many of the hardest and easiest at the end", least=0)
    data: str = setting("", "your own texts: a csv, tsv, jsonl or parquet file, or a folder of them (dataset=text)")
    text_column: str = setting("text", "your column with the text")
    context_column: str = setting("", "your column with what the text is read beside, such as a premise")
    label_column: str = setting("label", "your column with the class")
    target_column: str = setting("", "your column with the text to write; then there are no classes")
    probabilities: str = _probabilities()
    gradients: str = _gradients()


def changed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of settings that were written down, those that are not the default of their kind of training.

    >>> changed({**VisionSettings().as_dict(), "seed": 3})
    {'seed': 3}
    """
    # The kind that knows most of the names, and fewest others.
    kind = max(_kinds(Settings), key=lambda each: (len(_defaults(each).keys() & settings), -len(fields(each))))
    usual = _defaults(kind)
    return {name: value for name, value in settings.items() if name in usual and value != usual[name]}


def words_of(listed: str) -> tuple[str, ...]:
    """The words of a list such as `vog, grand`, each once.

    >>> words_of("vog, grand,vog")
    ('vog', 'grand')
    """
    return tuple(dict.fromkeys(word.strip() for word in listed.split(",") if word.strip()))


def _kinds(kind: type[Settings]) -> list[type[Settings]]:
    return [each for below in kind.__subclasses__() for each in (below, *_kinds(below))]


def _defaults(kind: type[Settings]) -> dict[str, Any]:
    return {each.name: each.default for each in fields(kind)}


def _check(name: str, value: Any, rule: Mapping[str, Any]) -> None:
    least, choices, words = rule["least"], rule["choices"], rule["words"]
    if least is not None and value < least:
        raise SettingsError(
            f"{name} must be at least {least}, found {value}: type for instance -P {name}={max(least, 1)}."
        )
    if words and not set(words_of(value)) <= set(words):
        raise SettingsError(f"{name} must be {', '.join(words)} or {','.join(words)}, found {value}.")
    if choices and value not in choices:
        raise SettingsError(f"{name} must be {either(choices)}, found {value}.")


def _converted(name: str, word: str, kind: type, default: Any) -> Any:
    try:
        return kind(word.strip())
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
        raise SettingsError(
            f"{name} must be {wanted}, found {word!r}: type for instance -P {name}={default or 1}."
        ) from None
