"""The collect stage: T steps in each of N environments, into buffers that are made once.

What an environment gives at an episode's end depends on how it resets: see `autoreset.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from a3c_zoo.errors import EnvironmentContractError, ObservationError
from a3c_zoo.learning.autoreset import autoreset_mode, episode_over
from a3c_zoo.learning.recurrent import kept
from a3c_zoo.learning.spaces import row_of

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv
    from numpy.typing import NDArray

    from a3c_zoo.learning.actions import ActionDistribution
    from a3c_zoo.learning.networks import ActorCritic
    from a3c_zoo.learning.spaces import ObservationSpec


@dataclass(slots=True)
class Rollout:
    """T steps of N environments; the arrays are views of the collector's buffers, valid until it collects again.

    Attributes:
        observations: s_0 … s_T, `[T+1, N, ...]`, as stored (`ObservationSpec`).
        actions: as their distribution keeps them, `[T, N, ...]` (`ActionDistribution`): indices, `[T, N]`, int64, in a
            Discrete space.
        rewards: the environment's own, `[T, N]`, float32.
        terminated, truncated: how step t ended an episode, `[T, N]`, bool.
        valid: False where the environment ignored the action (after an end, NEXT_STEP), `[T, N]`, bool.
        finals: (t, n) → final observation of an episode truncated at t whose final observation is not
            `observations[t+1, n]`.
        states: of a recurrent core before each row, as acting found them, `[T+1, K, N, H]`; None without. resets:
            before which rows it becomes 0, `[T+1, N]`, bool; `states` are those before that.
    """

    observations: Tensor
    actions: Tensor
    rewards: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    valid: NDArray[np.bool_]
    finals: dict[tuple[int, int], NDArray[Any]] = field(default_factory=dict)
    states: Tensor | None = None
    resets: NDArray[np.bool_] | None = None

    def final_places(self, columns: slice) -> list[tuple[int, int]]:
        """Where `finals` has something for these environments: row and number within `columns`, of each."""
        chosen = range(*columns.indices(self.rewards.shape[1]))
        return [(t, chosen.index(n)) for t, n in self.finals if n in chosen]

    def head(self, length: int) -> Rollout:
        """The first `length` steps, as views."""
        return Rollout(
            self.observations[: length + 1],
            self.actions[:length],
            self.rewards[:length],
            self.terminated[:length],
            self.truncated[:length],
            self.valid[:length],
            self.finals,
            None if self.states is None else self.states[: length + 1],
            None if self.resets is None else self.resets[: length + 1],
        )

    def next_values(
        self, values: NDArray[np.float32], columns: slice, value: Callable[[Tensor], Tensor]
    ) -> NDArray[np.float32]:
        """Values of what followed each step, `[T, n]`: `values` of rows 1 … T, but V(final observation) where known.

        `value` gets the final observations at `final_places`, in that order.
        """
        places = self.final_places(columns)
        if not places:
            return values
        values, chosen = values.copy(), range(*columns.indices(self.rewards.shape[1]))
        with torch.no_grad():
            finals = torch.from_numpy(np.stack([self.finals[t, chosen[n]] for t, n in places]))
            for (t, n), v in zip(places, value(finals).tolist(), strict=True):
                values[t, n] = v
        return values


@dataclass(slots=True)
class FinishedEpisode:
    """An episode that ended in a rollout: its raw return, its length, and the rollout's row t where it ended."""

    episode_return: float
    length: int
    row: int


class Collector:
    """Steps one vector environment with a policy and keeps what happened.

    Args:
        env: the vector environment. name: what it is called in messages.
        spec, distribution: of its observations and actions.
        num_steps: T. seed: of the first reset; sampling has a generator of its own, `generator`.
        on_tick: called after every environment step; may raise to stop.
        cut_at_end: a rollout ends with the episode, if that comes before T steps; for one environment.
        start: state of a recurrent core before an episode (`ActorCritic.start`), None without a core. The state is kept
            from rollout to rollout; parameters that have changed meanwhile leave it as the old ones made it.

    Attributes:
        rollout: what `collect` filled last.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        name: str,
        spec: ObservationSpec,
        distribution: ActionDistribution,
        num_steps: int,
        seed: int,
        generator: torch.Generator,
        on_tick: Callable[[], None],
        cut_at_end: bool = False,
        start: Tensor | None = None,
    ) -> None:
        self.env, self.name, self.spec, self.distribution = env, name, spec, distribution
        self._generator, self._on_tick = generator, on_tick
        self._mode = autoreset_mode(env)
        self._num_steps, self._cut_at_end = num_steps, cut_at_end
        # A rollout that is cut begins with the step that NEXT_STEP ignores: one more row, so that T real ones fit.
        shape = (num_steps + cut_at_end, env.num_envs)
        observations = np.zeros((shape[0] + 1, env.num_envs, *spec.shape), spec.dtype)
        self._observations = observations  # the same memory as rollout.observations, as NumPy sees it
        self._newest = len(observations) - 1  # the row of what is acted on next
        self.rollout = self._buffers = Rollout(
            observations=torch.from_numpy(observations),
            actions=torch.zeros((*shape, *distribution.shape), dtype=distribution.dtype),
            rewards=np.zeros(shape, np.float32),
            terminated=np.zeros(shape, np.bool_),
            truncated=np.zeros(shape, np.bool_),
            valid=np.ones(shape, np.bool_),
            states=None if start is None else torch.zeros(shape[0] + 1, *start.shape),
            resets=None if start is None else np.zeros((shape[0] + 1, env.num_envs), np.bool_),
        )
        self._start = start
        self._actions = self.rollout.actions.numpy()
        self._noise = torch.zeros((*shape, distribution.num_logits))
        self._returns = np.zeros(env.num_envs, np.float64)  # of the episodes under way
        self._lengths = np.zeros(env.num_envs, np.int64)
        self._ended = np.zeros(env.num_envs, np.bool_)  # at the last step of the last rollout
        self._episode_over = episode_over(env)
        self._over = np.zeros(shape, np.bool_)
        self.reset(seed)

    @property
    def ended(self) -> NDArray[np.bool_]:
        """Which environments' episodes ended with the last row, `[N]`; a lost life is no end."""
        return self._ended

    def reset(self, seed: int) -> None:
        """Starts new episodes everywhere."""
        observation, _ = self._call("reset", lambda: self.env.reset(seed=seed))
        self._store(self._newest, self._flat(observation) if self.spec.leaves else observation)
        self._returns[:], self._lengths[:], self._ended[:] = 0, 0, False
        if self._start is not None:
            states, resets = self._core_buffers
            states[self._newest], resets[self._newest] = self._start, False

    def collect(self, network: ActorCritic) -> list[FinishedEpisode]:
        """Fills `self.rollout` with T steps of sampled actions; returns the episodes that ended in them.

        Raises:
            EnvironmentContractError: the environment returned NaN, or a wrong shape or dtype.
        """
        rollout, step, cut_at_end = self._buffers, self.env.step, self._cut_at_end
        policy = network.policy if self._start is None else self._begin_remembering(network)
        rollout.finals.clear()
        self._observations[0] = self._observations[self._newest]
        noise = self.distribution.noise(self._noise, self._generator)
        num_rows = self._num_steps + (cut_at_end and self._mode == "NextStep" and bool(self._ended[0]))
        with torch.inference_mode():
            for t in range(num_rows):
                self.distribution.sample(policy(rollout.observations[t]), noise[t], rollout.actions[t])
                try:
                    observation, reward, terminated, truncated, info = step(self.distribution.to_env(self._actions[t]))
                except Exception as error:
                    error.add_note(f"(raised in step() of environment '{self.name}')")
                    raise
                self._keep(t, observation, reward, terminated, truncated, info)
                self._on_tick()
                if cut_at_end and self._over[t, 0]:
                    num_rows = t + 1
                    break
        self._newest = num_rows
        if num_rows != len(self.rollout.rewards):
            self.rollout = rollout.head(num_rows)
        self._check_finite()
        return self._account()

    def _begin_remembering(self, network: ActorCritic) -> Callable[[Tensor], Tensor]:
        """Keeps the states for learning; returns what stands for the policy: from each row's observations to logits."""
        states, resets = self._core_buffers
        states[0], resets[0] = states[self._newest], resets[self._newest]
        rows = iter(range(len(resets)))

        def policy(observations: Tensor) -> Tensor:
            t = next(rows)
            state = kept(states[t], resets[t]) if resets[t].any() else states[t]
            logits, states[t + 1] = network.step(observations, state)
            return logits

        return policy

    @property
    def _core_buffers(self) -> tuple[Tensor, NDArray[np.bool_]]:
        assert self._buffers.states is not None
        assert self._buffers.resets is not None
        return self._buffers.states, self._buffers.resets

    def _keep(
        self, t: int, observation: Any, reward: Any, terminated: Any, truncated: Any, info: dict[str, Any]
    ) -> None:
        rollout = self._buffers
        shape = self._ended.shape
        for name, array in (("reward", reward), ("terminated", terminated), ("truncated", truncated)):
            if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype.kind not in "biuf":
                self._refuse(name, array, shape, None)
        rollout.rewards[t], rollout.terminated[t], rollout.truncated[t] = reward, terminated, truncated
        self._over[t] = self._episode_over(terminated, truncated, info)
        if self.spec.leaves:
            observation = self._flat(observation)
        if self._mode != "NextStep":
            observation = self._reset_or_find_finals(t, observation, info)
        if rollout.resets is not None:
            rollout.resets[t + 1] = (
                self._over[t] if self._mode != "NextStep" else self._over[t - 1] if t else self._ended
            )
        self._store(t + 1, observation)

    def _reset_or_find_finals(self, t: int, observation: Any, info: dict[str, Any]) -> Any:
        """For SAME_STEP and DISABLED: keeps final observations; returns the observation to act on next."""
        rollout = self._buffers
        ended = self._over[t]
        if not ended.any():
            return observation
        finals = observation if self._mode == "Disabled" else info.get("final_obs")
        # A bootstrap needs only the truncated ones: what follows a termination is worth 0.
        for n in np.flatnonzero(rollout.truncated[t] & ~rollout.terminated[t]):
            # AtariVectorEnv gives a dense array, SyncVectorEnv an object array with None for the others.
            final = None if finals is None else row_of(finals, int(n))
            if final is None:
                raise EnvironmentContractError(
                    f"environment '{self.name}' resets in the same step but gives no 'final_obs'"
                )
            if self.spec.leaves and self._mode == "SameStep":
                final = self._flat(final)[0]
            final = np.array(final, self.spec.dtype)
            if final.shape != self.spec.shape:
                self._refuse("final observation", final, self.spec.shape, self.spec.dtype)
            rollout.finals[t, int(n)] = final
        if self._mode == "Disabled":
            self._store(t + 1, observation)  # for its checks alone
            observation, _ = self._call("reset", lambda: self.env.reset(options={"reset_mask": ended.copy()}))
            if self.spec.leaves:
                observation = self._flat(observation)
        return observation

    def _flat(self, observation: Any) -> NDArray[np.float32]:
        """Observations of several parts as one vector each."""
        try:
            return self.spec.flatten(observation)[0]
        except ObservationError as error:
            raise EnvironmentContractError(
                f"environment '{self.name}' returned a wrong observation: {error}"
            ) from error

    def _store(self, row: int, observation: Any) -> None:
        target = self._observations[row]
        if getattr(observation, "shape", None) != target.shape or observation.dtype != target.dtype:
            self._refuse("observation", observation, target.shape, target.dtype)
        target[...] = observation

    def _refuse(self, name: str, array: Any, shape: tuple[int, ...], dtype: np.dtype[Any] | None) -> None:
        found = f"{getattr(array, 'dtype', type(array).__name__)} {list(getattr(array, 'shape', ()))}"
        raise EnvironmentContractError(
            f"environment '{self.name}' returned a wrong {name}: {found}, "
            f"where its spaces promise {dtype or 'numbers'} {list(shape)}"
        )

    def _check_finite(self) -> None:
        """Once per rollout, before anything is learned from it."""
        for name, array in (("an observation", self._observations), ("a reward", self.rollout.rewards)):
            # The sum is finite if every element is, unless it overflows: then the slow look decides.
            if array.dtype.kind == "f" and not np.isfinite(array.sum()) and not np.isfinite(array).all():
                t, n = np.argwhere(~np.isfinite(array))[0][:2]
                raise EnvironmentContractError(
                    f"environment '{self.name}' returned {name} that is not finite "
                    f"({array[t, n]}; environment {n} of {array.shape[1]}, row {t} of the rollout)"
                )
        for (t, n), final in self.rollout.finals.items():
            if final.dtype.kind == "f" and not np.isfinite(final).all():
                raise EnvironmentContractError(
                    f"environment '{self.name}' returned a final observation that is not finite "
                    f"({final}; environment {n} of {self.env.num_envs}, row {t} of the rollout)"
                )

    def _account(self) -> list[FinishedEpisode]:
        """Marks the ignored steps and closes the episodes that ended, for the whole rollout at once."""
        rollout = self.rollout
        over = self._over[: len(rollout.rewards)]
        if self._mode == "NextStep":
            rollout.valid[0] = ~self._ended
            np.logical_not(over[:-1], out=rollout.valid[1:])
        np.copyto(self._ended, over[-1])
        # An ignored step belongs to no episode: neither its reward nor its length counts.
        rewards = np.where(rollout.valid, rollout.rewards, 0)
        returns = self._returns + np.cumsum(rewards, axis=0, dtype=np.float64)
        lengths = self._lengths + np.cumsum(rollout.valid, axis=0, dtype=np.int64)
        finished = []
        for t, n in np.argwhere(over):
            finished.append(FinishedEpisode(float(returns[t, n]), int(lengths[t, n]), int(t)))
            returns[t:, n] -= returns[t, n]
            lengths[t:, n] -= lengths[t, n]
        self._returns, self._lengths = returns[-1].copy(), lengths[-1].copy()
        return finished

    def _call(self, name: str, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except Exception as error:
            error.add_note(f"(raised in {name}() of environment '{self.name}')")
            raise

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next rollout depends on; the environments' own state only if they can tell it.

        An environment that has `get_state() -> dict` of tensors, numbers and strings, and `set_state(dict)`, is
        restored exactly. Others start new episodes on resume.
        """
        state: dict[str, Any] = {"sampling": self._generator.get_state()}
        get_state = getattr(self.env, "get_state", None)
        if get_state is not None:
            state |= {
                "env": get_state(),
                "observation": torch.from_numpy(self._observations[self._newest].copy()),
                "returns": torch.from_numpy(self._returns.copy()),
                "lengths": torch.from_numpy(self._lengths.copy()),
                "ended": torch.from_numpy(self._ended.copy()),
            }
            if self._start is not None:
                states, resets = self._core_buffers
                core, reset = states[self._newest].clone(), torch.from_numpy(resets[self._newest].copy())
                state |= {"core": core, "resets": reset}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from `state_dict`."""
        self._generator.set_state(state["sampling"])
        if "env" in state:
            self.env.set_state(state["env"])  # type: ignore[attr-defined]
            self._observations[self._newest] = state["observation"].numpy()
            np.copyto(self._returns, state["returns"].numpy())
            np.copyto(self._lengths, state["lengths"].numpy())
            np.copyto(self._ended, state["ended"].numpy())
            if self._start is not None:
                states, resets = self._core_buffers
                states[self._newest], resets[self._newest] = state["core"], state["resets"].numpy()
