"""Games that several agents play: which environments of a batch belong together, and when their game is over.

K agents play one game. Environments g·K … g·K+K−1 of a batch are the agents of game g (`EnvEntry.agents`). An agent's
own episode ends when it leaves the game. From then on its environment ignores actions until the next game begins, and
those steps teach nothing. An episode of the run is a whole game. Its return is that of the team: the sum of the rewards
of all agents. With K = 1 a game is the episode of one environment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3c_zoo.learning.returns import Bools, Floats


@dataclass(slots=True)
class FinishedEpisode:
    """An episode that ended in a rollout: a game, if several agents play.

    Attributes:
        episode_return: sum of its rewards as the environment gave them. length: its number of steps.
        row: the row t of the rollout in which it ended.
        agent_returns: the return of each agent of the game; empty for a single agent.
    """

    episode_return: float
    length: int
    row: int
    agent_returns: tuple[float, ...] = ()


def games_over(acted: Bools, ended: Bools, num_agents: int) -> Bools:
    """Which games are over after a step, `[G]`: an agent's episode ended, and no agent that acted plays on.

    Args:
        acted: which agents acted in the step; the environments of the others ignored it, `[N]`.
        ended: whose own episodes ended with it, `[N]`.
        num_agents: K, with N = G·K.
    """
    of_games: Any = ended.reshape(-1, num_agents)
    over: Bools = of_games.any(axis=1)
    if num_agents > 1:
        of_games = (acted & ~ended).reshape(-1, num_agents)
        over = over & ~of_games.any(axis=1)
    return over


class EpisodeAccounts:
    """Returns and lengths so far of the episodes that are under way in N environments.

    Args:
        num_envs: N. num_agents: K, how many of them play one game.

    Attributes:
        returns: of each environment, `[N]`. lengths: steps of each game, `[N/K]`.
    """

    def __init__(self, num_envs: int, num_agents: int = 1) -> None:
        self._num_agents = num_agents
        self.returns = np.zeros(num_envs, np.float64)
        self.lengths = np.zeros(num_envs // num_agents, np.int64)

    def add(self, rewards: Floats | NDArray[np.float64], valid: Bools, over: Bools) -> list[FinishedEpisode]:
        """Adds T steps; returns the episodes that ended in them, by row and then by environment.

        Args:
            rewards: as the environment gave them, `[T, N]`. over: which steps ended an episode of an environment, `[T,
                N]`.
            valid: False for ignored steps, which belong to no episode: neither reward nor length counts, `[T,
                N]`.
        """
        num_agents = self._num_agents
        num_steps = len(rewards)
        in_games = (num_steps, -1, num_agents)
        paid = np.where(valid, rewards, 0).astype(np.float64)
        returns = self.returns + np.cumsum(paid, axis=0)
        of_agents = returns.reshape(in_games)  # a view
        paid_to_agents = paid.reshape(in_games)
        played = valid.reshape(in_games).any(axis=2)
        lengths = self.lengths + np.cumsum(played, axis=0, dtype=np.int64)
        games = over
        if num_agents > 1:
            games = np.array(
                [games_over(*step, num_agents) for step in zip(valid, over, strict=True)], np.bool_
            ).reshape(num_steps, -1)
        finished = []
        for t, g in np.argwhere(games):
            own = of_agents[t, g].copy()
            agent_returns = tuple(own.tolist()) if num_agents > 1 else ()
            finished.append(FinishedEpisode(float(own.sum()), int(lengths[t, g]), int(t), agent_returns))
            of_agents[t, g] = 0.0
            # Begun anew: a sum that had been huge would have lost the digits of the next episode.
            of_agents[t + 1 :, g] = np.cumsum(paid_to_agents[t + 1 :, g], axis=0)
            lengths[t:, g] -= lengths[t, g]
        self.returns = returns[-1].copy()
        self.lengths = lengths[-1].copy()
        return finished
