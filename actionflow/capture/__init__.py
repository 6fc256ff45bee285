"""Batches go in, one Arrow table per epoch comes out. It knows nothing of MLflow, files or SQL."""

from actionflow.capture.recorder import EpochRecorder
from actionflow.capture.signals import Signals, classification_signals

__all__ = ["EpochRecorder", "Signals", "classification_signals"]
