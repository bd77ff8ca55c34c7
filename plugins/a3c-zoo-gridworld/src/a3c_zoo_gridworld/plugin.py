"""What this distribution offers. Every `a3c-zoo` command imports this module, so it imports nothing heavy."""

from __future__ import annotations

from a3c_zoo import EnvEntry, HyperparamEntry, hookimpl

# The entry revision that this plugin was written for. An a3c-zoo that reads entries otherwise then says so.
REVISION = 1


@hookimpl
def zoo_envs() -> list[EnvEntry]:
    """The grid as a vector environment, and the same grid as a plain `gymnasium.Env`."""
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
    """The sets `gridworld/*.yml`."""
    return [HyperparamEntry("a3c_zoo_gridworld.hyperparams", revision=REVISION)]
