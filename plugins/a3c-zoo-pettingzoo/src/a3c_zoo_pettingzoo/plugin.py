"""The entries of this distribution. `a3c-zoo` imports this module often, so it imports nothing heavy."""

from __future__ import annotations

from a3c_zoo import EnvEntry, EnvFamily, HyperparamEntry, hookimpl

# The entry revision of this plugin. A version of a3c-zoo with another revision reports the difference.
REVISION = 1


@hookimpl
def zoo_envs() -> list[EnvEntry | EnvFamily]:
    """Offers the families `pettingzoo:` and `gym-agents:`."""
    return [
        EnvFamily(
            prefix="pettingzoo",
            resolve="a3c_zoo_pettingzoo.families:resolve_pettingzoo",
            description="the parallel environments of PettingZoo and MPE2; one policy for all agents",
            examples=(
                "pettingzoo:simple_spread_v3",
                "pettingzoo:pistonball_v6",
                "pettingzoo:my_module:parallel_env",
            ),
            variant="a3c_zoo_pettingzoo.families:variant_pettingzoo",
            agents="a3c_zoo_pettingzoo.families:agents_pettingzoo",
            revision=REVISION,
        ),
        EnvFamily(
            prefix="gym-agents",
            resolve="a3c_zoo_pettingzoo.families:resolve_gym_agents",
            description="ids of Gymnasium whose spaces are a tuple, with a part for each agent",
            examples=("gym-agents:lbforaging:Foraging-8x8-2p-2f-v3", "gym-agents:rware:rware-tiny-2ag-v2"),
            variant="a3c_zoo_pettingzoo.families:variant_gym_agents",
            agents="a3c_zoo_pettingzoo.families:agents_gym_agents",
            revision=REVISION,
        ),
    ]


@hookimpl
def zoo_hyperparams() -> list[HyperparamEntry]:
    """Offers the sets `pettingzoo/*.yml`, which both families use."""
    return [HyperparamEntry("a3c_zoo_pettingzoo.hyperparams", revision=REVISION)]
