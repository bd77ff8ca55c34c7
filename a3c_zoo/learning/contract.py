"""Checks that an environment returns the shapes and dtypes of its spaces, and finite numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from a3c_zoo.errors import EnvironmentContractError, ObservationError
from a3c_zoo.learning.rollout import Rollout
from a3c_zoo.learning.spaces import ObservationSpec, row_of

#: NumPy's letters for the kinds of dtype that a reward and a flag may have.
NUMBERS, FLAGS = "biuf", "biu"


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
                t, n = np.argwhere(~np.isfinite(array))[0][:2]
                raise self._not_finite(what, array[t, n], t, n)
        for (t, n), final in rollout.finals.items():
            if not is_finite(final):
                raise self._not_finite("a final observation", final, t, n)

    @contextmanager
    def raising_in(self, method: str) -> Iterator[None]:
        """Adds the environment's name and the method to an exception that the environment raises."""
        try:
            yield
        except Exception as error:
            self.note(error, method)
            raise

    def note(self, error: Exception, method: str) -> None:
        """Adds the environment's name and the method that raised the error to its traceback."""
        error.add_note(f"(raised in {method}() of environment '{self.name}')")

    def _flat(self, observation: Any) -> NDArray[np.float32]:
        try:
            return self.spec.flatten(observation)[0]
        except ObservationError as error:
            raise EnvironmentContractError(
                f"environment '{self.name}' returned a wrong observation: {error}"
            ) from error

    def _broken(self, what: str, array: Any, shape: tuple[int, ...], dtype: object) -> EnvironmentContractError:
        found = f"{getattr(array, 'dtype', type(array).__name__)} {list(getattr(array, 'shape', ()))}"
        return EnvironmentContractError(
            f"environment '{self.name}' returned a wrong {what}: {found}, "
            f"where its spaces promise {dtype} {list(shape)}"
        )

    def _not_finite(self, what: str, value: Any, t: int, n: int) -> EnvironmentContractError:
        return EnvironmentContractError(
            f"environment '{self.name}' returned {what} that is not finite "
            f"({value}; environment {n} of {self.env.num_envs}, row {t} of the rollout)"
        )


def is_finite(found: Any) -> bool:
    """Whether all numbers of an array are finite, or of the arrays in dictionaries and tuples."""
    if not isinstance(found, np.ndarray):
        parts = found.values() if isinstance(found, dict) else found if isinstance(found, tuple) else ()
        return all(map(is_finite, parts))
    # The sum is finite if every number is, unless it overflows: then each number is looked at.
    return found.dtype.kind != "f" or bool(np.isfinite(found.sum()) or np.isfinite(found).all())
