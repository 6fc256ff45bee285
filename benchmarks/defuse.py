"""How long do the steps take that mend a classifier: searching around samples, and grouping what was found?

`search` tries 100 moved codes around each sample of 28x28 with the paper's VAE and `keras_cnn`, whose weights are
random: what they say does not matter to the clock. Beside it stands algorithm 1 of Defuse as it is written, a code at
a time; it is timed on some samples. Memory is what the search of four times as many samples holds at most, part by part
as the step writes them. `distil` fits the mixture to 50,000 codes of 10 numbers in 30 groups.
"""

from __future__ import annotations

import time

import numpy as np
import torch
from measuring import MEGABYTE, Target, end, forget_peak, is_quick, memory_now, peak_memory, show
from numpy.typing import NDArray

from actionflow.analysis.scenarios import distil
from actionflow.tracking.mending.identify_step import PART
from actionflow.training.data.dataset import Samples, first_samples
from actionflow.training.mending import Noise, Pair, search
from actionflow.training.models import build_model
from actionflow.training.models.vae import build_vae

CLASSES, STEPS, MOST = 10, 100, 10


def main() -> None:
    quick = is_quick(__doc__)
    samples, looped, codes = (64, 2, 2_000) if quick else (10_000, 20, 50_000)
    small, large = (held(count) for count in ((32, 128) if quick else (2 * PART, 8 * PART)))
    batched, single, grouping = searching(samples), one_by_one(looped), distilling(codes)
    show(
        f"searching around samples of 28x28, {STEPS} codes each",
        ["", "samples", "ms a sample"],
        [["search", samples, 1000 * batched], ["a code at a time", looped, 1000 * single]],
    )
    show("memory of the search", ["", "MB beyond the samples"], [["a quarter", small], ["all", large]])
    targets = [
        Target("a code at a time takes, times search's", single / batched, 5, at_least=True),
        Target("memory of four times the samples, times", large / max(small, 1.0), 1.1),
        Target(f"distil of {codes:,} codes, s", grouping, 120),
    ]
    end(targets, quick)


def searching(count: int) -> float:
    """Seconds a sample, batched."""
    pair, samples = made(count)
    search(pair, samples.take(np.arange(2)), Noise(50, 50), STEPS, MOST, np.random.default_rng(0))
    started = time.perf_counter()
    in_parts(pair, samples)
    return (time.perf_counter() - started) / count


def one_by_one(count: int) -> float:
    """Seconds a sample, as the paper's algorithm is written."""
    pair, samples = made(count)
    noise, random = Noise(50, 50), np.random.default_rng(0)
    started = time.perf_counter()
    for place in range(count):
        code = pair.encode(samples.images[place : place + 1])
        for _ in range(STEPS):
            pair.read(pair.decode(code + noise.draw(random, code.shape)))
    return (time.perf_counter() - started) / count


def held(count: int) -> float:
    """The most megabytes that a search holds beyond its samples."""
    pair, samples = made(count)
    search(pair, samples.take(np.arange(16)), Noise(50, 50), STEPS, MOST, np.random.default_rng(0))
    before = memory_now()
    forget_peak()
    in_parts(pair, samples, steps=10)
    return (peak_memory() - before) / MEGABYTE


def in_parts(pair: Pair, samples: Samples, steps: int = STEPS) -> None:
    for start in range(0, len(samples), PART):
        part = samples.take(np.arange(start, min(start + PART, len(samples))))
        search(pair, part, Noise(50, 50), steps, MOST, np.random.default_rng(0))


def distilling(count: int) -> float:
    draw = np.random.default_rng(0)
    middles: NDArray[np.float64] = draw.normal(0, 1.5, (30, 10))
    codes = middles[draw.integers(0, 30, count)] + draw.normal(0, 0.4, (count, 10))
    started = time.perf_counter()
    distil(codes.astype(np.float32), 100, 0.01, 50_000, 0)
    return time.perf_counter() - started


def made(count: int) -> tuple[Pair, Samples]:
    """Both networks, and samples whose labels are what the classifier reads: so that all are searched around."""
    torch.manual_seed(0)
    pair = Pair(build_model("keras_cnn", 1, (28, 28), CLASSES), build_vae(1, (28, 28)), torch.device("cpu"))
    images = np.random.default_rng(0).integers(0, 256, (count, 1, 28, 28), np.uint8)
    labels = pair.read(pair.decode(pair.encode(images))).predictions
    return pair, first_samples(images, labels, [""] * count)


if __name__ == "__main__":
    main()
