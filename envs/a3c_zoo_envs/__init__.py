"""The environments that come with a3c-zoo, offered as any plugin's are."""

from __future__ import annotations

from a3c_zoo import EnvEntry, EnvFamily, hookimpl


@hookimpl
def zoo_envs() -> list[EnvEntry | EnvFamily]:
    """CartPole, and everything that is registered with Gymnasium."""
    return [
        EnvEntry(
            name="cartpole",
            factory="a3c_zoo_envs.cartpole:make",
            threshold=475.0,
            description="CartPole-v1: balance a pole on a cart",
            gym_id="CartPole-v1",
        ),
        EnvFamily(
            prefix="gym",
            resolve="a3c_zoo_envs.gym_family:resolve",
            description="any environment registered with Gymnasium, by its id",
            examples=("gym:Acrobot-v1", "gym:my_package:Maze-v0"),
        ),
    ]
