"""The keys that gridworld adds to the `env` section. `a3c-zoo show` imports this module: no gymnasium here."""

from __future__ import annotations

from a3c_zoo.config import EnvConfig
from pydantic import Field


class GridworldConfig(EnvConfig):
    """Each key is passed to the factory as a keyword argument. The base class has `num_envs`."""

    size: int = Field(6, ge=4, le=64, description="cells on each side of the square grid")
    slip: float = Field(0.1, ge=0, le=1, description="probability that a move goes in a random direction")
    max_episode_steps: int = Field(100, ge=1, description="steps after which an episode is cut off (truncated)")
