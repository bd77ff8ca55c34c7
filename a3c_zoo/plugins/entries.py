"""What a plugin offers: small frozen records that name their code by import strings.

An entry holds no live objects. Its strings (`"module:attribute"`) are resolved when they are needed, and
again in every worker process. So listing environments imports nothing, and no plugin manager crosses a
process.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from a3c_zoo.errors import PluginError, ZooError, one_line

#: The entry revision that this version understands. It rises when the meaning of a field changes.
ENTRY_REVISION = 1

SECTIONS: Final = ("run", "env", "agent", "network", "optimizer")
"""The sections of a configuration, in the order in which they are shown and saved."""
#: Those that every agent reads.
COMMON_SECTIONS: Final = ("run", "env", "agent")

#: What a3c-zoo gives the factory of an environment itself.
GIVEN_TO_FACTORY: Final = ("num_envs", "seed")

#: `"package.module:attribute"`; what plugins offer is checked to have this form.
ImportString = str


@dataclass(frozen=True, slots=True)
class EnvEntry:
    """An environment that can be trained by name.

    Attributes:
        name: the name on the command line; lower case. A colon marks an environment of a family.
        factory: import string of `(num_envs: int, seed: int, **kwargs) -> gymnasium.vector.VectorEnv`.
            `a3c-zoo play` sets its parameter `render_mode`, if it has one, to "rgb_array"; then `render()`
            returns a picture of each environment.
        env_id: the registered id of a `gymnasium.Env` (`"package.module:Name-v0"` imports the module first).
            Give exactly one of `factory` and `env_id`.
        kwargs: fixed keyword arguments for the factory or `gymnasium.make`.
        config: import string of the pydantic model of the `env` section, a subclass of
            `a3c_zoo.config.EnvConfig`; the keys that it adds are passed as keyword arguments.
        threshold: the environment is solved at this mean return over 100 episodes; None: never.
        default_agent: the agent that `a3c-zoo train NAME` uses.
        description: one line for listings.
        gym_id: the registered Gymnasium id of the same task, for baselines that make environments with their
            own library. It is for entries with a `factory`: `env_id` is such an id itself.
        family: prefix of the family whose hyperparameter sets apply where this environment has none of its
            own. An environment that is called `prefix:rest` belongs to the family `prefix` without this
            field.
        variant: the kind of this environment within its family, for the default set: `AGENT-VARIANT` is
            preferred to `AGENT` (`gym/a3c-continuous.yml`).
        budget_steps: number of agent steps of a whole training. `a3c-zoo compare` trains for so many by
            default, unless the set of the default agent has a block `compare:`. None: there is no default.
        score_range: the mean returns that count as 0 and as 1 if several environments are put on one scale, such as
            those of random actions and of a human: the lower one first. None: none is known.
        agents: the names of the K agents that play one game together; only with a `factory`. The environments
            g·K … g·K+K−1 that it makes are the agents of game g, in this order, and `num_envs` is a multiple of K. An
            episode is a game: its return is the sum of the returns of all agents. A vector environment whose agents
            leave the game at different times has a method `ignored_actions` (`a3c_zoo.learning.autoreset`). Empty:
            each environment is a game of its own.
    """

    name: str
    factory: ImportString | None = None
    env_id: str | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    config: ImportString = "a3c_zoo.config:EnvConfig"
    threshold: float | None = None
    default_agent: str = "a3c"
    description: str = ""
    gym_id: str | None = None
    family: str | None = None
    variant: str = ""
    budget_steps: int | None = None
    score_range: tuple[float, float] | None = None
    agents: tuple[str, ...] = ()
    revision: int = ENTRY_REVISION

    @property
    def num_agents(self) -> int:
        """K, how many environments of a batch play one game: 1 unless several agents play it."""
        return max(len(self.agents), 1)

    def whole_games(self, num_envs: int) -> int:
        """The smallest number of environments that is at least `num_envs` and a multiple of K."""
        return -(-num_envs // self.num_agents) * self.num_agents

    @property
    def own_id(self) -> str | None:
        """The Gymnasium id from which a baseline's own library can make this environment, None without one."""
        return self.env_id or self.gym_id

    @property
    def family_prefix(self) -> str | None:
        """Prefix of the family whose hyperparameter sets apply, None without a family."""
        prefix, colon, _ = self.name.partition(":")
        return self.family or (prefix if colon else None)


@dataclass(frozen=True, slots=True)
class EnvFamily:
    """Environments named `prefix:rest`, one for each name that `resolve` accepts.

    Attributes:
        prefix: the word before the colon; no environment may have it as its name.
        resolve: import string of `(rest: str) -> EnvEntry`; it raises `UnknownNameError` for an unknown name.
            A run that a stranger sent chooses `rest` as well: import only what stands before a colon in it.
            Such a name gets here only if the user trusts the run.
        description: one line for listings.
        examples: a few full names, for listings; `check` resolves those that need no module to be imported.
        recognise: import string of `(name: str) -> str | None`. It returns the full name of the environment that is
            known elsewhere as `name`, such as an id of Gymnasium in any letter case; None if the family has none. It
            imports no module that the name chooses.
        variant: import string of `(rest: str, kwargs: Mapping) -> str`: the variant (`EnvEntry.variant`) of the
            environment that is made with these arguments (`env.kwargs`). Without it arguments change no variant.
        agents: import string of `(rest: str, kwargs: Mapping) -> tuple[str, ...]`: the agents (`EnvEntry.agents`) of
            the environment that is made with these arguments. Without it arguments change no agents.
    """

    prefix: str
    resolve: ImportString
    description: str = ""
    examples: tuple[str, ...] = ()
    recognise: ImportString | None = None
    variant: ImportString | None = None
    agents: ImportString | None = None
    revision: int = ENTRY_REVISION


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """An agent, or a baseline to compare it with.

    Attributes:
        name: the name on the command line; also the name of its default hyperparameter set.
        run: import string of `(context: a3c_zoo.records.RunContext) -> None`; it trains until `settle`
            returns False.
        load: import string of `(entry: EnvEntry, network: NetworkEntry | None, config: Config, state:
            Mapping) -> a3c_zoo.records.Policy`; `state` is a result of the agent's `Snapshot.state`.
        config: import string of the pydantic model of the `agent` section, a subclass of
            `a3c_zoo.config.AgentConfig`.
        kind: "agent" or "baseline".
        sections: the configuration sections that it reads: "run", "env" and "agent", with or without "network" and
            "optimizer".
        spaces: class names of the action spaces that it supports. "Dict" and "Tuple" are those of parts that it
            supports, too.
        stacks: the environments that it can train on (`env.stack`): "zoo" for the zoo's own, "own" for
            environments that the baseline's library makes from a Gymnasium id.
        one_process: it trains in the calling process; `run.workers` is always 1.
        one_environment: each worker has one environment; `env.num_envs` is always 1.
        description: one line for listings.
    """

    name: str
    run: ImportString
    load: ImportString
    config: ImportString = "a3c_zoo.config:AgentConfig"
    kind: Literal["agent", "baseline"] = "agent"
    sections: tuple[str, ...] = ("run", "env", "agent", "network", "optimizer")
    spaces: tuple[str, ...] = ("Discrete",)
    stacks: tuple[str, ...] = ("zoo",)
    one_process: bool = False
    one_environment: bool = False
    description: str = ""
    revision: int = ENTRY_REVISION


@dataclass(frozen=True, slots=True)
class NetworkEntry:
    """An actor-critic network that a hyperparameter set can name.

    Attributes:
        name: the value of `network.name`.
        factory: import string of `(spec: ObservationSpec, num_logits: int, config) -> ActorCritic`.
        config: import string of the pydantic model of the `network` section, a subclass of
            `a3c_zoo.config.NetworkConfig`.
        inputs: the kinds of observations that it takes: "vector", "image", "mixed".
        description: one line for listings.
    """

    name: str
    factory: ImportString
    config: ImportString = "a3c_zoo.config:NetworkConfig"
    inputs: tuple[str, ...] = ("vector",)
    description: str = ""
    revision: int = ENTRY_REVISION


@dataclass(frozen=True, slots=True)
class OptimizerEntry:
    """An optimizer that a set can name.

    Attributes:
        name: the value of `optimizer.name`.
        factory: import string of a class with the interface of `a3c_zoo.learning.Optimizer`:
            `(parameters, moments, config)`, `moments(parameters, config)` and `apply(gradient,
            learning_rate)`.
        config: import string of the pydantic model of the `optimizer` section, a subclass of
            `a3c_zoo.config.OptimizerConfig`.
        description: one line for listings.
    """

    name: str
    factory: ImportString
    config: ImportString = "a3c_zoo.config:OptimizerConfig"
    description: str = ""
    revision: int = ENTRY_REVISION


@dataclass(frozen=True, slots=True)
class HyperparamEntry:
    """A package that holds hyperparameter sets as `<env>/<set>.yml`."""

    package: str
    revision: int = ENTRY_REVISION


@dataclass(frozen=True, slots=True)
class HookEntry:
    """Run hooks with settings, which a run chooses by name: `-o plugins.NAME.KEY=VALUE`.

    Attributes:
        name: the word after `plugins.` in a configuration.
        hooks: import string of `(config) -> object`, often a class. It is called once for each session of a
            run that has chosen it. The methods of the object that `hookimpl` marks are its run hooks.
        config: import string of the pydantic model of its settings, a subclass of
            `a3c_zoo.config.HookConfig`.
        on_by_default: every run has it, unless `plugins.NAME.enabled` is false. If not, only runs that set
            one of its keys have it.
        fatal: an error in a hook ends the run. False: the run goes on, as behind a logger whose server is
            away, and `events.jsonl` says what failed. An error while the object is made always ends the
            command.
        description: one line for listings.
    """

    name: str
    hooks: ImportString
    config: ImportString = "a3c_zoo.config:HookConfig"
    on_by_default: bool = False
    fatal: bool = True
    description: str = ""
    revision: int = ENTRY_REVISION


@dataclass(frozen=True, slots=True)
class TrainedEntry:
    """A trained agent, in a folder that `python -m a3c_zoo.sharing.save_trained RUN FOLDER` has written.

    Attributes:
        name: its own name, and that of its folder in `package`. description: one line for listings.
        env, agent: names of the environment and the agent.
        weaknesses: where it is known to fail, one or two sentences.
        continued: how its training went on after the command in meta.json, one sentence; "" if it did not.
    """

    name: str
    env: str
    agent: str
    package: str
    description: str = ""
    weaknesses: str = ""
    continued: str = ""
    revision: int = ENTRY_REVISION


@dataclass(frozen=True, slots=True)
class EngineEntry:
    """What runs the jobs of `compare` and `tune`, such as other machines.

    Attributes:
        name: the name for `--engine`.
        factory: import string of `(settings) -> a3c_zoo.engines.Engine`; `settings` is an instance of the
            model.
        config: import string of the pydantic model of its settings, a subclass of
            `a3c_zoo.config.EngineConfig`.
        description: one line for listings.
    """

    name: str
    factory: ImportString
    config: ImportString = "a3c_zoo.config:EngineConfig"
    description: str = ""
    revision: int = ENTRY_REVISION


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A sub-command of `a3c-zoo`; its module is imported only when the command runs.

    Attributes:
        name: the word after `a3c-zoo`.
        command: import string of a `click.Command`.
        short_help: one line for `a3c-zoo --help`.
    """

    name: str
    command: ImportString
    short_help: str = ""
    revision: int = ENTRY_REVISION


_Part = EnvEntry | EnvFamily | AgentEntry | NetworkEntry | OptimizerEntry
#: Anything a plugin can offer.
Entry = _Part | HyperparamEntry | HookEntry | TrainedEntry | EngineEntry | CommandEntry


def load_object(path: str) -> Any:
    """Imports `"module:attribute"` and returns the attribute.

    Raises:
        PluginError: the string has another form, or the module has no such attribute.
        Exception: any error of the module's own import.
    """
    module_name, colon, attribute = path.partition(":")
    if not (module_name and colon and attribute):
        raise PluginError(f"'{path}' is no import string; it must read 'package.module:attribute'")
    value: Any = importlib.import_module(module_name)
    for part in attribute.split("."):
        if not hasattr(value, part):
            raise PluginError(f"'{path}': module '{module_name}' has no attribute '{attribute}'")
        value = getattr(value, part)
    return value


def load_part(title: str, path: str) -> Any:
    """As `load_object`; a failure of the plugin is a PluginError that begins with `title`."""
    try:
        return load_object(path)
    except PluginError as error:
        raise PluginError(f"{title} cannot be loaded: {error}") from error
    except ZooError:
        raise  # it says already what is missing
    except Exception as error:
        raise PluginError(f"{title} cannot be loaded: {one_line(error)}") from error


def load_factory(title: str, path: str) -> Any:
    """As `load_part`, for what is called."""
    if not callable(factory := load_part(title, path)):
        raise PluginError(f"{title} cannot be loaded: '{path}' is not callable")
    return factory


@contextmanager
def building(title: str) -> Iterator[None]:
    """Within the context code of a plugin builds a part; its failure is a PluginError that begins with `title`."""
    try:
        yield
    except ZooError:
        raise  # it says already what is wrong
    except Exception as error:
        raise PluginError(f"{title} cannot be built: {one_line(error)}. Its traceback: --debug") from error
