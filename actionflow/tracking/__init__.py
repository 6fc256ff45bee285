"""A training inside an MLflow run: launched, recorded epoch by epoch, resumed, finished with pictures and a model."""

from actionflow.tracking.launching import launch, nested_run
from actionflow.tracking.vision_run import VisionRun

__all__ = ["VisionRun", "launch", "nested_run"]
