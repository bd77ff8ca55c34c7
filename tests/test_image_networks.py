"""Image networks: shapes and parameter counts worked out on paper, centring and scaling, frames that don't fit."""

from __future__ import annotations

import copy
from math import exp, tanh

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn
from torch.nn import functional

from a3c_zoo.errors import ConfigError
from a3c_zoo.learning.image_networks import A3C_FF, Architecture, Conv, ConvActorCritic, as_blocks, takes_blocks
from a3c_zoo.learning.network_configs import ImageConfig
from a3c_zoo.learning.networks import ActorCritic
from a3c_zoo.learning.spaces import ObservationSpec, observation_spec
from a3c_zoo.plugins import builtins
from a3c_zoo.plugins.entries import load_object

ACTIONS = 6
NAMES = [entry.name for entry in builtins.zoo_networks() if entry.config.endswith("ImageConfig")]

# Four frames of 84×84 (42×42 for conv42). A convolution has filters·channels·kernel² weights and a bias per filter:
#   a3c-ff   84 → 20 → 9:          16·4·8² + 16 = 4,112;  32·16·4² + 32 = 8,224
#   nature   84 → 20 → 9 → 7:      32·4·8² + 32 = 8,224;  64·32·4² + 64 = 32,832;  64·64·3² + 64 = 36,928
#   nature-slim, as nature:        32·4·8² + 32 = 8,224;  32·32·4² + 32 = 16,416;  32·32·3² + 32 = 9,248
#   conv42   42 → 21 → 11 → 6 → 3: 32·4·3² + 32 = 1,184;  three times 32·32·3² + 32 = 9,248
# What is left of a frame goes into the hidden layer, and that into 6 logits and a value.
COUNTS = {
    "a3c-ff": 4_112 + 8_224 + (32 * 9 * 9 * 256 + 256) + (256 * 6 + 6) + (256 + 1),
    "nature": 8_224 + 32_832 + 36_928 + (64 * 7 * 7 * 512 + 512) + (512 * 6 + 6) + (512 + 1),
    "nature-dual": 8_224 + 32_832 + 36_928 + 2 * (64 * 7 * 7 * 512 + 512) + (512 * 6 + 6) + (512 + 1),
    "nature-slim": 8_224 + 16_416 + 9_248 + (32 * 7 * 7 * 256 + 256) + (256 * 6 + 6) + (256 + 1),
    "conv42": 1_184 + 3 * 9_248 + (32 * 3 * 3 * 256 + 256) + (256 * 6 + 6) + (256 + 1),
}


def frames(size: int, stack: int = 4) -> ObservationSpec:
    return observation_spec(spaces.Box(0, 255, (stack, size, size), np.uint8))


def build(name: str, size: int | None = None, **config: object) -> ActorCritic:
    """The network as its entry builds it."""
    (entry,) = [entry for entry in builtins.zoo_networks() if entry.name == name]
    spec = frames(size or (42 if name == "conv42" else 84))
    settings = ImageConfig.model_validate({"name": name, **config})
    network: ActorCritic = load_object(entry.factory)(spec, ACTIONS, settings)
    return network


def pictures(size: int, *batch: int) -> torch.Tensor:
    return torch.randint(256, (*batch, 4, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def size_of(name: str) -> int:
    return 42 if name == "conv42" else 84


@pytest.mark.parametrize("name", NAMES)
def test_as_many_parameters_as_on_paper(name: str) -> None:
    assert sum(p.numel() for p in build(name).parameters()) == COUNTS[name]


def test_the_totals_that_papers_and_other_libraries_give() -> None:
    assert COUNTS["nature"] == 1_687_719  # stable-baselines3's CnnPolicy on Pong
    assert COUNTS["a3c-ff"] == 677_943


@pytest.mark.parametrize("name", NAMES)
def test_shapes(name: str) -> None:
    network, size = build(name), size_of(name)
    assert network.policy(pictures(size, 3)).shape == (3, ACTIONS)
    assert network.value(pictures(size, 3)).shape == (3,)
    logits, values = network.evaluate(pictures(size, 3, 2))  # T = 2, N = 2
    assert (logits.shape, values.shape) == ((4, ACTIONS), (6,))
    assert {logits.dtype, values.dtype, network.policy(pictures(size, 1)).dtype} == {torch.float32}


@pytest.mark.parametrize("name", NAMES)
def test_the_pass_for_learning_tells_what_those_for_acting_tell(name: str) -> None:
    network, observations = build(name, center=106, scale=0.02), pictures(size_of(name), 3, 2)
    logits, values = network.evaluate(observations)
    assert torch.allclose(logits, network.policy(observations[:-1].flatten(0, 1)), atol=1e-6)
    assert torch.allclose(values, network.value(observations.flatten(0, 1)), atol=1e-5)
    assert logits.std() > 0


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_gets_a_gradient(name: str) -> None:
    network = build(name, center=106, scale=0.02)
    logits, values = network.evaluate(pictures(size_of(name), 3, 2))
    (logits.square().sum() + values.square().sum()).backward()
    assert [n for n, p in network.named_parameters() if p.grad is None or not p.grad.any()] == []


def test_only_the_dual_network_has_a_hidden_layer_for_each_head() -> None:
    hidden = {name: sum("hidden" in n and "weight" in n for n, _ in build(name).named_parameters()) for name in NAMES}
    assert hidden == {"a3c-ff": 1, "nature": 1, "nature-dual": 2, "nature-slim": 1, "conv42": 1}


def test_in_the_dual_network_one_head_does_not_reach_the_others_layer() -> None:
    network = build("nature-dual")
    network.value(pictures(84, 1)).sum().backward()
    gradients = {name: p.grad is not None and bool(p.grad.any()) for name, p in network.named_parameters()}
    assert not gradients["hidden.0.weight"]
    assert gradients["hidden.1.weight"]


def test_pictures_whose_channels_come_last_are_turned() -> None:
    """The network reads 3 channels of 96×96, not 96 "channels" of 96×3."""
    spec = observation_spec(spaces.Box(0, 255, (96, 96, 3), np.uint8))
    assert (spec.shape, spec.is_turned) == ((3, 96, 96), True)
    given = np.arange(2 * 96 * 96 * 3, dtype=np.uint8).reshape(2, 96, 96, 3)
    assert spec.turned(given)[1, 2, 5, 7] == given[1, 5, 7, 2]


# Pixels


def one_pixel_wide(config: ImageConfig, elu: bool = False) -> ConvActorCritic:
    """A network whose every weight is 1 and bias 0: its value is the sum of what is positive after centring."""
    architecture = Architecture((Conv(1, 1, 1),), hidden=1, elu=elu)
    network = ConvActorCritic(frames(2, stack=1), 2, config, architecture, "plain")
    with torch.no_grad():
        for name, p in network.named_parameters():
            p.fill_(1.0 if "weight" in name else 0.0)
    return network


def test_pixels_are_centred_and_scaled() -> None:
    pixels = torch.tensor([[[[100, 126], [106, 86]]]], dtype=torch.uint8)
    plain, centred = one_pixel_wide(ImageConfig()), one_pixel_wide(ImageConfig(center=106, scale=0.02))
    assert plain.value(pixels).item() == pytest.approx((100 + 126 + 106 + 86) / 255)
    assert centred.value(pixels).item() == pytest.approx((126 - 106) * 0.02)  # the others are not above the centre
    assert pixels.tolist() == [[[[100, 126], [106, 86]]]]  # not written to


def test_the_set_may_choose_another_nonlinearity() -> None:
    pixels = torch.tensor([[[[100, 126], [106, 86]]]], dtype=torch.uint8)  # −0.12, 0.4, 0 and −0.4
    summed = (exp(-0.12) - 1) + 0.4 + 0 + (exp(-0.4) - 1)  # −0.0428; the hidden unit makes e^−0.0428 − 1 of it
    for elu, chosen, value in (
        (False, None, 0.4),
        (True, None, exp(summed) - 1),
        (False, "elu", exp(summed) - 1),
        (True, "relu", 0.4),
        (True, "tanh", tanh(tanh(-0.12) + tanh(0.4) + tanh(-0.4))),
    ):
        config = ImageConfig(center=106, scale=0.02, activation=chosen)
        assert one_pixel_wide(config, elu).value(pixels).item() == pytest.approx(value, abs=1e-6)


def test_in_bfloat16_no_pixel_is_off_by_a_shade_of_grey() -> None:
    network = one_pixel_wide(ImageConfig(center=106, scale=0.02)).bfloat16()
    convolved = network._convolved(torch.arange(256, dtype=torch.uint8).reshape(64, 1, 2, 2))
    assert convolved.dtype == torch.bfloat16
    brighter = (torch.arange(256) - 106).clamp(min=0) * 0.02  # 2.98 at most, where bfloat16 has steps of 0.016
    assert (convolved.float().flatten() - brighter).abs().max() < 0.02


# Blocks


def test_a_block_of_pixels_becomes_one_with_more_channels() -> None:
    """Two blocks of 4×4 side by side, in a frame with the numbers 0 to 31."""
    frame = torch.arange(32, dtype=torch.uint8).reshape(1, 1, 4, 8)
    first, second = as_blocks(frame)[0, :, 0].T.tolist()
    assert first == [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27]
    assert second == [4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31]


@pytest.mark.parametrize("columns", [slice(None), slice(1, 2)])
def test_blocks_are_what_torch_makes_of_frames_too(columns: slice) -> None:
    rollout = pictures(84, 3, 2)[:, columns].transpose(0, 1)[0]  # with and without gaps between frames
    assert torch.equal(as_blocks(rollout), functional.pixel_unshuffle(rollout, 4))


def test_which_first_convolutions_take_blocks() -> None:
    assert takes_blocks(Conv(16, 8, 4), (84, 20))
    assert not takes_blocks(Conv(16, 8, 4), (84, 42))  # 42 pixels are ten blocks and a half
    assert not takes_blocks(Conv(16, 8, 2), (84, 84))
    assert not takes_blocks(Conv(16, 6, 4), (84, 84))
    assert not takes_blocks(Conv(16, 8, 4, padding=2), (84, 84))


@pytest.mark.parametrize("name", ["a3c-ff", "nature", "nature-dual", "nature-slim"])
def test_a_convolution_of_blocks_computes_what_that_of_pixels_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for in_blocks in (True, False):
        torch.manual_seed(0)
        network = build(name, center=42, scale=0.017)
        assert network._takes_blocks
        monkeypatch.setattr(network, "_takes_blocks", in_blocks)
        logits, values = network.evaluate(pictures(84, 3, 2))
        (logits.square().sum() + values.square().sum()).backward()
        found.append([logits, values, *(p.grad for p in network.parameters())])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-5 * float(other.detach().abs().max()))


# What doesn't fit


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("a3c-ff", 20),  # 20 → 4 → 1
        ("nature", 36),  # 36 → 8 → 3 → 1
        ("nature-dual", 36),
        ("nature-slim", 36),
        ("conv42", 9),  # 9 → 5 → 3 → 2 → 1; of 8 → 4 → 2 → 1 a single pixel would be left for the last
    ],
)
def test_the_smallest_frames(name: str, least: int) -> None:
    assert build(name, least).value(pictures(least, 1)).shape == (1,)
    with pytest.raises(ConfigError) as caught:
        build(name, least - 1)
    line = str(caught.value)
    assert line.startswith(f"network '{name}' cannot take frames of {least - 1}×{least - 1}: they are too small ")
    assert "env.frame_size" in line
    assert "\n" not in line


@pytest.mark.parametrize("size", range(9, 18))
def test_bfloat16_has_the_gradients_of_small_frames_too(size: int) -> None:
    """A kernel around a single pixel had anything in its gradient, at times NaN."""
    torch.manual_seed(0)
    network = build("conv42", size)
    frames = torch.randint(256, (21, 2, 4, size, size), dtype=torch.uint8)
    gradients = []
    for precision in (torch.float32, torch.bfloat16):
        made = copy.deepcopy(network).to(precision)
        logits, values = made.evaluate(frames)
        (logits.float().square().sum() + values.float().square().sum()).backward()
        gradients.append(torch.cat([p.grad.float().flatten() for p in made.parameters() if p.grad is not None]))
    assert torch.linalg.vector_norm(gradients[1] - gradients[0]) < 0.1 * torch.linalg.vector_norm(gradients[0])


def test_frames_need_not_be_square() -> None:
    spec = observation_spec(spaces.Box(0, 255, (3, 84, 20), np.uint8))
    network = ConvActorCritic(spec, 2, ImageConfig(), A3C_FF, "a3c-ff")
    assert network.value(torch.zeros(2, 3, 84, 20, dtype=torch.uint8)).shape == (2,)


def test_the_same_seed_draws_the_same_network() -> None:
    torch.manual_seed(3)
    one = build("conv42")
    torch.manual_seed(3)
    other = build("conv42")
    for mine, yours in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, yours)


def test_init_torch_has_the_weights_of_plain_modules() -> None:
    """As the printed programs build their network: plain modules, one after the other, from one generator."""
    torch.manual_seed(3)
    plain = [
        nn.Conv2d(4, 32, 8, 4),
        nn.Conv2d(32, 64, 4, 2),
        nn.Conv2d(64, 64, 3),
        nn.Linear(3136, 512),
        nn.Linear(3136, 512),
        nn.Linear(512, ACTIONS),
        nn.Linear(512, 1),
    ]
    torch.manual_seed(3)
    made = build("nature-dual", init="torch")
    expected = [parameter for layer in plain for parameter in layer.parameters()]
    for mine, printed in zip(made.parameters(), expected, strict=True):
        assert torch.equal(mine, printed)


def test_other_networks_begin_with_orthogonal_weights_and_a_small_policy() -> None:
    network = build("nature")
    weight = dict(network.named_parameters())["actor.weight"]
    assert torch.allclose(weight @ weight.T, 1e-4 * torch.eye(ACTIONS), atol=1e-8)
