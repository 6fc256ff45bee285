"""How far a training is: a bar on a terminal, a line an epoch everywhere. All of it goes to stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tqdm import tqdm


class Progress:
    """Shows the passes of an epoch as they go, and what the epoch came to."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs
        self.epoch = 0
        self._bar: tqdm[Any] | None = None

    def say(self, text: str) -> None:
        """Tell a person something."""
        tqdm.write(text, file=sys.stderr)

    def bar(self, split: str, samples: int) -> Callable[[Any, Any, Any], None]:
        """A watcher that moves a bar by the samples of each batch."""
        advance = self.counter(f"epoch {self.epoch} {split}", samples)
        return lambda sample_ids, _logits, _targets: advance(len(sample_ids))

    def counter(self, what: str, samples: int) -> Callable[[int], None]:
        """What moves a bar by a number of samples."""
        self._close()
        # disable=None: a bar on a terminal, nothing in a log file.
        bar = tqdm(total=samples, desc=what, unit=" samples", leave=False, disable=None)
        self._bar = bar
        return lambda count: _advance(bar, count)

    def end_epoch(self, epoch: int, results: dict[str, dict[str, float]]) -> None:
        """A line for the epoch: each split with its figures."""
        self._close()
        self.epoch = epoch + 1
        told = "   ".join(
            " ".join([split, *(f"{name} {value:.4f}" for name, value in figures.items())])
            for split, figures in results.items()
        )
        self.say(f"epoch {epoch:>3} of at most {self.epochs}   {told}")

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _advance(bar: tqdm[Any], samples: int) -> None:
    bar.update(samples)
