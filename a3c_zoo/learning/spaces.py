"""From Gymnasium spaces to what networks need: observation specs and action distributions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from a3c_zoo.errors import ZooError

if TYPE_CHECKING:
    from gymnasium import Space
    from numpy.typing import NDArray


class UnsupportedSpaceError(ZooError):
    """A space that the zoo cannot learn from or act in."""


@dataclass(frozen=True, slots=True)
class ObservationSpec:
    """How one observation is stored, and what a network makes of it.

    Attributes:
        kind: "vector" or "image" (uint8, `[channels, height, width]`).
        shape: shape as stored in a rollout, without batch axes.
        dtype: dtype as stored in a rollout.
        one_hot: number of classes where the stored integer stands for a one-hot vector, else 0.
    """

    kind: Literal["vector", "image"]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    one_hot: int = 0

    @property
    def num_features(self) -> int:
        """Length of the vector that `encode` returns."""
        return self.one_hot or int(np.prod(self.shape))

    def encode(self, observations: Tensor) -> Tensor:
        """Turns stored observations `[B, *shape]` into float32 vectors `[B, num_features]`."""
        if self.one_hot:
            return torch.nn.functional.one_hot(observations.long(), self.one_hot).float()
        if not self.shape:
            observations = observations.unsqueeze(-1)
        elif len(self.shape) != 1:
            observations = observations.flatten(start_dim=observations.dim() - len(self.shape))
        return observations.float()  # no copy where it is float32 already


def observation_spec(space: Space[Any]) -> ObservationSpec:
    """Returns the spec of a single environment's observation space.

    Raises:
        UnsupportedSpaceError: for spaces other than Box and Discrete.
    """
    from gymnasium import spaces

    if isinstance(space, spaces.Box):
        dtype = np.dtype(space.dtype)
        is_image = dtype == np.uint8 and len(space.shape) == 3
        return ObservationSpec("image" if is_image else "vector", tuple(space.shape), dtype)
    if isinstance(space, spaces.Discrete):
        if int(space.start) != 0:
            raise UnsupportedSpaceError(f"observation space {space} must start at 0")
        return ObservationSpec("vector", (), np.dtype(space.dtype), one_hot=int(space.n))
    raise UnsupportedSpaceError(f"observation space {space} is not supported; supported: Box, Discrete")


@dataclass(frozen=True, slots=True)
class Categorical:
    """Distribution over the actions of a Discrete space, parametrised by logits `[..., num_logits]`."""

    num_logits: int
    start: int = 0

    def noise(self, out: Tensor, generator: torch.Generator) -> Tensor:
        """Fills `out` `[..., num_logits]`, float32, with Gumbel(0, 1) noise and returns it.

        Drawn for a whole rollout at once: per-step sampling then costs one addition and one argmax.
        """
        return out.exponential_(generator=generator).log_().neg_()

    def sample(self, logits: Tensor, noise: Tensor, out: Tensor) -> None:
        """Writes one sample per row into `out` `[B]`, int64, by the Gumbel-max trick: argmax(logits + noise)."""
        torch.argmax(logits + noise, dim=-1, out=out)

    def mode(self, logits: Tensor) -> Tensor:
        """Returns the most probable action per row, `[B]`, int64."""
        return logits.argmax(dim=-1)

    def log_prob_and_entropy(self, logits: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Returns log π(a) `[B]` and the entropy H = −Σ p log p in nats `[B]`, from `[B, A]` and `[B]`."""
        log_p = torch.log_softmax(logits, dim=-1)
        entropy = -(log_p.exp() * log_p).sum(dim=-1)
        return log_p.gather(-1, actions.unsqueeze(-1)).squeeze(-1), entropy

    def to_env(self, actions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Turns indices into the environment's actions (a Discrete space need not start at 0)."""
        return actions + self.start if self.start else actions


def action_distribution(space: Space[Any]) -> Categorical:
    """Returns the distribution over a single environment's action space.

    Raises:
        UnsupportedSpaceError: for spaces other than Discrete.
    """
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return Categorical(int(space.n), int(space.start))
    raise UnsupportedSpaceError(f"action space {space} is not supported; supported: Discrete")
