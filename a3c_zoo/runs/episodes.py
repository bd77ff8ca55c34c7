"""Episodes that a fixed policy plays on seeds of their own, scored with the environment's raw rewards."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3c_zoo.config import EnvConfig
from a3c_zoo.errors import ConfigError, EnvironmentContractError
from a3c_zoo.learning.action_masks import FollowedMasks, gives_masks
from a3c_zoo.learning.actions import ActionDistribution, action_distribution
from a3c_zoo.learning.autoreset import autoreset_of, episode_over
from a3c_zoo.learning.contract import is_finite, naming_misfits, raising_in
from a3c_zoo.learning.environments import make_vector_env
from a3c_zoo.learning.games import games_over
from a3c_zoo.learning.model import Spaces
from a3c_zoo.learning.space_check import check_policy
from a3c_zoo.learning.wrappers import time_limit_of
from a3c_zoo.library_settings import LibrarySettings
from a3c_zoo.plugins.entries import EnvEntry
from a3c_zoo.processes.watched_time import WatchedTime
from a3c_zoo.records import Evaluation, Policy, takes_masks
from a3c_zoo.seeds import SEED_EVALUATION, seed_for

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv


@dataclass(frozen=True, slots=True)
class EpisodesToPlay:
    """The episodes of an evaluation.

    Attributes:
        entry, config: the environment and its configuration.
        count: how many episodes; games, if several agents play. num_envs: environments side by side; no more are made
            than `count` episodes need at once.
        seed, number: the run's seed and the evaluation's number, which together seed the environments.
        patience_s: for how long no episode may end, in an environment without a time limit.
    """

    entry: EnvEntry
    config: EnvConfig
    count: int
    seed: int
    number: int
    num_envs: int = 1
    patience_s: float = math.inf

    @property
    def env_seed(self) -> int:
        """The seed of the environments."""
        return seed_for(self.seed, SEED_EVALUATION, self.number)

    def make_env(self, render_mode: str | None = None) -> VectorEnv[Any, Any, Any]:
        """Makes the environments: no more games than episodes. Raises as `make_vector_env`."""
        most = self.count * self.entry.num_agents
        return make_vector_env(self.entry, self.config, min(self.num_envs, most), self.env_seed, render_mode)


class PlayedEpisode(NamedTuple):
    """An episode's raw return, and its length in agent steps; and the return of each agent, if several play."""

    episode_return: float
    length: int
    agent_returns: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class PlayedEpisodes:
    """Episodes in the order in which they ended, with greedy (`deterministic`) or sampled actions, in `seconds`.

    agents: the names of the agents that play together; empty for a single agent.
    """

    episodes: list[PlayedEpisode]
    deterministic: bool
    seconds: float
    agents: tuple[str, ...] = ()

    def evaluation(self) -> Evaluation:
        """Their figures."""
        returns, lengths, of_agents = zip(*self.episodes, strict=True)
        means = np.mean(of_agents, axis=0).tolist() if self.agents else []
        return Evaluation(
            episodes=len(self.episodes),
            mean_return=float(np.mean(returns)),
            std_return=float(np.std(returns)),
            min_return=float(np.min(returns)),
            max_return=float(np.max(returns)),
            mean_length=float(np.mean(lengths)),
            deterministic=self.deterministic,
            seconds=self.seconds,
            agent_returns=dict(zip(self.agents, means, strict=True)),
        )


def play_episodes(
    policy: Policy, env: VectorEnv[Any, Any, Any], to_play: EpisodesToPlay, deterministic: bool
) -> Iterator[tuple[list[PlayedEpisode], NDArray[np.bool_], NDArray[np.float64]]]:
    """Plays episodes. Yields after each step the episodes that ended with it and count; and until the next one where
    an episode ended, `[G]`, and the returns so far, `[G]`.

    G is the number of environments; of games, if several agents play each (`EnvEntry.agents`). Each plays a quota that
    is fixed beforehand. If the first episodes to finish counted instead, short episodes would count too often.

    Raises:
        RunDirectoryError: the policy is of other spaces than the environment.
        EnvironmentContractError: an observation or a reward does not fit, or is not finite.
    """
    check_policy(policy, env, to_play.entry.name)
    predict: Callable[..., Any] = policy.predict
    autoreset = autoreset_of(env)
    is_over = episode_over(env)
    settings = LibrarySettings.now()
    state = None
    starts = np.ones(env.num_envs, np.bool_)
    games = _Games(env.num_envs, to_play.entry.num_agents, to_play.count)
    ended = np.zeros(env.num_envs, np.bool_)
    if _has_limit(env, to_play.config):
        patience_s = math.inf
    else:
        patience_s = to_play.patience_s
    since_end = WatchedTime()
    with naming_misfits(to_play.entry.name):
        with raising_in("reset", to_play.entry.name):
            observation, info = env.reset(seed=to_play.env_seed)
        _finite(observation, "an observation", to_play)
        given: dict[str, NDArray[np.bool_]] = {}
        masks: FollowedMasks | None = None
        if (distribution := _distribution_within_masks(policy, env, info, to_play)) is not None:
            masks = FollowedMasks(env, distribution, to_play.entry.name, info)
            given["action_masks"] = masks.allowed
        while games.left.any():
            settings.restore()
            actions, state = predict(observation, state, starts, deterministic, **given)
            with raising_in("step", to_play.entry.name):
                observation, reward, terminated, truncated, info = env.step(actions)
            _finite(observation, "an observation", to_play)
            ignored = autoreset.ignored(info, ended)
            rewards = _finite(np.where(ignored, 0, reward), "a reward", to_play)
            # Some environments return 0 and 1.
            ended = np.asarray(is_over(terminated, truncated, info), np.bool_)
            played, over = games.step(rewards, ignored, ended)
            yield played, over, games.running.sum(axis=1)
            if played:  # a game that has played its quota goes on, and says nothing about the others
                since_end.restart()
            elif since_end.look() > patience_s:
                raise _endless(to_play, int(games.length[games.left > 0].max()))
            if masks is not None:
                masks.step(info, ended)
            if ended.any():
                with raising_in("reset", to_play.entry.name):
                    observation, info = autoreset.restart(observation, info, ended)
                _finite(observation, "an observation", to_play)
                if masks is not None:
                    masks.restart(info, ended)
            # An episode starts with this observation, or with the one after the ignored steps.
            if autoreset.ignores_a_step:
                starts = ignored
            else:
                starts = ended


class _Games:
    """G games of K agents each, played in N = G·K environments. A single agent's games are its episodes.

    Attributes:
        running: each agent's return so far, `[G, K]`; of a game that ended with the last step, its whole return.
        length: steps of each game so far, `[G]`, as with `running`.
        left: how many more games are to be counted, `[G]`.
    """

    def __init__(self, num_envs: int, num_agents: int, count: int) -> None:
        num_games = num_envs // num_agents
        self.running = np.zeros((num_games, num_agents), np.float64)
        self.length = np.zeros(num_games, np.int64)
        self.left = np.full(num_games, count // num_games)
        self.left[: count % num_games] += 1
        self._over = np.zeros(num_games, np.bool_)

    def step(
        self, rewards: NDArray[np.float64], ignored: NDArray[np.bool_], ended: NDArray[np.bool_]
    ) -> tuple[list[PlayedEpisode], NDArray[np.bool_]]:
        """Adds a step, `[N]` each; returns the episodes to be counted that ended with it, and which games ended, `[G]`.

        Args:
            ignored: the environments that ignored their action. ended: those whose own episode ended.
        """
        self.running[self._over] = 0
        self.length[self._over] = 0
        self.running += rewards.reshape(self.running.shape)
        self.length += ~ignored.reshape(self.running.shape).all(axis=1)
        self._over = games_over(~ignored, ended, self.running.shape[1])
        counts = self._over & (self.left > 0)
        played = [_played(self.running[g], int(self.length[g])) for g in np.flatnonzero(counts)]
        self.left -= counts
        return played, self._over


def _played(agent_returns: NDArray[np.float64], length: int) -> PlayedEpisode:
    """A played episode, of the returns of its agents, `[K]`."""
    each = tuple(agent_returns.tolist()) if len(agent_returns) > 1 else ()
    return PlayedEpisode(float(agent_returns.sum()), length, each)


def _distribution_within_masks(
    policy: Policy, env: VectorEnv[Any, Any, Any], info: Mapping[str, Any], to_play: EpisodesToPlay
) -> ActionDistribution | None:
    """The distribution of a policy that acts within action masks; None for one that takes none.

    Args:
        info: of the first `reset`.

    Raises:
        ConfigError: the environment gives masks, and the policy cannot take them.
    """
    spaces = getattr(policy, "spaces", None)
    if isinstance(spaces, Spaces):
        return spaces.actions if spaces.actions.has_masks else None
    if not (to_play.config.action_masks and gives_masks(env, info)):
        return None
    if not takes_masks(policy):
        raise ConfigError(
            f"environment '{to_play.entry.name}' gives action masks, and the policy's predict() takes no action_masks. "
            "env.action_masks=false ignores them"
        )
    return action_distribution(env.single_action_space, has_masks=True)


def _has_limit(env: VectorEnv[Any, Any, Any], config: EnvConfig) -> bool:
    """Whether a number of steps is known after which each episode ends."""
    return config.factory_kwargs().get("max_episode_steps") is not None or time_limit_of(env) is not None


def _endless(to_play: EpisodesToPlay, steps: int) -> EnvironmentContractError:
    if hasattr(to_play.config, "max_episode_steps"):
        cure = "train with -o env.max_episode_steps=N"
    else:
        cure = "give it a time limit: gymnasium.wrappers:TimeLimit in env.wrappers, or one of its own"
    return EnvironmentContractError(
        f"environment '{to_play.entry.name}': no episode of the evaluation ended within {to_play.patience_s:g} s; the "
        f"longest has {steps:,} steps. If episodes have no end, {cure}. If they are long: run.evaluation_patience_s"
    )


def _finite(value: Any, what: str, to_play: EpisodesToPlay) -> Any:
    """Returns what an environment gave. Raises EnvironmentContractError if it is not finite in float32."""
    if not is_finite(value):
        shown = f" ({value})" if np.size(value) == 1 else ""
        raise EnvironmentContractError(
            f"environment '{to_play.entry.name}' returned {what} that is not finite in float32{shown}"
        )
    return value
