"""`a3c-ray`: asynchronous over nodes, lock-free inside each.

Every node runs the crew of `a3c` on memory of its own. Every `agent.exchange_updates` updates it sends the change of
its parameters to the parameter servers and takes the newest (`exchange.py`). `--serial` lets the nodes take turns in
this process, without Ray: the same code, with exact results.
"""

from __future__ import annotations

from importlib.util import find_spec

from a3c_zoo.agents import agent_config, run_a3c
from a3c_zoo.errors import ConfigError
from a3c_zoo.records import RunContext

from a3c_zoo_ray.config import A3CRayConfig
from a3c_zoo_ray.nodes import SerialNodes, ranks_of


def run(context: RunContext) -> None:
    """Trains until the run says stop."""
    config = agent_config(context, A3CRayConfig)
    ranks_of(context.config.run.workers, config.nodes)
    if config.locking != "none":
        raise ConfigError("agent.locking: apply — a3c-ray has no lock: leave it out")
    if context.serial:
        run_a3c(context, crew=SerialNodes)
        return
    if find_spec("ray") is None:
        raise ConfigError(
            "agent 'a3c-ray' needs Ray, which is not installed: pip install 'ray>=2.50,<3', or use --serial"
        )
    from a3c_zoo_ray.cluster import joined_cluster
    from a3c_zoo_ray.crew import RayNodes

    with joined_cluster(num_cpus=context.config.run.workers):
        run_a3c(context, crew=RayNodes)
