"""Actor-critic networks: observations in, logits and values out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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

    def take_statistics(self, mean: Tensor, scale: Tensor) -> None:
        """Takes the running mean and 1/deviation of the observations, both `[F]`; for networks that want them."""
        raise NotImplementedError

    # With a recurrent core (`a3c_zoo.learning.recurrent`), in place of the three above. States are `[K, N, H]`.

    def start(self, num_envs: int) -> Tensor | None:
        """The core's state before an episode, in N environments; None for a network without a core."""
        return None

    def step(self, observations: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Logits `[N, A]` for observations `[N, ...]`, and the state after them."""
        raise NotImplementedError

    def value_after(self, observations: Tensor, state: Tensor) -> Tensor:
        """Values `[N]` of observations `[N, ...]` that follow a state."""
        raise NotImplementedError

    def unroll(
        self, observations: Tensor, state: Tensor, resets: NDArray[np.bool_], places: Sequence[tuple[int, int]]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One pass over a rollout, as `evaluate`, and states within it.

        Args:
            observations: `[T+1, N, ...]`. state: before row 0. resets: before which rows it becomes 0, `[T+1, N]`.
            places: rows t and environments n, each of which resets before row t+1.

        Returns:
            Logits `[T·N, A]`, values `[(T+1)·N]`, and the state after row t in environment n for each place,
            `[K, places, H]`, without gradient.
        """
        raise NotImplementedError


class Split(ActorCritic):
    """A network whose body and heads can be called one by one, so that a recurrent core finds room between them.

    Attributes:
        num_features: F, what the body gives.
    """

    num_features: int

    def features(self, observations: Tensor) -> Tensor:
        """`[B, F]` for observations `[B, ...]`, in the network's precision."""
        raise NotImplementedError

    def logits(self, outputs: Tensor) -> Tensor:
        """Logits `[B, A]`, float32, for what the core gives, `[B, H]`, in any precision."""
        raise NotImplementedError

    def values(self, outputs: Tensor) -> Tensor:
        """Values `[B]`, float32, likewise."""
        raise NotImplementedError


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


class MLP(Split):
    """Perceptrons for policy and value, separate or with one body."""

    def __init__(self, spec: ObservationSpec, num_logits: int, config: MLPConfig) -> None:
        super().__init__()
        self.spec = spec
        self.normalizes = config.normalize_observations
        # No parameters, so nothing trains them.
        self.observation_mean = torch.zeros(spec.num_features)
        self.observation_scale = torch.ones(spec.num_features)
        sizes = [spec.num_features, *config.hidden_sizes]
        gain = nn.init.calculate_gain("tanh" if config.activation == "tanh" else "relu")
        self.separate = config.separate or not config.hidden_sizes  # without hidden layers there is no body to share
        heads = sizes if self.separate else sizes[-1:]
        self.num_features = sizes[-1]
        if config.recurrent != "none":
            heads = [config.recurrent_size]
        if not self.separate:
            self.body = _Tower(sizes, config.activation, gain, last_gain=gain)
            self.activation = ACTIVATIONS[config.activation]
        self.actor = _Tower([*heads, num_logits], config.activation, gain, last_gain=0.01)
        self.critic = _Tower([*heads, 1], config.activation, gain, last_gain=1.0)

    def take_statistics(self, mean: Tensor, scale: Tensor) -> None:
        self.observation_mean, self.observation_scale = mean, scale

    def features(self, observations: Tensor) -> Tensor:
        x = self.spec.encode(observations)
        if self.normalizes:
            x = ((x - self.observation_mean) * self.observation_scale).clamp_(-OBSERVATION_LIMIT, OBSERVATION_LIMIT)
        return x if self.separate else self.activation(self.body.forward(x))

    def logits(self, outputs: Tensor) -> Tensor:
        return self.actor.forward(outputs)

    def values(self, outputs: Tensor) -> Tensor:
        return self.critic.forward(outputs).squeeze(-1)

    def policy(self, observations: Tensor) -> Tensor:
        return self.actor.forward(self.features(observations))

    def value(self, observations: Tensor) -> Tensor:
        return self.critic.forward(self.features(observations)).squeeze(-1)

    def evaluate(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        rows = observations.flatten(0, 1)
        features = self.features(rows)
        num_acted = rows.shape[0] - observations.shape[1]
        return self.actor.forward(features[:num_acted]), self.critic.forward(features).squeeze(-1)


def build_mlp(spec: ObservationSpec, num_logits: int, config: NetworkConfig) -> ActorCritic:
    """Factory of the `mlp` network entry; `config` is an `MLPConfig`."""
    from a3c_zoo.learning.configs import MLPConfig
    from a3c_zoo.learning.recurrent import with_core

    assert isinstance(config, MLPConfig)
    return with_core(MLP(spec, num_logits, config), config)
