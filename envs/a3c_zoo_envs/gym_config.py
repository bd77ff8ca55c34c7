"""The `env` section of `gym:ID`. It does not import gymnasium: help, listings and `show` read it."""

from __future__ import annotations

from pydantic import Field

from a3c_zoo.config import EnvConfig


class GymConfig(EnvConfig):
    """The arguments that `gymnasium.make` takes for every id."""

    max_episode_steps: int | None = Field(
        None,
        ge=1,
        description="steps after which an episode is truncated; null: the registered limit",
    )
