"""Plays Pong with a run's policy and compares games that start at an odd frame with games that start at an even one.

    python benchmarks/pong_parity.py RUN [--checkpoint STEPS] [--games N] [--seed N]

The game moves the bat at every other frame, and a step has four frames. The frame at which a game starts depends on its
no-ops and FIRE. It decides at which frames of a step the bat moves.
"""

from __future__ import annotations

import argparse

import numpy as np
from ale_py import ALEInterface, LoggerMode, roms
from numpy.typing import NDArray

import a3c_zoo
from a3c_zoo.learning.environments import make_vector_env
from a3c_zoo.learning.model import one_torch_thread
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.store.directory import DEFAULT_RUNS_DIR
from a3c_zoo.store.run import find_run

BAT = 51  # address of the height of the agent's bat in the game's memory
STEPS = 300


def bat_moves(start: int) -> list[int]:
    """How often the bat moves at each of a step's four frames, in a game with random actions from frame `start` on."""
    ALEInterface.setLoggerMode(LoggerMode.Error)
    game = ALEInterface()
    game.setFloat("repeat_action_probability", 0.0)
    game.loadROM(roms.get_rom_path("pong"))
    actions, rng = game.getMinimalActionSet(), np.random.default_rng(0)
    for _ in range(start):
        game.act(actions[0])
    moves, height = [0] * 4, game.getRAM()[BAT]
    for action in rng.integers(len(actions), size=STEPS):
        for frame in range(4):
            game.act(actions[action])
            moves[frame] += int(height != (height := game.getRAM()[BAT]))
    return moves


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
    state, is_start = None, np.ones(games, np.bool_)
    while not over.all():
        actions, state = policy.predict(observation, state, is_start)
        is_start[:] = False  # returns after the end of a game are not counted
        observation, reward, terminated, truncated, _ = env.step(actions)
        returns += np.where(over, 0, reward)
        over |= terminated | truncated
    env.close()
    return starts, returns


def main() -> None:
    """Prints two lines for odd and two for even starts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="a run directory of pong")
    parser.add_argument("--checkpoint", default="final", help="a checkpoint's step, or final, or best [final]")
    parser.add_argument("--games", type=int, default=32, help="games to play [32]")
    parser.add_argument("--seed", type=int, default=5, help="seed of the games [5]")
    arguments = parser.parse_args()
    for name, start in (("odd", 5), ("even", 6)):
        print(f"{name:4}  the bat moves at frames 1 to 4 of {STEPS} steps: {bat_moves(start)} times")
    with one_torch_thread():
        starts, returns = play(arguments.run, arguments.checkpoint, arguments.games, arguments.seed)
    for name, half in (("odd", returns[starts % 2 == 1]), ("even", returns[starts % 2 == 0])):
        if len(half):
            spread = f"± {half.std():.1f}  ({half.min():.0f} to {half.max():.0f})"
            print(f"{name:4}  {len(half):3} games  {half.mean():6.1f} {spread}")


if __name__ == "__main__":
    main()
