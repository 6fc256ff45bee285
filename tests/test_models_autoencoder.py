"""The paper's autoencoder: its layers are Keras', its sizes any, its features the code."""

from functools import partial

import pytest
import torch
from torch import nn

from actionflow.errors import DataError
from actionflow.training.models import PenultimateFeatures, build_autoencoder
from actionflow.training.models.keras_layers import halving_convolution

FIRST = "channels_first"


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def trainable(model):
    return sum(weights.numel() for weights in model.parameters())


def test_a_halving_convolution_pads_below_and_to_the_right_as_tensorflow_does():
    layer = halving_convolution(1, 1)
    nn.init.ones_(layer.get_parameter("1.weight"))
    squares = torch.arange(16.0).reshape(1, 1, 4, 4)
    assert layer(squares)[0, 0].tolist() == [[45, 39], [66, 50]]


def in_keras(keras):
    """The paper's own lines, for 32x32x3, up to the sigmoid."""
    convolution = partial(keras.layers.Conv2D, kernel_size=3, padding="same", data_format=FIRST)
    down = [convolution(filters, strides=2, activation="relu") for filters in (32, 64, 128, 256)]
    up = [
        layer
        for filters, activation in ((128, "relu"), (64, "relu"), (32, "relu"), (3, None))
        for layer in (keras.layers.UpSampling2D(2, data_format=FIRST), convolution(filters, activation=activation))
    ]
    # Told of FIRST, this one would bring the channels to the end.
    code = [keras.layers.Flatten(), keras.layers.Dense(128)]
    back = [keras.layers.Dense(2 * 2 * 256), keras.layers.Reshape((256, 2, 2))]
    return keras.Sequential([keras.Input((3, 32, 32)), *down, *code, *back, *up])


def test_the_autoencoder_is_the_papers_as_keras_computes_it():
    keras = pytest.importorskip("keras")
    model, paper = build_autoencoder(3, (32, 32)), in_keras(keras)
    ours = [layer for layer in model.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    for layer, theirs in zip(ours, [layer for layer in paper.layers if layer.weights], strict=True):
        kernel = layer.weight.detach()
        theirs.set_weights([kernel.permute(2, 3, 1, 0) if kernel.ndim == 4 else kernel.T, layer.bias.detach()])
    images = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(model(images), paper(images).cpu(), rtol=1e-4, atol=1e-5)
    assert trainable(model) == paper.count_params()


@pytest.mark.parametrize(("channels", "size"), [(1, (28, 28)), (3, (9, 20)), (1, (1, 1)), (3, (32, 48))])
def test_an_autoencoder_gives_back_images_of_any_size(channels, size):
    assert build_autoencoder(channels, size)(torch.rand(2, channels, *size)).shape == (2, channels, *size)


def test_the_padding_is_cropped_where_it_was_put():
    """Through layers that pass pixels on as they are, an image comes back in its place."""
    model = build_autoencoder(1, (9, 20))
    model.encoder, model.widen, model.decoder = nn.Identity(), nn.Identity(), nn.Identity()
    images = torch.rand(2, 1, 9, 20)
    assert model(images).equal(images)


def test_the_papers_autoencoder_has_1038721_parameters_for_28x28x1():
    assert trainable(build_autoencoder(1, (28, 28))) == 1_038_721


def test_the_code_is_what_an_autoencoder_knows_of_an_image():
    model = build_autoencoder(1, (28, 28))
    with PenultimateFeatures(model) as features:
        model(torch.rand(5, 1, 28, 28))
    assert features.last.shape == (5, 128)


def test_an_autoencoder_refuses_images_without_pixels():
    with pytest.raises(DataError, match=r"needs images with pixels \(found: 0x28, 1 channels\)"):
        build_autoencoder(1, (0, 28))
