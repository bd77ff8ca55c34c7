"""The wrappers that `env.wrappers` names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv, VectorWrapper

from a3c_zoo.config import EnvConfig
from a3c_zoo.errors import ConfigError, ZooError, type_and_message
from a3c_zoo.plugins.entries import load_object


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
        try:
            wrapped = self.call(env, **self.arguments)
        except Exception as error:
            env.close()
            raise ConfigError(f"env.wrappers: '{self.path}' fails: {type_and_message(error)}") from error
        if not isinstance(wrapped, VectorEnv if self.takes_vectors else gymnasium.Env):
            raise ConfigError(f"env.wrappers: '{self.path}' returns {type(wrapped).__name__}, which is no environment")
        return wrapped


def load_wrappers(config: EnvConfig) -> list[Wrapper]:
    """Imports the wrappers, the innermost first.

    Raises:
        ConfigError: one cannot be imported, or is not callable.
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
        raise ConfigError(f"env.wrappers: '{path}' is {type(call).__name__}, not a class or function that wraps")
    return call  # type: ignore[no-any-return]


def wrap_all(env: Any, wrappers: list[Wrapper]) -> Any:
    """Returns an environment in all these wrappers, the innermost first. Raises as `Wrapper.wrap`."""
    for wrapper in wrappers:
        env = wrapper.wrap(env)
    return env
