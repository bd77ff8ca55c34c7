"""Games as one vector environment: each agent of each game is an environment of the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from a3c_zoo.errors import EnvironmentContractError, type_and_message
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate
from numpy.typing import NDArray

from a3c_zoo_pettingzoo.games import (
    MASK,
    Game,
    make_gym_agents,
    make_pettingzoo,
    shared_of,
    without_mask,
)

Bools = NDArray[np.bool_]


class GamesVectorEnv(VectorEnv[Any, Any, Any]):
    """G games of K agents as N = G·K environments; g·K … g·K+K−1 are the agents of game g.

    An agent that has left its game stays a part of the batch: its actions are ignored, its observation is the last one,
    and its rewards are 0 (`ignored_actions`). When no agent of a game is left, the next step resets this game, and
    ignores the actions of all its agents.

    Args:
        games: with the same agents. name: of the environment, in messages.

    Raises:
        EnvironmentContractError: the agents of a game have different spaces; or, in `step`, an agent joins while all
            others leave.
    """

    def __init__(self, games: Sequence[Game], name: str) -> None:
        self._games = list(games)
        self._name = name
        self._shared = shared_of(games[0], name)
        self._agents = list(games[0].possible_agents)
        self._size = len(self._agents)
        self.num_envs = len(games) * self._size
        self.single_observation_space = self._shared.observation
        self.single_action_space = self._shared.action
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.metadata = {**games[0].metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}
        self.render_mode = getattr(games[0], "render_mode", None)
        self._spaces = [
            (self._games[0].observation_space(agent), self._games[0].action_space(agent)) for agent in self._agents
        ]
        sample = deepcopy(self.single_observation_space)
        sample.seed(0)
        # Nobody acts on the observation of an agent that has not joined a game yet; it only fits the space.
        self._filler = sample.sample()
        self._observations: list[Any] = []
        self._playing: Bools = np.zeros(self.num_envs, np.bool_)
        self._ignored: Bools = np.zeros(self.num_envs, np.bool_)
        self._masks: list[Any] = [None] * self.num_envs
        self._has_masks = self._shared.masks_in_observations

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts all games; game g gets the seed `seed + g`."""
        if not (seed is None or isinstance(seed, int | np.integer)):
            raise ValueError("seed must be a whole number or None")
        self._observations = [self._filler] * self.num_envs
        for g in range(len(self._games)):
            self._begin(g, None if seed is None else int(seed) + g)
        return self._batch(), self._info()

    def step(self, actions: Any) -> tuple[Any, NDArray[np.float64], Bools, Bools, dict[str, Any]]:
        """Lets all agents who play act at once."""
        chosen = list(iterate(self.action_space, actions))
        rewards = np.zeros(self.num_envs)
        terminated = np.zeros(self.num_envs, np.bool_)
        truncated = np.zeros(self.num_envs, np.bool_)
        self._ignored = ~self._playing
        for g in range(len(self._games)):
            if self._playing[self._slots(g)].any():
                self._play(g, chosen, rewards, terminated, truncated)
            else:
                self._begin(g, None)
        return self._batch(), rewards, terminated, truncated, self._info()

    def ignored_actions(self, info: dict[str, Any]) -> Bools:
        """Which agents did not act in the newest step: those who had left their game, and those of a new one, `[N]`."""
        return self._ignored

    def render(self) -> tuple[Any, ...]:
        """A picture for each agent: that of its game."""
        pictures = [game.render() for game in self._games]
        return tuple(picture for picture in pictures for _ in self._agents)

    def close_extras(self, **kwargs: Any) -> None:
        """Closes all games."""
        for game in self._games:
            game.close()

    def _slots(self, g: int) -> slice:
        return slice(g * self._size, (g + 1) * self._size)

    def _begin(self, g: int, seed: int | None) -> None:
        game = self._games[g]
        observations, infos = game.reset(seed=seed)
        self._check_spaces(game)
        self._check_names(game)
        if not game.agents:
            raise EnvironmentContractError(f"environment '{self._name}' has no agents after reset()")
        for n, agent in self._numbered(g):
            self._playing[n] = agent in game.agents
            if self._playing[n]:
                self._see(n, agent, observations, infos)

    def _play(
        self, g: int, chosen: list[Any], rewards: NDArray[np.float64], terminated: Bools, truncated: Bools
    ) -> None:
        """Makes one step in a game."""
        game = self._games[g]
        acting = [(n, agent) for n, agent in self._numbered(g) if self._playing[n]]
        result = game.step({agent: chosen[n] for n, agent in acting})
        if not (isinstance(result, tuple) and len(result) == 5):
            raise EnvironmentContractError(
                f"environment '{self._name}' returned a wrong result of step(): it must be five dictionaries, "
                "observations, rewards, terminations, truncations and infos, each by agent"
            )
        observations, given, terminations, truncations, infos = result
        self._check_names(game)
        playing_on = set(game.agents)
        for n, agent in acting:
            rewards[n] = self._number(agent, given)
            terminated[n] = bool(self._of(agent, terminations, "termination"))
            truncated[n] = bool(self._of(agent, truncations, "truncation"))
            self._playing[n] = not (terminated[n] or truncated[n])
            if self._playing[n] and agent not in playing_on:
                raise EnvironmentContractError(
                    f"environment '{self._name}': {agent} is no longer among its agents, and step() neither terminated "
                    "nor truncated it"
                )
            self._see(n, agent, observations, infos)
        # Some games go on naming those who have left, with their flags set: these do not join.
        left = {agent for flags in (terminations, truncations) for agent, flag in flags.items() if flag}
        joining = playing_on - {agent for _, agent in acting} - left
        joined = [(n, agent) for n, agent in self._numbered(g) if agent in joining and agent in observations]
        if joined and not self._playing[self._slots(g)].any():
            raise EnvironmentContractError(
                f"environment '{self._name}': {joined[0][1]} joined in the step in which all agents who played left. A "
                "game ends with the last agent who acted, so its step() must let the next one join a step earlier"
            )
        for n, agent in joined:
            self._playing[n] = True
            self._see(n, agent, observations, infos)

    def _numbered(self, g: int) -> list[tuple[int, Any]]:
        """The agents of a game, each with its number in the batch."""
        return list(enumerate(self._agents, g * self._size))

    def _see(self, n: int, agent: Any, observations: Mapping[Any, Any], infos: Mapping[Any, Any]) -> None:
        """Keeps what an agent sees, and what it may do next."""
        observation = self._of(agent, observations, "observation")
        mask = (infos.get(agent) or {}).get(MASK)
        if self._shared.masks_in_observations:
            if not (isinstance(observation, Mapping) and MASK in observation):
                raise EnvironmentContractError(
                    f"environment '{self._name}' gave {agent} an observation without its '{MASK}'"
                )
            mask = observation[MASK]
            observation = without_mask(observation)
        self._observations[n] = deepcopy(observation)
        self._masks[n] = mask
        self._has_masks |= mask is not None

    def _of(self, agent: Any, values: Mapping[Any, Any], what: str) -> Any:
        if not isinstance(values, Mapping) or agent not in values:
            raise EnvironmentContractError(f"environment '{self._name}' gave {agent} no {what}, and it plays")
        return values[agent]

    def _number(self, agent: Any, rewards: Mapping[Any, Any]) -> float:
        reward = self._of(agent, rewards, "reward")
        try:
            return float(reward)
        except (TypeError, ValueError) as error:
            raise EnvironmentContractError(
                f"environment '{self._name}' gave {agent} a reward that is no number: {reward!r:.40}"
            ) from error

    def _check_spaces(self, game: Game) -> None:
        """Raises EnvironmentContractError if the spaces of an agent are no longer those of the first game."""
        for agent, (seen, acts) in zip(self._agents, self._spaces, strict=True):
            now = game.observation_space(agent), game.action_space(agent)
            for what, before, after in zip(("observation_space", "action_space"), (seen, acts), now, strict=True):
                if after is not before and after != before:
                    raise EnvironmentContractError(
                        f"environment '{self._name}' changed the {what} of {agent}: it was {before}, and is {after} "
                        "after reset(). It must stay the same"
                    )

    def _check_names(self, game: Game) -> None:
        for agent in game.agents:
            if agent not in self._agents:
                raise EnvironmentContractError(
                    f"environment '{self._name}' has the agent '{agent}', which its possible_agents does not name"
                )

    def _batch(self) -> Any:
        """The observations of all agents, as one."""
        space = self.single_observation_space
        empty: Any = create_empty_array(space, self.num_envs)
        try:
            return concatenate(space, self._observations, empty)
        except (TypeError, ValueError, LookupError) as error:
            n = next(n for n, each in enumerate(self._observations) if not _fits(space, each))
            agent = self._agents[n % self._size]
            raise EnvironmentContractError(
                f"environment '{self._name}' gave {agent} a wrong observation: {_form(self._observations[n])}, where "
                f"its space promises {space}"
            ) from error

    def _info(self) -> dict[str, Any]:
        """The action masks of all agents, if the game has any: all actions are allowed to those who do not play."""
        if not self._has_masks:
            return {}
        everything = everything_allowed(self.single_action_space)
        masks = np.empty(self.num_envs, object)
        for n in range(self.num_envs):
            masks[n] = self._masks[n] if self._playing[n] else everything
        present = np.array([mask is not None for mask in masks])
        return {MASK: masks, f"_{MASK}": present}


class RestorableGamesVectorEnv(GamesVectorEnv):
    """Games that can tell and take back their state, with `get_state() -> dict` and `set_state(dict)`."""

    def get_state(self) -> dict[str, Any]:
        """What the next step depends on: tensors, numbers and strings."""
        games: list[Any] = self._games
        state = {
            "games": [game.get_state() for game in games],
            "playing": torch.from_numpy(self._playing.copy()),
            "ignored": torch.from_numpy(self._ignored.copy()),
            "observations": _tensors(self._batch()),
        }
        if self._has_masks:
            state["masks"] = [_mask_state(mask) for mask in self._masks]
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from `get_state`."""
        games: list[Any] = self._games
        for game, kept in zip(games, state["games"], strict=True):
            game.set_state(kept)
        self._playing[:] = state["playing"].numpy()
        self._ignored = state["ignored"].numpy().copy()
        self._observations = list(iterate(self.observation_space, _arrays(state["observations"])))
        if "masks" in state:
            self._has_masks = True
            self._masks = [_mask_of(mask) for mask in state["masks"]]


def _tensors(batch: Any) -> Any:
    """Observations of a batch as a checkpoint holds them."""
    if isinstance(batch, Mapping):
        return {key: _tensors(part) for key, part in batch.items()}
    if isinstance(batch, tuple):
        return [_tensors(part) for part in batch]
    return torch.from_numpy(np.array(batch))


def _arrays(tensors: Any) -> Any:
    """The observations of which `_tensors` made these."""
    if isinstance(tensors, dict):
        return {key: _arrays(part) for key, part in tensors.items()}
    if isinstance(tensors, list):
        return tuple(_arrays(part) for part in tensors)
    return tensors.numpy().copy()


def everything_allowed(space: spaces.Space[Any]) -> Any:
    """The mask that allows all actions of a space, in its form; None for a space that takes no masks."""
    if isinstance(space, spaces.Discrete):
        return np.ones(int(space.n), np.bool_)
    if isinstance(space, spaces.MultiDiscrete):
        return np.ones(int(space.nvec.sum()), np.bool_)
    if isinstance(space, spaces.Dict):
        return {key: everything_allowed(part) for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(map(everything_allowed, space))
    return None


def _mask_state(mask: Any) -> Any:
    """A mask as a checkpoint holds it: an empty list for none."""
    if mask is None:
        return []
    if isinstance(mask, Mapping):
        return {key: _mask_state(part) for key, part in mask.items()}
    if isinstance(mask, list | tuple):
        return [_mask_state(part) for part in mask]
    numbers = np.array(mask)
    if numbers.dtype.kind not in "biuf":  # such a mask is ignored, or refused
        return []
    return torch.from_numpy(numbers)


def _mask_of(state: Any) -> Any:
    """The mask of which `_mask_state` made this."""
    if isinstance(state, dict):
        return {key: _mask_of(part) for key, part in state.items()}
    if isinstance(state, list):
        return tuple(map(_mask_of, state)) or None
    return state.numpy().copy()


def _fits(space: spaces.Space[Any], observation: Any) -> bool:
    empty: Any = create_empty_array(space, 1)
    try:
        concatenate(space, [observation], empty)
    except (TypeError, ValueError, LookupError):
        return False
    return True


def _form(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {list(value.shape)}"
    return type(value).__name__


def _vector_env(games: list[Game], num_envs: int, name: str) -> GamesVectorEnv:
    """The games as one environment of `num_envs` agents."""
    size = len(shared_of(games[0], name).names)
    if num_envs != size * len(games):
        for game in games:
            game.close()
        raise EnvironmentContractError(f"environment '{name}' has {size} agents in each game, and not always as many")
    is_restorable = all(hasattr(game, "get_state") and hasattr(game, "set_state") for game in games)
    kind = RestorableGamesVectorEnv if is_restorable else GamesVectorEnv
    return kind(games, name)


def make_pettingzoo_games(
    num_envs: int, seed: int, made_by: str, name: str, render_mode: str | None = None, **kwargs: Any
) -> GamesVectorEnv:
    """The factory of `pettingzoo:` environments. num_envs: a multiple of the number of agents."""
    return _made(make_pettingzoo, made_by, num_envs, name, render_mode, kwargs)


def make_gym_agents_games(
    num_envs: int, seed: int, env_id: str, name: str, render_mode: str | None = None, **kwargs: Any
) -> GamesVectorEnv:
    """The factory of `gym-agents:` environments. num_envs: a multiple of the number of agents."""
    return _made(make_gym_agents, env_id, num_envs, name, render_mode, kwargs)


def _made(
    make: Any, value: str, num_envs: int, name: str, render_mode: str | None, kwargs: dict[str, Any]
) -> GamesVectorEnv:
    first: Game = make(value, name, kwargs, render_mode)
    size = len(shared_of(first, name).names)
    games = [first, *(make(value, name, deepcopy(kwargs), render_mode) for _ in range(num_envs // size - 1))]
    try:
        return _vector_env(games, num_envs, name)
    except (TypeError, ValueError) as error:
        raise EnvironmentContractError(f"environment '{name}' cannot be a batch: {type_and_message(error)}") from error
