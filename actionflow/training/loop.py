"""The one training loop: batches of tensors, watched sample by sample."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from actionflow.errors import SettingsError, TrainingError
from actionflow.training.data import ImageDataset, Samples
from actionflow.training.models import PenultimateFeatures, build_model, penalty
from actionflow.training.objectives import CLASSIFICATION, Objective
from actionflow.training.schedule import EarlyStopping, batches_of, plateau
from actionflow.training.settings import PictureSettings, VisionSettings

# Sees every batch: sample ids, outputs and targets. A recorder is one, a progress bar another.
Watcher = Callable[[Tensor, Tensor, Tensor], None]

EVALUATION_BATCH = 256
# Looking at every loss would make a GPU wait at every step; the first bad one is found all the same.
LOSSES_PER_CHECK = 64


@dataclass(frozen=True)
class Pass:
    """What one pass over a split came to."""

    loss: float
    accuracy: float | None  # where samples are right or wrong
    samples_per_second: float


class Trainer:
    """Trains a model, a classifier unless told otherwise: Adam, plateau, early stopping on the validation loss.

    Everything random in epoch n follows from the seed and n alone, so a resumed training equals an unbroken one.
    """

    def __init__(self, model: nn.Module, settings: PictureSettings, objective: Objective = CLASSIFICATION) -> None:
        self.settings = settings
        self.objective = objective
        self.device = choose_device(settings.device)
        self.model = model.to(self.device)
        self.optimizer = torch.optim.Adam(
            model.parameters(),
            lr=settings.learning_rate,
            eps=1e-7,  # Keras', as the paper's protocol is Keras'
            # All weights in one kernel: at batches of 32 a step of keras_cnn takes a quarter less time.
            fused=self.device.type in ("cpu", "cuda"),
        )
        self.plateau = plateau(self.optimizer, settings.reduce_patience)
        self.stopping = EarlyStopping(settings.stop_patience)
        self.epoch = 0
        self.steps = 0  # gradient steps so far
        self.learning_rate = settings.learning_rate  # of the epoch trained last; the optimizer's may be reduced already

    @classmethod
    def fresh(cls, dataset: ImageDataset, settings: VisionSettings, classes: int | None = None) -> Trainer:
        """A trainer of a model that has seen nothing: random weights, drawn by the seed; of the data's classes."""
        seed_everything(settings.seed)
        outputs = classes or len(dataset.class_names)
        return cls(build_model(settings.model, dataset.channels, dataset.image_size, outputs), settings)

    def epochs(self) -> Iterator[int]:
        """The epochs that are left, until the last or until patience is exhausted."""
        while self.epoch < self.settings.epochs and not self.stopping.exhausted and self._steps_left() > 0:
            yield self.epoch
            self.epoch += 1

    def train(self, samples: Samples, watchers: Sequence[Watcher], order: NDArray[np.int64] | None = None) -> Pass:
        """One epoch over `samples`, in the given order or shuffled."""
        torch.manual_seed(epoch_seed(self.settings.seed, self.epoch))
        if order is None:
            order = torch.randperm(len(samples)).numpy()
        if self.settings.steps:
            order = order[: int(self._steps_left()) * self.settings.batch_size]
        self.learning_rate = float(self.optimizer.param_groups[0]["lr"])
        self.model.train()
        return self._pass(samples, self.settings.batch_size, watchers, self._step, torch.from_numpy(order))

    def evaluate(self, samples: Samples, watchers: Sequence[Watcher]) -> Pass:
        """One pass over `samples` that changes nothing."""
        self.model.eval()
        with torch.inference_mode():
            return self._pass(samples, EVALUATION_BATCH, watchers, self._look, torch.arange(len(samples)))

    def features(self, samples: Samples) -> NDArray[np.float32]:
        """The features (n, d) that the model's head sees."""
        found: list[Tensor] = []
        with PenultimateFeatures(self.model) as features:
            self.evaluate(samples, [lambda *_: found.append(features.last.cpu())])
        return torch.cat(found).numpy()

    def outputs(self, samples: Samples) -> Tensor:
        """What the model says of these samples, in their order."""
        found: list[Tensor] = []
        self.evaluate(samples, [lambda _ids, outputs, _targets: found.append(outputs.cpu())])
        return torch.cat(found)

    def probabilities(self, samples: Samples) -> NDArray[np.float32]:
        """The probability (n, classes) of every class."""
        return self.outputs(samples).softmax(dim=1).numpy()

    def end_epoch(self, validation: Pass, patient: bool = False) -> None:
        """Let the schedule see how validation went; a patient one does not count epochs that brought nothing better."""
        self.stopping.update(self.epoch, validation.loss, validation.accuracy, self.model)
        if patient:
            self.stopping.waited = 0
        elif self.plateau is not None:
            self.plateau.step(validation.loss)

    def restore_best(self) -> None:
        """Put the weights of the best epoch back."""
        self.model.load_state_dict(self.stopping.best_weights)

    def state(self) -> dict[str, Any]:
        """All that is needed to go on after this epoch."""
        return {
            "epoch": self.epoch,
            "steps": self.steps,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "plateau": self.plateau.state_dict() if self.plateau else {},
            "stopping": self.stopping.state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on after the epoch in which `state` was taken."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.plateau:
            self.plateau.load_state_dict(state["plateau"])
        self.stopping.load_state(state["stopping"])
        self.epoch = state["epoch"] + 1
        self.steps = state["steps"]

    def _steps_left(self) -> float:
        return self.settings.steps - self.steps if self.settings.steps else math.inf

    def _pass(
        self,
        samples: Samples,
        batch_size: int,
        watchers: Sequence[Watcher],
        handle: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
        order: Tensor,
    ) -> Pass:
        """Go over `samples` in `order`; `handle` turns images and targets into outputs and the batch's mean loss."""
        ids, images, labels = (torch.from_numpy(a) for a in (samples.sample_ids, samples.images, samples.labels))
        # Grey pictures may lie in memory in two ways that are one and the same to numpy; torch takes one of them for
        # channels-last, where dropout draws otherwise: the same samples must not train differently.
        images = images.flatten().view(images.shape)
        started = time.perf_counter()
        losses, right = BatchLosses(self.epoch), torch.zeros((), dtype=torch.int64, device=self.device)
        judge = self.objective.right
        for cut in batches_of(len(order), batch_size):
            chosen = order[cut]
            classes = labels[chosen].to(self.device, non_blocking=True)
            pixels = images[chosen].to(self.device, non_blocking=True).float().div_(255)
            targets = self.objective.targets(pixels, classes)
            outputs, loss = handle(pixels, targets)
            losses.add(loss, len(chosen))
            if judge is not None:
                right += judge(outputs, targets)
            for watch in watchers:
                watch(ids[chosen], outputs, targets)
        elapsed = time.perf_counter() - started
        accuracy = None if judge is None else float(right) / len(order)
        return Pass(losses.mean(), accuracy, len(order) / elapsed)

    def _step(self, pixels: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        outputs = self._forward(pixels)
        return outputs.detach(), self._descend(self.objective.loss(outputs, targets))

    def _descend(self, loss: Tensor, more: Tensor | None = None) -> Tensor:
        """One step down the loss, with what the model adds to it, and `more`; returns the loss without those."""
        whole = [each for each in (loss, penalty(self.model), more) if each is not None]
        self.optimizer.zero_grad(set_to_none=True)
        sum(whole[1:], whole[0]).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.steps += 1
        return loss.detach()

    def _look(self, pixels: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        outputs = self._forward(pixels)
        return outputs, self.objective.loss(outputs, targets)

    def _forward(self, pixels: Tensor) -> Tensor:
        """Outputs in float32, whatever the model computed in."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.precision == "bf16"):
            outputs: Tensor = self.model(pixels)
        return outputs.float()


class BatchLosses:
    """The losses of a pass, and the one place that notices when they stop being numbers."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self._unchecked: list[Tensor] = []
        self._sizes: list[int] = []
        self._checked = 0
        self._total = 0.0

    def add(self, loss: Tensor, size: int) -> None:
        """Take the mean loss of a batch of `size` samples."""
        self._unchecked.append(loss)
        self._sizes.append(size)
        if len(self._unchecked) == LOSSES_PER_CHECK:
            self._check()

    def mean(self) -> float:
        """The mean over all samples so far."""
        self._check()
        return self._total / sum(self._sizes)

    def _check(self) -> None:
        if not self._unchecked:
            return
        losses = torch.stack(self._unchecked).double().cpu()
        bad = ~losses.isfinite()
        if bad.any():
            batch = self._checked + int(bad.nonzero()[0])
            raise TrainingError(
                f"the loss is {losses[bad][0].item()} in epoch {self._epoch}, batch {batch}: training stops, "
                "the finished epochs are kept. Try a smaller -P learning_rate, or -P precision=fp32."
            )
        sizes = torch.tensor(self._sizes[self._checked :], dtype=torch.float64)
        self._total += float((losses * sizes).sum())
        self._checked += len(self._unchecked)
        self._unchecked = []


def seed_everything(seed: int) -> None:
    """Make the CPU deterministic, and the drawing of weights follow from the seed."""
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True, warn_only=torch.cuda.is_available())


def epoch_seed(seed: int, epoch: int) -> int:
    """One number for each seed and epoch."""
    return int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0] >> 1)


def choose_device(name: str) -> torch.device:
    """The device of this name; `auto` takes the fastest there is."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise SettingsError(f"device {name} is not to be had here: type -P device=auto or -P device=cpu.") from error
    return device
