"""The environment under test: takes given actions, checks every step against its spaces, and returns a trajectory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from a3c_zoo.config import EnvConfig
from a3c_zoo.learning.autoreset import autoreset_mode, episode_over
from a3c_zoo.learning.environments import make_vector_env
from a3c_zoo.plugins.entries import EnvEntry

#: What a step returns for each environment, beside the observation, and whether it ended the episode.
STEP = np.dtype([("reward", "f8"), ("terminated", "?"), ("truncated", "?"), ("ended", "?")])


@dataclass(slots=True)
class Trajectory:
    """T steps of N environments.

    Attributes:
        observations: before each step and after the last one, `[T+1, N, ...]`. In DISABLED mode they include the first
            observations of the episodes that were reset.
        steps: `[T, N]`, `STEP`. A termination that `episode_over` denies (a lost life) did not end its episode.
        finals: (t, n) → final observation of the episode that ended with this step, for SAME_STEP and DISABLED.
    """

    observations: NDArray[Any]
    steps: NDArray[Any]
    finals: dict[tuple[int, int], NDArray[Any]] = field(default_factory=dict)

    @property
    def ended(self) -> NDArray[np.bool_]:
        """Which steps ended an episode, `[T, N]`, bool."""
        ended: NDArray[np.bool_] = self.steps["ended"]
        return ended

    def tail(self, start: int) -> Trajectory:
        """The trajectory from step `start` on."""
        finals = {(t - start, n): final for (t, n), final in self.finals.items() if t >= start}
        return Trajectory(self.observations[start:], self.steps[start:], finals)

    def first_difference(self, other: Trajectory) -> int | None:
        """The first step at which two trajectories of one length differ; -1 for the start, None if they are equal."""
        rows = len(self.observations)
        differs = (self.observations != other.observations).reshape(rows, -1).any(axis=1)
        differs[1:] |= (self.steps != other.steps).any(axis=1)
        for t, n in self.finals.keys() & other.finals.keys():
            differs[t + 1] |= not np.array_equal(self.finals[t, n], other.finals[t, n])
        return int(differs.argmax()) - 1 if differs.any() else None


class Subject:
    """An entry under test, with a configuration and a number of environments.

    Attributes:
        env: the environment that was made last; all have the same spaces.
        mode: its autoreset mode, "NextStep", "SameStep" or "Disabled".
    """

    env: VectorEnv[Any, Any, Any]
    mode: str

    def __init__(self, entry: EnvEntry, config: EnvConfig, num_envs: int) -> None:
        self.entry, self.config, self.num_envs = entry, config, num_envs

    def fail(self, message: str, cause: BaseException | None = None) -> NoReturn:
        """Ends the check with one line."""
        line = " ".join(message.split())
        raise AssertionError(f"environment '{self.entry.name}', num_envs={self.num_envs}: {line}") from cause

    def expect(self, condition: bool | np.bool_, message: str) -> None:
        """Ends the check unless the condition holds."""
        if not condition:
            self.fail(message)

    def expect_equal(self, expected: Trajectory, found: Trajectory, message: str) -> None:
        """Ends the check unless two trajectories are equal; `{where}` in the message says where they differ first."""
        step = expected.first_difference(found)
        where = "at the first observation" if step == -1 else f"at step {step}"
        self.expect(step is None, message.format(where=where))

    def call(self, what: str, function: Callable[[], Any]) -> Any:
        """Calls the function; an exception ends the check."""
        try:
            return function()
        except Exception as error:
            self.fail(f"{what} raised {type(error).__name__}: {error}", error)

    @contextmanager
    def made(self) -> Iterator[VectorEnv[Any, Any, Any]]:
        """A new vector environment, closed afterwards."""
        self.env = env = self.call("making it", lambda: make_vector_env(self.entry, self.config, self.num_envs, seed=1))
        try:
            self.mode = self.call("asking for its autoreset mode", lambda: autoreset_mode(env))
            yield env
        except BaseException:
            with suppress(Exception):  # the first fault counts
                env.close()
            raise
        self.call("close()", env.close)

    def new_trajectory(self, actions: NDArray[Any], seed: int) -> Trajectory:
        """Makes a new environment and takes the actions from `reset(seed)` on."""
        with self.made():
            return self.trajectory(actions, self.reset(seed))

    def reset(self, seed: int | None) -> NDArray[Any]:
        """Resets `env`; returns the observations."""
        return self._reset(f"reset(seed={seed})", seed=seed)

    def _reset(self, what: str, **arguments: Any) -> NDArray[Any]:
        result = self.call(what, lambda: self.env.reset(**arguments))
        self.expect(
            isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Mapping),
            f"{what} must return (observations, info), info a dictionary",
        )
        self.check_observations(what, result[0])
        return np.array(result[0])

    def trajectory(self, actions: NDArray[Any], start: NDArray[Any]) -> Trajectory:
        """Takes the actions `[T, N, ...]` in `env`; `start` are the observations before them, `[N, ...]`."""
        observations = np.empty((len(actions) + 1, *start.shape), start.dtype)
        trajectory = Trajectory(observations, np.zeros(actions.shape[:2], STEP))
        observations[0] = start
        for t in range(len(actions)):
            observations[t + 1] = self._step(t, actions[t].copy(), trajectory)
        return trajectory

    def _step(self, t: int, actions: NDArray[Any], trajectory: Trajectory) -> NDArray[Any]:
        what = f"step {t}"
        result = self.call(f"step() (step {t})", lambda: self.env.step(actions))
        self.expect(
            isinstance(result, tuple) and len(result) == 5 and isinstance(result[4], Mapping),
            "step() must return (observations, rewards, terminated, truncated, info), info a dictionary",
        )
        observations, rewards, terminated, truncated, info = result
        self.check_observations(what, observations)
        self._check_array(what, "rewards", rewards, "iuf", "numbers")
        self._check_array(what, "terminated", terminated, "b", "bool")
        self._check_array(what, "truncated", truncated, "b", "bool")
        ended = self.call("episode_over()", lambda: episode_over(self.env)(terminated, truncated, info))
        self._check_array(what, "from episode_over()", ended, "b", "bool")
        self.expect(
            not (ended & ~(terminated | truncated)).any() and not (truncated & ~ended).any(),
            f"{what}: episode_over() may only deny that a termination ended an episode, not make or deny others",
        )
        for name, values in zip(STEP.names or (), (rewards, terminated, truncated, ended), strict=True):
            trajectory.steps[name][t] = values
        before = np.array(observations)
        if self.mode == "SameStep" and ended.any():
            self._keep_finals(t, info, trajectory)
        if self.mode != "Disabled" or not ended.any():
            return before
        trajectory.finals.update({(t, n): before[n] for n in np.flatnonzero(ended).tolist()})
        reset = f"reset(options={{'reset_mask': …}}) after step {t}"
        after = self._reset(reset, options={"reset_mask": ended.copy()})
        unchanged = np.array_equal(after[~ended], before[~ended])
        self.expect(unchanged, f"{reset} changed environments outside of the mask")
        return after

    def _keep_finals(self, t: int, info: Mapping[str, Any], trajectory: Trajectory) -> None:
        """SAME_STEP: takes the final observations from `info`, where other rows may be None."""
        ended, finals = trajectory.ended[t], info.get("final_obs")
        if finals is None or len(finals) != self.num_envs:
            self.fail(f"step {t} ended an episode in autoreset mode SameStep, but info['final_obs'] is {finals!r:.60}")
        if not np.array_equal(info.get("_final_obs", ended), ended):
            self.fail(f"step {t}: info['_final_obs'] is not terminated | truncated")
        space: Any = self.env.single_observation_space
        for n in map(int, np.flatnonzero(ended)):
            what = f"step {t}: info['final_obs'][{n}]"
            if finals[n] is None or np.shape(finals[n]) != space.shape:
                self.fail(f"{what} is {finals[n]!r:.60}, where an array {list(space.shape)} is expected")
            final = np.asarray(finals[n], space.dtype)
            if not np.isfinite(final).all() or not space.contains(final):
                self.fail(f"{what} is outside of {space}: {final}")
            trajectory.finals[t, n] = final

    def check_observations(self, what: str, observations: Any) -> None:
        """Checks type, shape, dtype, finiteness and bounds of the observations that the call `what` returned."""
        space: Any = self.env.single_observation_space
        if space.shape is None or space.dtype is None:
            self.fail(f"check_env plays environments whose observations are single arrays, not {space}")
        shape = (self.num_envs, *space.shape)
        if _form(observations) != (promised := f"{np.dtype(space.dtype)} {list(shape)}"):
            self.fail(f"{what} returned observations {_form(observations)}, where its spaces promise {promised}")
        if not np.isfinite(observations).all():
            self.fail(f"{what} returned observations that are not finite: {observations}")
        if not self.env.observation_space.contains(observations):
            wrong = next((row for row in observations if not space.contains(row)), observations)
            self.fail(f"{what} returned an observation outside of its space {space}: {wrong}")

    def _check_array(self, what: str, name: str, array: Any, kinds: str, expected: str) -> None:
        if not isinstance(array, np.ndarray) or array.shape != (self.num_envs,) or array.dtype.kind not in kinds:
            self.fail(f"{what} returned {name} {_form(array)}; it must be an array of {expected}, [{self.num_envs}]")
        if not np.isfinite(array).all():
            self.fail(f"{what} returned {name} that are not finite: {array}")


def _form(value: Any) -> str:
    """A value in a few words: `float64 [3, 1]`, `list`."""
    return f"{value.dtype} {list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
