"""The environments that come with a3c-zoo; this plugin offers them as any other plugin does."""

from __future__ import annotations

from a3c_zoo import EnvEntry, EnvFamily, hookimpl
from a3c_zoo_envs.atari_family import atari_entry


@hookimpl
def zoo_envs() -> list[EnvEntry | EnvFamily]:
    """CartPole, Atari games, and every environment that is registered with Gymnasium."""
    return [
        EnvEntry(
            name="cartpole",
            factory="a3c_zoo_envs.cartpole:make",
            config="a3c_zoo_envs.env_configs:CartPoleConfig",
            threshold=475.0,
            description="CartPole-v1: balance a pole on a cart",
            gym_id="CartPole-v1",
            budget_steps=250_000,
            score_range=(22.0, 500.0),  # random actions, and the limit of an episode
        ),
        atari_entry("pong", "pong", 18.0, "Pong on the Atari 2600: 21 points win"),
        atari_entry("breakout", "breakout", 400.0, "Breakout on the Atari 2600: whole games of five lives"),
        EnvFamily(
            prefix="atari",
            resolve="a3c_zoo_envs.atari_family:resolve",
            description="any game whose ROM ale-py ships",
            examples=("atari:space_invaders", "atari:seaquest"),
            recognise="a3c_zoo_envs.atari_family:recognise",
        ),
        EnvFamily(
            prefix="gym",
            resolve="a3c_zoo_envs.gym_family:resolve",
            description="any environment registered with Gymnasium, by its id",
            variant="a3c_zoo_envs.gym_family:variant",
            examples=("gym:Acrobot-v1", "gym:my_package:Maze-v0"),
            recognise="a3c_zoo_envs.gym_family:recognise",
        ),
    ]
