"""Models by name: the paper's three, and every classification model of torchvision fitted to small images.

The paper's autoencoder stands beside them: it gives images back instead of naming their class.

Seed torch, build, train:

    torch.manual_seed(seed)
    model = build_model("resnet_v2", channels=3, image_size=(32, 32), classes=10)
    with PenultimateFeatures(model) as features:
        logits = model(images)
    features.last  # (n, 256)
"""

from actionflow.training.models.autoencoder import Autoencoder, build_autoencoder
from actionflow.training.models.building import build_model, model_names
from actionflow.training.models.features import PenultimateFeatures, head_of
from actionflow.training.models.keras_layers import penalty

__all__ = [
    "Autoencoder",
    "PenultimateFeatures",
    "build_autoencoder",
    "build_model",
    "head_of",
    "model_names",
    "penalty",
]
