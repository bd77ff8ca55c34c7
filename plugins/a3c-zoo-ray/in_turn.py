"""A plugin file: `a3c` in turn, as `a3c-zoo train --serial` runs it, so that all engines must give equal figures."""

from __future__ import annotations

from a3c_zoo import AgentEntry, hookimpl
from a3c_zoo.records import RunContext


@hookimpl
def zoo_agents() -> list[AgentEntry]:
    agent = AgentEntry(
        name="a3c-in-turn",
        run="in_turn:run",
        load="a3c_zoo.agents:load",
        config="a3c_zoo.agents:A3CConfig",
        spaces=("Discrete",),
        one_process=True,
        description="a3c with one worker, in one process",
        revision=1,
    )
    return [agent]


def run(context: RunContext) -> None:
    """Trains until the run says stop."""
    from a3c_zoo.agents import run_a3c

    context.serial = True
    run_a3c(context)
