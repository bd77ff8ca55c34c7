"""The entries of this distribution. `a3c-zoo` imports this module often, so it imports nothing heavy."""

from __future__ import annotations

from a3c_zoo import EnvEntry, EnvFamily, HyperparamEntry, hookimpl

# The entry revision of this plugin. A version of a3c-zoo with another revision reports the difference.
REVISION = 1


@hookimpl
def zoo_envs() -> list[EnvEntry | EnvFamily]:
    """Offers every environment of MiniGrid, such as `minigrid:DoorKey-5x5`."""
    return [
        EnvFamily(
            prefix="minigrid",
            resolve="a3c_zoo_minigrid.family:resolve",
            description="the environments of MiniGrid: small grids that the agent sees in part",
            examples=("minigrid:Empty-5x5", "minigrid:DoorKey-5x5"),
            revision=REVISION,
        )
    ]


@hookimpl
def zoo_hyperparams() -> list[HyperparamEntry]:
    """Offers the sets `minigrid/*.yml`."""
    return [HyperparamEntry("a3c_zoo_minigrid.hyperparams", revision=REVISION)]
