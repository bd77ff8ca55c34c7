"""The collect stage: T steps in each of N environments, into buffers that are made once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3c_zoo.learning.action_masks import ActionMasks
from a3c_zoo.learning.actions import ActionDistribution, correlated_columns, mask_length, masked_logits
from a3c_zoo.learning.autoreset import autoreset_of, episode_over
from a3c_zoo.learning.contract import CheckedEnvironment
from a3c_zoo.learning.games import EpisodeAccounts, FinishedEpisode
from a3c_zoo.learning.networks import ActorCritic
from a3c_zoo.learning.recurrent import kept
from a3c_zoo.learning.returns import Bools
from a3c_zoo.learning.rollout import Rollout
from a3c_zoo.library_settings import kept_settings
from a3c_zoo.store.saved_state import fitting

#: A rollout that ends with its episode draws noise for so many rows at a time: it may reserve a million, and
#: use fifty.
NOISE_ROWS = 1024


class ActionNoise:
    """The noise from which the actions of a rollout are sampled, a row for each step.

    With a correlation ρ, the noise of a Gaussian is a first-order autoregressive process in each environment
    and each dimension:

        ε_t = ρ · ε_(t−1) + √(1 − ρ²) · η_t, with η_t from N(0, 1)

    Each ε_t alone is from N(0, 1), too. The loss takes log π(a|s) as if the noise were independent. The noise
    goes on when an episode ends. Actions that go the same way for some steps explore further (Lillicrap et
    al. 2016, arXiv:1509.02971, section 3; for PPO: Hollenstein et al. 2024, arXiv:2312.11091).

    Args:
        distribution: whose noise it is. rows: how many are drawn at once. num_envs: N. generator: draws them.
        correlation: ρ, for Box actions and Box parts of actions; others take none.
    """

    def __init__(
        self,
        distribution: ActionDistribution,
        rows: int,
        num_envs: int,
        generator: torch.Generator,
        correlation: float,
    ) -> None:
        self._distribution = distribution
        self._generator = generator
        self._columns = correlated_columns(distribution)
        self._correlation = correlation if self._columns else 0.0
        self._noise = torch.zeros(rows, num_envs, distribution.num_logits)
        self._newest: Tensor | None = None

    def row(self, t: int) -> Tensor:
        """The noise `[N, K]` of row t of a rollout; rows are asked for in their order."""
        place = t % len(self._noise)
        if place == 0:
            self._draw()
        self._newest = self._noise[place]
        return self._newest

    def _draw(self) -> None:
        if self._correlation and self._newest is not None:
            before = self._newest.clone()
        else:
            before = None
        self._distribution.noise(self._noise, self._generator)
        if not self._correlation:
            return
        share = math.sqrt(1 - self._correlation**2)
        for row in self._noise:
            if before is not None:
                for columns in self._columns:
                    row[:, columns].mul_(share).add_(before[:, columns], alpha=self._correlation)
            before = row

    def state_dict(self) -> dict[str, Tensor]:
        """The newest noise, on which the next depends, under `noise`; empty without a correlation."""
        if not self._correlation or self._newest is None:
            return {}
        return {"noise": self._newest.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from `state_dict`."""
        if self._correlation and "noise" in state:
            self._newest = fitting(state["noise"], self._noise[0], "collector.noise").clone()


class Collector:
    """Steps one vector environment with a policy and keeps what happened.

    Row 0 of every buffer repeats the newest row of the last rollout.

    Args:
        checked: the vector environment. distribution: over its actions.
        num_steps: T. seed: for the first reset. generator: for the sampling of actions.
        on_tick: called after every environment step; may raise to stop.
        cut_at_end: a rollout ends with its episode, if that comes before T steps; for a single environment.
        keeps_outputs: keep the logits and values of the network that acts (`Rollout.logits`); not with a
            core.
        start: state of a recurrent core before an episode, `[K, N, H]` (`ActorCritic.start`); None without a
            core. The state goes on from rollout to rollout, also when parameters have changed in between.
        noise_correlation: ρ of the noise of Box actions from step to step (`ActionNoise`).
        num_agents: K, how many environments of the batch play one game (`EnvEntry.agents`).

    Attributes:
        env: the vector environment. rollout: the last rollout. generator: of the sampled actions.
        env_s: seconds that the environment took for the steps of the last rollout.
    """

    def __init__(
        self,
        checked: CheckedEnvironment,
        distribution: ActionDistribution,
        num_steps: int,
        seed: int,
        generator: torch.Generator,
        on_tick: Callable[[], None],
        cut_at_end: bool = False,
        start: Tensor | None = None,
        keeps_outputs: bool = False,
        noise_correlation: float = 0.0,
        num_agents: int = 1,
    ) -> None:
        self.env = checked.env
        self._checked = checked
        self._distribution = distribution
        self.generator = generator
        self._on_tick = on_tick
        self._num_steps = num_steps
        self._cut_at_end = cut_at_end
        self._has_core = start is not None
        self._autoreset = autoreset_of(self.env)
        self._episode_over = episode_over(self.env)
        # A cut rollout may begin with a step that the environment ignores: one more row, for T real steps.
        rows = num_steps + cut_at_end
        num_envs = self.env.num_envs
        mask_size = mask_length(distribution) if distribution.has_masks else None
        self.rollout = self._buffers = Rollout.zeros(
            rows, num_envs, checked.spec, distribution, start, mask_size
        )
        self._buffers.valid[:] = True
        self._observations = self.rollout.observations.numpy()
        self._actions = self.rollout.actions.numpy()
        # Rewards as the environment gave them; the rollout has them in float32.
        self._rewards = np.zeros((rows, num_envs))
        self._logits: list[Tensor] = []
        if keeps_outputs:
            self._buffers.values = torch.zeros(rows + 1, num_envs)
        noise_rows = min(rows, NOISE_ROWS) if cut_at_end else rows
        self._noise = ActionNoise(distribution, noise_rows, num_envs, generator, noise_correlation)
        self._over = np.zeros((rows + 1, num_envs), np.bool_)  # row t + 1: which episodes ended at step t
        self._ignored = np.zeros((rows, num_envs), np.bool_)  # row t: which actions of step t were ignored
        self.env_s = 0.0
        self._is_whole = True  # the last rollout was not cut short by `on_tick`
        self._newest = rows  # the row of the observations that are acted on next
        self._accounts = EpisodeAccounts(num_envs, num_agents)
        with kept_settings():
            self._observations[self._newest] = checked.reset(seed)
            self._masks: ActionMasks | None = None
            if self._buffers.masks is not None:
                self._masks = ActionMasks(self.env, distribution, checked.name)
                self._mask_rows = self._buffers.masks.numpy()
                self._masks.take(checked.reset_info, self._mask_rows[self._newest])
        if start is not None:
            self._buffers.core[0][self._newest] = start

    @property
    def ended(self) -> Bools:
        """Which environments' episodes ended with the last row, `[N]`; a lost life is no end."""
        ended: Bools = self._over[self._newest]
        return ended

    def collect(self, network: ActorCritic) -> list[FinishedEpisode]:
        """Fills `self.rollout` with T steps of sampled actions; returns the episodes that ended in them.

        Raises:
            EnvironmentContractError: the environment returned NaN, or a wrong shape or dtype.
        """
        rollout = self._buffers
        env = self._checked
        step = self.env.step
        distribution = self._distribution
        observations = self._observations
        over = self._over
        rewards = self._rewards
        ignored = self._ignored
        ignored_at = self._autoreset.ignored
        resets_at_once = not self._autoreset.ignores_a_step
        cut_at_end = self._cut_at_end
        resets = rollout.resets
        masks = self._masks
        num_rows = self._begin_rollout()
        policy = self._policy(network)
        noise = self._noise
        clock = time.perf_counter
        env_s = 0.0
        with kept_settings(), torch.no_grad():
            for t in range(num_rows):
                distribution.sample(policy(rollout.observations[t]), noise.row(t), rollout.actions[t])
                began_s = clock()
                try:
                    observation, reward, terminated, truncated, info = step(
                        distribution.to_env(self._actions[t])
                    )
                except Exception as error:
                    env.note(error, "step")
                    raise
                env_s += clock() - began_s
                if torch.is_grad_enabled():  # the environment has turned gradients on
                    torch.set_grad_enabled(False)
                env.check_step(reward, terminated, truncated)
                rewards[t] = reward
                rollout.terminated[t] = terminated
                rollout.truncated[t] = truncated
                over[t + 1] = self._episode_over(terminated, truncated, info)
                following = env.observation(observation)
                if masks is not None:
                    self._take_masks(masks, t, info)
                if resets_at_once and over[t + 1].any():
                    following = self._restart(t, observation, info)
                observations[t + 1] = following
                if not resets_at_once:
                    ignored[t] = ignored_at(info, over[t])
                if resets is not None:
                    resets[t + 1] = over[t + 1] if resets_at_once else ignored[t]
                self._on_tick()
                if cut_at_end and over[t + 1, 0]:
                    num_rows = t + 1
                    break
        self.env_s = env_s
        return self._end_rollout(num_rows)

    def close(self) -> None:
        """Closes the environments."""
        with self._checked.raising_in("close"):
            self.env.close()

    def _begin_rollout(self) -> int:
        """Copies the newest rows to row 0; returns how many rows the rollout has at most."""
        self._observations[0] = self._observations[self._newest]
        self._over[0] = self._over[self._newest]
        if self._masks is not None:
            self._mask_rows[0] = self._mask_rows[self._newest]
        if self._has_core:
            states, resets = self._buffers.core
            states[0] = states[self._newest]
            resets[0] = resets[self._newest]
        self._buffers.finals.clear()
        self._is_whole = False
        has_ignored_step = self._autoreset.ignores_a_step and bool(self._over[0, 0])
        return self._num_steps + (self._cut_at_end and has_ignored_step)

    def _end_rollout(self, num_rows: int) -> list[FinishedEpisode]:
        """Marks the ignored steps, checks all numbers, and closes the episodes that ended."""
        rollout = self._buffers
        over = self._over
        if self._autoreset.ignores_a_step:
            np.logical_not(self._ignored[:num_rows], out=rollout.valid[:num_rows])
        with np.errstate(over="ignore"):
            rollout.rewards[:num_rows] = self._rewards[:num_rows]
        self._newest = num_rows
        self._is_whole = True
        if rollout.values is not None:
            rollout.logits = torch.stack(self._logits)
        has_new_logits = self._cut_at_end and rollout.logits is not None
        if has_new_logits or num_rows != len(self.rollout.rewards):
            self.rollout = rollout.head(num_rows)
        self._checked.check_finite(self.rollout, self._rewards[:num_rows])
        return self._accounts.add(self._rewards[:num_rows], self.rollout.valid, over[1 : num_rows + 1])

    def _restart(self, t: int, observation: Any, info: dict[str, Any]) -> NDArray[Any]:
        """Keeps the final observations of step t and starts the next episodes; returns what is acted on next."""
        rollout = self._buffers
        env = self._checked
        finals = self._autoreset.final_observations(observation, info)
        # Only truncated episodes are bootstrapped: what follows a termination is worth 0.
        for n in np.flatnonzero(self._over[t + 1] & rollout.truncated[t] & ~rollout.terminated[t]).tolist():
            rollout.finals[t, n] = env.final_observation(finals, n)
        with env.raising_in("reset"):
            restarted, info = self._autoreset.restart(observation, info, self._over[t + 1])
        if self._masks is not None:
            self._masks.take(info, self._mask_rows[t + 1], self._over[t + 1])
        return env.observation(restarted)

    def _take_masks(self, masks: ActionMasks, t: int, info: dict[str, Any]) -> None:
        """Keeps the masks of what follows step t. Where it ended an episode, a mask comes with the next one.

        Until then all actions are allowed: NEXT_STEP ignores the action, and any is as good.
        """
        ended = self._over[t + 1]
        row = self._mask_rows[t + 1]
        row[ended] = True
        masks.take(info, row, ~ended)

    def _policy(self, network: ActorCritic) -> Callable[[Tensor], Tensor]:
        """What acts: from the observations of one row after the other to logits."""
        if self._has_core:
            policy = self._remembering(network)
        elif self._buffers.values is None:
            policy = network.policy
        else:
            policy = self._keeping(network, self._buffers.values)
        if self._buffers.masks is None:
            return policy
        return self._masking(policy, self._buffers.masks)

    def _masking(self, policy: Callable[[Tensor], Tensor], masks: Tensor) -> Callable[[Tensor], Tensor]:
        """Returns the policy within the masks of one row after the other."""
        rows = iter(masks)
        return lambda observations: masked_logits(self._distribution, policy(observations), next(rows))

    def _keeping(self, network: ActorCritic, values: Tensor) -> Callable[[Tensor], Tensor]:
        """Returns a policy that keeps its logits and the values `[T+1, N]`."""
        self._logits.clear()

        def policy(observations: Tensor) -> Tensor:
            logits, values[len(self._logits)] = network.act(observations)
            self._logits.append(logits)
            return logits

        return policy

    def _remembering(self, network: ActorCritic) -> Callable[[Tensor], Tensor]:
        """Returns a policy that takes the state of the core from row to row: from observations to logits."""
        states, resets = self._buffers.core
        rows = iter(range(len(resets)))

        def policy(observations: Tensor) -> Tensor:
            t = next(rows)
            if resets[t].any():
                state = kept(states[t], resets[t])
            else:
                state = states[t]
            logits, states[t + 1] = network.step(observations, state)
            return logits

        return policy

    def _newest_row(self) -> dict[str, NDArray[Any]]:
        """What the next rollout begins with, as views: name in the state → array of N environments."""
        row = {
            "observation": self._observations[self._newest],
            "returns": self._accounts.returns,
            "lengths": self._accounts.lengths,
            "ended": self.ended,
        }
        if self._has_core:
            states, resets = self._buffers.core
            row |= {"core": states[self._newest].numpy(), "resets": resets[self._newest]}
        if self._masks is not None:
            row["masks"] = self._mask_rows[self._newest]
        return row

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next rollout depends on; the state of the environments only if they can give it.

        An environment with `get_state() -> dict` of tensors, numbers and strings, and `set_state(dict)`, is
        restored exactly. Others start new episodes on resume, and so do all after a rollout that was cut
        short.
        """
        state: dict[str, Any] = {"sampling": self.generator.get_state()}
        get_state = getattr(self.env, "get_state", None)
        if get_state is not None and self._is_whole:
            state |= {name: torch.from_numpy(array.copy()) for name, array in self._newest_row().items()}
            state |= self._noise.state_dict()
            state["env"] = get_state()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from `state_dict`."""
        self.generator.set_state(fitting(state["sampling"], self.generator.get_state(), "collector.sampling"))
        if "env" in state:
            self._noise.load_state_dict(state)
            self.env.set_state(state["env"])  # type: ignore[attr-defined]
            for name, array in self._newest_row().items():
                array[:] = fitting(state[name], torch.from_numpy(array), f"collector.{name}").numpy()
