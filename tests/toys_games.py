"""Games of two agents for tests, with numbers to work out by hand. Worker processes import this module."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from a3c_zoo import EnvEntry, hookimpl


class Duo(VectorEnv[Any, Any, Any]):
    """Games of two agents. The first is terminated after one step, the second truncated after three.

    Observation of agent n at time t of game g: (1 + t + 4·n + 8·g, n). An agent that has left sees what it saw last.
    Rewards: 3 for the first agent; 2, 3 and 4 for the second.
    """

    LIVES = (1, 3)
    REWARDS = ((3.0,), (2.0, 3.0, 4.0))

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.single_observation_space = spaces.Box(0, 1e6, (2,), np.float32)
        self.single_action_space = spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.game = 0
        self.time = 0
        self.ignored = np.zeros(num_envs, np.bool_)
        self.seen = np.zeros((num_envs, 2), np.float32)

    def _see(self, n: int) -> None:
        self.seen[n::2] = [1 + self.time + 4 * n + 8 * self.game, n]

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.game = self.time = 0
        for n in (0, 1):
            self._see(n)
        return self.seen.copy(), {}

    def step(self, actions: Any) -> Any:
        rewards = np.zeros(self.num_envs)
        terminated = np.zeros(self.num_envs, np.bool_)
        truncated = np.zeros(self.num_envs, np.bool_)
        is_over = self.time == max(self.LIVES)
        self.ignored = np.array([is_over or self.time >= life for life in self.LIVES] * (self.num_envs // 2))
        if is_over:
            self.game += 1
            self.time = 0
            for n in (0, 1):
                self._see(n)
        else:
            acting = [n for n in (0, 1) if self.time < self.LIVES[n]]
            self.time += 1
            for n in acting:
                self._see(n)
                rewards[n::2] = self.REWARDS[n][self.time - 1]
                (terminated, truncated)[n][n::2] = self.time == self.LIVES[n]
        return self.seen.copy(), rewards, terminated, truncated, {}

    def ignored_actions(self, info: dict[str, Any]) -> Any:
        """Of the agents that have left, and of both where a game begins."""
        return self.ignored


def make(num_envs: int, seed: int, **kwargs: Any) -> Duo:
    """The factory of `duo`."""
    assert num_envs % 2 == 0
    return Duo(num_envs)


class Together(VectorEnv[Any, Any, Any]):
    """Games of three steps whose agents see the same random number and get it as reward. It resets at once.

    Args:
        blind: an agent that sees 0, and gets 0.
        agents: how many play each game.
    """

    def __init__(self, num_envs: int, is_one_stream: bool, blind: int | None, agents: int = 2) -> None:
        self.num_envs = num_envs
        self.agents = agents
        self.blind = blind
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = spaces.Box(0, 1, (1,), np.float32)
        self.single_action_space = spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.draws = 1 if is_one_stream else num_envs // agents
        self.time = 0

    def _see(self) -> Any:
        numbers = self.np_random.random(self.draws).astype(np.float32)
        seen = np.repeat(np.broadcast_to(numbers, self.num_envs // self.agents), self.agents)[:, None]
        if self.blind is not None:
            seen[self.blind :: self.agents] = 0
        return seen

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return self._see(), {}

    def step(self, actions: Any) -> Any:
        self.time += 1
        seen = self._see()
        rewards = seen[:, 0].astype(np.float64)
        ended = np.full(self.num_envs, self.time == 3)
        never = np.zeros(self.num_envs, np.bool_)
        if not ended[0]:
            return seen, rewards, never, never, {}
        self.time = 0
        return self._see(), rewards, ended, never, {"final_obs": seen, "_final_obs": ended}


def make_together(num_envs: int, seed: int, is_one_stream: bool = False, blind: int | None = None) -> Together:
    """The factory of `together`."""
    return Together(num_envs, is_one_stream, blind)


def make_trio(num_envs: int, seed: int) -> Together:
    """The factory of games of three agents."""
    assert num_envs % 3 == 0
    return Together(num_envs, is_one_stream=False, blind=None, agents=3)


ENTRY = EnvEntry("duo", f"{__name__}:make", agents=("ann", "bob"), threshold=100.0)


@hookimpl
def zoo_envs() -> list[EnvEntry]:
    """Offers `duo`."""
    return [ENTRY]
