"""The environment under test: takes given actions, checks every step against its spaces, and returns a trajectory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from gymnasium import Space
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate
from numpy.typing import NDArray

from a3c_zoo.config import EnvConfig
from a3c_zoo.errors import ConfigError, EnvironmentContractError, one_line
from a3c_zoo.learning.action_masks import FollowedMasks, masks_to_follow
from a3c_zoo.learning.autoreset import autoreset_mode, autoreset_of, episode_over
from a3c_zoo.learning.contract import NO_REWARD, gives_no_reward, misfit
from a3c_zoo.learning.environments import make_vector_env
from a3c_zoo.learning.spaces import Part, parts_of, row_of
from a3c_zoo.plugins.entries import EnvEntry
from a3c_zoo.testing.findings import Findings

#: What a step returns for each environment, beside the observation, and whether it ended the episode.
STEP = np.dtype([("reward", "f8"), ("terminated", "?"), ("truncated", "?"), ("ended", "?")])
#: Observations: one array `[N, ...]` for each part of the space; a Box has one part.
Rows = tuple[NDArray[Any], ...]
#: How many steps of a trajectory are looked at for arrays that are used again.
WATCHED_STEPS = 20

CURE_SPACES = "return what the spaces promise, or correct the spaces"
CURE_STEP = "see docs/how-to/write-an-environment.md for what reset() and step() return"
CURE_RESET = "define it as reset(self, *, seed=None, options=None)"
CURE_MASK = "give a mask with each reset() and step(), or ignore them all: -o env.action_masks=false"
CURE_RAISES = "correct the environment, or install what it needs"
CURE_FINITE = "find the step that computes NaN or an infinity"
CURE_FINALS = "put the last observations of the ended episodes into info['final_obs'], [num_envs]"


@dataclass(slots=True)
class Trajectory:
    """T steps of N environments.

    Attributes:
        observations: before each step and after the last one, `[T+1, N, ...]` for each part. In DISABLED mode
            they include the first observations of the episodes that were reset.
        steps: `[T, N]`, `STEP`. A termination that `episode_over` denies (a lost life) did not end its
            episode.
        actions: as they were taken, within action masks, `[T, N, ...]`; dictionaries or tuples `[T, N]` in a Dict or a
            Tuple space.
        ignored: which of them the environment ignored, `[T, N]`, bool. What came before the first step is not known.
        finals: (t, n) → final observation of the episode that ended with this step, for SAME_STEP and
            DISABLED.
    """

    observations: Rows
    steps: NDArray[Any]
    actions: NDArray[Any]
    ignored: NDArray[np.bool_]
    finals: dict[tuple[int, int], Rows] = field(default_factory=dict)

    @property
    def ended(self) -> NDArray[np.bool_]:
        """Which steps ended an episode, `[T, N]`, bool."""
        ended: NDArray[np.bool_] = self.steps["ended"]
        return ended

    def row(self, t: int, n: int) -> Rows:
        """The observation of environment n before step t."""
        return tuple(array[t, n] for array in self.observations)

    def tail(self, start: int) -> Trajectory:
        """The trajectory from step `start` on."""
        finals = {(t - start, n): final for (t, n), final in self.finals.items() if t >= start}
        observations = tuple(array[start:] for array in self.observations)
        return Trajectory(
            observations, self.steps[start:], self.actions[start:], self.ignored[start:], finals
        )

    def first_difference(self, other: Trajectory) -> int | None:
        """The first step at which two trajectories of one length differ; -1 for the start, None if they are equal."""
        differs = np.zeros(len(self.steps) + 1, np.bool_)
        for mine, theirs in zip(self.observations, other.observations, strict=True):
            differs |= _rows_that_differ(mine, theirs)
        for name in STEP.names or ():
            differs[1:] |= _rows_that_differ(self.steps[name], other.steps[name])
        for t, n in self.finals.keys() & other.finals.keys():
            differs[t + 1] |= not equal_rows(self.finals[t, n], other.finals[t, n])
        if differs.any():
            return int(differs.argmax()) - 1
        return None


def _rows_that_differ(these: NDArray[Any], those: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows of two arrays differ; NaN equals NaN."""
    differ = (these != those) & ~((these != these) & (those != those))
    rows: NDArray[np.bool_] = differ.any(axis=tuple(range(1, differ.ndim)))
    return rows


def one_by_one(space: Space[Any], actions: Any) -> NDArray[Any]:
    """Actions of a vector environment's space, `[N, ...]`; of a Dict or a Tuple space, dictionaries or tuples `[N]`."""
    if isinstance(actions, np.ndarray):
        return actions
    single = [deepcopy(action) for action in iterate(space, actions)]
    rows = np.empty(len(single), object)
    for n, action in enumerate(single):
        rows[n] = action
    return rows


def equal_rows(these: Rows, those: Rows) -> bool:
    """Whether two observations are equal in each part; NaN equals NaN."""
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(these, those, strict=True))


def shown(row: Rows) -> str:
    """An observation for a message."""
    return str(row[0] if len(row) == 1 else [array.tolist() for array in row])


class Subject:
    """An entry under test, with a configuration and a number of environments.

    Attributes:
        env: the environment that was made last; all have the same spaces.
        mode: its autoreset mode, "NextStep", "SameStep" or "Disabled".
        parts: of its observations.
        masks: its action masks, as they follow from the last reset and the steps since; None without masks.
        findings: where faults go.
    """

    env: VectorEnv[Any, Any, Any]
    mode: str
    parts: list[Part]
    masks: FollowedMasks | None

    def __init__(self, entry: EnvEntry, config: EnvConfig, num_envs: int, findings: Findings) -> None:
        self.entry = entry
        self.config = config
        self.num_envs = entry.whole_games(num_envs)
        self.findings = findings

    def problem(self, check: str, message: str, cure: str) -> None:
        """Notes a fault, unless it was told before, of another step or number of environments; the check goes on."""
        if not self._is_told(check, cure):
            self.findings.problem(check, f"num_envs={self.num_envs}: {message}", cure)

    def warn(self, check: str, message: str, cure: str) -> None:
        """Notes something that is better changed, once."""
        if not self._is_told(check, cure):
            self.findings.warn(check, message, cure)

    def _is_told(self, check: str, cure: str) -> bool:
        return any((finding.check, finding.cure) == (check, cure) for finding in self.findings.found)

    def fail(self, check: str, message: str, cure: str, cause: BaseException | None = None) -> NoReturn:
        """Notes a fault with which the check of this number of environments cannot go on."""
        if self._is_told(check, cure):
            self.findings.stop_quietly()
        self.findings.stop(check, f"num_envs={self.num_envs}: {message}", cure, cause)

    def expect(self, condition: bool | np.bool_, check: str, message: str, cure: str) -> None:
        """Notes a fault unless the condition holds."""
        if not condition:
            self.problem(check, message, cure)

    def expect_equal(
        self, check: str, expected: Trajectory, given: Trajectory, message: str, cure: str
    ) -> bool:
        """Returns whether two trajectories are equal; notes a fault if not, whose `{where}` is the first difference."""
        step = expected.first_difference(given)
        if step == -1:
            where = "at the first observation"
        else:
            where = f"at step {step}"
        self.expect(step is None, check, message.format(where=where), cure)
        return step is None

    def call(self, what: str, function: Callable[[], Any]) -> Any:
        """Calls the function; an exception ends the check. Each call is a sign of life: some simulators are slow."""
        self.findings.give_sign()
        try:
            return function()
        except ConfigError as error:  # its line has its cure
            self.fail(what.partition("(")[0], str(error), "", error)
        except Exception as error:
            check = what.partition("(")[0]
            if text := misfit(error):
                if text.startswith("has "):
                    self.fail(check, f"it {text}", CURE_RESET, error)
                self.fail(check, f"{what} {text}", f"{CURE_SPACES}; {CURE_STEP}", error)
            self.fail(check, f"{what} raised {one_line(error)}", CURE_RAISES, error)

    @contextmanager
    def made(self) -> Iterator[VectorEnv[Any, Any, Any]]:
        """A new vector environment, closed afterwards."""
        self.env = env = self.call(
            "making it", lambda: make_vector_env(self.entry, self.config, self.num_envs, seed=1)
        )
        try:
            self.mode = self.call("asking for its autoreset mode", lambda: autoreset_mode(env))
            yield env
        except BaseException:
            with suppress(Exception):  # the first fault counts
                env.close()
            raise
        self._close(env)

    def _close(self, env: VectorEnv[Any, Any, Any]) -> None:
        """Closes it twice. Training goes on though it fails, and so do the other checks."""
        for what in ("close()", "close() of a closed environment"):
            try:
                env.close()
            except Exception as error:
                text = f"num_envs={self.num_envs}: {what} raised {one_line(error)}"
                self.findings.warn("close", text, CURE_RAISES)
                return

    def take_spaces(self) -> None:
        """Notes the parts of the observations, for the checks of every step."""
        self.parts = list(parts_of(self.env.single_observation_space))
        self._batches = [batch_space(part.space, self.num_envs) for part in self.parts]

    def new_trajectory(self, actions: NDArray[Any], seed: int) -> Trajectory:
        """Makes a new environment and takes the actions from `reset(seed)` on."""
        with self.made():
            return self.trajectory(actions, self.reset(seed))

    def reset(self, seed: int | None) -> Rows:
        """Resets `env`; returns the observations."""
        rows, info = self._reset(f"reset(seed={seed})", seed=seed)
        with self._reading_masks():
            self.masks = masks_to_follow(self.env, self.config, self.entry.name, info)
        return rows

    @contextmanager
    def _reading_masks(self) -> Iterator[None]:
        try:
            yield
        except (ConfigError, EnvironmentContractError) as error:
            self.fail("action mask", str(error), CURE_MASK, error)

    def _reset(self, what: str, **arguments: Any) -> tuple[Rows, Mapping[str, Any]]:
        """Resets `env`; returns the observations and the info."""
        result = self.call(what, lambda: self.env.reset(**arguments))
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Mapping)):
            self.fail("reset", f"{what} must return (observations, info), info a dictionary", CURE_STEP)
        return self._copied(what, result[0]), result[1]

    def trajectory(self, actions: NDArray[Any], start: Rows) -> Trajectory:
        """Takes the actions `[T, N, ...]` in `env`; `start` are the observations before them.

        In place of an action that a mask forbids, it takes the next one that is allowed.
        """
        observations = tuple(np.empty((len(actions) + 1, *array.shape), array.dtype) for array in start)
        trajectory = Trajectory(
            observations,
            np.zeros(actions.shape[:2], STEP),
            actions.copy(),
            np.zeros(actions.shape[:2], np.bool_),
        )
        for array, row in zip(observations, start, strict=True):
            array[0] = row
        before: Any = None
        for t in range(len(actions)):
            given = self._as_given(actions[t])
            if self.masks is not None:
                given = self.masks.within(given)
                trajectory.actions[t] = one_by_one(self.env.action_space, given)
            before_step = deepcopy(given)
            rows, now = self._step(t, given, trajectory)
            self.expect(
                data_equivalence(given, before_step, exact=True),
                "actions",
                "step() changes the array of actions",
                "copy it first: actions.copy()",
            )
            if 0 < t < WATCHED_STEPS:
                self._check_reuse(before, now)
            before = now
            for array, row in zip(observations, rows, strict=True):
                array[t + 1] = row
        return trajectory

    def _check_reuse(self, before: Any, now: Any) -> None:
        """Warns if the observations of two steps share memory: a caller that keeps them sees them change."""
        if any(np.shares_memory(part.of(before), part.of(now)) for part in self.parts):
            message = (
                "step() returns the same array again; a3c-zoo copies it at once, other libraries keep it"
            )
            self.warn("buffers", message, "return a copy: observations.copy()")

    def _as_given(self, actions: NDArray[Any]) -> Any:
        """Copies of actions `[N, ...]`, as the vector environment takes them; see `one_by_one`."""
        space = self.env.single_action_space
        if actions.dtype != object:
            return actions.copy()
        batch: Any = create_empty_array(space, self.num_envs)
        return concatenate(space, list(actions), batch)

    def _step(self, t: int, actions: Any, trajectory: Trajectory) -> tuple[Rows, Any]:
        """Takes one step; returns what is acted on next, and the observations as `step` returned them."""
        what = f"step {t}"
        result = self.call(f"step() (step {t})", lambda: self.env.step(actions))
        if not (isinstance(result, tuple) and len(result) == 5 and isinstance(result[4], Mapping)):
            message = (
                "step() must return (observations, rewards, terminated, truncated, info), info a dictionary"
            )
            self.fail("step", message, CURE_STEP)
        observations, rewards, terminated, truncated, info = result
        rows = self._checked(what, observations)
        flags = (("terminated", terminated), ("truncated", truncated))
        arrays = [self._check_array(what, "rewards", rewards, "iuf", "numbers")]
        arrays += [self._check_array(what, name, array, "b", "bool") for name, array in flags]
        if rows is None or not all(arrays):
            self.findings.stop_quietly()
        ended = self.call("episode_over()", lambda: episode_over(self.env)(terminated, truncated, info))
        if not self._check_array(what, "from episode_over()", ended, "b", "bool"):
            self.findings.stop_quietly()
        self.expect(
            not (ended & ~(terminated | truncated)).any() and not (truncated & ~ended).any(),
            "episode_over",
            f"{what}: episode_over() may only deny that a termination ended an episode, not make or deny others",
            "return a mask within terminated | truncated that holds all of truncated",
        )
        for name, values in zip(STEP.names or (), (rewards, terminated, truncated, ended), strict=True):
            trajectory.steps[name][t] = values
        ended_before = trajectory.ended[t - 1] if t else np.zeros_like(ended)
        ignored = self.call(
            "ignored_actions()", lambda: autoreset_of(self.env).ignored(dict(info), ended_before)
        )
        if not self._check_array(what, "from ignored_actions()", ignored, "b", "bool"):
            self.findings.stop_quietly()
        trajectory.ignored[t] = ignored
        if self.mode == "SameStep" and ended.any():
            self._keep_finals(t, observations, info, trajectory)
        self._read_masks_of_step(info, ended)
        if self.mode != "Disabled" or not ended.any():
            self._read_masks_of_restart(info, ended)
            return rows, observations
        trajectory.finals.update(
            {(t, n): tuple(row[n] for row in rows) for n in np.flatnonzero(ended).tolist()}
        )
        reset = f"reset(options={{'reset_mask': …}}) after step {t}"
        after, info = self._reset(reset, options={"reset_mask": ended.copy()})
        self._read_masks_of_restart(info, ended)
        unchanged = equal_rows(tuple(row[~ended] for row in after), tuple(row[~ended] for row in rows))
        cure = "reset only the environments of options['reset_mask']"
        self.expect(unchanged, "autoreset", f"{reset} changed environments outside of the mask", cure)
        return after, observations

    def _read_masks_of_step(self, info: Mapping[str, Any], ended: NDArray[np.bool_]) -> None:
        if self.masks is not None:
            with self._reading_masks():
                self.masks.step(info, ended)

    def _read_masks_of_restart(self, info: Mapping[str, Any], ended: NDArray[np.bool_]) -> None:
        if self.masks is not None:
            with self._reading_masks():
                self.masks.restart(info, ended)

    def _keep_finals(
        self, t: int, observations: Any, info: Mapping[str, Any], trajectory: Trajectory
    ) -> None:
        """SAME_STEP: takes the final observations from `info`, where other rows may be None."""
        ended = trajectory.ended[t]
        finals = info.get("final_obs")
        if finals is None or (isinstance(finals, np.ndarray) and len(finals) != self.num_envs):
            message = f"step {t} ended an episode in autoreset mode SameStep, but info['final_obs'] is {finals!r:.60}"
            self.fail("autoreset", message, CURE_FINALS)
        if not np.array_equal(info.get("_final_obs", ended), ended):
            self.fail("autoreset", f"step {t}: info['_final_obs'] is not terminated | truncated", CURE_FINALS)
        for n in map(int, np.flatnonzero(ended)):
            row = row_of(finals, n)
            trajectory.finals[t, n] = tuple(
                self._final(f"step {t}: info['final_obs'][{n}]", p, row) for p in self.parts
            )
            views = [(part, np.asarray(part.of(row))) for part in self.parts]
            if any(np.shares_memory(final, part.of(observations)) for part, final in views):
                message = f"step {t}: info['final_obs'][{n}] shares its memory with the next observations"
                self.problem("buffers", message, "copy the last observations before the reset")

    def _final(self, what: str, part: Part, row: Any) -> NDArray[Any]:
        array = part.of(row)
        space = part.space
        if array is None or np.shape(array) != space.shape:
            self.fail(
                "autoreset",
                f"{what}{part.where} is {array!r:.60}, where an array {list(space.shape or ())} is expected",
                CURE_FINALS,
            )
        final = np.asarray(array, space.dtype)
        if not np.isfinite(final).all() or not space.contains(final):
            self.fail("autoreset", f"{what}{part.where} is outside of {space}: {final}", CURE_FINALS)
        return final

    def _copied(self, what: str, observations: Any) -> Rows:
        rows = self._checked(what, observations)
        if rows is None:
            return self.findings.stop_quietly()
        return rows

    def _checked(self, what: str, observations: Any) -> Rows | None:
        """Checks each part's type, shape, dtype, finiteness and bounds; returns copies, None if a shape is wrong."""
        rows = [
            self._checked_part(what, *each, observations)
            for each in zip(self.parts, self._batches, strict=True)
        ]
        if any(row is None for row in rows):
            return None
        return tuple(row for row in rows if row is not None)

    def _checked_part(
        self, what: str, part: Part, batch: Space[Any], observations: Any
    ) -> NDArray[Any] | None:
        array = part.of(observations)
        space = part.space
        promised = f"{np.dtype(space.dtype)} {[self.num_envs, *(space.shape or ())]}"
        returned = f"{what} returned observations{part.where}"
        if _form(array) != promised:
            message = f"{returned} {_form(array)}, where its spaces promise {promised}"
            self.problem(f"observations{part.where}", message, CURE_SPACES)
            if (
                not isinstance(array, np.ndarray)
                or array.shape != batch.shape
                or array.dtype.kind not in "biuf"
            ):
                return None
            array = np.asarray(array, space.dtype)  # so that the other checks can go on
        if not np.isfinite(array).all():
            message = f"{returned} that are not finite: {array}"
            self.problem(f"finite observations{part.where}", message, CURE_FINITE)
        elif not batch.contains(array):
            wrong = next((row for row in array if not space.contains(row)), array)
            message = f"{what} returned an observation{part.where} outside of its space {space}: {wrong}"
            self.problem(
                f"bounds{part.where}", message, "clip the observation, or widen the bounds of the space"
            )
        return np.array(array)

    def _check_array(self, what: str, name: str, array: Any, kinds: str, expected: str) -> bool:
        """Whether an array has one number, or bool, for each environment."""
        if (
            not isinstance(array, np.ndarray)
            or array.shape != (self.num_envs,)
            or array.dtype.kind not in kinds
        ):
            message = (
                f"{what} returned {name} {_form(array)}; it must be an array of {expected}, [{self.num_envs}]"
            )
            self.problem(name, message, f"return a NumPy array of {expected}, one for each environment")
            return False
        if not np.isfinite(array).all():
            if name == "rewards" and not self._is_told(name, CURE_FINITE):
                self._fail_without_a_reward(array)
            self.problem(name, f"{what} returned {name} that are not finite: {array}", CURE_FINITE)
        return True

    def _fail_without_a_reward(self, rewards: NDArray[Any]) -> None:
        """Ends the check if a NaN among the rewards `[N]` stands for None. Another environment is made to see it."""
        for n in np.flatnonzero(np.isnan(rewards)).tolist():
            with closing(make_vector_env(self.entry, self.config, self.num_envs, seed=1)) as env:
                if gives_no_reward(env, n):
                    self.fail(
                        "rewards", NO_REWARD.format(name=self.entry.name), "return a number as the reward"
                    )


def _form(value: Any) -> str:
    """A value in a few words: `float64 [3, 1]`, `list`."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {list(value.shape)}"
    return type(value).__name__
