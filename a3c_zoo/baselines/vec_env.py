"""The zoo's environments for stable-baselines3: adapts Gymnasium's `VectorEnv` to SB3's `VecEnv`.

SB3 resets in the same step. It reads the final observation from `infos[n]["terminal_observation"]` and
whether a limit truncated the episode from `infos[n]["TimeLimit.truncated"]`. It stores every action as a real
transition. What the adapter does for each autoreset mode of Gymnasium (`s'`: final observation, `s0`: first
one of the next episode):

    mode        the environment                      the adapter
    SAME_STEP   returns s0, s' is in info            copies s' to `terminal_observation`
    DISABLED    returns s'                           resets the ended environments (`reset_mask`), returns s0
    NEXT_STEP   returns s'; the next step ignores    has a VectorEnv of one for each environment, resets those that
                its action and returns s0            ended, returns s0

A NEXT_STEP VectorEnv of several environments cannot make the ignored step in one of them alone, SB3 cannot
mask that step, and `reset_mask` is defined for DISABLED mode only (CartPoleVectorEnv resets all its
environments). With one VectorEnv for each environment, `reset()` resets one environment. SB3's DummyVecEnv
also steps them one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvStepReturn

from a3c_zoo.config import EnvConfig
from a3c_zoo.errors import ConfigError, EnvironmentContractError
from a3c_zoo.learning.action_masks import gives_masks
from a3c_zoo.learning.autoreset import (
    Autoreset,
    EpisodeOver,
    NextStep,
    autoreset_mode,
    autoreset_of,
    episode_over,
)
from a3c_zoo.learning.contract import CheckedEnvironment, is_finite
from a3c_zoo.learning.environments import faults_of, make_vector_env
from a3c_zoo.learning.games import EpisodeAccounts
from a3c_zoo.learning.spaces import ObservationSpec, row_of
from a3c_zoo.plugins.entries import EnvEntry

#: The key of observations that are arrays and no dictionaries.
ARRAY = ""


@dataclass(frozen=True, slots=True)
class _Part:
    """One vector environment, and the place of its environments among all.

    Attributes:
        checks: those of each array of the observations, by key (`ARRAY` if they are no dictionaries).
    """

    env: VectorEnv[Any, Any, Any]
    checks: Mapping[str, CheckedEnvironment]
    autoreset: Autoreset
    episode_over: EpisodeOver
    place: slice

    @property
    def any_check(self) -> CheckedEnvironment:
        """One that names the environment in errors."""
        return next(iter(self.checks.values()))

    def put(self, observations: Mapping[str, NDArray[Any]], given: Any) -> None:
        """Writes what `reset` or `step` gave to the rows of this part, checked."""
        for key, check in self.checks.items():
            observations[key][self.place] = check.observation(_array(given, key))

    def final(self, finals: Any, n: int) -> Any:
        """Row n of `Autoreset.final_observations`, checked: an array, or a dictionary of arrays."""
        if ARRAY in self.checks:
            return self.checks[ARRAY].final_observation(finals, n)
        row = None if finals is None else row_of(finals, n)
        return {
            key: check.final_observation(row and np.asarray(row[key])[np.newaxis], 0)
            for key, check in self.checks.items()
        }


def _array(observation: Any, key: str) -> Any:
    if key == ARRAY:
        return observation
    return observation.get(key) if isinstance(observation, dict) else None


def _specs(space: gymnasium.Space[Any], name: str) -> dict[str, ObservationSpec]:
    """Shape and dtype of each array of the observations, by key. Raises ConfigError if SB3 cannot have them."""
    parts = dict(space.spaces) if isinstance(space, spaces.Dict) else {ARRAY: space}
    specs = {
        key: ObservationSpec("vector", part.shape, np.dtype(part.dtype))
        for key, part in parts.items()
        if part.shape is not None and part.dtype is not None
    }
    if len(specs) < len(parts) or not parts:
        raise ConfigError(
            f"env.stack: zoo — environment '{name}' has observations {space}; the zoo's environments "
            f"can be handed to stable-baselines3 only with arrays, or dictionaries of arrays, as observations"
        )
    return specs


class ZooVecEnv(VecEnv):
    """One or several vector environments as one `VecEnv`.

    SB3 numbers actions and choices from 0; the adapter adds the number of the environment's first one. Infos
    have only the keys that SB3 reads at the end of an episode, and `info["episode"]` as SB3's monitors write
    it, with the raw return `r` and the length `l`. A termination that does not end the episode (a lost life)
    is a `done`, and the game goes on.

    Args:
        envs: the vector environments; one in NEXT_STEP mode must have a single environment.
        name: their name in messages.
        clip_rewards: give SB3 the sign of each reward; `info["episode"]` stays raw.

    Attributes:
        gives_masks: whether the environment has given action masks, which SB3 does not take.

    Raises:
        ConfigError: observations are tuples, or dictionaries with other parts than arrays.
    """

    def __init__(
        self, envs: Sequence[VectorEnv[Any, Any, Any]], name: str, clip_rewards: bool = False
    ) -> None:
        self.envs = list(envs)
        self._name = name
        self._clip_rewards = clip_rewards
        observation_space = envs[0].single_observation_space
        action_space = envs[0].single_action_space
        self._specs = _specs(observation_space, name)
        self._parts: list[_Part] = []
        num_envs = 0
        for env in envs:
            place = slice(num_envs, num_envs := num_envs + env.num_envs)
            checks = {key: CheckedEnvironment(env, name, spec) for key, spec in self._specs.items()}
            part = _Part(env, checks, autoreset_of(env), episode_over(env), place)
            if isinstance(part.autoreset, NextStep) and env.num_envs > 1:
                raise ValueError("a vector environment in NEXT_STEP mode must have a single environment")
            self._parts.append(part)
        self.first_action: Any = 0
        if isinstance(action_space, spaces.Discrete):
            self.first_action = int(action_space.start)
            action_space = spaces.Discrete(int(action_space.n))
        elif isinstance(action_space, spaces.MultiDiscrete):
            self.first_action = action_space.start
            action_space = spaces.MultiDiscrete(action_space.nvec)
        self._valid = np.ones((1, num_envs), np.bool_)  # no step is ignored
        self.gives_masks = False
        super().__init__(num_envs, observation_space, action_space)

    def _empty(self) -> dict[str, NDArray[Any]]:
        """New arrays for the observations of all environments, by key."""
        return {key: np.empty((self.num_envs, *spec.shape), spec.dtype) for key, spec in self._specs.items()}

    def _as_given(self, observations: dict[str, NDArray[Any]]) -> Any:
        """The array, or the dictionary of arrays, that SB3 gets."""
        return observations.get(ARRAY, observations)

    def reset(self) -> Any:
        """Starts new episodes in all environments; returns their first observations `[N, ...]`, by key for a Dict."""
        observations = self._empty()
        for part in self._parts:
            with part.any_check.raising_in("reset"):
                given, info = part.env.reset(seed=self._seeds[part.place.start])
            self.gives_masks = gives_masks(part.env, info)
            part.put(observations, given)
        self._accounts = EpisodeAccounts(self.num_envs)
        self._reset_seeds()
        self._reset_options()
        return self._as_given(observations)

    def step_async(self, actions: NDArray[Any]) -> None:
        """Keeps the actions `[N, ...]` for `step_wait`."""
        if np.any(self.first_action):
            self._actions = actions + self.first_action
        else:
            self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Steps; returns observations `[N, ...]`, rewards `[N]` float32, dones `[N]` and infos, all new objects."""
        observations = self._empty()
        rewards = np.empty(self.num_envs)  # as they come: returns of episodes are sums of these
        dones = np.empty(self.num_envs, np.bool_)
        over = np.empty(self.num_envs, np.bool_)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for part in self._parts:
            place = part.place
            with part.any_check.raising_in("step"):
                observation, reward, terminated, truncated, info = part.env.step(self._actions[place])
            if not is_finite(np.asarray(reward, np.float64)):
                raise EnvironmentContractError(
                    f"environment '{self._name}' returned a reward that is not finite in float32 ({reward})"
                )
            rewards[place] = reward
            dones[place] = terminated | truncated
            over[place] = part.episode_over(terminated, truncated, info)
            if dones[place].any():
                ends = infos[place]
                for end, cut in zip(ends, truncated & ~terminated, strict=True):
                    end["TimeLimit.truncated"] = bool(cut)
                if over[place].any():
                    observation = _restart(part, observation, info, over[place], ends)
            part.put(observations, observation)
        if not all(map(is_finite, observations.values())):
            raise EnvironmentContractError(f"environment '{self._name}' returned a non-finite observation")
        for n in np.flatnonzero(dones & ~over):
            last = {key: array[n].copy() for key, array in observations.items()}
            infos[n]["terminal_observation"] = self._as_given(last)
        finished = self._accounts.add(rewards[np.newaxis], self._valid, over[np.newaxis])
        for n, episode in zip(np.flatnonzero(over), finished, strict=True):
            infos[n]["episode"] = {"r": episode.episode_return, "l": episode.length}
        if self._clip_rewards:
            rewards = np.sign(rewards)
        return self._as_given(observations), rewards.astype(np.float32), dones, infos

    def close(self) -> None:
        with ExitStack() as stack:  # closes the others where one raises
            for env in self.envs:
                stack.callback(env.close)

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Returns the vector environment's attribute for each of its environments."""
        owners = [env for env in self.envs for _ in range(env.num_envs)]
        return [getattr(owners[n], attr_name) for n in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        raise NotImplementedError("environments of a VectorEnv cannot be changed one by one")

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        raise NotImplementedError("environments of a VectorEnv cannot be called one by one")

    def env_is_wrapped(self, wrapper_class: Any, indices: VecEnvIndices = None) -> list[bool]:
        """Returns False for each: a VectorEnv has no wrappers of single environments."""
        return [False for _ in self._get_indices(indices)]


def _restart(
    part: _Part, observation: Any, info: dict[str, Any], ended: NDArray[np.bool_], ends: list[dict[str, Any]]
) -> Any:
    """Writes the final observations to `ends`, the infos of this part; returns the observations to act on next."""
    finals = part.autoreset.final_observations(observation, info)
    for n in np.flatnonzero(ended):
        ends[n]["terminal_observation"] = part.final(finals, int(n))
    with part.any_check.raising_in("reset"):
        if isinstance(part.autoreset, NextStep):  # a single environment
            return part.env.reset()[0]
        return part.autoreset.restart(observation, info, ended)[0]


def make_zoo_vec_env(
    entry: EnvEntry, config: EnvConfig, num_envs: int, seed: int, clip_rewards: bool = False
) -> ZooVecEnv:
    """Makes the entry's environments for SB3: one VectorEnv, or in NEXT_STEP mode `num_envs` of them."""
    first = make_vector_env(entry, config, 1, seed)
    if autoreset_mode(first) == "NextStep":
        others = [make_vector_env(entry, config, 1, seed + n) for n in range(1, num_envs)]
        return ZooVecEnv([first, *others], entry.name, clip_rewards)
    with faults_of(entry, "closed"):
        first.close()
    return ZooVecEnv([make_vector_env(entry, config, num_envs, seed)], entry.name, clip_rewards)
