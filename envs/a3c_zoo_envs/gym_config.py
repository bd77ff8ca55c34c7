"""The `env` section of `gym:ID`. No gymnasium here: help, listings and `show` read it."""

from __future__ import annotations

from pydantic import Field

from a3c_zoo.config import EnvConfig


class GymConfig(EnvConfig):
    """What `gymnasium.make` takes for every id."""

    max_episode_steps: int | None = Field(
        None, ge=1, description="steps after which an episode is cut off; null: as the id is registered"
    )
