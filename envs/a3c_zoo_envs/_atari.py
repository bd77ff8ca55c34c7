"""Atari 2600 games on ale-py's native vector environment: frames are preprocessed in C++, many games at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from ale_py import ALEInterface, LoggerMode
from ale_py.vector_env import AtariVectorEnv

if TYPE_CHECKING:
    from numpy.typing import NDArray


class AtariGames(AtariVectorEnv):
    """AtariVectorEnv whose terminations may be lost lives.

    With `life_loss_info`, a lost life is reported as a termination while the game goes on: nothing is bootstrapped
    across it, but the next action is real, and the episode ends only with the game.
    """

    def episode_over(
        self, terminated: NDArray[np.bool_], truncated: NDArray[np.bool_], info: dict[str, Any]
    ) -> NDArray[np.bool_]:
        """Which games have ended, `[N]`, bool."""
        over: NDArray[np.bool_] = truncated | (terminated & (info["lives"] == 0))
        return over


def make(
    num_envs: int,
    seed: int,
    *,
    rom: str,
    frame_size: int,
    frame_stack: int,
    frame_skip: int,
    max_pool: bool,
    sticky_actions: float,
    noop_max: int,
    fire_on_reset: bool,
    life_loss: bool,
    max_episode_steps: int,
) -> AtariVectorEnv:
    """Environment factory; see `atari_config.AtariConfig` for the keys. Raw rewards: they are clipped in the loss.

    One thread: the games of a worker are stepped in that worker's process alone.
    """
    ALEInterface.setLoggerMode(LoggerMode.Error)  # else every worker greets
    kind = AtariGames if life_loss else AtariVectorEnv
    return kind(
        rom,
        num_envs,
        num_threads=1,
        max_num_frames_per_episode=max_episode_steps * frame_skip,
        repeat_action_probability=sticky_actions,
        img_height=frame_size,
        img_width=frame_size,
        stack_num=frame_stack,
        frameskip=frame_skip,
        maxpool=max_pool,
        noop_max=noop_max,
        use_fire_reset=fire_on_reset,
        episodic_life=False,
        life_loss_info=life_loss,
        reward_clipping=False,
    )
