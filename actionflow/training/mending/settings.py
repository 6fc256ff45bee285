"""What the steps of mending can be told; the paper's protocol by default, where it goes with centred noise."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar

from actionflow.errors import SettingsError
from actionflow.training.settings import Parameters, VaeSettings, VisionSettings, setting, words_of

# The paper's sweep.
LAMBDAS = "1e-10,1e-9,1e-8,1e-7,1e-6,1e-5,1e-4,1e-3,1e-2,1e-1,1,2,5,10,20,100,1000"
PEOPLE, SOURCE = "people", "source"


@dataclass(frozen=True)
class StepSettings(Parameters):
    """What every step can be told."""

    run: str = setting("", "the classifier's run; or a run of the chain to go on with: its parent, or any step")
    seed: int = setting(0, "decides every draw", least=0)
    data_dir: str = setting("", "where the classifier's data lie; else where they lay when it was trained")
    device: str = setting("auto", "auto, cpu, cuda, cuda:1, mps")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.run:
            raise SettingsError("which classifier? Type -P run=<its run>: `actionflow runs` lists them.")


@dataclass(frozen=True)
class VaeStep(StepSettings):
    """Training a VAE on the classifier's data."""

    epochs: int = setting(100, "at most: early stopping ends most trainings before", least=1)
    batch_size: int = setting(128, "samples in a step", least=1)
    learning_rate: float = setting(0.001, "Adam's")
    stop_patience: int = setting(10, "stop after so many epochs without a better validation loss; 0 never", least=0)
    code: int = setting(0, "numbers in a code; 0: 10, for pictures beyond 64 pixels a side 15", least=0)
    channels: int = setting(0, "of the convolutions; 0: 32 for small grey pictures, 64 for others", least=0)
    beta: float = setting(0.4, "the weight of the KL divergence against the reconstruction loss")
    anneal_steps: int = setting(500, "gradient steps until that weight is reached, in a line from 0", least=0)
    reconstruction: str = setting("bernoulli", "the reconstruction loss", ("bernoulli", "gaussian"))

    def training(self, classifier: VisionSettings) -> VaeSettings:
        """The settings of the training: on the very data that the classifier learnt from."""
        shared = ("dataset", "limit", "image_size", "validation")
        known = {name: getattr(classifier, name) for name in shared}
        known |= {each.name: getattr(self, each.name) for each in fields(self) if each.name != "run"}
        return VaeSettings.from_dict({**known, "data_dir": self.data_dir or classifier.data_dir})


@dataclass(frozen=True)
class IdentifyStep(StepSettings):
    """Searching around every training sample."""

    steps: int = setting(100, "moved codes that are tried around every sample, the paper's Q", least=1)
    most: int = setting(10, "counterexamples that are kept of a sample", least=1)
    a: float = setting(50.0, "of the Beta(a, b) noise")
    b: float = setting(50.0, "of the Beta(a, b) noise")
    noise: str = setting(
        "centred", "centred on 0, or the paper's, which moves every code by about +0.5", ("centred", "paper")
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.a, self.b) <= 0:
            raise SettingsError(f"Beta(a, b) needs a and b above 0, found {self.a} and {self.b}: type -P a=50 -P b=50.")


@dataclass(frozen=True)
class DistillStep(StepSettings):
    """Grouping counterexamples into scenarios."""

    components: int = setting(100, "of the mixture, at most", least=1)
    least_weight: float = setting(0.01, "components below it are dropped")
    most_codes: int = setting(50_000, "codes that the mixture is fitted to, at most", least=2)
    tau: float = setting(0.5, "how diverse a scenario's samples are: its covariance is multiplied by it")
    samples: int = setting(10, "decoded samples that a person sees of each scenario", least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tau <= 0:
            raise SettingsError(f"tau must be a number above 0, found {self.tau}: type for instance -P tau=0.5.")


@dataclass(frozen=True)
class CorrectStep(StepSettings):
    """Fine-tuning the classifier on its data and on labelled scenarios."""

    labels: str = setting(PEOPLE, "people; source: those of the training samples; or a CSV file that was filled in")
    unlabelled: str = setting("refuse", "what to do while some scenarios have no label", ("refuse", "skip"))
    rho: float = setting(0.5, "a scenario is a failure when more than this share of its labelled samples is misread")
    lambdas: str = setting(LAMBDAS, "weights of the scenarios' loss to try, with commas between them")
    epochs: int = setting(3, "of each fine-tuning", least=1)
    batch_size: int = setting(256, "samples in a step, and as many of the scenarios", least=1)
    learning_rate: float = setting(0.001, "of the classifier's kind of optimiser")
    drawn: int = setting(256, "decoded samples of each scenario to tune on, and as many to test with", least=1)
    cost: float = setting(0.0, "validation accuracy that mending may cost; 0: the best lambda by validation alone")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.weights()
        if not 0 <= self.rho < 1:
            raise SettingsError(f"rho is a share from 0 to below 1, found {self.rho}: type for instance -P rho=0.5.")

    def weights(self) -> list[float]:
        """The lambdas as numbers."""
        try:
            found = [float(word) for word in words_of(self.lambdas)]
        except ValueError:
            found = []
        if not found or min(found) <= 0:
            raise SettingsError(f"lambdas are numbers above 0, found {self.lambdas!r}: type -P lambdas=0.01,0.1,1.")
        return found

    def training(self, classifier: VisionSettings) -> VisionSettings:
        """The settings of each fine-tuning: the classifier's own but for its length, its steps and its schedule."""
        changes: dict[str, Any] = {
            **classifier.as_dict(),
            **{name: getattr(self, name) for name in ("epochs", "batch_size", "learning_rate", "seed", "device")},
            "data_dir": self.data_dir or classifier.data_dir,
            "stop_patience": 0,
            "reduce_patience": 0,
            "steps": 0,
            "curriculum": "",
            "gradients": "",
        }
        return VisionSettings.from_dict(changes)


S = TypeVar("S", bound=StepSettings)


@dataclass(frozen=True)
class DefuseSettings(StepSettings):
    """All steps one after the other; what is not named here has the steps' defaults."""

    vae_epochs: int = setting(100, "of the VAE, at most", least=1)
    beta: float = setting(0.4, "the weight of the VAE's KL divergence")
    steps: int = setting(100, "moved codes that are tried around every sample", least=1)
    most: int = setting(10, "counterexamples that are kept of a sample", least=1)
    a: float = setting(50.0, "of the Beta(a, b) noise")
    b: float = setting(50.0, "of the Beta(a, b) noise")
    noise: str = setting("centred", "centred on 0, or the paper's", ("centred", "paper"))
    components: int = setting(100, "of the mixture, at most", least=1)
    tau: float = setting(0.5, "how diverse a scenario's samples are")
    labels: str = setting(PEOPLE, "people, source, or a CSV file that was filled in")
    unlabelled: str = setting("refuse", "what to do while some scenarios have no label", ("refuse", "skip"))
    lambdas: str = setting(LAMBDAS, "weights of the scenarios' loss to try, with commas between them")
    epochs: int = setting(3, "of each fine-tuning", least=1)
    batch_size: int = setting(256, "samples in a step of the fine-tuning", least=1)
    learning_rate: float = setting(0.001, "of the fine-tuning")
    cost: float = setting(0.0, "validation accuracy that mending may cost")

    def of(self, kind: type[S]) -> S:
        """What one step is told of it."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        if kind is VaeStep:
            given = {"epochs": self.vae_epochs, "beta": self.beta, **_shared(self)}
        return kind.from_dict(given)


def _shared(settings: StepSettings) -> dict[str, Any]:
    return {each.name: getattr(settings, each.name) for each in fields(StepSettings)}
