"""Checks that an environment returns the shapes and dtypes of its spaces, and finite numbers."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv, VectorEnv, VectorWrapper
from gymnasium.vector.utils import concatenate, create_empty_array
from numpy.typing import NDArray

from a3c_zoo.cures import PACKAGES_PAGE
from a3c_zoo.errors import EnvironmentContractError, ObservationError, type_and_message
from a3c_zoo.learning.rollout import Rollout
from a3c_zoo.learning.spaces import ObservationSpec, parts_of, row_of

#: NumPy's letters for the kinds of dtype that a reward and a flag may have.
NUMBERS, FLAGS = "biuf", "biu"
#: A SyncVectorEnv calls single environments here.
RESULTS = (SyncVectorEnv.reset.__code__, SyncVectorEnv.step.__code__)
#: What a single environment's methods must return.
PROMISES = {
    "reset": "(observation, info)",
    "step": "(observation, reward, terminated, truncated, info), reward a number, flags bools, info a dictionary",
}
#: Steps of an episode that are looked at for a reward None.
STEPS_TO_LOOK = 100
NO_REWARD = "environment '{name}' returned the reward None: does its step() forget to return a number?"
OLD_API = "this is the API of Gym before 0.26"
#: Parts of NumPy's messages where an array is put in the place of a number.
SEVERAL_REWARDS = re.compile(
    r"setting an array element with a sequence|arrays can be converted to Python scalars"
)
#: Messages of Python where a method does not take its arguments, or its result has another number of parts.
TAKEN_APART = re.compile(r"values to unpack|cannot unpack|unexpected keyword argument")


class CheckedEnvironment:
    """A vector environment with its name for messages, and checks of its observations, rewards and flags.

    Every check raises EnvironmentContractError.

    Args:
        env: the vector environment. name: its name in messages. spec: one of its observations.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], name: str, spec: ObservationSpec) -> None:
        self.env = env
        self.name = name
        self.spec = spec
        self._shape = (env.num_envs,)
        self._dtype = spec.dtype
        self._batch_shape = (env.num_envs, *spec.given_shape)
        #: What the last `reset` returned beside the observation.
        self.reset_info: dict[str, Any] = {}

    def reset(self, seed: int | None) -> NDArray[Any]:
        """Starts new episodes in all environments; returns their first observations, as `observation` does."""
        with self.raising_in("reset"):
            observation, self.reset_info = self.env.reset(seed=seed)
        return self.observation(observation)

    def observation(self, observation: Any) -> NDArray[Any]:
        """Returns what `reset` or `step` gave as `[N, *spec.shape]`, checked.

        Observations of parts become vectors, and images have their channels first.
        """
        if self.spec.leaves:
            observation = self._flat(observation)
        if getattr(observation, "shape", None) != self._batch_shape or observation.dtype != self._dtype:
            raise self._broken("observation", observation, self._batch_shape, self.spec.dtype)
        return self.spec.turned(observation)

    def check_step(self, reward: Any, terminated: Any, truncated: Any) -> None:
        """Checks that rewards are an array of N numbers, and both flags arrays of N bools or integers."""
        checks = (
            ("reward", reward, NUMBERS),
            ("terminated", terminated, FLAGS),
            ("truncated", truncated, FLAGS),
        )
        for what, array, kinds in checks:
            if (
                not isinstance(array, np.ndarray)
                or array.shape != self._shape
                or array.dtype.kind not in kinds
            ):
                promised = "bool" if kinds is FLAGS else "numbers"
                raise self._broken(what, array, self._shape, promised)

    def final_observation(self, finals: Any, n: int) -> NDArray[Any]:
        """Returns row n of `Autoreset.final_observations` as `[*spec.shape]`, checked."""
        # AtariVectorEnv gives a dense array, SyncVectorEnv an object array with None for the other
        # environments.
        final = None if finals is None else row_of(finals, n)
        if final is None:
            raise EnvironmentContractError(
                f"environment '{self.name}' resets in the same step but gives no 'final_obs'"
            )
        if self.spec.leaves:
            final = self._flat(final)[0]
        final = np.array(final, self.spec.dtype)
        if self.spec.leaves:
            wanted = self.spec.shape
        else:
            wanted = self.spec.given_shape
        if final.shape != wanted:
            raise self._broken("final observation", final, wanted, self.spec.dtype)
        return self.spec.turned(final)

    def check_finite(self, rollout: Rollout, rewards: NDArray[np.float64]) -> None:
        """Checks a whole rollout for NaN and infinities, before anything is learned from it.

        Args:
            rewards: as the environment gave them, `[T, N]`.
        """
        for what, array in (("an observation", rollout.observations.numpy()), ("a reward", rewards)):
            if not is_finite(array):
                t, n = np.argwhere(~np.isfinite(_as_learned(array)))[0][:2]
                if what == "a reward" and np.isnan(array[t, n]) and gives_no_reward(self.env, int(n)):
                    raise EnvironmentContractError(NO_REWARD.format(name=self.name))
                raise self._not_finite(what, array[t, n], t, n)
        for (t, n), final in rollout.finals.items():
            if not is_finite(final):
                raise self._not_finite("a final observation", final, t, n)

    @contextmanager
    def raising_in(self, method: str) -> Iterator[None]:
        """Adds the environment's name and the method to an exception that the environment raises, as `note` does."""
        with raising_in(method, self.name):
            yield

    def note(self, error: Exception, method: str) -> None:
        """Adds the environment's name and the method that raised the error to its traceback.

        Raises:
            EnvironmentContractError: a single environment returned what its vector environment cannot take.
        """
        note(error, method, self.name)

    def _flat(self, observation: Any) -> NDArray[np.float32]:
        try:
            return self.spec.flatten(observation)[0]
        except ObservationError as error:
            raise EnvironmentContractError(
                f"environment '{self.name}' returned a wrong observation: {error}"
            ) from error

    def _broken(
        self, what: str, array: Any, shape: tuple[int, ...], dtype: object
    ) -> EnvironmentContractError:
        return EnvironmentContractError(
            f"environment '{self.name}' returned a wrong {what}: {_form(array)}, "
            f"where its spaces promise {dtype} {list(shape)}"
        )

    def _not_finite(self, what: str, value: Any, t: int, n: int) -> EnvironmentContractError:
        where = " in float32" if np.isfinite(value).all() else ""
        return EnvironmentContractError(
            f"environment '{self.name}' returned {what} that is not finite{where} "
            f"({value}; environment {n} of {self.env.num_envs}, row {t} of the rollout)"
        )


@contextmanager
def raising_in(method: str, name: str) -> Iterator[None]:
    """As `CheckedEnvironment.raising_in`, for an environment that is not checked."""
    try:
        yield
    except Exception as error:
        note(error, method, name)
        raise


def note(error: Exception, method: str, name: str) -> None:
    """As `CheckedEnvironment.note`."""
    raise_misfit(error, name)
    error.add_note(f"(raised in {method}() of environment '{name}')")


@contextmanager
def naming_misfits(name: str) -> Iterator[None]:
    """Raises what `raise_misfit` raises for an exception in the body; any other passes through."""
    try:
        yield
    except Exception as error:
        raise_misfit(error, name)
        raise


def raise_misfit(error: Exception, name: str) -> None:
    """Raises EnvironmentContractError if the error is a misfit of the environment `name`."""
    if text := misfit(error):
        raise EnvironmentContractError(f"environment '{name}' {text}") from error


def misfit(error: Exception) -> str | None:
    """How an environment breaks the contract of `reset` and `step`, so that its caller raised this error.

    The error's traceback tells it; steps without an error do nothing for it. The caller is a vector
    environment, a wrapper, Gymnasium's passive checker, or this project. An error that the environment raises
    itself is none.

    Returns:
        What the environment "returned …" or "has …"; None if the error has another cause.
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    sync = next((n for n, frame in enumerate(frames) if frame.f_code in RESULTS), None)
    # `concatenate` chooses a function by the kind of space. Deeper frames may be of an environment's own
    # vectors.
    is_joined = sync is not None and any(
        _module(frame) == concatenate.__module__ for frame in frames[sync + 1 :][:2]
    )
    if is_joined and isinstance(error, ValueError | TypeError | LookupError):
        env = frames[sync].f_locals["self"]  # type: ignore[index]
        text = wrong_observation(env.single_observation_space, env._env_obs)
        return text and f"returned {text}"
    if (
        frames
        and frames[-1].f_code is VectorEnv._add_info.__code__
        and isinstance(error, ValueError | TypeError)
    ):
        given = frames[-1].f_locals
        return f"returned an info['{given['key']}'] of another form than before: {_form(given['value'])}"
    method = _method_called(error, frames)
    if method is None:
        return None
    return broken_promise(method, error)


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _method_called(error: Exception, frames: Sequence[FrameType]) -> str | None:
    """ "reset" or "step", if the error arose where one was called or its result was taken apart, and not in it."""
    last = frames[-1]
    calls = [frame for frame in frames if _passes_on(frame)]
    # All frames from the call up to where the error was raised.
    is_passed_on = bool(calls) and all(map(_passes_on, frames[frames.index(calls[0]) :]))
    names = [name for frame in calls for name in ("reset", "step") if name in frame.f_code.co_name]
    if is_passed_on and names and _module(last).startswith("gymnasium."):
        is_of_checker = "passive_env_checker" in _module(last)
        kinds = (ValueError, TypeError, LookupError, AttributeError, OverflowError)
        if isinstance(error, kinds) or (
            is_of_checker and isinstance(error, AssertionError | gymnasium.error.Error)
        ):
            return names[-1]
        return None
    # It was raised behind a wrapper of others, or by this project's own call.
    if is_passed_on or _module(last).startswith("a3c_zoo."):
        line = traceback.extract_tb(error.__traceback__)[-1].line or ""
        if names and last.f_locals.get("info", line) is None:
            return names[-1]
        called = next((name for name in ("reset", "step") if f"{name}(" in line), None)
        if is_taken_apart(error):
            return called
    return None


def is_taken_apart(error: Exception) -> bool:
    """Whether an error is Python's about arguments that a method does not take, or a result of other parts."""
    return isinstance(error, ValueError | TypeError) and bool(TAKEN_APART.search(str(error)))


def _passes_on(frame: FrameType) -> bool:
    """Whether a frame is of Gymnasium, but of no environment of it, or of a wrapper."""
    module = _module(frame)
    if module.startswith("gymnasium.") and not module.startswith("gymnasium.envs."):
        return True
    return isinstance(frame.f_locals.get("self"), gymnasium.Wrapper | VectorWrapper)


def broken_promise(method: str, error: Exception) -> str:
    """How a result of `reset` or `step` is not what it must be: "returned …" or "has …"."""
    text = " ".join(str(error).split())
    if unknown := re.search(r"unexpected keyword argument '(\w+)'", text):
        cure = "It must be reset(*, seed=None, options=None)"
        return f"has a reset() that does not take '{unknown[1]}': {OLD_API}. {cure}"
    if method == "step" and "expected 5, got 4" in text:
        return f"returned four values of step(): {OLD_API}. It must return {PROMISES[method]}"
    if isinstance(error, AssertionError):
        line = text
    else:
        line = type_and_message(error)
    returned = f"returned a wrong result of {method}(), which must be {PROMISES[method]}: {line}"
    if SEVERAL_REWARDS.search(text):
        cure = f"If the reward is several numbers, a wrapper must make one of them: {PACKAGES_PAGE}"
        return f"{returned.rstrip('.')}. {cure}"
    return returned


def wrong_observation(space: spaces.Space[Any], observations: Sequence[Any]) -> str | None:
    """Describes the first of some single environments' observations that does not fit into an array; None if all do."""
    for part in parts_of(space):
        for part_of_it in map(part.of, observations):
            try:
                concatenate(part.space, [part_of_it], create_empty_array(part.space, 1))  # type: ignore[arg-type]
            except Exception:
                promised = f"{part.space.dtype} {list(part.space.shape or ())}"
                return f"a wrong observation{part.where}: {_form(part_of_it)}, where its spaces promise {promised}"
    return None


def _form(value: Any) -> str:
    """A value in a few words: `float64 [3, 1]`, `list`."""
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return type(value).__name__
    return f"{dtype} {list(value.shape)}"


def is_finite(observation: Any) -> bool:
    """Whether all numbers of an array are finite in float32, or of the arrays in dictionaries and tuples."""
    if not isinstance(observation, np.ndarray):
        parts = observation if isinstance(observation, tuple) else ()
        if isinstance(observation, dict):
            parts = tuple(observation.values())
        return all(map(is_finite, parts))
    observation = _as_learned(observation)
    # The sum is finite if every number is, unless it overflows: then each number is looked at.
    with np.errstate(over="ignore"):
        return observation.dtype.kind != "f" or bool(
            np.isfinite(observation.sum()) or np.isfinite(observation).all()
        )


def gives_no_reward(env: VectorEnv[Any, Any, Any], n: int) -> bool:
    """Whether single environment n returns None as its reward, which a SyncVectorEnv makes NaN of.

    The environment is used up: a new episode is begun to see it, for some steps.
    """
    while isinstance(env, VectorWrapper):
        env = env.env
    if not isinstance(env, SyncVectorEnv):
        return False
    single = env.envs[n]
    with suppress(Exception):
        single.reset()
        for _ in range(STEPS_TO_LOOK):
            _, reward, terminated, truncated, _ = single.step(single.action_space.sample())
            if reward is None or terminated or truncated:
                return reward is None
    return False


def _as_learned(numbers: NDArray[Any]) -> NDArray[Any]:
    """Numbers as networks get them: in float32, in which those beyond 3.4e38 are infinite."""
    if numbers.dtype != np.float64:
        return numbers
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32)
