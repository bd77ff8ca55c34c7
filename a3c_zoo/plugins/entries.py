"""What a plugin offers: small frozen records whose factories are import strings.

An entry never holds live objects. Its strings (`"module:attribute"`) are resolved late, and again in every
worker process, so that listing environments imports nothing and no plugin manager crosses a process.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from a3c_zoo.errors import PluginError

#: The entry revision that this version understands. It rises when the meaning of a field changes.
ENTRY_REVISION = 1


@dataclass(frozen=True, slots=True)
class EnvEntry:
    """An environment that can be trained by name.

    Attributes:
        name: what the user types; lower case, no colon (that is a family's mark).
        factory: import string of `(num_envs: int, seed: int, **kwargs) -> gymnasium.vector.VectorEnv`. With a parameter
            `render_mode`, which `a3c-zoo play` sets to "rgb_array", `render()` returns a picture of each environment.
        env_id: for those who have only a `gymnasium.Env`: its registered id (`"package.module:Name-v0"` imports
            the module first). Exactly one of `factory` and `env_id` is given.
        kwargs: fixed keyword arguments for the factory or `gymnasium.make`.
        config: import string of the pydantic model of the `env` section, a subclass of `a3c_zoo.config.EnvConfig`;
            the keys it adds are passed on as keyword arguments.
        threshold: mean return over 100 episodes from which the environment counts as solved; None: never.
        default_agent: the agent that `a3c-zoo train NAME` uses.
        description: one line for listings.
        budget_steps: agent steps for which `a3c-zoo compare` trains unless it is told otherwise; None: it must be told.
        variant: of a family's environments, what the default set also depends on: `AGENT-VARIANT` is preferred to
            `AGENT` where the family has it (`gym/a3c-continuous.yml`).
        gym_id: the registered Gymnasium id by which others know the same task, for baselines that train on
            environments of their own library's making; only where a `factory` is given.
    """

    name: str
    factory: str | None = None
    env_id: str | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    config: str = "a3c_zoo.config:EnvConfig"
    threshold: float | None = None
    default_agent: str = "a3c"
    description: str = ""
    gym_id: str | None = None
    variant: str = ""
    budget_steps: int | None = None
    revision: int = ENTRY_REVISION

    @property
    def own_id(self) -> str | None:
        """The Gymnasium id by which a baseline's own library can make this environment, None without one."""
        return self.env_id or self.gym_id


@dataclass(frozen=True, slots=True)
class EnvFamily:
    """Environments named `prefix:rest`, one for each name that `resolve` accepts.

    Attributes:
        prefix: the word before the colon; reserved, no environment may have it as its name.
        resolve: import string of `(rest: str) -> EnvEntry`; raises `UnknownNameError` for a name it doesn't know.
        description: one line for listings.
        examples: a few full names, for listings.
    """

    prefix: str
    resolve: str
    description: str = ""
    examples: tuple[str, ...] = ()
    revision: int = ENTRY_REVISION


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """An agent, or a baseline to hold it against.

    Attributes:
        name: what the user types; also the name of its default hyperparameter set.
        run: import string of `(context: a3c_zoo.records.RunContext) -> None`, which trains until the context says stop.
        load: import string of `(entry: EnvEntry, network: NetworkEntry | None, config: Config, state: Mapping) ->
            a3c_zoo.records.Policy`; `state` is what the agent's `Snapshot.state` returned.
        config: import string of the pydantic model of the `agent` section, a subclass of `a3c_zoo.config.AgentConfig`.
        kind: "agent", or "baseline" for what agents are compared with.
        sections: the configuration sections that it reads.
        spaces: the action spaces that it can act in, by class name.
        stacks: whose environments it can train on (`env.stack`): "zoo" for the zoo's, "own" for those that its own
            library makes from a Gymnasium id.
        one_process: it trains in the calling process, and `run.workers` is always 1.
        one_environment: each worker has one, and `env.num_envs` is always 1.
        description: one line for listings.
    """

    name: str
    run: str
    load: str
    config: str = "a3c_zoo.config:AgentConfig"
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
    """An actor-critic network that a set can name.

    Attributes:
        name: the value of `network.name`.
        factory: import string of `(spec: ObservationSpec, num_logits: int, config) -> ActorCritic`.
        config: import string of the pydantic model of the `network` section, a subclass of
            `a3c_zoo.config.NetworkConfig`.
        inputs: the kinds of observation that it takes: "vector", "image".
        description: one line for listings.
    """

    name: str
    factory: str
    config: str = "a3c_zoo.config:NetworkConfig"
    inputs: tuple[str, ...] = ("vector",)
    description: str = ""
    revision: int = ENTRY_REVISION


@dataclass(frozen=True, slots=True)
class HyperparamEntry:
    """A package that holds hyperparameter sets as `<env>/<set>.yml`."""

    package: str
    revision: int = ENTRY_REVISION


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A sub-command of `a3c-zoo`; its module is imported when the command runs, not before.

    Attributes:
        name: the word after `a3c-zoo`.
        command: import string of a `click.Command`.
        short_help: the line that `a3c-zoo --help` shows.
    """

    name: str
    command: str
    short_help: str = ""
    revision: int = ENTRY_REVISION


#: Anything a plugin can offer.
Entry = EnvEntry | EnvFamily | AgentEntry | NetworkEntry | HyperparamEntry | CommandEntry


def load_object(path: str) -> Any:
    """Imports `"module:attribute"` and returns the attribute.

    Raises:
        PluginError: the string has another form, or the module has no such attribute. What the module itself
            raises while it is imported passes through, with its traceback.
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
