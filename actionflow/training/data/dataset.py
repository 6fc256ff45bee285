"""What a data set is here: arrays of pictures and labels, each sample with an id that never changes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from actionflow.errors import SettingsError

Images: TypeAlias = NDArray[np.uint8]
Integers: TypeAlias = NDArray[np.int64]
Column: TypeAlias = NDArray[Any] | list[Any]


@dataclass(frozen=True)
class Samples:
    """Some samples of a data set, in the order of their ids.

    `sample_ids` and `labels` are int64 (n), `images` uint8 (n, channels, height, width). A key is what the user calls
    the sample (a file, a row); `metadata` holds further columns of the user's own.
    """

    sample_ids: Integers
    images: Images
    labels: Integers
    keys: list[str]
    metadata: dict[str, Column] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.sample_ids)

    def take(self, places: Integers) -> Samples:
        """The samples at these places, with all that belongs to them."""
        return Samples(
            sample_ids=self.sample_ids[places],
            images=self.images[places],
            labels=self.labels[places],
            keys=[self.keys[place] for place in places],
            metadata={name: take_column(column, places) for name, column in self.metadata.items()},
        )

    def first(self, count: int) -> Samples:
        """The first `count` samples, without copying a pixel."""
        return self._cut(slice(0, count))

    def after(self, count: int) -> Samples:
        """All but the first `count` samples, without copying a pixel."""
        return self._cut(slice(count, None))

    def _cut(self, places: slice) -> Samples:
        return Samples(
            sample_ids=self.sample_ids[places],
            images=self.images[places],
            labels=self.labels[places],
            keys=self.keys[places],
            metadata={name: column[places] for name, column in self.metadata.items()},
        )


@dataclass(frozen=True)
class ImageDataset:
    """A data set with its parts `train` and `test`; `source` says where it was found and what was left aside.

    `task` is what is learnt of a picture: its class, or (reconstruction) the picture itself.
    """

    name: str
    class_names: tuple[str, ...]
    parts: dict[str, Samples]
    source: str
    task: str = "classification"

    @property
    def told(self) -> str:
        """A sample in a few words."""
        height, width = self.image_size
        return f"of {height}x{width}x{self.channels}, {len(self.class_names)} classes"

    def shown(self, part: str) -> dict[str, Any]:
        """What a person looks at: the picture as PNG."""
        from actionflow.training.data.png import png_images  # it knows this module

        return {"image": png_images(self.parts[part].images)}

    @property
    def channels(self) -> int:
        """1 for grey pictures, 3 for coloured ones."""
        return int(self.parts["train"].images.shape[1])

    @property
    def image_size(self) -> tuple[int, int]:
        """Height and width."""
        height, width = self.parts["train"].images.shape[2:]
        return int(height), int(width)

    @cached_property
    def digest(self) -> str:
        """16 hexadecimal digits that change with any pixel, label, id, class name or part, and with nothing else."""
        content = hashlib.blake2b(digest_size=8)
        content.update(repr(tuple(self.class_names)).encode())
        for name, samples in self.parts.items():
            content.update(repr((name, samples.images.shape)).encode())
            # Byte order is fixed, so that every machine comes to the same digest.
            content.update(np.ascontiguousarray(samples.sample_ids, "<i8").data)
            content.update(np.ascontiguousarray(samples.labels, "<i8").data)
            content.update(np.ascontiguousarray(samples.images).data)
        return content.hexdigest()

    def limit(self, count: int) -> ImageDataset:
        """The first `count` samples of each part, with their ids; 0 keeps all."""
        if count < 0:
            raise SettingsError(
                f"limit={count} cannot be meant: type -P limit=100 for the first 100 samples per split, 0 for all."
            )
        if count == 0:
            return self
        return replace(self, parts={name: samples.first(count) for name, samples in self.parts.items()})


def first_samples(
    images: Images, labels: Integers, keys: Sequence[str], metadata: Mapping[str, Column] | None = None
) -> Samples:
    """Samples whose ids are their places in these arrays."""
    return Samples(
        np.arange(len(labels)), images, labels.astype(np.int64, copy=False), list(keys), dict(metadata or {})
    )


def train_then_test(train: Samples, test: Samples) -> dict[str, Samples]:
    """Both parts, with the ids of the test part going on where those of the training part end."""
    return {"train": train, "test": replace(test, sample_ids=test.sample_ids + len(train))}


def take_column(column: Column, places: Integers) -> Column:
    """The values at these places, as a list or an array as before."""
    return [column[place] for place in places] if isinstance(column, list) else column[places]
