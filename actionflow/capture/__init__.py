"""Batches go in, one Arrow table per epoch comes out. It knows nothing of MLflow, files or SQL."""

from actionflow.capture.pixels import PixelSums, pixel_losses
from actionflow.capture.recorder import EpochRecorder
from actionflow.capture.sequences import TokenLosses, best_spans, sequence_signals, span_signals
from actionflow.capture.signals import Signals, classification_signals

__all__ = [
    "EpochRecorder",
    "PixelSums",
    "Signals",
    "TokenLosses",
    "best_spans",
    "classification_signals",
    "pixel_losses",
    "sequence_signals",
    "span_signals",
]
