"""The paper's small CNN: the MNIST example of Keras."""

from __future__ import annotations

from torch import Tensor, nn

from actionflow.training.models.keras_layers import HouseModel, dense, valid_convolution

FEATURES = 128


class KerasCNN(HouseModel):
    """Two convolutions without padding, a max-pool, a dense layer of 128 (the features) and the head.

    1,199,882 parameters for 28x28x1 and 10 classes. The dense layer's size follows from the image's.
    """

    def __init__(self, channels: int, image_size: tuple[int, int], classes: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            valid_convolution(channels, 32, 3),
            nn.ReLU(),
            valid_convolution(32, 64, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Dropout(0.25),
            nn.Flatten(),
        )
        height, width = (_pooled(size) for size in image_size)
        self.features = nn.Sequential(dense(64 * height * width, FEATURES), nn.ReLU(), nn.Dropout(0.5))
        self.head = dense(FEATURES, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Turn (n, channels, height, width) into (n, classes) logits."""
        logits: Tensor = self.head(self.features(self.convolutions(images)))
        return logits


def _pooled(size: int) -> int:
    """Return what two 3x3 convolutions without padding and a 2x2 pool leave of a side."""
    if size < 6:
        raise ValueError("its two 3x3 convolutions and 2x2 pool need 6 pixels a side")
    return (size - 4) // 2
