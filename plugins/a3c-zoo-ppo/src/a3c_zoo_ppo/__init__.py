"""PPO as an agent: its entry, its keys and its set. Every `a3c-zoo` command imports this module: no torch here."""

from __future__ import annotations

from a3c_zoo import AgentEntry, HyperparamEntry, hookimpl
from a3c_zoo.agents import A3CConfig
from pydantic import Field


class PPOConfig(A3CConfig):
    """The keys of `a3c`, with PPO's defaults; `clip_ratio` cannot be null."""

    clip_ratio: float = Field(0.2, gt=0, description="ε: no gradient once a ratio has left 1 ± ε with its advantage")
    epochs: int = Field(10, ge=1, le=100, description="passes over a rollout")


@hookimpl
def zoo_agents() -> list[AgentEntry]:
    agent = AgentEntry(
        name="ppo",
        run="a3c_zoo_ppo.agent:run",
        load="a3c_zoo.agents:load",
        config="a3c_zoo_ppo:PPOConfig",
        spaces=("Discrete", "MultiDiscrete", "MultiBinary", "Box", "Dict", "Tuple"),
        description="PPO: several passes over each rollout, with a clipped ratio",
        revision=1,
    )
    return [agent]


@hookimpl
def zoo_hyperparams() -> list[HyperparamEntry]:
    return [HyperparamEntry("a3c_zoo_ppo.hyperparams", revision=1)]
