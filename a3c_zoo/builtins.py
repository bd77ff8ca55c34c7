"""What the core itself offers, through the same hooks as every plugin (entry point `core`)."""

from __future__ import annotations

from a3c_zoo import AgentEntry, CommandEntry, NetworkEntry, hookimpl

#: Known to the command line without any plugin, so that `COMMAND --help` loads none.
COMMANDS = (
    CommandEntry("train", "a3c_zoo.cli.train:command", "Train an agent on an environment."),
    CommandEntry("evaluate", "a3c_zoo.cli.evaluate:command", "Play evaluation episodes with a trained agent."),
    CommandEntry("list", "a3c_zoo.cli.listing:command", "List environments, agents, plugins, runs and more."),
    CommandEntry("show", "a3c_zoo.cli.show:command", "Show the hyperparameters of a run to be."),
)


@hookimpl
def zoo_agents() -> list[AgentEntry]:
    """The core's agents."""
    return [
        AgentEntry(
            name="a3c",
            run="a3c_zoo.agents.a3c:run",
            load="a3c_zoo.agents.a3c:load",
            config="a3c_zoo.agents.configs:A3CConfig",
            spaces=("Discrete",),
            description="Hogwild: every worker updates the shared parameters, without locks",
        )
    ]


@hookimpl
def zoo_networks() -> list[NetworkEntry]:
    """The core's networks."""
    return [
        NetworkEntry(
            name="mlp",
            factory="a3c_zoo.learning.networks:build_mlp",
            config="a3c_zoo.learning.configs:MLPConfig",
            inputs=("vector",),
            description="separate fully connected networks for policy and value",
        )
    ]


@hookimpl
def zoo_commands() -> tuple[CommandEntry, ...]:
    """The built-in commands."""
    return COMMANDS
