"""Mending a classifier in MLflow: four steps, each a run of its own under one parent.

    chain = Chain.of("<classifier>", begins=True)
    train_vae(chain, VaeStep(run=…)); identify(…); distill(…); correct(…)

A step that was interrupted is gone on with in its own run when it is asked for again with the same parameters.
"""

from actionflow.tracking.mending.chain import Chain
from actionflow.tracking.mending.correct_step import correct
from actionflow.tracking.mending.distill_step import distill
from actionflow.tracking.mending.identify_step import identify
from actionflow.tracking.mending.launching import launch_step
from actionflow.tracking.mending.vae_step import train_vae

__all__ = ["Chain", "correct", "distill", "identify", "launch_step", "train_vae"]
