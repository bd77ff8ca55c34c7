"""Actor-critic networks: observations in, logits and values out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": torch.relu, "elu": functional.elu}

#: Normalised observations are clipped to ± this many standard deviations.
OBSERVATION_LIMIT = 10.0


class ActorCritic(nn.Module):
    """The interface that the stages use. B stands for one or more leading axes.

    Attributes:
        normalizes: whether the network takes observation statistics (`take_statistics`).
    """

    normalizes: bool = False

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
        """Takes the mean of observations and 1 / their standard deviation, both `[F]`, if `normalizes` is true."""
        raise NotImplementedError

    # A network with a recurrent core has these in place of the three methods above. States are `[K, N, H]`.

    def start(self, num_envs: int) -> Tensor | None:
        """The core's state at the start of an episode in N environments; None for a network without a core."""
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
        """One pass over a rollout, as `evaluate`, with a recurrent core.

        Args:
            observations: `[T+1, N, ...]`. state: before row 0.
            resets: rows before which the state becomes 0, `[T+1, N]`.
            places: pairs of row t and environment n; each resets before row t+1.

        Returns:
            Logits `[T·N, A]`, values `[(T+1)·N]`, and the state after row t in environment n for each place,
            `[K, places, H]`, without gradient.
        """
        raise NotImplementedError


class Split(ActorCritic):
    """A network whose body and heads are separate methods, so that a recurrent core can stand between them.

    Attributes:
        num_features: F, the number of outputs of the body.
    """

    num_features: int

    def features(self, observations: Tensor) -> Tensor:
        """`[B, F]` for observations `[B, ...]`, in the network's precision."""
        raise NotImplementedError

    def logits(self, outputs: Tensor) -> Tensor:
        """Logits `[B, A]`, float32, for outputs `[B, H]` of the core, in any precision."""
        raise NotImplementedError

    def values(self, outputs: Tensor) -> Tensor:
        """Values `[B]`, float32, for outputs `[B, H]` of the core."""
        raise NotImplementedError


def linear(inputs: int, outputs: int, gain: float) -> nn.Linear:
    """A layer with orthogonal weights (Saxe et al. 2014, arXiv:1312.6120) and zero biases."""
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
