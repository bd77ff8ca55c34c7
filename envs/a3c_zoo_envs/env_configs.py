"""The `env` sections of all environments. It does not import gymnasium: help, listings and `show` read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from a3c_zoo.config import EnvConfig


class CartPoleConfig(EnvConfig):
    """The observations of the cart, and the length of an episode."""

    hide_velocity: bool = Field(False, description="show only position and angle, without their velocities")
    max_episode_steps: int = Field(500, ge=1, description="steps after which an episode is truncated")


class GymConfig(EnvConfig):
    """The arguments that `gymnasium.make` takes for every id."""

    max_episode_steps: int | None = Field(
        None, ge=1, description="steps after which an episode is truncated; null: the registered limit"
    )


class AtariConfig(EnvConfig):
    """Preprocessing of frames and episodes; the defaults are those of the NoFrameskip-v4 experiments."""

    environment_bytes: ClassVar[int] = 1_400_000  # an emulator of ale-py 0.12
    # SB3 would learn from its own action, and the game plays FIRE.
    without_own_stack: ClassVar[Mapping[str, object]] = {"fire_after_life_loss": False}

    frame_size: int = Field(84, ge=8, le=210, description="height and width of a frame in pixels")
    frame_stack: int = Field(4, ge=1, le=32, description="frames in one observation")
    frame_skip: int = Field(4, ge=1, le=60, description="emulator frames for which an action is repeated")
    max_pool: bool = Field(
        True, description="each pixel: the brighter of the last two emulator frames (frame_skip ≥ 2)"
    )
    sticky_actions: float = Field(
        0.0, ge=0, le=1, description="probability that the emulator repeats the last action; 0.25 as in ALE/…-v5"
    )
    full_action_space: bool = Field(
        False, description="all 18 actions of the console, not only those that the game uses"
    )
    mode: int | None = Field(
        None, ge=0, description="mode of the game; null: its first, and then ale-py steps many games together"
    )
    difficulty: int | None = Field(
        None, ge=0, description="difficulty of the game; null: its first, and then ale-py steps many games together"
    )
    noop_max: int = Field(30, ge=0, le=1000, description="most idle frames at the start of an episode")
    fire_on_reset: bool = Field(True, description="press FIRE at the start of an episode, in games that have it")
    life_loss: bool = Field(False, description="a lost life is a termination for the loss; an episode is a whole game")
    fire_after_life_loss: bool = Field(
        False,
        description="with life_loss: press FIRE after each lost life, as stable-baselines3's wrappers do; use it only "
        "for evaluations: in training, the agent would learn from an action that FIRE has replaced",
    )
    #: ale_py's name of the key.
    also_called: ClassVar[Mapping[str, str]] = {"repeat_action_probability": "sticky_actions"}

    # At 60 frames a step, the emulator's own counter, an int32, overflows before 36 million steps.
    max_episode_steps: int = Field(
        27_000, ge=1, le=30_000_000, description="agent steps before an episode is truncated"
    )
