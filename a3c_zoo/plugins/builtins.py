"""The core's own entries, offered through the same hooks as those of every plugin (entry point `core`)."""

from __future__ import annotations

from a3c_zoo.plugins.entries import (
    AgentEntry,
    CommandEntry,
    EngineEntry,
    EnvFamily,
    NetworkEntry,
    OptimizerEntry,
)
from a3c_zoo.plugins.hookspecs import hookimpl

#: The command line knows these without loading a plugin, so `COMMAND --help` loads none.
COMMANDS = (
    CommandEntry("train", "a3c_zoo.cli.train:command", "Train an agent on an environment."),
    CommandEntry("resume", "a3c_zoo.cli.resume:command", "Go on with a run."),
    CommandEntry("compare", "a3c_zoo.cli.compare:command", "Compare agents and baselines over seeds."),
    CommandEntry("tune", "a3c_zoo.cli.tune:command", "Search for better hyperparameters, with evidence."),
    CommandEntry(
        "evaluate", "a3c_zoo.cli.evaluate:command", "Play evaluation episodes with a trained agent."
    ),
    CommandEntry("play", "a3c_zoo.cli.play:command", "Watch a trained agent, or film it."),
    CommandEntry(
        "export", "a3c_zoo.cli.export:command", "Write a trained agent as a file for other programs."
    ),
    CommandEntry("push", "a3c_zoo.cli.push:command", "Send a trained agent to a hub."),
    CommandEntry("pull", "a3c_zoo.cli.pull:command", "Fetch a trained agent from a hub, and check it."),
    CommandEntry("plot", "a3c_zoo.cli.plot:command", "Draw the curves of runs."),
    CommandEntry("tensorboard", "a3c_zoo.cli.tensorboard:command", "Show the curves of runs in TensorBoard."),
    CommandEntry("list", "a3c_zoo.cli.listing:command", "List environments, agents, plugins, runs and more."),
    CommandEntry("rm", "a3c_zoo.cli.rm:command", "Remove runs, by default those that failed."),
    CommandEntry("new-plugin", "a3c_zoo.cli.new_plugin:command", "Write a plugin to begin with."),
    CommandEntry(
        "check", "a3c_zoo.cli.check:command", "Check an environment, agent, network, set or plugin."
    ),
    CommandEntry("doctor", "a3c_zoo.cli.doctor:command", "Examine this machine and this installation."),
    CommandEntry("show", "a3c_zoo.cli.show:command", "Show the values that a run would use, or a plugin."),
    CommandEntry("help", "a3c_zoo.cli.help:command", "Show what a command does."),
)

#: Class names of the action spaces that actor-critic agents support.
SPACES = ("Discrete", "MultiDiscrete", "MultiBinary", "Box", "Dict", "Tuple")
#: Those that stable-baselines3's support.
SB3_SPACES = ("Discrete", "MultiDiscrete", "MultiBinary", "Box")


def _baseline(
    name: str,
    config: str,
    description: str,
    module: str = "sb3",
    stacks: tuple[str, ...] = ("own", "zoo"),
    spaces: tuple[str, ...] = SB3_SPACES,
) -> AgentEntry:
    return AgentEntry(
        name,
        run=f"a3c_zoo.baselines.{module}:run",
        load=f"a3c_zoo.baselines.{module}:load",
        config=f"a3c_zoo.baselines.baseline_configs:{config}",
        kind="baseline",
        sections=("run", "env", "agent"),
        spaces=spaces,
        stacks=stacks,
        one_process=True,
        description=description,
    )


def _agent(
    name: str, config: str, description: str, one_environment: bool = False, module: str | None = None
) -> AgentEntry:
    module = module or name.replace("-", "_")
    return AgentEntry(
        name,
        run=f"a3c_zoo.agents.{module}:run_{module}",
        load="a3c_zoo.agents.with_workers:load",
        config=f"a3c_zoo.agents.configs:{config}",
        spaces=SPACES,
        one_environment=one_environment,
        description=description,
    )


@hookimpl
def zoo_envs() -> list[EnvFamily]:
    """Environments that nobody has registered."""
    return [
        EnvFamily(
            "python",
            "a3c_zoo.runs.python_family:resolve",
            "a class or a function that makes an environment: MODULE:NAME, FILE.py:NAME, FILE.py",
            variant="a3c_zoo.runs.python_family:variant",
        )
    ]


@hookimpl
def zoo_agents() -> list[AgentEntry]:
    """The agents of a3c-zoo, and the baselines."""
    return [
        _agent("a3c", "A3CConfig", "Hogwild: every worker updates the shared parameters, without locks"),
        _agent(
            "a3c-data",
            "A3CDataConfig",
            "data parallel: workers collect samples, a learner computes the updates",
        ),
        _agent(
            "a3c-grad",
            "A3CGradConfig",
            "gradient parallel: workers compute gradients, a learner applies them",
        ),
        _agent(
            "nstep",
            "NStepConfig",
            "textbook: rollouts of N steps, acts with the live parameters",
            True,
            "a3c",
        ),
        _agent("monte-carlo", "MonteCarloConfig", "textbook: whole episodes, no bootstrap", True, "a3c"),
        _baseline(
            "random",
            "RandomConfig",
            "uniformly random actions; learns nothing",
            "random",
            stacks=("zoo",),
            spaces=SPACES,
        ),
        _baseline("sb3-a2c", "SB3A2CConfig", "stable-baselines3's A2C"),
        _baseline("sb3-ppo", "SB3PPOConfig", "stable-baselines3's PPO"),
        _baseline("sb3-dqn", "SB3DQNConfig", "stable-baselines3's DQN", spaces=("Discrete",)),
        _baseline("recurrent-ppo", "RecurrentPPOConfig", "sb3-contrib's PPO with an LSTM", "recurrent_ppo"),
    ]


def _image_network(name: str, description: str, config: str = "ImageConfig") -> NetworkEntry:
    return NetworkEntry(
        name,
        factory=f"a3c_zoo.learning.image_networks:build_{name.replace('-', '_')}",
        config=f"a3c_zoo.learning.network_configs:{config}",
        inputs=("image",),
        description=description,
    )


@hookimpl
def zoo_networks() -> list[NetworkEntry]:
    """The networks of a3c-zoo, for vectors, images and both."""
    return [
        NetworkEntry(
            name="mlp",
            factory="a3c_zoo.learning.mlp:build_mlp",
            config="a3c_zoo.learning.network_configs:MLPConfig",
            description="separate fully connected networks for policy and value",
        ),
        NetworkEntry(
            name="textbook",
            factory="a3c_zoo.learning.mlp:Textbook",
            description="25 and 50 units, inputs scaled to length 1; the critic does not train the body",
        ),
        NetworkEntry(
            name="mixed",
            factory="a3c_zoo.learning.mixed_network:build_mixed",
            config="a3c_zoo.learning.network_configs:MixedConfig",
            inputs=("image", "mixed"),
            description="images of any size and vectors together; small grids: 16 and 32 filters 3×3; 128 units",
        ),
        _image_network("a3c-ff", "filters: 16 8×8/4, 32 4×4/2; 256 units (A3C paper)"),
        _image_network("nature", "filters: 32 8×8/4, 64 4×4/2, 64 3×3/1; 512 units (DQN paper)"),
        _image_network("nature-dual", "nature, with 512 units each for policy and value"),
        _image_network("nature-slim", "filters: 32 8×8/4, 32 4×4/2, 32 3×3/1; 256 units"),
        _image_network(
            "conv42", "four layers of 32 filters 3×3/2, ELU, 256 units, for small frames", "SmallImageConfig"
        ),
    ]


@hookimpl
def zoo_optimizers() -> list[OptimizerEntry]:
    module = "a3c_zoo.learning.optimizers"
    return [
        OptimizerEntry("adam", f"{module}:Adam", description="Adam, its moments shared or private"),
        OptimizerEntry(
            "rmsprop", f"{module}:RMSprop", description="RMSprop as in the A3C paper: ε under the root"
        ),
    ]


@hookimpl
def zoo_engines() -> list[EngineEntry]:
    local = "a3c_zoo.engines.local:LocalEngine"
    return [EngineEntry("local", local, description="this machine: one training after the other, alone")]


@hookimpl
def zoo_commands() -> tuple[CommandEntry, ...]:
    return COMMANDS
