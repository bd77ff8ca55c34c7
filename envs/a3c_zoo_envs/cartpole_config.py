"""The `env` section of CartPole. It does not import gymnasium: help, listings and `show` read it."""

from __future__ import annotations

from pydantic import Field

from a3c_zoo.config import EnvConfig


class CartPoleConfig(EnvConfig):
    """The observations of the cart, and the length of an episode."""

    hide_velocity: bool = Field(False, description="show only position and angle, without their velocities")
    max_episode_steps: int = Field(500, ge=1, description="steps after which an episode is truncated")
