"""Scores that need gradients: VoG, of a sample's input, and GraNd, of the weights.

They are taken when a training has ended, with the weights of a handful of its epochs, which it kept on the way:

    kept = KeptWeights(folder)
    kept.keep(epoch, model)                              # after every epoch
    gradient_scores(pictures, kept, epoch, ("vog",))     # {"vog": …, "vog_early": …, "vog_late": …}, a value per sample

A `Reader` says how a model reads its samples; `Pictures` is one.
"""

from actionflow.training.gradients.keeping import KeptWeights, kept_epochs
from actionflow.training.gradients.reading import Pictures, Reader, Tensors
from actionflow.training.gradients.scoring import check_gradients, gradient_scores

__all__ = [
    "KeptWeights",
    "Pictures",
    "Reader",
    "Tensors",
    "check_gradients",
    "gradient_scores",
    "kept_epochs",
]
