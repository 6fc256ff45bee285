"""A training inside an MLflow run: launched, recorded epoch by epoch, resumed, finished with pictures and a model."""

from actionflow.tracking.launching import launch, nested_run
from actionflow.tracking.tracked_run import TrackedRun

__all__ = ["TrackedRun", "launch", "nested_run"]
