"""Mending a classifier's failures, as Defuse does: what of it trains or asks models. Nothing here knows MLflow.

`VaeTrainer` learns to make pictures, `search` finds those that the classifier gets wrong though they lie close to
training samples that it gets right, `FineTuner` teaches the classifier what people say of them.
"""

from actionflow.training.mending.finetuning import Failures, FineTuner
from actionflow.training.mending.reading import Pair, Reading, read
from actionflow.training.mending.search import Found, Noise, search
from actionflow.training.mending.vae_trainer import VaeTrainer

__all__ = ["Failures", "FineTuner", "Found", "Noise", "Pair", "Reading", "VaeTrainer", "read", "search"]
