"""Games with results that are worked out by hand. Worker processes import this module by its name."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv

#: The agents of most of these games.
AGENTS = ("ann", "bob", "cid")


class Race(ParallelEnv[str, Any, int]):  # type: ignore[misc]
    """Each agent leaves at a step of its own: its number in `lives`. All see (game, step, agent).

    The reward of step t for agent k is 10·k + t, so that each sum tells whose it is. The last agent to leave ends the
    game; with `truncates`, it is truncated.

    Args:
        lives: after how many steps each agent leaves. 0: it does not take part.
        truncates: the agents that are truncated where others are terminated.
        joins: agent → the step after which it joins.
        fault: what is wrong, from the second step of the second game on.
        masks: where action masks are: "", "info" or "observation".
        counts_games: whether agents see the number of the game; if not, all games are the same.
    """

    metadata = {"name": "race", "render_modes": ["rgb_array"], "render_fps": 5}

    def __init__(
        self,
        lives: tuple[int, ...] = (1, 3, 2),
        truncates: tuple[str, ...] = (),
        joins: tuple[str, int] = ("", 0),
        fault: str = "",
        masks: str = "",
        counts_games: bool = True,
        render_mode: str | None = None,
    ) -> None:
        self.possible_agents = list(AGENTS[: len(lives)])
        self.agents: list[str] = []
        self.lives = dict(zip(self.possible_agents, lives, strict=True))
        self.truncates = truncates
        self.joins = joins
        self.fault = fault
        self.masks = masks
        self.counts_games = counts_games
        self.render_mode = render_mode
        self.game = -1
        self.time = 0
        self.taken: list[dict[str, int]] = []
        self._seen = spaces.Box(-100, 100, (3,), np.float32)
        self._acts = spaces.Discrete(3)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        if self.fault == "space" and self.game >= 1:
            return spaces.Box(-100, 100, (4,), np.float32)
        if self.masks == "observation":
            return spaces.Dict({"observation": self._seen, "action_mask": spaces.MultiBinary(3)})
        return self._seen

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self._acts

    def _mask(self, agent: str) -> Any:
        """Action `step % 3` is forbidden."""
        mask = np.ones(3, np.int8)
        mask[self.time % 3] = 0
        match self.fault if self.game >= 1 else "":
            case "mask-length":
                return mask[:2]
            case "mask-empty":
                return np.zeros(3, np.int8)
            case "mask-missing":
                return None
        return mask

    def _observations(self, agents: list[str]) -> dict[str, Any]:
        places = {agent: place for place, agent in enumerate(self.possible_agents)}
        game = self.game if self.counts_games else 0
        seen = {agent: np.array([game, self.time, places.get(agent, -1)], np.float32) for agent in agents}
        if self.fault == "shape" and self.game >= 1:
            return {agent: each[:2] for agent, each in seen.items()}
        if self.masks == "observation":
            return {agent: {"observation": each, "action_mask": self._mask(agent)} for agent, each in seen.items()}
        return seen

    def _infos(self, agents: list[str]) -> dict[str, dict[str, Any]]:
        if self.masks != "info":
            return {agent: {} for agent in agents}
        masks = {agent: self._mask(agent) for agent in agents}
        return {agent: {} if mask is None else {"action_mask": mask} for agent, mask in masks.items()}

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.game = self.game + 1 if seed is None else 0
        self.time = 0
        self.agents = [agent for agent in self.possible_agents if self.lives[agent] and agent != self.joins[0]]
        if self.fault == "nobody" and self.game >= 1:
            self.agents = []
        if self.fault == "stranger" and self.game >= 1:
            self.agents = ["zoe"]
        return self._observations(self.agents), self._infos(self.agents)

    def step(self, actions: dict[str, int]) -> Any:
        assert set(actions) == set(self.agents), (actions, self.agents)
        if self.masks and self.game < 1:
            assert all(action != self.time % 3 for action in actions.values()), "forbidden"
        self.taken.append({agent: int(action) for agent, action in actions.items()})
        self.time += 1
        played = list(self.agents)
        over = {agent: self.time >= self.lives[agent] for agent in played}
        rewards: dict[str, Any] = {agent: 10.0 * self.possible_agents.index(agent) + self.time for agent in played}
        terminated = {agent: over[agent] and agent not in self.truncates for agent in played}
        truncated = {agent: over[agent] and agent in self.truncates for agent in played}
        self.agents = [agent for agent in played if not over[agent]]
        if self.joins == (self.joins[0], self.time) and self.joins[0]:
            self.agents.append(self.joins[0])
        seen = self._observations([*dict.fromkeys([*played, *self.agents])])
        infos = self._infos([*seen])
        match self.fault if self.game >= 1 else "":
            case "vanishes":
                self.agents = []
                terminated = dict.fromkeys(played, False)
            case "reward":
                del rewards[played[0]]
            case "none":
                rewards[played[0]] = None
            case "unseen":
                del seen[played[0]]
            case "four":
                return seen, rewards, terminated, infos
        return seen, rewards, terminated, truncated, infos

    def render(self) -> Any:
        return np.full((16, 24, 3), 40 * len(self.agents), np.uint8)


class StatefulRace(Race):
    """A race that can tell its state, with rewards that depend on the actions."""

    def step(self, actions: dict[str, int]) -> Any:
        seen, rewards, *rest = super().step(actions)
        return seen, {agent: float(actions[agent] == 1) for agent in rewards}, *rest

    def get_state(self) -> dict[str, Any]:
        return {"game": self.game, "time": self.time, "agents": list(self.agents)}

    def set_state(self, state: dict[str, Any]) -> None:
        self.game = state["game"]
        self.time = state["time"]
        self.agents = list(state["agents"])


class Pick(ParallelEnv[str, Any, int]):  # type: ignore[misc]
    """What is seen is the right action, for each agent. The first to be wrong leaves, and a game has eight steps."""

    metadata = {"name": "pick"}

    def __init__(self, size: int = 3, render_mode: str | None = None) -> None:
        self.possible_agents = [f"agent_{n}" for n in range(size)]
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Discrete(4)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Discrete(4)

    def _observations(self) -> dict[str, Any]:
        self._right = {agent: int(self._random.integers(4)) for agent in self.possible_agents}
        return dict(self._right)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self.time = 0
        return self._observations(), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, int]) -> Any:
        self.time += 1
        played = list(self.agents)
        right = {agent: actions[agent] == self._right[agent] for agent in played}
        self.agents = [agent for agent in played if right[agent]] if self.time < 8 else []
        seen = self._observations()
        return (
            {agent: seen[agent] for agent in played},
            {agent: float(right[agent]) for agent in played},
            {agent: not right[agent] for agent in played},
            {agent: right[agent] and self.time >= 8 for agent in played},
            {agent: {} for agent in played},
        )


class Fails(Race):
    """It cannot be made."""

    def __init__(self, render_mode: str | None = None) -> None:
        raise RuntimeError("no screen")


class Unlike(Race):
    """Its agents have different spaces."""

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Box(0, 1, (2 + self.possible_agents.index(agent),), np.float32)


class Turns(AECEnv[str, Any, int]):  # type: ignore[misc]
    """A game in turns."""

    metadata = {"name": "turns"}
    possible_agents = ["ann", "bob"]


def parallel_env(**kwargs: Any) -> Race:
    """What PettingZoo calls such a function."""
    return Race(**kwargs)


def not_a_game() -> Race:
    """A function of another name."""
    return Race()
