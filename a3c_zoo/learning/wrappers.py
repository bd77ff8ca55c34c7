"""The wrappers that `env.wrappers` names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

import gymnasium
from gymnasium.vector import SyncVectorEnv, VectorEnv, VectorWrapper
from gymnasium.wrappers import TimeLimit

from a3c_zoo.config import EnvConfig
from a3c_zoo.errors import ConfigError, ZooError, type_and_message
from a3c_zoo.plugins.entries import load_object

#: Wrappers that scale by what they have seen. Each environment would have its own statistics, and those of
#: evaluations and resumed runs would begin anew: the policy would act on other numbers than it has learned
#: from.
KEEP_STATISTICS: Final = (
    gymnasium.wrappers.NormalizeObservation,
    gymnasium.wrappers.NormalizeReward,
    gymnasium.wrappers.vector.NormalizeObservation,
    gymnasium.wrappers.vector.NormalizeReward,
)


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A class of Gymnasium's, or a function, that takes an environment and returns one.

    Attributes:
        path: its import string. call: the class or the function. arguments: besides the environment.
    """

    path: str
    call: Callable[..., Any]
    arguments: dict[str, Any]

    @property
    def takes_vectors(self) -> bool:
        """Whether it wraps a vector environment. Any other wraps a single environment."""
        return isinstance(self.call, type) and issubclass(self.call, VectorWrapper)

    def wrap(self, env: Any) -> Any:
        """Returns the wrapped environment.

        Raises:
            ConfigError: the wrapper does not fit the environment, or returns something else.
        """
        arguments = _with_tuples(self.call, deepcopy(self.arguments))  # a wrapper may change its own
        try:
            wrapped = self.call(env, **arguments)
        except Exception as error:
            env.close()
            raise ConfigError(f"env.wrappers: '{self.path}' fails: {type_and_message(error)}") from error
        kind = VectorEnv if self.takes_vectors else gymnasium.Env
        if not isinstance(wrapped, kind):
            raise ConfigError(
                f"env.wrappers: '{self.path}' returns {type(wrapped).__name__}, which is no environment"
            )
        return wrapped


def _with_tuples(call: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with tuples in place of lists where a parameter's annotation has a tuple and no list.

    YAML has no tuples, and Gymnasium's ResizeObservation takes nothing else.
    """
    try:
        parameters = inspect.signature(call).parameters
    except (TypeError, ValueError):  # calling it tells
        return arguments
    for name, value in arguments.items():
        if not isinstance(value, list) or name not in parameters:
            continue
        annotation = str(parameters[name].annotation).lower()
        if re.search(r"\btuple\b", annotation) and not re.search(r"\b(list|sequence|iterable)\b", annotation):
            arguments[name] = tuple(value)
    return arguments


def load_wrappers(config: EnvConfig) -> list[Wrapper]:
    """Imports the wrappers, the innermost first.

    Raises:
        ConfigError: one cannot be imported, is not callable, or keeps statistics (`KEEP_STATISTICS`).
    """
    return [Wrapper(path, _load(path), arguments) for path, arguments in config.wrapper_calls()]


def _load(path: str) -> Callable[..., Any]:
    try:
        call = load_object(path)
    except ZooError as error:
        raise ConfigError(f"env.wrappers: {error}") from error
    except Exception as error:
        raise ConfigError(f"env.wrappers: '{path}' cannot be imported: {type_and_message(error)}") from error
    if not callable(call):
        raise ConfigError(
            f"env.wrappers: '{path}' is {type(call).__name__}, not a class or function that wraps"
        )
    if isinstance(call, type) and issubclass(call, KEEP_STATISTICS):
        raise ConfigError(
            f"env.wrappers: '{path}' keeps statistics that evaluations would not have; leave it to the agent: "
            "network.normalize_observations=true or agent.reward_scale, with stable-baselines3 agent.normalize=true"
        )
    return call  # type: ignore[no-any-return]


def time_limit_of(env: VectorEnv[Any, Any, Any]) -> int | None:
    """After how many steps Gymnasium's `TimeLimit` cuts its episodes; None without one.

    It calls a last step truncated that is terminated, too.
    """
    inner: Any = env.unwrapped
    single = inner.envs[0] if isinstance(inner, SyncVectorEnv) else None
    limits: list[int] = []
    while isinstance(single, gymnasium.Wrapper):
        if isinstance(single, TimeLimit):
            limits.append(single._max_episode_steps)
        single = single.env
    return min(limits, default=None)


def wrap_all(env: Any, wrappers: list[Wrapper]) -> Any:
    """Returns an environment in all these wrappers, the innermost first. Raises as `Wrapper.wrap`."""
    for wrapper in wrappers:
        env = wrapper.wrap(env)
    return env
