"""Small steps in a VAE's codes that a classifier gets wrong: Defuse's search for unrestricted adversarial examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from actionflow.training.data import Samples
from actionflow.training.mending.reading import Pair, Reading

# Codes that are decoded and looked at together. Memory follows from this, and not from how many samples there are.
AT_ONCE = 8192


@dataclass(frozen=True)
class Noise:
    """What a code is moved by: Beta(a, b) in every number, less its mean where it is centred.

    The paper's is not: with a = b = 50 it moves every number by about +0.5 and spreads by 0.05 only.
    """

    a: float
    b: float
    is_centred: bool = True

    def draw(self, random: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Steps of this shape."""
        steps = random.beta(self.a, self.b, shape)
        return (steps - self.mean if self.is_centred else steps).astype(np.float32)

    @property
    def mean(self) -> float:
        """Of the Beta distribution."""
        return self.a / (self.a + self.b)

    @property
    def deviation(self) -> float:
        """The standard deviation of a step.

        >>> round(Noise(50, 50).deviation, 3)
        0.05
        """
        total = self.a + self.b
        return float(np.sqrt(self.a * self.b / (total * total * (total + 1))))


@dataclass(frozen=True)
class Found:
    """Counterexamples (n) of some samples: where each was found, and what the classifier takes it for."""

    sample_ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    codes: NDArray[np.float32]
    images: NDArray[np.uint8]
    reading: Reading
    sources: int  # samples that were searched around
    unread: int  # samples that were not: the classifier gets even their unmoved reconstruction wrong

    def __len__(self) -> int:
        return len(self.sample_ids)

    @classmethod
    def joined(cls, parts: list[Self], unread: int) -> Self:
        """The finds of several parts."""
        return cls(
            sample_ids=np.concatenate([part.sample_ids for part in parts]),
            labels=np.concatenate([part.labels for part in parts]),
            codes=np.concatenate([part.codes for part in parts]),
            images=np.concatenate([part.images for part in parts]),
            reading=Reading(
                np.concatenate([part.reading.predictions for part in parts]),
                np.concatenate([part.reading.confidences for part in parts]),
            ),
            sources=sum(part.sources for part in parts),
            unread=unread,
        )


def search(
    pair: Pair,
    samples: Samples,
    noise: Noise,
    steps: int,
    most: int,
    random: np.random.Generator,
    at_once: int = AT_ONCE,
) -> Found:
    """Try `steps` moved codes of every sample; keep at most `most` of each that are read as another class.

    Samples whose unmoved reconstruction is misread are left out: around them one would only find the VAE's blur.
    """
    codes = pair.encode(samples.images)
    is_read = pair.read(pair.decode(codes)).predictions == samples.labels
    places = np.flatnonzero(is_read)
    unread = len(samples) - len(places)
    group = max(1, at_once // steps)
    groups = [places[start : start + group] for start in range(0, len(places), group)] or [places]
    parts = [_around(pair, samples, codes, each, noise, steps, most, random) for each in groups]
    return Found.joined(parts, unread)


def _around(
    pair: Pair,
    samples: Samples,
    codes: NDArray[np.float32],
    places: NDArray[np.int64],
    noise: Noise,
    steps: int,
    most: int,
    random: np.random.Generator,
) -> Found:
    """Search around these samples, all of their moved codes in one batch."""
    moved = codes[places][:, None] + noise.draw(random, (len(places), steps, codes.shape[1]))
    moved = moved.reshape(-1, codes.shape[1])
    images = pair.decode(moved)
    reading = pair.read(images)
    labels = np.repeat(samples.labels[places], steps)
    wrong = (reading.predictions != labels).reshape(len(places), steps)
    kept = np.flatnonzero(wrong & (wrong.cumsum(axis=1) <= most))
    return Found(
        sample_ids=np.repeat(samples.sample_ids[places], steps)[kept],
        labels=labels[kept],
        codes=moved[kept],
        images=images[kept],
        reading=Reading(reading.predictions[kept], reading.confidences[kept]),
        sources=len(places),
        unread=0,
    )
