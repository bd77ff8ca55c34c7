"""Plays Pong with a run's policy and splits the games by the frame at which they start: odd or even.

    python benchmarks/pong_parity.py RUN [--checkpoint STEPS] [--games N] [--seed N]

The game moves the bat at every other frame. With four frames a step, the frame at which a game starts (its
no-ops and FIRE) decides at which of a step's frames that is, and hence which game the agent plays.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

import a3c_zoo
from a3c_zoo.learning.environments import make_vector_env
from a3c_zoo.learning.model import one_torch_thread
from a3c_zoo.registry import get_registry
from a3c_zoo.runs.directory import DEFAULT_RUNS_DIR, find_run


def play(run: str, checkpoint: str, games: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Plays one game in each of `games` environments, with sampled actions.

    Returns:
        The frames at which the games started and their returns, both `[games]`.
    """
    registry = get_registry()
    config = find_run(run, DEFAULT_RUNS_DIR).config(registry)
    policy = a3c_zoo.load_agent(run, checkpoint=checkpoint)
    env = make_vector_env(registry.env(config.env_name), config.env, games, seed)
    observation, info = env.reset(seed=seed)
    starts = np.array(info["episode_frame_number"], np.int64)
    returns, over = np.zeros(games), np.zeros(games, np.bool_)
    while not over.all():
        observation, reward, terminated, truncated, _ = env.step(policy.predict(observation)[0])
        returns += np.where(over, 0, reward)
        over |= terminated | truncated
    env.close()
    return starts, returns


def main() -> None:
    """Prints a line for each half."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="a run directory of pong")
    parser.add_argument("--checkpoint", default="final", help="its steps, or final, or best")
    parser.add_argument("--games", type=int, default=32)
    parser.add_argument("--seed", type=int, default=5)
    arguments = parser.parse_args()
    with one_torch_thread():
        starts, returns = play(arguments.run, arguments.checkpoint, arguments.games, arguments.seed)
    for name, half in (("odd", returns[starts % 2 == 1]), ("even", returns[starts % 2 == 0])):
        if len(half):
            spread = f"± {half.std():.1f}  ({half.min():.0f} to {half.max():.0f})"
            print(f"{name:4}  {len(half):3} games  {half.mean():6.1f} {spread}")


if __name__ == "__main__":
    main()
