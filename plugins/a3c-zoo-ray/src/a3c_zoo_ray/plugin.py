"""What the distribution offers. Every `a3c-zoo` command imports this module: no torch and no Ray here."""

from __future__ import annotations

from a3c_zoo import AgentEntry, EngineEntry, HyperparamEntry, hookimpl


@hookimpl
def zoo_agents() -> list[AgentEntry]:
    agent = AgentEntry(
        name="a3c-ray",
        run="a3c_zoo_ray.agent:run",
        load="a3c_zoo.agents:load",
        config="a3c_zoo_ray.config:A3CRayConfig",
        spaces=("Discrete", "MultiDiscrete", "MultiBinary", "Box", "Dict", "Tuple"),
        description="a3c on several nodes of a Ray cluster, which exchange parameters through servers",
        revision=1,
    )
    return [agent]


@hookimpl
def zoo_engines() -> list[EngineEntry]:
    engine = EngineEntry(
        name="ray",
        factory="a3c_zoo_ray.engine:make",
        config="a3c_zoo_ray.config:RayEngineConfig",
        description="many trainings at once, on the machines of a Ray cluster",
        revision=1,
    )
    return [engine]


@hookimpl
def zoo_hyperparams() -> list[HyperparamEntry]:
    return [HyperparamEntry("a3c_zoo_ray.hyperparams", revision=1)]
