"""Sliding windows over a stream of rollouts: every sample has its n steps, also across the end of a rollout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from a3c_zoo.learning.objective import Objective, scaled_rewards
from a3c_zoo.learning.returns import Bools, Floats, n_step_returns
from a3c_zoo.learning.rollout import Rollout
from a3c_zoo.store.saved_state import fitting


class Windows:
    """The newest T + n − 1 steps of N environments; the windows that start in the first T rows are complete.

    So each rollout of T steps completes T windows for each environment, the first of which began n − 1 steps
    earlier.

    Args:
        rollout: an example that gives the shapes and T, its number of rows. n: steps of a window.
        objective: the loss, of which windows need the discount, and the scale and the limit of rewards.

    Attributes:
        objective: the scale of rewards may change from rollout to rollout.
        rollout: the newest T + n − 1 steps, with the states of a recurrent core if there is one. num_steps:
            T.
    """

    def __init__(self, rollout: Rollout, n: int, objective: Objective) -> None:
        self.num_steps = len(rollout.actions)
        self.objective = objective
        self._n = n
        self.rollout = Rollout.zeros(
            self.num_steps + n - 1,
            rollout.rewards.shape[1],
            rollout.observations[0, 0].numpy(),
            rollout.actions[0, 0],
            None if rollout.states is None else rollout.states[0],
            None if rollout.masks is None else rollout.masks.shape[-1],
        )
        self._has_steps = False

    def push(self, latest: Rollout) -> None:
        """Adds the next rollout and drops the oldest T steps."""
        kept = self._n - 1
        for mine, theirs in zip(self.rollout.arrays(), latest.arrays(), strict=True):
            mine[:kept] = mine[self.num_steps : self.num_steps + kept]
            mine[kept:] = theirs
        if self.rollout.resets is not None and not self._has_steps:
            self.rollout.resets[kept] = True  # the rows before are empty: the core starts here
        self._has_steps = True
        finals = self.rollout.finals
        moved = {(t - self.num_steps, n): final for (t, n), final in finals.items() if t >= self.num_steps}
        finals.clear()
        finals |= moved | {(t + kept, n): final for (t, n), final in latest.finals.items()}

    @property
    def valid(self) -> Bools:
        """Which windows are samples to learn from, `[T, N]`, bool."""
        return self.rollout.valid[: self.num_steps]

    @property
    def masks(self) -> Tensor | None:
        """The action masks of the first T steps, `[T·N, A]`; None without masks."""
        if self.rollout.masks is None:
            return None
        return self.rollout.masks[: self.num_steps].flatten(0, 1)

    @property
    def samples(self) -> Rollout:
        """The first T steps, to learn from; with a core all steps, whose values come from the same pass."""
        if self.rollout.states is not None:
            return self.rollout
        return self.rollout.head(self.num_steps)

    def values_ahead(self, value: Callable[[Tensor], Tensor], known: Floats | None = None) -> Floats:
        """The value of the state after each step, `[T+n−1, N]`, if a window bootstraps from it; otherwise any number.

        Args:
            value: returns V, `[B]`, of observations `[B, ...]`.
            known: V of the first K observations, `[K, N]`, if it has been computed already.
        """
        rollout = self.rollout
        values = np.zeros_like(rollout.rewards)
        # An end cuts the windows that end before row n − 1. They need a value only after a truncation.
        if rollout.truncated[: self._n - 1].any():
            first = 0
        else:
            first = self._n - 1
        if known is not None:
            values[: len(known) - 1] = known[1:]
            first = max(first, len(known) - 1)
        if first < len(values):
            with torch.no_grad():
                ahead = value(rollout.observations[first + 1 :].flatten(0, 1))
            values[first:] = ahead.detach().numpy().reshape(values[first:].shape)
        return rollout.next_values(values, slice(None), value)

    def returns(self, next_values: Floats) -> Floats:
        """The return of each window: its discounted rewards and its bootstrap, `[T, N]`; see `n_step_returns`."""
        return self._sums(self._rewards(), next_values)

    def parts(self) -> tuple[Floats, Floats, Tensor]:
        """The parts of a return R + d · V(s'): R and d, both `[T, N]`, and s' `[T, N, ...]`.

        d is γ^m after m steps, and 0 if the window ends with a termination.
        """
        rollout = self.rollout
        zeros = np.zeros_like(rollout.rewards)
        ones = np.ones_like(rollout.rewards)
        sums = self._sums(self._rewards(), zeros)
        discounts = self._sums(zeros, ones)
        steps = self._sums(ones, zeros, gamma=1.0)  # rewards of 1 add up to the number of steps
        ends = np.arange(self.num_steps)[:, None] + steps.astype(np.int64) - 1
        following = rollout.observations.numpy()[ends + 1, np.arange(ends.shape[1])]
        for (t, n), final in rollout.finals.items():
            following[ends[:, n] == t, n] = final
        return sums, discounts, torch.from_numpy(following)

    def _rewards(self) -> Floats:
        return scaled_rewards(
            self.rollout.rewards, self.objective.reward_scale, self.objective.largest_reward
        )

    def _sums(self, rewards: Floats, next_values: Floats, gamma: float | None = None) -> Floats:
        discount = self.objective.gamma if gamma is None else gamma
        terminated = self.rollout.terminated
        truncated = self.rollout.truncated
        return n_step_returns(rewards, next_values, terminated, truncated, discount, self._n)[
            : self.num_steps
        ]

    def state_dict(self) -> dict[str, Any]:
        """The steps of windows that are not complete yet."""
        return {
            "steps": [torch.from_numpy(array[self.num_steps :].copy()) for array in self.rollout.arrays()],
            "finals": [
                [t - self.num_steps, n, torch.from_numpy(final.copy())]
                for (t, n), final in self.rollout.finals.items()
                if t >= self.num_steps
            ],
            "has_steps": self._has_steps,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from `state_dict`."""
        for array, steps in zip(self.rollout.arrays(), state["steps"], strict=True):
            part = array[self.num_steps :]
            part[:] = fitting(steps, torch.from_numpy(part), "windows.steps").numpy()
        self._has_steps = bool(state["has_steps"])
        self.rollout.finals.clear()
        self.rollout.finals.update(
            {(t + self.num_steps, n): final.numpy() for t, n, final in state["finals"]}
        )
