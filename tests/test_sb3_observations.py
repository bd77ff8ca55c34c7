"""Which observations stable-baselines3 takes as they come."""

from __future__ import annotations

import shlex

import numpy as np
import pytest
import yaml
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
        (spaces.Dict({"none": spaces.Box(-1, 1, (0,))}), "Box at 'none', which has no numbers. A wrapper can leave"),
        (
            spaces.MultiDiscrete(np.array([[3, 2], [2, 2]])),
            "MultiDiscrete, whose choices are a table. To make one array",
        ),
    ],
)
def test_numbers_that_mean_something_else(space: Space, what: str) -> None:
    with pytest.raises(ConfigError, match=f"does not take: {what}"):
        refuse_numbers(space, "maze")


def test_the_cure_keeps_the_wrappers_that_there_are() -> None:
    with pytest.raises(ConfigError) as raised:
        refuse_numbers(spaces.Discrete(3, start=1), "maze", [{"mine:Cut": {"steps": 7}}, "mine:Turn"])
    key, _, value = shlex.split(str(raised.value).partition(" -o ")[2])[0].partition("=")
    assert (key, yaml.safe_load(value)) == (
        "env.wrappers",
        [{"mine:Cut": {"steps": 7}}, "mine:Turn", "gymnasium.wrappers:FlattenObservation"],
    )
