"""Models: the paper's three are the paper's, torchvision's are fitted, and what cannot be trained is said first."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from actionflow.errors import RecordingError, SettingsError
from actionflow.training.models import PenultimateFeatures, build_model, head_of, model_names, penalty
from actionflow.training.models.keras_cnn import KerasCNN
from actionflow.training.models.keras_layers import (
    TRUNCATED_NORMAL_STD,
    SameMaxPool,
    batch_norm,
    depthwise_convolution,
    he_normal,
    same_convolution,
)
from actionflow.training.models.resnet_v2 import ResNetV2
from actionflow.training.models.torchvision_models import build_torchvision_model, torchvision_names
from actionflow.training.models.xception import Xception

HOUSE = ["keras_cnn", "resnet_v2", "xception"]
LIGHT_TORCHVISION = ["resnet18", "mobilenet_v3_small", "squeezenet1_1", "shufflenet_v2_x0_5", "regnet_x_400mf"]
CIFAR10 = {"channels": 3, "image_size": (32, 32), "classes": 10}


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def cifar10_model(name: str) -> nn.Module:
    return build_model(name, 3, (32, 32), 10)


def trainable(model: nn.Module) -> int:
    return sum(weights.numel() for weights in model.parameters())


def convolutions(model: nn.Module) -> list[nn.Conv2d]:
    return [layer for layer in model.modules() if isinstance(layer, nn.Conv2d)]


def squares(side: int) -> Tensor:
    """One image whose pixels are 0, 1, 2, … row by row."""
    return torch.arange(side * side, dtype=torch.float32).reshape(1, 1, side, side)


# The paper's models


def test_resnet_v2_has_the_papers_849002_parameters():
    model = cifar10_model("resnet_v2")
    statistics = [buffer.numel() for name, buffer in model.named_buffers() if name.endswith(("mean", "var"))]
    assert (trainable(model), sum(statistics)) == (843_786, 5_216)


def test_resnet_v2_has_31_convolutions_all_with_bias():
    layers = convolutions(cifar10_model("resnet_v2"))
    assert len(layers) == 31
    assert all(layer.bias is not None for layer in layers)


def test_keras_cnn_has_the_parameters_of_the_keras_example():
    assert trainable(build_model("keras_cnn", 1, (28, 28), 10)) == 1_199_882


def test_only_the_head_of_xception_has_a_bias():
    model = cifar10_model("xception")
    assert [layer for layer in convolutions(model) if layer.bias is not None] == [head_of(model)]


def test_xception_has_two_stem_convolutions_seven_blocks_of_five_and_a_head():
    assert len(convolutions(cifar10_model("xception"))) == 2 + 7 * 5 + 1


def test_kernels_of_keras_cnn_are_glorot_uniform_and_biases_zero():
    model = build_model("keras_cnn", 1, (28, 28), 10)
    bound = math.sqrt(6 / (12 * 12 * 64 + 128))
    weights, bias = model.get_parameter("features.0.weight"), model.get_parameter("features.0.bias")
    assert 0.999 * bound < float(weights.detach().abs().max()) <= bound
    assert not bias.any()


def test_a_depthwise_kernel_is_as_wide_as_in_keras():
    """Keras sees a depthwise kernel as 64 inputs and 1 output, PyTorch the other way round: the sum is equal."""
    bound = math.sqrt(6 / (9 * 64 + 9))
    assert 0.95 * bound < float(depthwise_convolution(64, 3).weight.detach().abs().max()) <= bound


def test_he_normal_has_the_variance_of_two_over_fan_in_after_it_is_cut_off():
    kernel = he_normal(torch.empty(500, 20, 3, 3))
    std = math.sqrt(2 / (20 * 9))
    assert float(kernel.std()) == pytest.approx(std, rel=0.01)
    assert float(kernel.abs().max()) <= 2 * std / TRUNCATED_NORMAL_STD


def test_batch_norm_moves_its_statistics_by_one_percent_as_keras_does():
    norm = batch_norm(1)
    norm(torch.full((2, 1, 2, 2), 5.0))
    assert float(norm.running_mean) == pytest.approx(0.05)
    assert norm.eps == 1e-3


@pytest.mark.parametrize(("side", "expected"), [(4, [[10, 11], [14, 15]]), (3, [[4, 5], [7, 8]]), (1, [[0]])])
def test_same_max_pool_pads_an_even_side_only_at_its_end(side: int, expected: list[list[float]]):
    assert SameMaxPool()(squares(side))[0, 0].tolist() == expected


def test_same_max_pool_pads_with_less_than_any_number():
    assert SameMaxPool()(torch.full((1, 1, 3, 4), -7.0)).unique().tolist() == [-7.0]


@pytest.mark.parametrize(("side", "expected"), [(4, [[0, 2], [8, 10]]), (3, [[0, 2], [6, 8]])])
def test_a_strided_1x1_convolution_starts_at_the_first_pixel(side: int, expected: list[list[float]]):
    layer = same_convolution(1, 1, 1, stride=2, bias=False)
    nn.init.ones_(layer.weight)
    assert layer(squares(side))[0, 0].tolist() == expected


def test_a_strided_3x3_same_convolution_is_refused_since_its_padding_would_be_wrong():
    with pytest.raises(ValueError, match="not symmetric"):
        same_convolution(1, 1, 3, stride=2)


@pytest.mark.parametrize("side", [7, 8, 28])
def test_an_xception_block_halves_a_side_and_rounds_up(side: int):
    model = Xception(3, (side, side), 10)
    assert model.blocks[0](torch.zeros(2, 64, side, side)).shape == (2, 128, math.ceil(side / 2), math.ceil(side / 2))


def test_resnet_v2_averages_the_whole_map_at_any_size():
    with PenultimateFeatures(model := ResNetV2(1, (64, 64), 10).eval()) as features, torch.no_grad():
        maps = nn.Sequential(model.blocks, *model.pool[:2])(model.stem(images := torch.rand(2, 1, 64, 64)))
        model(images)
    torch.testing.assert_close(features.last, maps.mean(dim=(2, 3)))


# What every model does


@pytest.mark.parametrize("name", HOUSE)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("side", [8, 28, 32, 64])
def test_a_house_model_takes_small_images_and_a_lone_one(name: str, channels: int, side: int):
    model = build_model(name, channels, (side, side), 7)
    assert model(torch.rand(2, channels, side, side)).shape == (2, 7)
    assert model.eval()(torch.rand(1, channels, side, side)).shape == (1, 7)


@pytest.mark.parametrize("name", HOUSE)
def test_a_house_model_takes_images_that_are_not_square(name: str):
    assert build_model(name, 1, (12, 20), 3)(torch.rand(2, 1, 12, 20)).shape == (2, 3)


@pytest.mark.parametrize(("name", "width"), [("keras_cnn", 128), ("resnet_v2", 256), ("xception", 1024)])
def test_features_have_the_papers_width(name: str, width: int):
    with PenultimateFeatures(model := cifar10_model(name)) as features:
        model(torch.rand(3, 3, 32, 32))
    assert features.last.shape == (3, width)
    assert not features.last.requires_grad


@pytest.mark.parametrize("name", ["keras_cnn", "resnet_v2", "resnet18"])
def test_the_head_turns_the_features_into_the_logits(name: str):
    model = cifar10_model(name).eval()
    with PenultimateFeatures(model) as features:
        logits = model(torch.rand(3, 3, 32, 32))
    torch.testing.assert_close(head_of(model)(features.last), logits)


def test_features_of_a_map_are_its_mean():
    model = nn.Sequential(nn.Identity(), nn.Conv2d(2, 3, 1))
    with PenultimateFeatures(model) as features:
        model(torch.tensor([[[[1.0, 3.0]], [[10.0, 30.0]]]]))
    assert features.last.tolist() == [[2.0, 20.0]]


def test_features_are_of_the_last_batch_and_no_longer_taken_outside():
    model = nn.Sequential(nn.Linear(2, 2))
    with PenultimateFeatures(model) as features:
        model(torch.zeros(4, 2))
        model(torch.ones(1, 2))
    model(torch.zeros(4, 2))
    assert features.last.tolist() == [[1.0, 1.0]]


def test_features_before_any_batch_are_an_error_that_says_so():
    with (
        PenultimateFeatures(nn.Linear(2, 2)) as features,
        pytest.raises(RecordingError, match="no batch went through the model"),
    ):
        _ = features.last


def test_a_model_without_a_head_is_named():
    with pytest.raises(SettingsError, match="model ReLU has no head"):
        head_of(nn.ReLU())


@pytest.mark.parametrize("name", [*HOUSE, "resnet18"])
def test_features_stay_float32_under_bf16(name: str):
    with PenultimateFeatures(model := cifar10_model(name)) as features, torch.autocast("cpu", torch.bfloat16):
        logits = model(torch.rand(2, 3, 32, 32))
    assert (logits.dtype, features.last.dtype) == (torch.bfloat16, torch.float32)
    assert logits.isfinite().all()


@pytest.mark.parametrize("name", HOUSE)
@pytest.mark.usefixtures("deterministic")
def test_the_same_seed_trains_to_the_same_weights_bit_for_bit(name: str):
    once, again = _trained(name), _trained(name)
    assert all(torch.equal(first, second) for first, second in zip(once, again, strict=True))


def _trained(name: str) -> list[Tensor]:
    torch.manual_seed(3)
    model = cifar10_model(name)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        loss = F.cross_entropy(model(torch.rand(4, 3, 32, 32)), torch.arange(4))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return list(model.state_dict().values())


@pytest.mark.parametrize("name", HOUSE)
def test_a_house_model_can_be_exported_with_any_batch_size(name: str):
    model = cifar10_model(name).eval()
    batch = torch.export.Dim("batch")
    exported = torch.export.export(model, (torch.rand(2, 3, 32, 32),), dynamic_shapes=({0: batch},)).module()
    lone = torch.rand(1, 3, 32, 32)
    torch.testing.assert_close(exported(lone), model(lone))


# The penalty


def test_the_penalty_of_xception_counts_stem_and_head_kernels_only():
    model = cifar10_model("xception")
    for layer in convolutions(model):
        nn.init.constant_(layer.weight, 2.0)
    kernels = 9 * 3 * 32 + 9 * 32 * 64 + 9 * 1024 * 10
    assert penalty(model).item() == pytest.approx(0.01 * 4 * kernels)


def test_the_penalty_of_resnet_v2_counts_its_convolutions_and_not_its_head():
    model = cifar10_model("resnet_v2")
    for layer in convolutions(model):
        nn.init.ones_(layer.weight)
    biases, norms, head = 3_056, 5_216, 2_570
    assert penalty(model).item() == pytest.approx(1e-4 * (843_786 - biases - norms - head))


@pytest.mark.parametrize("name", ["resnet_v2", "xception"])
def test_the_penalty_pulls_kernels_towards_zero(name: str):
    model = cifar10_model(name)
    penalty(model).backward()
    stem = convolutions(model)[0].weight
    factor = {"resnet_v2": 1e-4, "xception": 0.01}[name]
    torch.testing.assert_close(stem.grad, 2 * factor * stem.detach())


@pytest.mark.parametrize("name", ["keras_cnn", "resnet18"])
def test_models_without_l2_terms_have_no_penalty(name: str):
    assert penalty(cifar10_model(name)) is None


# Building leaves no trace


@pytest.mark.parametrize(("name", "construct"), [("keras_cnn", KerasCNN), ("resnet_v2", ResNetV2)])
def test_trying_a_model_changes_neither_its_weights_nor_the_generator(name: str, construct: type[nn.Module]):
    torch.manual_seed(5)
    tried, draw_after_trying = cifar10_model(name), float(torch.rand(1))
    torch.manual_seed(5)
    untried, draw = construct(3, (32, 32), 10), float(torch.rand(1))
    assert draw_after_trying == draw
    assert tried.training
    assert all(
        torch.equal(first, second)
        for first, second in zip(tried.state_dict().values(), untried.state_dict().values(), strict=True)
    )


def test_another_seed_draws_other_weights():
    first, second = cifar10_model("keras_cnn"), cifar10_model("keras_cnn")
    assert not torch.equal(head_of(first).weight, head_of(second).weight)


# torchvision's models


@pytest.mark.parametrize("name", LIGHT_TORCHVISION)
@pytest.mark.parametrize(("channels", "side"), [(1, 8), (3, 32)])
def test_a_torchvision_model_is_fitted_to_small_images(name: str, channels: int, side: int):
    model = build_model(name, channels, (side, side), 7)
    with PenultimateFeatures(model) as features:
        logits = model(torch.rand(2, channels, side, side))
    assert (logits.shape, len(features.last)) == ((2, 7), 2)


def test_the_stem_of_resnet18_keeps_every_pixel_of_a_small_image():
    model = cifar10_model("resnet18")
    assert (model.conv1.kernel_size, model.conv1.stride) == ((3, 3), (1, 1))
    assert isinstance(model.maxpool, nn.Identity)


def test_the_stem_of_resnet18_stays_as_it_is_for_larger_images():
    model = build_model("resnet18", 1, (96, 96), 10)
    assert (model.conv1.kernel_size, model.conv1.stride, model.conv1.in_channels) == ((7, 7), (2, 2), 1)
    assert isinstance(model.maxpool, nn.MaxPool2d)


@pytest.mark.parametrize("name", ["densenet121", "googlenet", "alexnet", "squeezenet1_0", "shufflenet_v2_x0_5"])
def test_the_max_pool_after_a_strided_stem_is_taken_out(name: str):
    assert _max_pools(name, side=64) == _max_pools(name, side=65) - 1


@pytest.mark.parametrize("name", ["vgg11", "inception_v3"])
def test_a_max_pool_that_does_not_follow_a_strided_stem_stays(name: str):
    assert _max_pools(name, side=64) == _max_pools(name, side=65)


def _max_pools(name: str, side: int) -> int:
    with torch.device("meta"):
        model = build_torchvision_model(name, 3, (side, side), 10)
    return sum(isinstance(layer, nn.MaxPool2d) for layer in model.modules())


@pytest.mark.parametrize(("name", "patch"), [("vit_b_16", 16), ("swin_t", 4), ("convnext_tiny", 4)])
def test_a_patch_embedding_keeps_its_patches_and_takes_the_channels(name: str, patch: int):
    with torch.device("meta"):
        stem = convolutions(build_torchvision_model(name, 1, (32, 32), 10))[0]
    assert (stem.in_channels, stem.kernel_size, stem.stride) == (1, (patch, patch), (patch, patch))


def test_googlenet_gives_plain_logits_and_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = build_model("googlenet", 3, (32, 32), 10)
    assert isinstance(model(torch.rand(2, 3, 32, 32)), Tensor)


def test_names_begin_with_the_papers_models_and_go_on_with_torchvisions():
    assert model_names()[:3] == HOUSE
    assert model_names()[3:] == torchvision_names()
    assert {"resnet18", "vit_b_16"} <= set(model_names())


# What cannot be built is said before training


def test_an_unknown_model_is_told_with_the_nearest():
    with pytest.raises(SettingsError, match=r"there is no model 'xeption' .*Did you mean xception"):
        build_model("xeption", **CIFAR10)


def test_a_detection_model_is_not_a_classifier():
    with pytest.raises(SettingsError, match="there is no model 'fasterrcnn_resnet50_fpn'"):
        build_model("fasterrcnn_resnet50_fpn", **CIFAR10)


def test_images_too_small_are_told_with_models_and_a_size_that_fit():
    with pytest.raises(SettingsError) as told:
        build_model("convnext_tiny", 3, (16, 16), 10)
    assert str(told.value).startswith("model convnext_tiny cannot take 16x16 images (")
    assert str(told.value).endswith("Try keras_cnn, resnet_v2 or xception, or -P image_size=32.")
    assert "\n" not in str(told.value)


def test_the_size_that_is_proposed_is_one_the_model_takes():
    with pytest.raises(SettingsError, match=r"or -P image_size=48\.$"):
        build_model("inception_v3", 3, (32, 32), 10)


def test_a_house_model_that_cannot_take_the_images_is_not_proposed():
    with pytest.raises(SettingsError, match=r"keras_cnn cannot take 4x4 .*Try resnet_v2 or xception, or"):
        build_model("keras_cnn", 3, (4, 4), 10)


@pytest.mark.parametrize(
    ("name", "size", "reason"),
    [
        ("vit_b_16", (28, 28), "28x28 images (28 is not a multiple of its patch of 16 pixels)"),
        ("vit_b_16", (32, 48), "32x48 images (it takes square images only)"),
        ("maxvit_t", (32, 32), "32x32 images (Input size (8, 8) of block 0 is not divisible by partition size 7"),
    ],
)
def test_a_transformer_says_which_sizes_it_takes(name: str, size: tuple[int, int], reason: str):
    with pytest.raises(SettingsError) as told:
        build_model(name, 3, size, 10)
    assert f"model {name} cannot take {reason}" in str(told.value)


def test_a_single_class_is_refused():
    with pytest.raises(SettingsError, match=r"two classes at least \(found: 1\)"):
        build_model("keras_cnn", 3, (32, 32), 1)


def test_images_without_channels_are_refused():
    with pytest.raises(SettingsError, match=r"\(found: 32x32, 0 channels\)"):
        build_model("keras_cnn", 0, (32, 32), 10)
