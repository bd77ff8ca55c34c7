"""Environments with action masks, for tests. A forbidden action raises, so a run that ends has played none."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from tests.walks import StatefulWalk

ACTIONS = 6
ROOMS = 7
#: Room → which actions it allows. The last room is where an episode ends; it allows none.
MASKS = np.array(
    [[(room + action) % 2 == 1 or action == room % 3 for action in range(ACTIONS)] for room in range(ROOMS + 1)]
)
MASKS[ROOMS] = False


class Rooms(gymnasium.Env[Any, Any]):
    """A walk through rooms, one a step; an episode ends in the last room, or is cut before by its limit.

    Args:
        way: how it gives masks: "info" or "method"; "step": in info, but not of reset. dtype: of the masks.
        choices: a MultiDiscrete space of two choices: the masks of the room, and of the next one.
        fault: what is wrong with the masks from the third step on.
        strict: whether a forbidden action raises. limit: steps of an episode at most.
        first: the number of the first action of the Discrete space.
    """

    def __init__(
        self,
        way: str = "info",
        dtype: str = "int8",
        choices: bool = False,
        fault: str = "",
        strict: bool = True,
        limit: int = 100,
        first: int = 1,
    ) -> None:
        self.observation_space = spaces.Box(0, 1, (ROOMS + 1,), np.float32)
        self.action_space = (
            spaces.MultiDiscrete([ACTIONS, ACTIONS]) if choices else spaces.Discrete(ACTIONS, start=first)
        )
        self.way = way
        self.dtype = dtype
        self.choices = choices
        self.fault = fault
        self.strict = strict
        self.limit = limit
        self.first = 0 if choices else first
        if way == "method":
            self.action_masks = self.mask

    def mask(self) -> Any:
        """The mask of the room."""
        mask = MASKS[self.room].astype(self.dtype)
        if self.fault and self.steps >= 2:
            match self.fault:
                case "length":
                    mask = mask[:-1]
                case "empty":
                    mask[:] = 0
                case "numbers":
                    mask[:] = 2
        if self.choices:
            return mask, MASKS[max(0, self.room - 1)].astype(self.dtype)
        return mask

    def _info(self) -> dict[str, Any]:
        has_mask = self.way == "info" or (self.way == "step" and self.steps > 0)
        if not has_mask or (self.fault == "missing" and self.steps >= 2):
            return {}
        return {"action_mask": self.mask()}

    def _observation(self) -> Any:
        return np.eye(ROOMS + 1, dtype=np.float32)[self.room]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        self.room = int(self.np_random.integers(ROOMS - 2))
        return self._observation(), self._info()

    def step(self, action: Any) -> Any:
        chosen = np.atleast_1d(np.asarray(action)) - self.first
        allowed = [MASKS[self.room], MASKS[max(0, self.room - 1)]]
        if self.strict:
            for mask, choice in zip(allowed, chosen, strict=False):
                assert mask[choice], f"forbidden: {choice} in room {self.room}"
        self.room += 1
        self.steps += 1
        is_over = self.room == ROOMS
        reward = float(chosen[0] == int(np.argmax(allowed[0])))
        return self._observation(), reward, is_over, self.steps >= self.limit and not is_over, self._info()


class MaskedWalk(StatefulWalk):
    """A walk in every autoreset mode, with a state. At ±2 it only goes on outwards; a forbidden step raises."""

    def _info(self) -> dict[str, Any]:
        masks = np.ones((self.num_envs, 2), np.bool_)
        masks[self.place >= 2, 0] = False
        masks[self.place <= -2, 1] = False
        masks[abs(self.place) >= 3] = False  # an end
        return {"action_mask": masks}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        observations, info = super().reset(seed=seed, options=options)
        return observations, info | self._info()

    def step(self, actions: Any) -> Any:
        allowed = self._info()["action_mask"][np.arange(self.num_envs), actions - 1]
        assert (allowed | self.ended).all(), "forbidden"
        *result, info = super().step(actions)
        return *result, info | self._info()


def make_walk(num_envs: int, seed: int, mode: str) -> MaskedWalk:
    return MaskedWalk(num_envs, mode, random_start=True)


class MaskedPictures(gymnasium.Env[Any, Any]):
    """Pictures of 44 × 44 pixels, of which action 1 alone is allowed; another one raises."""

    observation_space = spaces.Box(0, 255, (1, 44, 44), np.uint8)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self._picture(), {"action_mask": np.array([0, 1, 0], np.int8)}

    def _picture(self) -> Any:
        return np.full((1, 44, 44), self.steps, np.uint8)

    def step(self, action: Any) -> Any:
        assert action == 1, "forbidden"
        self.steps += 1
        return self._picture(), 1.0, False, self.steps == 5, {"action_mask": np.array([0, 1, 0], np.int8)}


def rooms(num_envs: int, mode: AutoresetMode = AutoresetMode.NEXT_STEP, **options: Any) -> SyncVectorEnv:
    return SyncVectorEnv([lambda: Rooms(**options)] * num_envs, autoreset_mode=mode)


gymnasium.register("Rooms-v0", entry_point="tests.toys_masks:Rooms")


class Corridor(gymnasium.Env[Any, Any]):
    """Doors in a row. Of eight actions four are allowed at each, and one opens the door; a forbidden one ends it all.

    A step costs 0.02, the last door is worth 1, a forbidden action −1.
    """

    doors = 4

    def __init__(self) -> None:
        random = np.random.default_rng(5)
        orders = [random.permutation(8) for _ in range(self.doors + 1)]
        self.masks = np.array([np.isin(np.arange(8), order[:4]) for order in orders])
        self.keys = [order[0] for order in orders]
        self.observation_space = spaces.Discrete(self.doors + 1)
        self.action_space = spaces.Discrete(8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.door = self.steps = 0
        return self.door, {"action_mask": self.masks[self.door]}

    def step(self, action: Any) -> Any:
        self.steps += 1
        if not self.masks[self.door][action]:
            return self.door, -1.0, True, False, {"action_mask": self.masks[self.door]}
        self.door += int(action == self.keys[self.door])
        is_over = self.door == self.doors
        is_late = self.steps >= 50 and not is_over
        return self.door, float(is_over) - 0.02, is_over, is_late, {"action_mask": self.masks[self.door]}


gymnasium.register("Corridor-v0", entry_point="tests.toys_masks:Corridor")
