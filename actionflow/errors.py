"""Every mistake that ActionFlow tells a person about.

    ActionFlowError
    ├── SettingsError    a parameter that cannot be meant (epochs=0, an unknown model)
    ├── DataError        a data set that is missing, damaged or cannot be trained on
    ├── TrainingError    a training that cannot go on (the loss is no longer a number)
    ├── RecordingError   batches that do not make an epoch (a sample twice, lengths that differ)
    ├── StoreError       a run or file that cannot be written or read
    └── QueryError       a question that cannot be asked (unknown query, bad SQL)

A message is one line: what is wrong, what was found instead, what to type. It is built here or where the error is
raised, so that the command line, the page and Python say the same.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class ActionFlowError(Exception):
    """A mistake that is told in one line, without a traceback."""


class SettingsError(ActionFlowError):
    """A parameter has a value that cannot be meant."""


class DataError(ActionFlowError):
    """A data set is missing, damaged, or cannot be trained on."""


class TrainingError(ActionFlowError):
    """A training cannot go on."""


class RecordingError(ActionFlowError):
    """The batches that were recorded do not make an epoch."""


class StoreError(ActionFlowError):
    """A run or one of its files cannot be written or read."""


class QueryError(ActionFlowError):
    """A question cannot be asked."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Say which known names are meant by a mistyped one, or list them when none is near.

    >>> nearest("xeption", ["keras_cnn", "xception"])
    'Did you mean xception?'
    """
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if close:
        return f"Did you mean {' or '.join(close)}?"
    shown = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
    return f"There are: {shown}."


def either(names: Sequence[str]) -> str:
    """Write names as a choice.

    >>> either(["keras_cnn", "resnet_v2", "xception"]), either(["autoencoder"])
    ('keras_cnn, resnet_v2 or xception', 'autoencoder')
    """
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
