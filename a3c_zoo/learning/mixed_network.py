"""The network for images of any size, alone or together with vectors."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from a3c_zoo.config import NetworkConfig
from a3c_zoo.learning.image_networks import NATURE, Conv
from a3c_zoo.learning.network_configs import MixedConfig
from a3c_zoo.learning.networks import ActorCritic, Split, orthogonal
from a3c_zoo.learning.recurrent import with_core
from a3c_zoo.learning.spaces import Leaf, ObservationSpec, channels_last

#: The convolutions of images that are smaller than `SMALLEST_FRAME`, such as grids of objects.
GRID = (Conv(16, 3, 1), Conv(32, 3, 1))
#: From this height and width on, images get the convolutions of `nature`.
SMALLEST_FRAME = 36


class Mixed(Split):
    """Convolutions for each image, and one hidden layer for what they find and for all other numbers.

    Each layer is followed by layer normalisation (Ba et al. 2016, arXiv:1607.06450), so that frames of 0 to
    255, small numbers of objects and bools need no scale.
    """

    def __init__(self, spec: ObservationSpec, num_logits: int, config: MixedConfig) -> None:
        super().__init__()
        self.leaves = spec.leaves
        parts = self.leaves or (Leaf((), spec.shape, is_image=True),)
        self.bodies = nn.ModuleList(_body(channels_first(leaf)) for leaf in parts if leaf.is_image)
        inputs = sum(
            _num_outputs(channels_first(leaf)) if leaf.is_image else leaf.num_features for leaf in parts
        )
        self.hidden = nn.Sequential(
            orthogonal(nn.Linear(inputs, config.hidden_size), math.sqrt(2)),
            nn.LayerNorm(config.hidden_size),
            nn.ReLU(),
        )
        self.num_features = config.hidden_size
        if config.has_core:
            width = config.recurrent_size
        else:
            width = config.hidden_size
        self.actor = orthogonal(nn.Linear(width, num_logits), 0.01)
        self.critic = orthogonal(nn.Linear(width, 1), 1.0)

    def features(self, observations: Tensor) -> Tensor:
        """`[B, F]`, float32, for images `[B, C, H, W]`, or for the numbers of all leaves in a row, `[B, numbers]`."""
        if not self.leaves:
            features: Tensor = self.hidden(self.bodies[0](observations.float()))
            return features
        parts = torch.split(observations, [leaf.num_features for leaf in self.leaves], dim=-1)
        bodies = iter(self.bodies)
        features_of_parts = []
        for leaf, part in zip(self.leaves, parts, strict=True):
            if leaf.is_image:
                image = part.reshape(*part.shape[:-1], *leaf.shape)
                part = next(bodies)(image.movedim(-1, -3) if channels_last(leaf.shape) else image)
            features_of_parts.append(part)
        features = self.hidden(torch.cat(features_of_parts, dim=-1))
        return features

    def logits(self, outputs: Tensor) -> Tensor:
        logits: Tensor = self.actor(outputs)
        return logits

    def values(self, outputs: Tensor) -> Tensor:
        values: Tensor = self.critic(outputs)
        return values.squeeze(-1)


def channels_first(leaf: Leaf) -> tuple[int, int, int]:
    """The shape of a leaf's image as `[channels, height, width]`."""
    first, second, third = leaf.shape
    if channels_last(leaf.shape):
        return (third, first, second)
    return (first, second, third)


def _convs(shape: tuple[int, int, int]) -> tuple[Conv, ...]:
    """The convolutions that fit an image; none for one of less than 5×5."""
    if min(shape[1:]) >= SMALLEST_FRAME:
        convs = NATURE.convs
    else:
        convs = GRID
    return convs if min(shape[1:]) >= 5 else ()


def _sizes(shape: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    """The shape of an image after each of its convolutions, that of the image first."""
    shapes = [shape]
    for conv in _convs(shape):
        shapes.append((conv.filters, conv.size(shapes[-1][1]), conv.size(shapes[-1][2])))
    return shapes


def _num_outputs(shape: tuple[int, int, int]) -> int:
    return math.prod(_sizes(shape)[-1])


def _body(shape: tuple[int, int, int]) -> nn.Sequential:
    """The layers for one image `[channels, height, width]`, which end in a vector."""
    layers: list[nn.Module] = []
    for conv, before, after in zip(_convs(shape), _sizes(shape), _sizes(shape)[1:], strict=False):
        layer = nn.Conv2d(before[0], conv.filters, conv.kernel, conv.stride, conv.padding)
        layers += [orthogonal(layer, math.sqrt(2)), nn.LayerNorm(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten())


def build_mixed(spec: ObservationSpec, num_logits: int, config: NetworkConfig) -> ActorCritic:
    """Factory of the `mixed` network entry; `config` is a `MixedConfig`."""
    assert isinstance(config, MixedConfig)
    return with_core(Mixed(spec, num_logits, config), config)
