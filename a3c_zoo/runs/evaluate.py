"""Plays episodes with a fixed policy, on seeds apart from training, with raw scores."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from a3c_zoo.learning.autoreset import autoreset_mode, episode_over
from a3c_zoo.learning.environments import SEED_EVALUATION, make_vector_env, seed_for
from a3c_zoo.learning.model import one_torch_thread
from a3c_zoo.records import Evaluation, Policy

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv
    from numpy.typing import NDArray

    from a3c_zoo.config import EnvConfig
    from a3c_zoo.plugins.entries import EnvEntry


class StopEvaluationError(Exception):
    """The user asked to stop in the middle of an evaluation."""


class PlayedEpisode(NamedTuple):
    """An episode's raw return, and its length in agent steps."""

    episode_return: float
    length: int


def evaluate(
    policy: Policy,
    entry: EnvEntry,
    config: EnvConfig,
    *,
    episodes: int,
    num_envs: int,
    seed: int,
    number: int = 0,
    deterministic: bool = False,
    on_step: Callable[[int], None] = lambda played: None,
) -> Evaluation:
    """Plays `episodes` episodes and returns their statistics. See `play_all`."""
    start_s = time.monotonic()
    played = play_all(
        policy,
        entry,
        config,
        episodes=episodes,
        num_envs=num_envs,
        seed=seed,
        number=number,
        deterministic=deterministic,
        on_step=on_step,
    )
    returns, lengths = zip(*played, strict=True)
    return Evaluation(
        episodes=episodes,
        mean_return=float(np.mean(returns)),
        std_return=float(np.std(returns)),
        min_return=float(np.min(returns)),
        max_return=float(np.max(returns)),
        mean_length=float(np.mean(lengths)),
        deterministic=deterministic,
        seconds=time.monotonic() - start_s,
    )


def play_all(
    policy: Policy,
    entry: EnvEntry,
    config: EnvConfig,
    *,
    episodes: int,
    num_envs: int,
    seed: int,
    number: int,
    deterministic: bool,
    on_step: Callable[[int], None],
) -> list[PlayedEpisode]:
    """Plays `episodes` episodes, in the order in which they end.

    Each environment plays a quota that is fixed beforehand. Taking the first episodes to finish instead would favour
    short ones.

    Args:
        seed, number: the run's seed and the number of this evaluation within it, which together seed the environments.
        num_envs: environments side by side; no more than `episodes` are made.
        on_step: called after each step with the number of episodes played; may raise StopEvaluationError.
    """
    num_envs = min(num_envs, episodes)
    env_seed = seed_for(seed, SEED_EVALUATION, number)
    env = make_vector_env(entry, config, num_envs, env_seed)
    try:
        quotas = np.full(num_envs, episodes // num_envs)
        quotas[: episodes % num_envs] += 1
        played: list[PlayedEpisode] = []
        with one_torch_thread():
            for ended in play_episodes(policy, env, quotas, env_seed, deterministic):
                played += ended
                on_step(len(played))
        return played
    finally:
        env.close()


def play_episodes(
    policy: Policy,
    env: VectorEnv[Any, Any, Any],
    quotas: NDArray[np.int64],
    seed: int,
    deterministic: bool,
) -> Iterator[list[PlayedEpisode]]:
    """Plays `quotas[n]` episodes in environment n; yields after each step those that ended with it."""
    mode, is_over = autoreset_mode(env), episode_over(env)
    observation, _ = env.reset(seed=seed)
    state, starts = None, np.ones(env.num_envs, np.bool_)
    left, running = quotas.copy(), np.zeros(env.num_envs, np.float64)
    length, ignored = np.zeros(env.num_envs, np.int64), np.zeros(env.num_envs, np.bool_)
    while left.any():
        actions, state = policy.predict(observation, state, starts, deterministic)
        observation, reward, terminated, truncated, info = env.step(actions)
        running += np.where(ignored, 0, reward)
        length += ~ignored
        ended = np.asarray(is_over(terminated, truncated, info), np.bool_)  # some give 0 and 1
        played = [PlayedEpisode(float(running[n]), int(length[n])) for n in np.flatnonzero(ended & (left > 0))]
        left -= ended & (left > 0)
        running[ended], length[ended] = 0, 0
        yield played
        if mode == "Disabled" and ended.any():
            observation, _ = env.reset(options={"reset_mask": ended})
        # The observation that an episode starts with: now, or after the ignored step of NEXT_STEP.
        starts = ignored if mode == "NextStep" else ended
        ignored = ended if mode == "NextStep" else ignored
