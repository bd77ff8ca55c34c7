"""The `env` section of CartPole. No gymnasium here: help, listings and `show` read it."""

from __future__ import annotations

from pydantic import Field

from a3c_zoo.config import EnvConfig


class CartPoleConfig(EnvConfig):
    """What an agent is shown of the cart, and for how long."""

    hide_velocity: bool = Field(False, description="shows place and angle alone, without their velocities")
    max_episode_steps: int = Field(500, ge=1, description="steps after which an episode is cut off (truncated)")
