"""The network `mixed`: images of any size, alone and among other parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import Space, spaces

from a3c_zoo.learning.mixed_network import Mixed, build_mixed
from a3c_zoo.learning.network_configs import MixedConfig
from a3c_zoo.learning.spaces import ObservationSpec, observation_spec

GRID = spaces.Box(0, 10, (7, 7, 3), np.uint8)
BOOLS: Space[Any] = spaces.Box(0, 1, (10, 10, 6), np.bool_)
PARTS = spaces.Dict(direction=spaces.Discrete(4), image=GRID, speed=spaces.Box(-1, 1, (2,)))


def build(space: Space[Any], **keys: Any) -> tuple[Mixed, ObservationSpec]:
    spec = observation_spec(space)
    network = build_mixed(spec, 5, MixedConfig(name="mixed", **keys))
    assert isinstance(network, Mixed)
    return network, spec


@pytest.mark.parametrize(
    ("space", "inputs"),
    [
        # 7×7 → 5×5 → 3×3 with 32 filters
        (GRID, 3 * 3 * 32),
        (PARTS, 3 * 3 * 32 + 4 + 2),
        # 84 → 20 → 9 → 7, as `nature`
        (spaces.Box(0, 255, (4, 84, 84), np.uint8), 7 * 7 * 64),
        (BOOLS, 6 * 6 * 32),
        # too small for a convolution
        (spaces.Box(0, 1, (4, 4, 2), np.uint8), 4 * 4 * 2),
        (spaces.Tuple([GRID, GRID]), 2 * 3 * 3 * 32),
    ],
)
def test_the_hidden_layer_takes_everything(space: Space[Any], inputs: int) -> None:
    network, spec = build(space)
    assert network.hidden[0].in_features == inputs
    observations = torch.rand(3, *spec.shape)
    assert network.policy(observations).shape == (3, 5)
    assert network.value(observations).shape == (3,)


def test_an_image_among_parts_gives_what_it_gives_alone() -> None:
    """The parts are stored in one vector, the image with its channels last; its convolutions see it turned."""
    alone, spec = build(GRID)
    among, parts = build(spaces.Dict(image=GRID))
    among.load_state_dict(alone.state_dict())
    image = np.random.default_rng(0).integers(0, 11, (2, 7, 7, 3), np.uint8)
    flat, _ = parts.flatten({"image": image})
    turned = torch.from_numpy(np.ascontiguousarray(spec.turned(image)))
    assert torch.allclose(alone.policy(turned), among.policy(torch.from_numpy(flat)), atol=1e-6)


def test_a_vector_beside_the_image_matters() -> None:
    network, spec = build(PARTS)
    rng = np.random.default_rng(0)
    image = np.repeat(rng.integers(0, 11, (1, 7, 7, 3), np.uint8), 2, axis=0)
    flat, _ = spec.flatten({"direction": np.array([0, 3]), "image": image, "speed": np.zeros((2, 2), np.float32)})
    first, second = network.features(torch.from_numpy(flat))
    assert not torch.allclose(first, second)


def test_every_parameter_gets_a_gradient() -> None:
    network, spec = build(PARTS)
    observations = torch.rand(6, *spec.shape)
    (network.policy(observations).square().sum() + network.value(observations).square().sum()).backward()
    assert all(p.grad is not None and bool(p.grad.any()) for p in network.parameters())


def test_with_a_core() -> None:
    spec = observation_spec(PARTS)
    network = build_mixed(spec, 5, MixedConfig(name="mixed", recurrent="gru", recurrent_size=8))
    start = network.start(2)
    assert start is not None
    logits, state = network.step(torch.rand(2, *spec.shape), start)
    assert (logits.shape, state.shape) == ((2, 5), (1, 2, 8))


def test_the_spec_survives_a_checkpoint() -> None:
    for space in (GRID, PARTS, spaces.Box(0, 255, (4, 84, 84), np.uint8)):
        spec = observation_spec(space)
        assert ObservationSpec.from_state_dict(spec.state_dict()) == spec


@pytest.mark.parametrize(
    ("shape", "turned"),
    [
        ((84, 84, 4), True),
        ((4, 84, 84), False),
        ((10, 10, 10), False),
        ((16, 9, 9), False),
        ((7, 7, 6), True),
        ((7, 7, 20), True),
        ((210, 160, 3), True),
        ((3, 210, 160), False),
    ],
)
def test_which_axis_is_that_of_the_channels(shape: tuple[int, int, int], turned: bool) -> None:
    assert observation_spec(spaces.Box(0, 255, shape, np.uint8)).is_turned is turned
