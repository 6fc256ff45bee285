"""How much faster is VoG over whole batches than a plain loop over samples?

10,000 pictures of CIFAR's size and the weights of three epochs, as a training keeps them, from their files to a value
for each sample. The loop is a plain one, a sample with its forward and backward pass at a time; it is timed on few
samples and scaled. Beside it what the arithmetic alone would take at the speed of a large matrix product on this
machine: no way of asking can be much faster than that.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import made_up
import numpy as np
import torch
from measuring import Target, end, is_quick, seconds, show
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from actionflow.training.data import Samples
from actionflow.training.gradients import KeptWeights, Pictures
from actionflow.training.gradients.keeping import Epochs
from actionflow.training.gradients.scoring import gradient_norms, gradient_spreads
from actionflow.training.models import build_model

CPU = torch.device("cpu")
EPOCHS = Epochs(early=(0, 1, 2), late=(0, 1, 2), every=(0, 1, 2))
MILLI = 1000
# One whose time is arithmetic, and one of many small layers, where a loop mostly waits for Python.
OTHERS = ("resnet_v2", "mobilenet_v3_small")
BATCHED, FLOOR, GRAND = "VoG, batched", "VoG, its arithmetic alone", "GraNd, vmap"
BACKWARD, GRAD = "VoG, a loop with backward()", "VoG, a loop with grad() of the input alone"


def coloured(samples: Samples) -> Samples:
    return replace(samples, images=samples.images.repeat(3, axis=1))


def kept_weights(model: nn.Module, folder: Path) -> KeptWeights:
    """Three epochs of weights."""
    kept = KeptWeights(folder)
    for epoch in EPOCHS.every:
        with torch.no_grad():
            for value in model.parameters():
                value.mul_(1 + 0.01 * torch.randn_like(value))
        kept.keep(epoch, model)
    return kept


def loop(model: nn.Module, samples: Samples, take: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> float:
    """Seconds for each sample and epoch, one by one."""
    images, labels = torch.from_numpy(samples.images).float() / 255, torch.from_numpy(samples.labels)
    model.eval()

    def ask() -> None:
        for place, label in enumerate(labels):
            one = images[place : place + 1].clone().requires_grad_()
            take(model(one)[0, label], one)
            model.zero_grad()

    ask()  # warms up
    return min(seconds(ask) for _ in range(3)) / len(samples)


def by_backward(logit: torch.Tensor, one: torch.Tensor) -> torch.Tensor:
    """As most write it: the weights' gradients are made too, and thrown away."""
    logit.backward()
    assert one.grad is not None
    return one.grad


def by_grad(logit: torch.Tensor, one: torch.Tensor) -> torch.Tensor:
    """The input's alone."""
    return torch.autograd.grad(logit, one)[0]


def floor(reader: Pictures, weights: dict[str, torch.Tensor]) -> float:
    """Seconds for a sample's arithmetic at the speed of a product of matrices of 2,048."""
    places = np.arange(min(16, len(reader.labels)))
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        reader.logits(weights, reader.read(places))
    matrix = torch.rand(2048, 2048)
    fastest = min(seconds(lambda: matrix @ matrix) for _ in range(5))
    # The way back to the input multiplies as much as the way there.
    return 2 * counter.get_total_flops() / len(places) * fastest / (2 * 2048**3)


def measured(name: str, samples: Samples, few: int, folder: Path) -> dict[str, float]:
    """Milliseconds for each sample and epoch, every way."""
    torch.manual_seed(0)
    model = build_model(name, 3, (32, 32), 10)
    kept = kept_weights(model, folder / name)
    some, reader = samples.take(np.arange(few)), Pictures(model, samples, CPU)
    gradient_spreads(Pictures(model, some, CPU), kept, EPOCHS, lambda _: None)  # warms up
    started = time.perf_counter()
    gradient_spreads(reader, kept, EPOCHS, lambda _: None)
    batched = (time.perf_counter() - started) / len(samples) / len(EPOCHS.every)
    weights = kept.load(0, CPU)
    few_pictures = Pictures(model, some, CPU)
    each = {
        BATCHED: batched,
        BACKWARD: loop(model, some, by_backward),
        GRAD: loop(model, some, by_grad),
        FLOOR: floor(reader, weights),
        GRAND: seconds(lambda: gradient_norms(few_pictures, weights)) / few,
    }
    return {what: value * MILLI for what, value in each.items()}


def main() -> None:
    quick = is_quick(__doc__)
    count, few = (64, 16) if quick else (10_000, 200)
    samples = coloured(made_up.images(count, 32))
    with tempfile.TemporaryDirectory() as folder:
        found = {
            "keras_cnn": measured("keras_cnn", samples, few, Path(folder)),
            **{each: measured(each, samples.take(np.arange(count // 10)), few // 4, Path(folder)) for each in OTHERS},
        }
    show(
        f"milliseconds for a picture of 32x32x3 and an epoch, {torch.get_num_threads()} threads; batched over "
        f"{count:,} pictures ({' and '.join(OTHERS)} {count // 10:,}), loops over {few} ({few // 4})",
        ["", *found],
        [[what, *(each[what] for each in found.values())] for what in found["keras_cnn"]],
    )
    for name, figures in found.items():
        ratio, best = (figures[BACKWARD] / figures[each] for each in (BATCHED, FLOOR))
        print(f"{name}: {ratio:.1f}x as fast as the loop; by its arithmetic alone it could be {best:.1f}x")
    figures = found["keras_cnn"]
    ratio = figures[BACKWARD] / figures[BATCHED]
    end([Target("VoG of keras_cnn, times a plain loop", ratio, 10, at_least=True)], quick)


if __name__ == "__main__":
    main()
