"""Environments that a program gives as a function, or as a class: `a3c_zoo.train(make_maze)`.

Workers import the function by its name; nothing is pickled.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from typing import Any

import gymnasium
from gymnasium.vector import SyncVectorEnv, VectorEnv

from a3c_zoo.errors import PluginError, ZooError, one_line
from a3c_zoo.files import same_folder
from a3c_zoo.plugins.entries import EnvEntry, ImportString, load_object
from a3c_zoo.plugins.variants import variant_of

#: A function, or a class, that makes one environment.
EnvFunction = Callable[..., "gymnasium.Env[Any, Any]"]


def entry_of(function: EnvFunction) -> EnvEntry:
    """Returns the entry of the environment that a function makes; the function's name in lower case is its name.

    One environment is made here, to choose the hyperparameter sets: those of `gym:` environments apply.

    Raises:
        ZooError: the function makes something else; or workers cannot import it.
    """
    path = _path_of(function)
    with same_folder():
        try:
            env = function()
        except Exception as error:
            raise PluginError(
                f"the environment that '{path}' makes cannot be made: {one_line(error)}"
            ) from error
        if not isinstance(env, gymnasium.Env):
            instead = f"not {type(env)}; for a VectorEnv: EnvEntry(factory=…)"
            raise ZooError(f"'{path}' must return a gymnasium.Env, {instead}")
        try:
            variant = variant_of(env.observation_space, env.action_space)
            spec = env.spec
        finally:
            env.close()
    threshold = None
    if spec is not None and math.isfinite(spec.reward_threshold or 0):
        threshold = spec.reward_threshold
    return EnvEntry(
        path.rpartition(":")[2].rpartition(".")[2].lower(),
        factory=f"{__name__}:make",
        kwargs={"function": path},
        threshold=threshold,
        family="gym",
        variant=variant,
    )


def make(
    num_envs: int, seed: int, function: ImportString, render_mode: str | None = None
) -> VectorEnv[Any, Any, Any]:
    """The factory of `EnvEntry`."""
    if render_mode is None:
        kwargs = {}
    else:
        kwargs = {"render_mode": render_mode}
    make_one = load_object(function)
    return SyncVectorEnv([lambda: make_one(**kwargs)] * num_envs)


def _path_of(function: EnvFunction) -> ImportString:
    """The import string of a function or a class.

    Raises:
        ZooError: there is none that leads to it in another process.
    """
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None)
    path = f"{module}:{name}"
    try:
        is_found = load_object(path) is function
    except Exception:
        is_found = False
    if not is_found:
        raise ZooError(
            f"workers cannot import {function!r:.80}; give a function or a class at the top level of a module"
        )
    file = getattr(sys.modules["__main__"], "__file__", None)
    if module == "__main__" and (file is None or not os.path.isfile(file)):
        raise ZooError(f"workers cannot import '{name}' from a program that is no file; put it into a module")
    return path
