"""A small environment that keeps the contract in every autoreset mode, and many that break one line of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from pydantic import Field

from a3c_zoo.config import EnvConfig


class Walk(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Walks left or right from about 0, sometimes in a random direction; ends at ±3 or after 6 steps.

    Args:
        mode: the autoreset mode's name. random_start: start at −1, 0 or 1 instead of 0.
    """

    def __init__(self, num_envs: int, mode: str = "NextStep", random_start: bool = False) -> None:
        self.num_envs, self.mode, self.random_start = num_envs, AutoresetMode(mode), random_start
        self.metadata = {"autoreset_mode": self.mode}
        self.single_observation_space = spaces.Box(-3, 3, (1,), np.float32)
        self.single_action_space = spaces.Discrete(2, start=1)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space: spaces.Space = batch_space(self.single_action_space, num_envs)
        self.place, self.steps = np.zeros((2, num_envs), np.int64)
        self.ended = np.zeros(num_envs, np.bool_)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.begin((options or {}).get("reset_mask", np.ones(self.num_envs, np.bool_)))
        self.ended = np.zeros(self.num_envs, np.bool_)
        return self.observe(), {}

    def begin(self, mask: np.ndarray) -> None:
        self.place[mask] = self.np_random.integers(-1, 2, self.num_envs)[mask] if self.random_start else 0
        self.steps[mask] = 0

    def begin_next(self, mask: np.ndarray) -> None:
        """Begins episodes as autoreset does."""
        self.begin(mask)

    def observe(self) -> Any:
        return self.place[:, None].astype(np.float32)

    def pushes(self) -> np.ndarray:
        return self.np_random.random(self.num_envs) < 0.2

    def step(self, actions: np.ndarray) -> Any:
        assert self.action_space.contains(actions), f"{actions} is not in {self.action_space}"
        pending, direction = self.ended.copy(), np.where(self.pushes(), 1, 2 * actions - 3)
        self.place += np.where(pending, 0, direction)
        self.steps += ~pending
        rewards = np.where(pending, 0, self.place).astype(np.float32)
        terminated = ~pending & (abs(self.place) >= 3)
        truncated = ~pending & ~terminated & (self.steps >= 6)
        self.begin_next(pending)
        return self.finish(rewards, terminated, truncated)

    def finish(self, rewards: Any, terminated: np.ndarray, truncated: np.ndarray) -> Any:
        ended, info = terminated | truncated, {}
        if self.mode == AutoresetMode.SAME_STEP:
            info = self.finals(ended) if ended.any() else {}
            self.begin_next(ended)
        if self.mode == AutoresetMode.NEXT_STEP:
            self.ended = ended
        return self.observe(), rewards, terminated, truncated, info

    def finals(self, ended: np.ndarray) -> dict[str, Any]:
        finals = np.full(self.num_envs, None, object)
        for n in np.flatnonzero(ended):
            finals[n] = self.observe()[n]
        return {"final_obs": finals, "_final_obs": ended}


class Lives(Walk):
    """Reports a termination at place 1 too, where the walk goes on."""

    def step(self, actions: np.ndarray) -> Any:
        observation, rewards, terminated, truncated, info = super().step(actions)
        over = terminated | truncated
        return observation, rewards, terminated | (~over & (rewards == 1)), truncated, {**info, "over": over}

    def episode_over(self, terminated: np.ndarray, truncated: np.ndarray, info: dict[str, Any]) -> np.ndarray:
        over: np.ndarray = info["over"]
        return over


class UntoldLives(Lives):
    """Reports no episode as over."""

    def episode_over(self, terminated: np.ndarray, truncated: np.ndarray, info: dict[str, Any]) -> np.ndarray:
        return np.zeros_like(terminated)


class StatefulWalk(Walk):
    """A walk with `get_state` and `set_state`."""

    def get_state(self) -> dict[str, Any]:
        return {
            "place": self.place.tolist(),
            "steps": self.steps.tolist(),
            "ended": self.ended.tolist(),
            "random": self.np_random.bit_generator.state,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self.place, self.steps = np.array(state["place"]), np.array(state["steps"])
        self.ended = np.array(state["ended"])
        self.np_random.bit_generator.state = state["random"]


# Each class below breaks one line of the contract.


class NoMode(Walk):
    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.metadata = {}


class ForgottenBatch(Walk):
    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.observation_space = self.single_observation_space


class Steering(Walk):
    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.single_action_space = spaces.Box(0, 3, (1,), np.int64)


class Float64(Walk):
    def observe(self) -> Any:
        return self.place[:, None].astype(np.float64)


class Flat(Walk):
    def observe(self) -> Any:
        return self.place.astype(np.float32)


class ListOfObservations(Walk):
    def observe(self) -> Any:
        return super().observe().tolist()


class NotANumber(Walk):
    def observe(self) -> Any:
        return np.where(self.steps[:, None] == 2, np.float32(np.nan), super().observe())


class OutOfBounds(Walk):
    def observe(self) -> Any:
        return super().observe() * 2


class ColumnRewards(Walk):
    def finish(self, rewards: Any, terminated: np.ndarray, truncated: np.ndarray) -> Any:
        return super().finish(rewards[:, None], terminated, truncated)


class InfiniteRewards(Walk):
    def finish(self, rewards: Any, terminated: np.ndarray, truncated: np.ndarray) -> Any:
        return super().finish(np.where(terminated, np.inf, rewards), terminated, truncated)


class NumbersForFlags(Walk):
    def finish(self, rewards: Any, terminated: np.ndarray, truncated: np.ndarray) -> Any:
        observations, rewards, terminated, truncated, info = super().finish(rewards, terminated, truncated)
        return observations, rewards, terminated.astype(np.int64), truncated, info


class FourValues(Walk):
    def step(self, actions: np.ndarray) -> Any:
        return super().step(actions)[:4]


class ObservationAlone(Walk):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return super().reset(seed=seed, options=options)[0]


class Crash(Walk):
    def pushes(self) -> np.ndarray:
        raise RuntimeError("the floor\ngave way")


class Endless(Walk):
    def step(self, actions: np.ndarray) -> Any:
        self.begin(np.ones(self.num_envs, np.bool_))
        return super().step(actions)


class GlobalRandom(Walk):
    def pushes(self) -> np.ndarray:
        return np.random.rand(self.num_envs) < 0.2


class LeftOver(Walk):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        steps = self.steps.copy()
        result = super().reset(seed=seed, options=options)
        self.steps = steps
        return result


class SeedIgnored(Walk):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return super().reset(seed=None if seed is None else 7, options=options)


class TwoSides(Walk):
    """Walks to a side that is drawn for twelve episodes; with the seeds 1 and 2 it is the same one for 100 steps."""

    begun, is_right = 0, np.zeros(1, np.bool_)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.begun = 0
        return super().reset(seed=seed, options=options)

    def begin(self, mask: np.ndarray) -> None:
        if self.begun % 12 == 0 and mask.any():
            self.is_right = self.np_random.random(self.num_envs) < 0.2
        self.begun += bool(mask.any())
        super().begin(mask)

    def pushes(self) -> np.ndarray:
        return self.is_right


class OneStream(Walk):
    def pushes(self) -> np.ndarray:
        return np.repeat(self.np_random.random() < 0.2, self.num_envs)


class ResetsAtOnce(Walk):
    """Says NEXT_STEP, but resets in the same step."""

    def finish(self, rewards: Any, terminated: np.ndarray, truncated: np.ndarray) -> Any:
        self.begin(terminated | truncated)
        return self.observe(), rewards, terminated, truncated, {}


class ResetsAtOnceUnpaid(ResetsAtOnce):
    """The same with a reward of 0; only the effect of the action shows the fault."""

    def finish(self, rewards: Any, terminated: np.ndarray, truncated: np.ndarray) -> Any:
        return super().finish(np.where(terminated, rewards, 0), terminated, truncated)


class RareStart(Walk):
    """Starts at place 1 in one of twenty episodes."""

    def begin(self, mask: np.ndarray) -> None:
        super().begin(mask)
        self.place[mask] = (self.np_random.random(self.num_envs) < 0.05)[mask]


class StartsElsewhere(Walk):
    def begin_next(self, mask: np.ndarray) -> None:
        self.begin(mask)
        self.place[mask] = 1


class StartsElsewhereButTheFirst(Walk):
    def begin_next(self, mask: np.ndarray) -> None:
        self.begin(mask)
        self.place[1:][mask[1:]] = 1


class EndsTwice(Walk):
    def step(self, actions: np.ndarray) -> Any:
        before = self.ended.copy()
        observations, rewards, terminated, truncated, info = super().step(actions)
        return observations, rewards, terminated, truncated | before, info


class PaysForReset(Walk):
    def step(self, actions: np.ndarray) -> Any:
        before = self.ended.copy()
        observations, rewards, terminated, truncated, info = super().step(actions)
        return observations, np.where(before, 1, rewards), terminated, truncated, info


class StaysAtTheEnd(Walk):
    """Says SAME_STEP, but returns the final observation as the next one too."""

    def step(self, actions: np.ndarray) -> Any:
        self.begin(self.ended)
        return super().step(actions)

    def finish(self, rewards: Any, terminated: np.ndarray, truncated: np.ndarray) -> Any:
        observations, ended = self.observe(), terminated | truncated
        result = super().finish(rewards, terminated, truncated)
        return (observations, *result[1:]) if ended.any() else result


class NoFinals(Walk):
    def finals(self, ended: np.ndarray) -> dict[str, Any]:
        return {}


class NoneForFinals(Walk):
    def finals(self, ended: np.ndarray) -> dict[str, Any]:
        return {"final_obs": np.full(self.num_envs, None, object)}


class WrongMask(Walk):
    def finals(self, ended: np.ndarray) -> dict[str, Any]:
        return {**super().finals(ended), "_final_obs": ~ended}


class MaskIgnored(Walk):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return super().reset(seed=seed)


class HalfAState(StatefulWalk):
    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state({**state, "steps": [0] * self.num_envs})


class SharedState(StatefulWalk):
    def get_state(self) -> dict[str, Any]:
        import torch

        return {**super().get_state(), "place": torch.from_numpy(self.place)}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state({**state, "place": state["place"].numpy().copy()})


class ArrayState(StatefulWalk):
    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "place": self.place.copy()}


class StateThatDraws(StatefulWalk):
    def get_state(self) -> dict[str, Any]:
        state = super().get_state()
        self.np_random.random()
        return state


class NoSetState(Walk):
    def get_state(self) -> dict[str, Any]:
        return {}


class WalkConfig(EnvConfig):
    random_start: bool = Field(False, description="start at −1, 0 or 1")


class SeededConfig(EnvConfig):
    seed: int = Field(0, description="of the place where it starts")


class UndescribedConfig(EnvConfig):
    random_start: bool = False


class RequiredConfig(EnvConfig):
    random_start: bool = Field(description="start at −1, 0 or 1")


def make(num_envs: int, seed: int, kind: str = "Walk", **kwargs: Any) -> Walk:
    env: Walk = globals()[kind](num_envs, **kwargs)
    return env


def make_too_many(num_envs: int, seed: int) -> Walk:
    return Walk(num_envs + 1)
