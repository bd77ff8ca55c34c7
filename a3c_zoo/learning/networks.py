"""Actor-critic networks: observations in, logits and values out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from a3c_zoo.config import NetworkConfig
    from a3c_zoo.learning.configs import MLPConfig
    from a3c_zoo.learning.spaces import ObservationSpec

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": torch.relu, "elu": functional.elu}

#: Normalised observations are clipped to ± so many standard deviations.
OBSERVATION_LIMIT = 10.0


class ActorCritic(nn.Module):
    """What the stages need of a network. `B` is any number of leading axes' worth of observations."""

    def policy(self, observations: Tensor) -> Tensor:
        """Logits `[B, A]` for observations `[B, ...]`: all that acting needs."""
        raise NotImplementedError

    def value(self, observations: Tensor) -> Tensor:
        """State values `[B]`, float32, for observations `[B, ...]`."""
        raise NotImplementedError

    def evaluate(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Logits `[T·N, A]` of the first T rows and values `[(T+1)·N]` of all, for observations `[T+1, N, ...]`."""
        acted = observations[:-1].flatten(0, 1)
        return self.policy(acted), self.value(observations.flatten(0, 1))


def linear(inputs: int, outputs: int, gain: float) -> nn.Linear:
    """A layer with orthogonal weights (Saxe et al. 2014, arXiv:1312.6120) and zero biases."""
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class _Tower(nn.Module):
    """A multi-layer perceptron that ends in a linear layer."""

    def __init__(self, sizes: Sequence[int], activation: str, gain: float, last_gain: float) -> None:
        super().__init__()
        pairs = list(itertools.pairwise(sizes))
        gains = [gain] * (len(pairs) - 1) + [last_gain]
        layers = [linear(i, o, g) for (i, o), g in zip(pairs, gains, strict=True)]
        self.layers = nn.ModuleList(layers)
        self.activation = ACTIVATIONS[activation]
        # A plain tuple: looking parameters up through nn.Module and calling nn.Linear took 14 of the
        # 33 µs of one forward pass at batch 16. The Parameter objects stay the same for good.
        self._weights = tuple((layer.weight, layer.bias) for layer in layers)

    def forward(self, x: Tensor) -> Tensor:
        for weight, bias in self._weights[:-1]:
            x = self.activation(functional.linear(x, weight, bias))
        weight, bias = self._weights[-1]
        return functional.linear(x, weight, bias)


class MLP(ActorCritic):
    """Perceptrons for policy and value, separate or with one body."""

    def __init__(self, spec: ObservationSpec, num_logits: int, config: MLPConfig) -> None:
        super().__init__()
        self.spec = spec
        self.normalizes = config.normalize_observations
        # Set from outside, by who gathers the statistics (`Model.pull`); no parameters, so nothing trains them.
        self.observation_mean = torch.zeros(spec.num_features)
        self.observation_scale = torch.ones(spec.num_features)
        sizes = [spec.num_features, *config.hidden_sizes]
        gain = nn.init.calculate_gain("tanh" if config.activation == "tanh" else "relu")
        self.separate = config.separate or not config.hidden_sizes  # without hidden layers there is no body to share
        if self.separate:
            self.actor = _Tower([*sizes, num_logits], config.activation, gain, last_gain=0.01)
            self.critic = _Tower([*sizes, 1], config.activation, gain, last_gain=1.0)
        else:
            self.body = _Tower(sizes, config.activation, gain, last_gain=gain)
            self.activation = ACTIVATIONS[config.activation]
            self.actor = _Tower([sizes[-1], num_logits], config.activation, gain, last_gain=0.01)
            self.critic = _Tower([sizes[-1], 1], config.activation, gain, last_gain=1.0)

    def _features(self, observations: Tensor) -> Tensor:
        x = self.spec.encode(observations)
        if self.normalizes:
            x = ((x - self.observation_mean) * self.observation_scale).clamp_(-OBSERVATION_LIMIT, OBSERVATION_LIMIT)
        return x if self.separate else self.activation(self.body.forward(x))

    def policy(self, observations: Tensor) -> Tensor:
        return self.actor.forward(self._features(observations))

    def value(self, observations: Tensor) -> Tensor:
        return self.critic.forward(self._features(observations)).squeeze(-1)

    def evaluate(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        rows = observations.flatten(0, 1)
        features = self._features(rows)
        num_acted = rows.shape[0] - observations.shape[1]
        return self.actor.forward(features[:num_acted]), self.critic.forward(features).squeeze(-1)


def build_mlp(spec: ObservationSpec, num_logits: int, config: NetworkConfig) -> ActorCritic:
    """Factory of the `mlp` network entry; `config` is an `MLPConfig`."""
    from a3c_zoo.learning.configs import MLPConfig

    assert isinstance(config, MLPConfig)
    return MLP(spec, num_logits, config)
