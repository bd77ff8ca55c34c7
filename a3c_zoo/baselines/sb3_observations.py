"""Which observations stable-baselines3 takes as they come."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space, spaces

from a3c_zoo.errors import ConfigError
from a3c_zoo.learning.spaces import inner_spaces, parts_of

ONE_ARRAY = "To make one array of them: -o env.wrappers=[gymnasium.wrappers:FlattenObservation]"
CURE = "A wrapper can leave it out or replace it (env.wrappers)"


def refuse_forms(space: Space[Any], name: str) -> None:
    """Refuses observations for which stable-baselines3's own environments have no arrays.

    Args:
        space: of one environment. name: that of the environment, for messages.

    Raises:
        ConfigError: the space is a tuple, has dictionaries or tuples within a dictionary, or a part without a shape.
    """
    if isinstance(space, spaces.Tuple):
        raise _refused(name, f"{space}", ONE_ARRAY)
    for key, inner in inner_spaces(space).items():
        if inner_spaces(inner):
            raise _refused(
                name, f"{type(inner).__name__} within its {type(space).__name__}, at '{key}'", ONE_ARRAY
            )
    for part in parts_of(space):
        if part.space.shape is None or part.space.dtype is None:
            raise _refused(name, f"{type(part.space).__name__}{part.where}", CURE)


def refuse_numbers(space: Space[Any], name: str) -> None:
    """Refuses observations of which stable-baselines3's networks would make nothing, or something else.

    Args:
        space: of one environment. name: that of the environment, for messages.

    Raises:
        ConfigError: choices do not begin with 0, or an array has no axes.
    """
    for part in parts_of(space):
        kind = type(part.space).__name__
        if np.any(start := getattr(part.space, "start", 0)):
            first = np.asarray(start).tolist()
            raise _refused(name, f"{kind}{part.where}, which begins with {first} and not with 0", ONE_ARRAY)
        if isinstance(part.space, spaces.Box) and part.space.shape == ():
            raise _refused(name, f"{kind}{part.where}, which has no axes", ONE_ARRAY)


def _refused(name: str, what: str, cure: str) -> ConfigError:
    return ConfigError(
        f"environment '{name}' has observations that stable-baselines3 does not take: {what}. {cure}"
    )
