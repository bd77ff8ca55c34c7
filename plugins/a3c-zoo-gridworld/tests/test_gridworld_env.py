"""The environment itself: episodes worked out by hand on the picture in `a3c_zoo_gridworld.grid`."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from a3c_zoo_gridworld.env import GridworldVectorEnv
from a3c_zoo_gridworld.grid import COLOURS, make_grid
from a3c_zoo_gridworld.plugin import zoo_envs

UP, RIGHT, DOWN, LEFT = range(4)
# At size 6: 4 down the left side, 5 along the gap's row, 4 up to the goal.
WAY = [DOWN] * 4 + [RIGHT] * 5 + [UP] * 4
CELLS = [6, 12, 18, 24, 25, 26, 27, 28, 29, 23, 17, 11, 5]


def all_do(env: GridworldVectorEnv, action: int) -> tuple[list[int], list[float], list[bool], list[bool]]:
    observations, rewards, terminated, truncated, info = env.step(np.full(env.num_envs, action))
    assert info == {}
    return observations.tolist(), rewards.astype(float).round(6).tolist(), terminated.tolist(), truncated.tolist()


@pytest.fixture
def env() -> GridworldVectorEnv:
    env = GridworldVectorEnv(2, slip=0.0)
    assert env.reset(seed=0)[0].tolist() == [0, 0]
    return env


def test_the_picture() -> None:
    assert make_grid(6).render(24).splitlines() == [
        "S . . # . G",
        ". . . # . .",
        ". . . # . .",
        ". . . # . .",
        "@ . . . . .",
        "O . . O . O",
    ]
    assert make_grid(4).render(0).splitlines() == ["@ . # G", ". . # .", ". . . .", "O . O O"]


def test_the_shortest_way(env: GridworldVectorEnv) -> None:
    for action, cell in zip(WAY[:-1], CELLS[:-1], strict=True):
        assert all_do(env, action) == ([cell] * 2, [-0.01] * 2, [False] * 2, [False] * 2)
    assert all_do(env, UP) == ([5, 5], [0.99, 0.99], [True, True], [False, False])
    # The next step ignores its action and starts anew; the one after it counts.
    assert all_do(env, DOWN) == ([0, 0], [0.0, 0.0], [False, False], [False, False])
    assert all_do(env, DOWN) == ([6, 6], [-0.01, -0.01], [False, False], [False, False])


def test_border_and_wall_stop_the_agent(env: GridworldVectorEnv) -> None:
    for action, cell in [(UP, 0), (LEFT, 0), (RIGHT, 1), (RIGHT, 2), (RIGHT, 2), (LEFT, 1)]:
        assert all_do(env, action) == ([cell] * 2, [-0.01] * 2, [False] * 2, [False] * 2)


def test_a_pit_ends_the_episode(env: GridworldVectorEnv) -> None:
    for _ in range(4):
        all_do(env, DOWN)
    assert all_do(env, DOWN) == ([30, 30], [-1.01, -1.01], [True, True], [False, False])


def test_each_grid_is_on_its_own(env: GridworldVectorEnv) -> None:
    for _ in range(4):
        env.step(np.array([DOWN, UP]))
    observations, _, terminated, _, _ = env.step(np.array([DOWN, RIGHT]))
    assert (observations.tolist(), terminated.tolist()) == ([30, 1], [True, False])
    observations, rewards, _, _, _ = env.step(np.array([RIGHT, RIGHT]))
    assert (observations.tolist(), rewards.astype(float).round(6).tolist()) == ([0, 2], [0.0, -0.01])


def test_the_time_limit_truncates() -> None:
    env = GridworldVectorEnv(1, slip=0.0, max_episode_steps=3)
    env.reset(seed=0)
    for _ in range(2):  # the second episode has all of its three steps too
        assert [all_do(env, UP)[3] for _ in range(4)] == [[False], [False], [True], [False]]


def test_the_goal_at_the_last_moment_is_no_truncation() -> None:
    env = GridworldVectorEnv(1, slip=0.0, max_episode_steps=13)
    env.reset(seed=0)
    assert [all_do(env, action)[2:] for action in WAY][-1] == ([True], [False])


def test_slipping_goes_all_ways_alike() -> None:
    env = GridworldVectorEnv(40_000, slip=0.4)
    env.reset(seed=0)
    all_do(env, DOWN)
    cells = env.step(np.full(env.num_envs, RIGHT))[0]
    # Down (6) 0.6 + 0.1, right (1) 0.1, else at the start; then right 0.7, and 0.1 for each of the others.
    share = np.bincount(cells, minlength=36) / env.num_envs
    assert share[[7, 12]] == pytest.approx([0.7 * 0.7 + 0.1 * 0.1, 0.7 * 0.1], abs=0.01)


def test_gymnasium_counts_the_same_returns() -> None:
    env = RecordEpisodeStatistics(GridworldVectorEnv(2, slip=0.0))
    env.reset(seed=0)
    for action in WAY:
        info = env.step(np.array([action, UP]))[4]
    assert info["_episode"].tolist() == [True, False]
    assert info["episode"]["r"][0] == pytest.approx(0.87)
    assert info["episode"]["l"][0] == 13


def test_rendering(env: GridworldVectorEnv) -> None:
    assert env.render() is None
    shown = GridworldVectorEnv(2, size=4, render_mode="ansi")
    shown.reset(seed=0)
    assert shown.render() == ("@ . # G\n. . # .\n. . . .\nO . O O",) * 2
    drawn = GridworldVectorEnv(2, size=4, render_mode="rgb_array")
    drawn.reset(seed=0)
    pictures = drawn.render()
    assert pictures is not None
    assert [(picture.shape, picture.dtype) for picture in pictures] == [((4, 4, 3), np.uint8)] * 2
    assert tuple(pictures[0][0, 0]) == COLOURS["@"]
    assert tuple(pictures[0][0, 3]) == COLOURS["G"]


@pytest.mark.parametrize("render_mode", ["ansi", "rgb_array"])
def test_the_single_environment_passes_gymnasiums_check(render_mode: str) -> None:
    import a3c_zoo_gridworld.single  # noqa: F401 (registers)

    gymnasium_check(gymnasium.make("Gridworld-v0", render_mode=render_mode).unwrapped)


def test_the_single_environment_is_the_same_grid(env: GridworldVectorEnv) -> None:
    single = gymnasium.make("a3c_zoo_gridworld.single:Gridworld-v0", slip=0.0)
    assert single.reset(seed=0)[0] == 0
    for action in np.random.default_rng(0).integers(4, size=100):
        observation, reward, terminated, truncated, _ = single.step(action)
        cells, rewards, ends, cuts = all_do(env, int(action))
        assert (observation, round(float(reward), 6), terminated, truncated) == (cells[0], rewards[0], ends[0], cuts[0])
        if terminated or truncated:
            single.reset()
            all_do(env, UP)


def best_return(size: int, slip: float) -> float:
    """The best mean return from the start without a time limit, by value iteration."""
    grid = make_grid(size)
    values = np.zeros(size * size)
    for _ in range(300):
        after = grid.rewards[grid.next_cell] + np.where(grid.terminal, 0, values)[grid.next_cell]
        values = ((1 - slip) * after + slip * after.mean(axis=1, keepdims=True)).max(axis=1)
    return float(values[0])


def test_the_threshold_asks_for_nearly_the_best() -> None:
    assert best_return(6, 0.0) == pytest.approx(0.87)
    assert best_return(6, 0.1) == pytest.approx(0.80, abs=0.005)
    # 100 episodes of the best policy have a standard error of 0.03: three of them are allowed for.
    assert {entry.threshold for entry in zoo_envs()} == {0.7}
