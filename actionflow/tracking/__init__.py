"""A training inside an MLflow run: launched, recorded epoch by epoch, resumed, finished with pictures and a model."""

from actionflow.tracking.autoencoder_run import AutoencoderRun
from actionflow.tracking.launching import launch, nested_run
from actionflow.tracking.robust_run import RobustRun
from actionflow.tracking.vision_run import VisionRun

__all__ = ["AutoencoderRun", "RobustRun", "VisionRun", "launch", "nested_run"]
