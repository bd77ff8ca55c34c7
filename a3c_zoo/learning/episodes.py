"""Accounts of episodes: returns and lengths, kept across rollouts and closed where an episode ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(slots=True)
class FinishedEpisode:
    """An episode that ended in a rollout.

    Attributes:
        episode_return: sum of its rewards as the environment gave them. length: its number of steps.
        row: the row t of the rollout in which it ended.
    """

    episode_return: float
    length: int
    row: int


class EpisodeAccounts:
    """Returns and lengths of the episodes that are under way in N environments."""

    def __init__(self, num_envs: int) -> None:
        self._returns = np.zeros(num_envs, np.float64)
        self._lengths = np.zeros(num_envs, np.int64)

    def add(
        self, rewards: NDArray[np.float32], valid: NDArray[np.bool_], over: NDArray[np.bool_]
    ) -> list[FinishedEpisode]:
        """Adds T steps; returns the episodes that ended in them, by row and then by environment.

        Args:
            rewards: `[T, N]`. over: which steps ended an episode, `[T, N]`.
            valid: False for ignored steps, which belong to no episode: neither reward nor length counts, `[T, N]`.
        """
        returns = self._returns + np.cumsum(np.where(valid, rewards, 0), axis=0, dtype=np.float64)
        lengths = self._lengths + np.cumsum(valid, axis=0, dtype=np.int64)
        finished = []
        for t, n in np.argwhere(over):
            finished.append(FinishedEpisode(float(returns[t, n]), int(lengths[t, n]), int(t)))
            returns[t:, n] -= returns[t, n]
            lengths[t:, n] -= lengths[t, n]
        self._returns, self._lengths = returns[-1].copy(), lengths[-1].copy()
        return finished

    def state_dict(self) -> dict[str, Any]:
        """Returns and lengths so far, both `[N]`."""
        return {"returns": torch.from_numpy(self._returns.copy()), "lengths": torch.from_numpy(self._lengths.copy())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from `state_dict`; other keys are left alone."""
        np.copyto(self._returns, state["returns"].numpy())
        np.copyto(self._lengths, state["lengths"].numpy())
