"""Spaces in words, and policies of other spaces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.learning.actions import action_distribution
from a3c_zoo.learning.model import Spaces
from a3c_zoo.learning.space_check import check_spaces, in_words
from a3c_zoo.learning.spaces import observation_spec

OBSERVED: dict[str, spaces.Space[Any]] = {
    "vector [3] of float64": spaces.Box(-1, 1, (3,), np.float64),
    "image [4, 84, 84] of uint8": spaces.Box(0, 255, (4, 84, 84), np.uint8),
    "image [42, 42, 3] of uint8": spaces.Box(0, 255, (42, 42, 3), np.uint8),
    "one of 16": spaces.Discrete(16),
    "one of 2 and one of 3": spaces.MultiDiscrete([2, 3]),
    "at [2], goal one of 4": spaces.Dict({"at": spaces.Box(0, 1, (2,)), "goal": spaces.Discrete(4)}),
}
ACTED: dict[str, spaces.Space[Any]] = {
    "one of 3": spaces.Discrete(3),
    "one of 2 and one of 3": spaces.MultiDiscrete([2, 3]),
    "bits [5]": spaces.MultiBinary(5),
    "vector [2] from -2 to 1": spaces.Box(np.array([-2, -1], np.float32), np.ones(2, np.float32)),
}


@pytest.mark.parametrize("words", OBSERVED)
def test_observations_in_words(words: str) -> None:
    assert in_words(observation_spec(OBSERVED[words])) == words


@pytest.mark.parametrize("words", ACTED)
def test_actions_in_words(words: str) -> None:
    assert in_words(action_distribution(ACTED[words])) == words


def test_what_words_do_not_tell_apart_is_told_as_it_is() -> None:
    there, here = (
        Spaces(observation_spec(spaces.Discrete(2)), action_distribution(spaces.Discrete(3, start=start)))
        for start in (0, 1)
    )
    check_spaces(there, there, "maze")
    with pytest.raises(RunDirectoryError, match=r"'maze': Categorical.*start=0.*, not Categorical.*start=1"):
        check_spaces(there, here, "maze")
