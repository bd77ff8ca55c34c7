"""Which observations stable-baselines3 takes as they come."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from a3c_zoo.config.yaml import display
from a3c_zoo.errors import ConfigError
from a3c_zoo.learning.spaces import inner_spaces, parts_of

FLATTEN = "gymnasium.wrappers:FlattenObservation"
CURE = "A wrapper can leave it out or replace it (env.wrappers)"


def refuse_forms(space: Space[Any], name: str, wrappers: Sequence[Any] = ()) -> None:
    """Refuses observations for which stable-baselines3's own environments have no arrays.

    Args:
        space: of one environment. name: that of the environment, for messages. wrappers: its `env.wrappers`.

    Raises:
        ConfigError: the space is a tuple, has a dictionary or a tuple within a dictionary, or a part
            without a shape.
    """
    if isinstance(space, spaces.Tuple):
        raise _refused(name, f"{space}", _one_array(wrappers))
    for key, inner in inner_spaces(space).items():
        if inner_spaces(inner):
            what = f"{type(inner).__name__} within its {type(space).__name__}, at '{key}'"
            raise _refused(name, what, _one_array(wrappers))
    for part in parts_of(space):
        if part.space.shape is None or part.space.dtype is None:
            raise _refused(name, f"{type(part.space).__name__}{part.where}", CURE)


def refuse_numbers(space: Space[Any], name: str, wrappers: Sequence[Any] = ()) -> None:
    """Refuses observations of which stable-baselines3's networks would make nothing, or something else.

    Args:
        space: of one environment. name: that of the environment, for messages. wrappers: its `env.wrappers`.

    Raises:
        ConfigError: choices do not begin with 0 or are a table, or an array has no axes or no numbers.
    """
    for part in parts_of(space):
        kind = f"{type(part.space).__name__}{part.where}"
        if np.any(start := getattr(part.space, "start", 0)):
            first = np.asarray(start).tolist()
            raise _refused(name, f"{kind}, which begins with {first} and not with 0", _one_array(wrappers))
        if isinstance(part.space, spaces.MultiDiscrete) and part.space.nvec.ndim > 1:
            raise _refused(name, f"{kind}, whose choices are a table", _one_array(wrappers))
        if not isinstance(part.space, spaces.Box):
            continue
        if part.space.shape == ():
            raise _refused(name, f"{kind}, which has no axes", _one_array(wrappers))
        if not prod(part.space.shape):
            raise _refused(name, f"{kind}, which has no numbers", CURE)


def _one_array(wrappers: Sequence[Any]) -> str:
    """The cure that makes one array of all observations, behind the wrappers that there are."""
    value = f"env.wrappers={display([*wrappers, FLATTEN], 0)}"
    return f"To make one array of them: -o {shlex.quote(value)}"


def _refused(name: str, what: str, cure: str) -> ConfigError:
    return ConfigError(
        f"environment '{name}' has observations that stable-baselines3 does not take: {what}. {cure}"
    )
