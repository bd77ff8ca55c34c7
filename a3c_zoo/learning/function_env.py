"""Environments that a program gives as a function, or as a class: `a3c_zoo.train(Maze)`.

Workers import the function by its name. A function that has no such name, as in a notebook, travels to them with its
code: cloudpickle pickles it.
"""

from __future__ import annotations

import inspect
import math
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import cloudpickle
import gymnasium
from gymnasium.vector import SyncVectorEnv, VectorEnv

from a3c_zoo.errors import PluginError, ZooError, one_line, type_and_message
from a3c_zoo.files import same_folder
from a3c_zoo.plugins.entries import EnvEntry, ImportString, load_object
from a3c_zoo.plugins.variants import variant_of

#: A function, or a class, that makes one environment.
EnvFunction = Callable[..., "gymnasium.Env[Any, Any]"]


@dataclass(frozen=True, slots=True)
class CarriedFunction:
    """A function that other processes cannot import. It is pickled with its code.

    Attributes:
        path: what it is called in messages, such as `__main__:Maze`.
    """

    path: str
    function: EnvFunction

    def __reduce__(self) -> tuple[Any, ...]:
        try:
            code = cloudpickle.dumps(self.function)
        except Exception as error:
            raise PluginError(
                f"'{self.path}' cannot be sent to worker processes: {type_and_message(error)}. "
                "Train with serial=True, or put it into a module"
            ) from error
        return _carried, (self.path, code)


def _carried(path: str, code: bytes) -> CarriedFunction:
    return CarriedFunction(path, cloudpickle.loads(code))


def entry_of(function: EnvFunction) -> EnvEntry:
    """Returns the entry of the environment that a function makes; the function's name in lower case is its name.

    One environment is made here, to choose the hyperparameter sets: those of `gym:` environments apply.

    Raises:
        ZooError: it is no function, needs arguments, or makes something else than an environment.
    """
    _refuse_uncallable(function)
    path = path_of(function)
    with same_folder():
        try:
            env = function()
        except (Exception, SystemExit) as error:
            raise PluginError(
                f"the environment that '{path}' makes cannot be made: {one_line(error)}"
            ) from error
        if not isinstance(env, gymnasium.Env):
            instead = f"not {type(env)}; for a VectorEnv: EnvEntry(factory=…)"
            raise ZooError(f"'{path}' must return a gymnasium.Env, {instead}")
        try:
            variant = variant_of(env.observation_space, env.action_space)
            spec = env.spec
        except Exception as error:
            raise ZooError(f"the spaces of '{path}' cannot be read: {type_and_message(error)}") from error
        finally:
            with suppress(Exception, SystemExit):  # it was asked for its spaces alone
                env.close()
    threshold = None
    if spec is not None and math.isfinite(spec.reward_threshold or 0):
        threshold = spec.reward_threshold
    return EnvEntry(
        _name_of(path),
        factory=FACTORY,
        kwargs={"function": path if _is_importable(path, function) else CarriedFunction(path, function)},
        threshold=threshold,
        family="gym",
        variant=variant,
    )


def make(
    num_envs: int,
    seed: int,
    function: ImportString | CarriedFunction,
    render_mode: str | None = None,
    **kwargs: Any,
) -> VectorEnv[Any, Any, Any]:
    """The factory of `EnvEntry`. kwargs: the arguments of the function."""
    if render_mode is not None:
        kwargs["render_mode"] = render_mode
    return made_together(maker(function, kwargs), num_envs)


def maker(
    function: ImportString | CarriedFunction, kwargs: Mapping[str, Any]
) -> Callable[[], gymnasium.Env[Any, Any]]:
    """What makes one environment after the other. kwargs: the arguments of the function."""
    make_one = loaded(function)
    return lambda: make_one(**deepcopy(dict(kwargs)))  # an environment may change its own


def made_together(make_one: Callable[[], gymnasium.Env[Any, Any]], num_envs: int) -> SyncVectorEnv:
    """Environments that are stepped one after the other. If one cannot be made, those before it are closed."""
    made: list[gymnasium.Env[Any, Any]] = []

    def make_next() -> gymnasium.Env[Any, Any]:
        made.append(make_one())
        return made[-1]

    try:
        return SyncVectorEnv([make_next] * num_envs)
    except BaseException:
        for env in made:
            with suppress(Exception):
                env.close()
        raise


#: The factory of these entries.
FACTORY: Final = f"{make.__module__}:{make.__name__}"


def loaded(function: ImportString | CarriedFunction) -> EnvFunction:
    """The function of an entry."""
    if isinstance(function, CarriedFunction):
        return function.function
    made_by: EnvFunction = load_object(function)
    return made_by


def path_of(function: EnvFunction) -> ImportString:
    """The module and the name of a function or a class, as an import string has them. It need not lead to it."""
    while isinstance(function, partial):
        function = function.func
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{module}:{name}"


def _name_of(path: ImportString) -> str:
    """The environment's name: that of the class or the function, in lower case; a lambda is called `lambda`.

    Names of environments have no letters but a to z. A class that has none of these is called `environment`.
    """
    name = path.rpartition(":")[2].rpartition(".")[2].lower()
    return re.sub(r"[^a-z0-9_]", "", name).lstrip("_") or "environment"


def _refuse_uncallable(function: object) -> None:
    """Raises ZooError, with the cure, for what is no function and no class, or what needs arguments."""
    if isinstance(function, gymnasium.Env):
        name = type(function.unwrapped).__name__
        raise ZooError(
            f"{function!s:.80} is a made environment, and each worker makes its own: give the class {name}, or a "
            f"function that makes one, such as lambda: {name}()"
        )
    if not callable(function):
        raise ZooError(
            f"{function!r:.80} is no environment: give a name, an EnvEntry, or a function or class that makes a "
            "gymnasium.Env"
        )
    if needed := needed_arguments(function):
        name = path_of(function).rpartition(":")[2]
        values = ", ".join(f"{each}=…" for each in needed)
        raise ZooError(
            f"{name} needs arguments: give a function that makes it, such as lambda: {name}({values})"
        )


def needed_arguments(function: Callable[..., object]) -> list[str]:
    """The names of the parameters without a default; none if the function, being in C, does not tell."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # calling it tells
        return []
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in parameters if each.default is each.empty and each.kind not in several]


def _is_importable(path: ImportString, function: EnvFunction) -> bool:
    """Whether worker processes find a function by its name. They import the main module, if that is a file."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    if path.startswith("__main__:") and (file is None or not os.path.isfile(file)):
        return False
    try:
        return load_object(path) is function
    except Exception:
        return False
