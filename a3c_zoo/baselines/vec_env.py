"""The zoo's environments for stable-baselines3: Gymnasium's `VectorEnv` as its `VecEnv`.

SB3 knows one way to reset: in the same step, with the episode's last observation in
`infos[n]["terminal_observation"]` and, where a limit cut it, `infos[n]["TimeLimit.truncated"]`. Every action that it
chooses goes into its buffer as a real transition. Hence, for each autoreset mode of Gymnasium (`s'` is the final
observation, `s0` the next episode's first):

    mode        what the environment does            what the adapter does
    SAME_STEP   returns s0, s' is in info            moves s' to where SB3 looks for it
    DISABLED    returns s'                           resets those that ended (`reset_mask`), returns s0
    NEXT_STEP   returns s'; s0 only with one more    has every environment as a VectorEnv of one, and resets those
                step, which ignores its action       that ended; returns s0

One environment of a NEXT_STEP VectorEnv of many cannot be given its ignored step alone: the others would take a real
one. Showing SB3 the ignored step would teach it a transition that never was, and nothing in its buffer can mask one.
`reset_mask` is no way out either: Gymnasium asks for it in DISABLED mode only, and CartPoleVectorEnv, for one, resets
all of its environments when it is given a mask. With a VectorEnv for each, `reset()` resets the one that it is meant
for. SB3's own DummyVecEnv steps environments one by one just so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from a3c_zoo.errors import ConfigError, EnvironmentContractError
from a3c_zoo.learning.autoreset import autoreset_mode, episode_over
from a3c_zoo.learning.environments import make_vector_env

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv
    from numpy.typing import NDArray
    from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvStepReturn

    from a3c_zoo.config import EnvConfig
    from a3c_zoo.plugins.entries import EnvEntry


class ZooVecEnv(VecEnv):
    """One or several vector environments as one `VecEnv`.

    Actions are numbered from 0 for SB3, whatever number the environment's own begin with. Nothing of an environment's
    infos is passed on but what SB3 needs of an episode's end, and `info["episode"]`, as SB3's monitors write it: the
    raw return `r` and the length `l`. A termination that doesn't end the episode (a lost life) is a `done` for SB3,
    after which the game goes on.

    Args:
        envs: one vector environment, or several; those in NEXT_STEP mode have a single environment each.
        name: what they are called in messages.
        clip_rewards: to -1, 0 or 1, for SB3; `info["episode"]` stays raw.

    Raises:
        ConfigError: observations are dictionaries or tuples.
    """

    def __init__(self, envs: Sequence[VectorEnv[Any, Any, Any]], name: str, clip_rewards: bool = False) -> None:
        self._envs, self._name, self._clip_rewards = list(envs), name, clip_rewards
        self._over = [episode_over(env) for env in envs]
        self._modes = [autoreset_mode(env) for env in envs]
        if any(mode == "NextStep" and env.num_envs > 1 for mode, env in zip(self._modes, envs, strict=True)):
            raise ValueError("a vector environment in NEXT_STEP mode must have a single environment")
        ends = np.cumsum([env.num_envs for env in envs]).tolist()
        self._places = [slice(end - env.num_envs, end) for env, end in zip(envs, ends, strict=True)]
        observation_space, action_space = envs[0].single_observation_space, envs[0].single_action_space
        if observation_space.shape is None or observation_space.dtype is None:
            raise ConfigError(
                f"env.stack: zoo — environment '{name}' has observations {observation_space}; the zoo's environments "
                f"can be handed to stable-baselines3 only with arrays as observations"
            )
        self._shape, self._dtype = (ends[-1], *observation_space.shape), observation_space.dtype
        self.first_action = 0
        if isinstance(action_space, spaces.Discrete):
            self.first_action = int(action_space.start)
            action_space = spaces.Discrete(int(action_space.n))
        self._returns, self._lengths = np.zeros(ends[-1], np.float64), np.zeros(ends[-1], np.int64)
        super().__init__(ends[-1], observation_space, action_space)

    def reset(self) -> NDArray[Any]:
        """Starts new episodes everywhere; returns their first observations `[N, ...]`."""
        observations = np.empty(self._shape, self._dtype)
        for env, place in zip(self._envs, self._places, strict=True):
            observation, _ = env.reset(seed=self._seeds[place.start])
            self._store(observation, observations[place])
        self._returns[:], self._lengths[:] = 0, 0
        self._reset_seeds()
        self._reset_options()
        return observations

    def step_async(self, actions: NDArray[Any]) -> None:
        """Keeps the actions `[N, ...]` for `step_wait`."""
        self._actions = actions + self.first_action if self.first_action else actions

    def step_wait(self) -> VecEnvStepReturn:
        """Steps; returns observations `[N, ...]`, rewards `[N]` float32, dones `[N]` and infos, all new objects."""
        observations = np.empty(self._shape, self._dtype)
        rewards, dones = np.empty(self.num_envs, np.float32), np.empty(self.num_envs, np.bool_)
        over = np.empty(self.num_envs, np.bool_)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for number, (env, place) in enumerate(zip(self._envs, self._places, strict=True)):
            try:
                observation, reward, terminated, truncated, info = env.step(self._actions[place])
            except Exception as error:
                error.add_note(f"(raised in step() of environment '{self._name}')")
                raise
            rewards[place], dones[place] = reward, terminated | truncated
            over[place] = self._over[number](terminated, truncated, info)
            if dones[place].any():
                ends = infos[place]
                for end, cut in zip(ends, truncated & ~terminated, strict=True):
                    end["TimeLimit.truncated"] = bool(cut)
                if over[place].any():
                    observation = self._restart(number, observation, info, over[place], ends)
            self._store(observation, observations[place])
        self._check_finite("observation", observations)
        self._check_finite("reward", rewards)
        for n in np.flatnonzero(dones & ~over):
            infos[n]["terminal_observation"] = observations[n].copy()
        self._account(rewards, over, infos)
        return observations, (np.sign(rewards) if self._clip_rewards else rewards), dones, infos

    def _account(self, rewards: NDArray[np.float32], over: NDArray[np.bool_], infos: list[dict[str, Any]]) -> None:
        self._returns += rewards
        self._lengths += 1
        for n in np.flatnonzero(over):
            infos[n]["episode"] = {"r": float(self._returns[n]), "l": int(self._lengths[n])}
        self._returns[over], self._lengths[over] = 0, 0

    def _restart(
        self, number: int, observation: Any, info: dict[str, Any], ended: NDArray[np.bool_], ends: list[dict[str, Any]]
    ) -> Any:
        """Puts final observations into `ends`, the infos of this vector environment; returns what SB3 acts on next."""
        env, mode = self._envs[number], self._modes[number]
        finals = info.get("final_obs") if mode == "SameStep" else observation
        for n in np.flatnonzero(ended):
            # AtariVectorEnv gives a dense array, SyncVectorEnv an object array with None for the others.
            if finals is None or finals[n] is None:
                raise EnvironmentContractError(
                    f"environment '{self._name}' resets in the same step but gives no 'final_obs'"
                )
            ends[n]["terminal_observation"] = np.array(finals[n])
        if mode == "SameStep":
            return observation
        return env.reset(options={"reset_mask": ended.copy()} if mode == "Disabled" else None)[0]

    def _store(self, observation: Any, target: NDArray[Any]) -> None:
        if getattr(observation, "shape", None) != target.shape or observation.dtype != target.dtype:
            raise EnvironmentContractError(
                f"environment '{self._name}' returned a wrong observation: {getattr(observation, 'dtype', '')} "
                f"{list(np.shape(observation))}, where its spaces promise {target.dtype} {list(target.shape)}"
            )
        target[...] = observation

    def _check_finite(self, what: str, array: NDArray[Any]) -> None:
        # The sum is finite if every element is, unless it overflows: then the slow look decides.
        if not np.isfinite(array.sum()) and not np.isfinite(array).all():
            raise EnvironmentContractError(f"environment '{self._name}' returned a non-finite {what}")

    def close(self) -> None:
        """Closes the vector environments."""
        for env in self._envs:
            env.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """The vector environment's attribute, for each of its environments."""
        return [getattr(self._env_of(n), attr_name) for n in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Refused: environments of a VectorEnv share their attributes."""
        raise NotImplementedError("environments of a VectorEnv cannot be changed one by one")

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Refused: environments of a VectorEnv share their methods."""
        raise NotImplementedError("environments of a VectorEnv cannot be called one by one")

    def env_is_wrapped(self, wrapper_class: Any, indices: VecEnvIndices = None) -> list[bool]:
        """None is: wrappers of single environments have no place in a VectorEnv."""
        return [False for _ in self._get_indices(indices)]

    def _env_of(self, index: int) -> VectorEnv[Any, Any, Any]:
        return next(env for env, place in zip(self._envs, self._places, strict=True) if index < place.stop)


def make_zoo_vec_env(
    entry: EnvEntry, config: EnvConfig, num_envs: int, seed: int, clip_rewards: bool = False
) -> ZooVecEnv:
    """Makes the entry's environment for SB3; in NEXT_STEP mode, `num_envs` of one. Raises what its factory raises."""
    first = make_vector_env(entry, config, 1, seed)
    if autoreset_mode(first) == "NextStep":
        others = [make_vector_env(entry, config, 1, seed + n) for n in range(1, num_envs)]
        return ZooVecEnv([first, *others], entry.name, clip_rewards)
    first.close()
    return ZooVecEnv([make_vector_env(entry, config, num_envs, seed)], entry.name, clip_rewards)
