"""The networks for vector observations: fully connected layers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from a3c_zoo.config import NetworkConfig
from a3c_zoo.learning.network_configs import MLPConfig
from a3c_zoo.learning.networks import ACTIVATIONS, OBSERVATION_LIMIT, ActorCritic, Shortcut, Split, orthogonal
from a3c_zoo.learning.recurrent import with_core
from a3c_zoo.learning.spaces import ObservationSpec


class _Tower(Shortcut):
    """A multi-layer perceptron that ends in a linear layer."""

    def __init__(self, sizes: Sequence[int], activation: str, gain: float, last_gain: float) -> None:
        super().__init__()
        pairs = list(itertools.pairwise(sizes))
        gains = [gain] * (len(pairs) - 1) + [last_gain]
        layers = [orthogonal(nn.Linear(i, o), g) for (i, o), g in zip(pairs, gains, strict=True)]
        self.layers = nn.ModuleList(layers)
        self.activation = ACTIVATIONS[activation]
        # A plain tuple: attribute access through nn.Module and calls of nn.Linear took 14 of the 33 µs of a
        # forward pass at batch 16. The Parameter objects are never replaced.
        self._weights = tuple((layer.weight, layer.bias) for layer in layers)

    def forward(self, x: Tensor) -> Tensor:
        *hidden, last = self.layers
        for layer in hidden:
            x = self.activation(layer(x))
        outputs: Tensor = last(x)
        return outputs

    def shortcut(self, x: Tensor) -> Tensor:
        for weight, bias in self._weights[:-1]:
            x = self.activation(functional.linear(x, weight, bias))
        weight, bias = self._weights[-1]
        return functional.linear(x, weight, bias)


class MLP(Split):
    """Multi-layer perceptrons for policy and value, separate or with one body."""

    def __init__(self, spec: ObservationSpec, num_logits: int, config: MLPConfig) -> None:
        super().__init__()
        self.spec = spec
        self.normalizes = config.normalize_observations
        # Not parameters: they are not trained.
        self.observation_mean = torch.zeros(spec.num_features)
        self.observation_scale = torch.ones(spec.num_features)
        sizes = [spec.num_features, *config.hidden_sizes]
        gain = nn.init.calculate_gain("tanh" if config.activation == "tanh" else "relu")
        self.separate = config.separate and not config.has_core
        if not config.hidden_sizes:  # there is no body to share
            self.separate = True
        heads = sizes if self.separate else sizes[-1:]
        self.num_features = sizes[-1]
        if config.has_core:
            heads = [config.recurrent_size]
        if not self.separate:
            self.body = _Tower(sizes, config.activation, gain, last_gain=gain)
            self.activation = ACTIVATIONS[config.activation]
        self.actor = _Tower([*heads, num_logits], config.activation, gain, last_gain=0.01)
        self.critic = _Tower([*heads, 1], config.activation, gain, last_gain=1.0)

    def take_statistics(self, mean: Tensor, scale: Tensor) -> None:
        self.observation_mean = mean
        self.observation_scale = scale

    def features(self, observations: Tensor) -> Tensor:
        x = self.spec.encode(observations)
        if self.normalizes:
            x = ((x - self.observation_mean) * self.observation_scale).clamp_(
                -OBSERVATION_LIMIT, OBSERVATION_LIMIT
            )
        if self.separate:
            return x
        return self.activation(self.body.compute(x))

    def logits(self, outputs: Tensor) -> Tensor:
        return self.actor.compute(outputs)

    def values(self, outputs: Tensor) -> Tensor:
        return self.critic.compute(outputs).squeeze(-1)


def build_mlp(spec: ObservationSpec, num_logits: int, config: NetworkConfig) -> ActorCritic:
    """Factory of the `mlp` network entry; `config` is an `MLPConfig`."""
    assert isinstance(config, MLPConfig)
    return with_core(MLP(spec, num_logits, config), config)


class Textbook(Split):
    """The network of the textbook's CartPole agents (Zai & Brown 2020, chapter 5), with inputs of unit length.

    The critic (25 units and a tanh) takes the features of the body (25 and 50 units) as constants, so only
    the policy trains the body. Values lie in (−1, 1), like returns of unit length. Initial weights are
    torch's defaults, as in the book.
    """

    def __init__(self, spec: ObservationSpec, num_logits: int, config: NetworkConfig) -> None:
        super().__init__()
        self.spec = spec
        self.body = nn.Sequential(nn.Linear(spec.num_features, 25), nn.ReLU(), nn.Linear(25, 50), nn.ReLU())
        self.actor = nn.Linear(50, num_logits)
        self.critic = nn.Sequential(nn.Linear(50, 25), nn.ReLU(), nn.Linear(25, 1), nn.Tanh())

    def features(self, observations: Tensor) -> Tensor:
        features: Tensor = self.body(functional.normalize(self.spec.encode(observations), dim=-1))
        return features

    def logits(self, outputs: Tensor) -> Tensor:
        logits: Tensor = self.actor(outputs)
        return logits

    def values(self, outputs: Tensor) -> Tensor:
        values: Tensor = self.critic(outputs.detach())
        return values.squeeze(-1)
