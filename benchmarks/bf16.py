"""How much faster does precision=bf16 train on this CPU?

The paper's CNN on 28x28 pictures in batches of 32, by turns in fp32 and bf16. The signals are float32 in both.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median

import made_up
import numpy as np
import torch
from measuring import Target, end, is_quick, show

from actionflow.training.data import Samples
from actionflow.training.loop import Trainer
from actionflow.training.models import build_model
from actionflow.training.settings import VisionSettings

# What Linux calls the instructions.
INSTRUCTIONS = ("avx512_bf16", "amx_bf16", "bf16", "svebf16")


def trainer(precision: str) -> Trainer:
    torch.manual_seed(0)
    return Trainer(build_model("keras_cnn", 1, (28, 28), 10), VisionSettings(device="cpu", precision=precision))


def throughput(one: Trainer, samples: Samples) -> tuple[float, float]:
    """Samples a second, in training and in evaluation."""
    return one.train(samples, []).samples_per_second, one.evaluate(samples, []).samples_per_second


def instructions() -> list[str]:
    """The bf16 instructions of this CPU; none where they cannot be told."""
    description = Path("/proc/cpuinfo")
    words = set(description.read_text().split()) if description.exists() else set()
    return [name for name in INSTRUCTIONS if name in words]


def main() -> None:
    quick = is_quick(__doc__)
    count, rounds = (256, 2) if quick else (4096, 5)
    samples = made_up.images(count)
    full, half = trainer("fp32"), trainer("bf16")
    for one in (full, half):
        throughput(one, samples.take(np.arange(64)))  # warms up
    turns = [(throughput(full, samples), throughput(half, samples)) for _ in range(rounds)]
    training, evaluation = ([median(turn[kind][phase] for turn in turns) for kind in range(2)] for phase in range(2))
    has = instructions()
    show(
        f"keras_cnn on {count:,} pictures of 28x28; this CPU {'has ' + ', '.join(has) if has else 'has no bf16'}",
        ["samples a second", "fp32", "bf16", "ratio"],
        [
            ["training", *training, training[1] / training[0]],
            ["evaluation", *evaluation, evaluation[1] / evaluation[0]],
        ],
    )
    if not has:
        print("without bf16 instructions there is nothing to gain: no target applies")
    targets = [Target("bf16 training, times fp32", training[1] / training[0], 1.4, at_least=True)] if has else []
    end(targets, quick)


if __name__ == "__main__":
    main()
