"""Checks that an environment returns the shapes and dtypes of its spaces, and finite numbers."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array
from numpy.typing import NDArray

from a3c_zoo.errors import EnvironmentContractError, ObservationError, type_and_message
from a3c_zoo.learning.rollout import Rollout
from a3c_zoo.learning.spaces import ObservationSpec, parts_of, row_of

#: NumPy's letters for the kinds of dtype that a reward and a flag may have.
NUMBERS, FLAGS = "biuf", "biu"
#: A SyncVectorEnv calls single environments here → what they must return.
RESULTS = {
    SyncVectorEnv.reset.__code__: "(observation, info)",
    SyncVectorEnv.step.__code__: "(observation, reward, terminated, truncated, info), reward a number, flags bools",
}


class CheckedEnvironment:
    """A vector environment with its name for messages, and checks of its observations, rewards and flags.

    Every check raises EnvironmentContractError.

    Args:
        env: the vector environment. name: its name in messages. spec: one of its observations.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], name: str, spec: ObservationSpec) -> None:
        self.env, self.name, self.spec = env, name, spec
        self._shape, self._dtype = (env.num_envs,), spec.dtype
        self._batch_shape = (env.num_envs, *spec.given_shape)

    def reset(self, seed: int | None) -> NDArray[Any]:
        """Starts new episodes in all environments; returns their first observations, as `observation` does."""
        with self.raising_in("reset"):
            observation, _ = self.env.reset(seed=seed)
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
        checks = (("reward", reward, NUMBERS), ("terminated", terminated, FLAGS), ("truncated", truncated, FLAGS))
        for what, array, kinds in checks:
            if not isinstance(array, np.ndarray) or array.shape != self._shape or array.dtype.kind not in kinds:
                raise self._broken(what, array, self._shape, "bool" if kinds is FLAGS else "numbers")

    def final_observation(self, finals: Any, n: int) -> NDArray[Any]:
        """Returns row n of `Autoreset.final_observations` as `[*spec.shape]`, checked."""
        # AtariVectorEnv gives a dense array, SyncVectorEnv an object array with None for the other environments.
        final = None if finals is None else row_of(finals, n)
        if final is None:
            raise EnvironmentContractError(
                f"environment '{self.name}' resets in the same step but gives no 'final_obs'"
            )
        final = np.array(self._flat(final)[0] if self.spec.leaves else final, self.spec.dtype)
        wanted = self.spec.shape if self.spec.leaves else self.spec.given_shape
        if final.shape != wanted:
            raise self._broken("final observation", final, wanted, self.spec.dtype)
        return self.spec.turned(final)

    def check_finite(self, rollout: Rollout) -> None:
        """Checks a whole rollout for NaN and infinities, before anything is learned from it."""
        for what, array in (("an observation", rollout.observations.numpy()), ("a reward", rollout.rewards)):
            if not is_finite(array):
                t, n = np.argwhere(~np.isfinite(_as_learned(array)))[0][:2]
                raise self._not_finite(what, array[t, n], t, n)
        for (t, n), final in rollout.finals.items():
            if not is_finite(final):
                raise self._not_finite("a final observation", final, t, n)

    @contextmanager
    def raising_in(self, method: str) -> Iterator[None]:
        """Adds the environment's name and the method to an exception that the environment raises, as `note` does."""
        try:
            yield
        except Exception as error:
            self.note(error, method)
            raise

    def note(self, error: Exception, method: str) -> None:
        """Adds the environment's name and the method that raised the error to its traceback.

        Raises:
            EnvironmentContractError: a single environment returned what its vector environment cannot take.
        """
        raise_misfit(error, self.name)
        error.add_note(f"(raised in {method}() of environment '{self.name}')")

    def _flat(self, observation: Any) -> NDArray[np.float32]:
        try:
            return self.spec.flatten(observation)[0]
        except ObservationError as error:
            raise EnvironmentContractError(
                f"environment '{self.name}' returned a wrong observation: {error}"
            ) from error

    def _broken(self, what: str, array: Any, shape: tuple[int, ...], dtype: object) -> EnvironmentContractError:
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
def naming_misfits(name: str) -> Iterator[None]:
    """Raises what `raise_misfit` raises for an exception in the body; any other passes through."""
    try:
        yield
    except Exception as error:
        raise_misfit(error, name)
        raise


def raise_misfit(error: Exception, name: str) -> None:
    """Raises EnvironmentContractError if the error is a misfit of the environment `name`."""
    if found := misfit(error):
        raise EnvironmentContractError(f"environment '{name}' returned {found}") from error


def misfit(error: Exception) -> str | None:
    """What a single environment returned that a SyncVectorEnv cannot take; None if the error has another cause.

    The error's traceback tells it; steps without an error do nothing for it.
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    place = next((n for n, frame in enumerate(frames) if frame.f_code in RESULTS), None)
    if place is None or not isinstance(error, ValueError | TypeError | LookupError):
        return None
    caller, inner = frames[place], frames[place + 1 :]
    # `concatenate` chooses a function by the kind of space. Deeper frames may be of an environment's own vectors.
    if any(frame.f_globals.get("__name__") == concatenate.__module__ for frame in inner[:2]):
        env = caller.f_locals["self"]
        return wrong_observation(env.single_observation_space, env._env_obs)
    method = caller.f_code.co_name
    if inner or f"{method}()" in str(error):  # the environment raised it, or it does not take the arguments
        return None
    return f"a wrong result of {method}(), which must be {RESULTS[caller.f_code]}: {type_and_message(error)}"


def wrong_observation(space: spaces.Space[Any], observations: Sequence[Any]) -> str | None:
    """Describes the first of some single environments' observations that does not fit into an array; None if all do."""
    for part in parts_of(space):
        for found in map(part.of, observations):
            try:
                concatenate(part.space, [found], create_empty_array(part.space, 1))  # type: ignore[arg-type]
            except Exception:
                promised = f"{part.space.dtype} {list(part.space.shape or ())}"
                return f"a wrong observation{part.where}: {_form(found)}, where its spaces promise {promised}"
    return None


def _form(value: Any) -> str:
    """A value in a few words: `float64 [3, 1]`, `list`."""
    dtype = getattr(value, "dtype", None)
    return type(value).__name__ if dtype is None else f"{dtype} {list(value.shape)}"


def is_finite(found: Any) -> bool:
    """Whether all numbers of an array are finite in float32, or of the arrays in dictionaries and tuples."""
    if not isinstance(found, np.ndarray):
        parts = found.values() if isinstance(found, dict) else found if isinstance(found, tuple) else ()
        return all(map(is_finite, parts))
    found = _as_learned(found)
    # The sum is finite if every number is, unless it overflows: then each number is looked at.
    with np.errstate(over="ignore"):
        return found.dtype.kind != "f" or bool(np.isfinite(found.sum()) or np.isfinite(found).all())


def _as_learned(found: NDArray[Any]) -> NDArray[Any]:
    """Numbers as networks get them: in float32, in which those beyond 3.4e38 are infinite."""
    if found.dtype != np.float64:
        return found
    with np.errstate(over="ignore"):
        return found.astype(np.float32)
