"""The entries of this distribution. `a3c-zoo` imports this module often, so it imports nothing heavy."""

from __future__ import annotations

from a3c_zoo import EnvEntry, HyperparamEntry, hookimpl

# The entry revision of this plugin. A version of a3c-zoo with another revision reports the difference.
REVISION = 1


@hookimpl
def zoo_envs() -> list[EnvEntry]:
    """Offers the grid as a vector environment, and the same grid as a plain `gymnasium.Env`."""
    return [
        EnvEntry(
            name="gridworld",
            factory="a3c_zoo_gridworld.env:make",
            config="a3c_zoo_gridworld.config:GridworldConfig",
            threshold=0.7,
            description="a slippery grid: round the wall to the goal, past the pits",
            revision=REVISION,
        ),
        EnvEntry(
            name="gridworld-single",
            env_id="a3c_zoo_gridworld.single:Gridworld-v0",
            config="a3c_zoo_gridworld.config:GridworldConfig",
            threshold=0.7,
            description="the same grid as a gymnasium.Env, one at a time",
            revision=REVISION,
        ),
    ]


@hookimpl
def zoo_hyperparams() -> list[HyperparamEntry]:
    """Offers the sets `gridworld/*.yml`."""
    return [HyperparamEntry("a3c_zoo_gridworld.hyperparams", revision=REVISION)]
