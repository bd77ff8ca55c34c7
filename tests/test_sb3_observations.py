"""Which observations stable-baselines3 takes as they come."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import Space, spaces

from a3c_zoo.baselines.sb3_observations import refuse_forms, refuse_numbers
from a3c_zoo.errors import ConfigError

BOX = spaces.Box(-1, 1, (2,), np.float32)


@pytest.mark.parametrize(
    "space", [BOX, spaces.Discrete(3), spaces.MultiBinary(2), spaces.Dict({"a": BOX, "b": spaces.Discrete(2)})]
)
def test_these_are_taken(space: Space) -> None:
    refuse_forms(space, "maze")
    refuse_numbers(space, "maze")


@pytest.mark.parametrize(
    ("space", "what"),
    [
        (spaces.Dict({"a": spaces.Dict({"b": BOX})}), "Dict within its Dict, at 'a'. To make one array of them"),
        (spaces.Dict({"a": BOX, "text": spaces.Text(5)}), "Text at 'text'. A wrapper can leave it out"),
        (spaces.Tuple([BOX, BOX]), "Tuple(.*). To make one array of them"),
        (spaces.Text(5), "Text. A wrapper can leave it out"),
    ],
)
def test_forms_without_arrays(space: Space, what: str) -> None:
    with pytest.raises(ConfigError, match=f"'maze' has observations that stable-baselines3 does not take: {what}"):
        refuse_forms(space, "maze")


@pytest.mark.parametrize(
    ("space", "what"),
    [
        (spaces.Discrete(3, start=1), "Discrete, which begins with 1 and not with 0"),
        (spaces.MultiDiscrete([3, 2], start=[0, 4]), r"MultiDiscrete, which begins with \[0, 4\] and not with 0"),
        (spaces.Dict({"a": BOX, "n": spaces.Discrete(2, start=-1)}), "Discrete at 'n', which begins with -1"),
        (spaces.Box(-1, 1, (), np.float32), "Box, which has no axes. To make one array"),
    ],
)
def test_numbers_that_mean_something_else(space: Space, what: str) -> None:
    with pytest.raises(ConfigError, match=f"does not take: {what}"):
        refuse_numbers(space, "maze")
