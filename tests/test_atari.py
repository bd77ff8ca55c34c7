"""Atari: real games of the emulator, held against their own lives, frame numbers and scores."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from ale_py.vector_env import AtariVectorEnv
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import VectorEnv, VectorWrapper

from a3c_zoo.baselines.random import UniformNetwork
from a3c_zoo.learning.actions import action_distribution
from a3c_zoo.learning.autoreset import episode_over
from a3c_zoo.learning.collector import Collector
from a3c_zoo.learning.contract import CheckedEnvironment
from a3c_zoo.learning.environments import make_vector_env
from a3c_zoo.learning.objective import Objective, advantages_and_returns
from a3c_zoo.learning.spaces import observation_spec
from a3c_zoo.runs.episodes import EpisodesToPlay
from a3c_zoo.runs.evaluation import evaluate_policy
from a3c_zoo_envs._atari import AtariGames
from a3c_zoo_envs.atari_family import atari_entry
from a3c_zoo_envs.env_configs import AtariConfig

NOOP, FIRE, RIGHT, LEFT = range(4)  # of Breakout


def games(rom: str = "breakout", num_envs: int = 1, render_mode: str | None = None, **keys: Any) -> AtariGames:
    """Games as their entry makes them."""
    env = make_vector_env(atari_entry(rom, rom), AtariConfig(**keys), num_envs, 0, render_mode)
    assert isinstance(env, AtariGames)
    return env


def always(action: int, num_envs: int = 1) -> np.ndarray:
    return np.full(num_envs, action)


def follow_the_ball(frame: np.ndarray) -> int:
    """Plays Breakout well enough to reach the upper rows, from a frame of 84×84."""
    ball, paddle = np.argwhere(frame[38:75, 5:79]), np.flatnonzero(frame[75, 5:79])
    if not len(ball) or not len(paddle):
        return FIRE
    offset = ball[:, 1].mean() - paddle.mean()
    return RIGHT if offset > 1 else LEFT if offset < -1 else NOOP


# What an observation is


@pytest.mark.parametrize(("rom", "actions"), [("pong", 6), ("breakout", 4), ("space_invaders", 6)])
def test_spaces(rom: str, actions: int) -> None:
    env = games(rom, 2)
    assert env.single_observation_space == Box(0, 255, (4, 84, 84), np.uint8)
    assert env.single_action_space == Discrete(actions)
    observation, _ = env.reset(seed=0)
    assert (observation.shape, observation.dtype) == ((2, 4, 84, 84), np.uint8)
    assert env.observation_space.contains(observation)


def test_frames_have_the_size_and_number_that_was_asked_for() -> None:
    env = games("pong", frame_size=42, frame_stack=2)
    assert env.reset(seed=0)[0].shape == (1, 2, 42, 42)
    assert env.step(always(NOOP))[0].shape == (1, 2, 42, 42)


def test_the_newest_frame_is_the_last() -> None:
    env = games("pong")
    before, _ = env.reset(seed=0)
    for _ in range(20):
        after = env.step(always(NOOP))[0]
        assert np.array_equal(after[:, :-1], before[:, 1:])
        before = after


@pytest.mark.parametrize("skip", [1, 4, 6])
def test_an_action_lasts_for_so_many_frames(skip: int) -> None:
    env = games("pong", frame_skip=skip, noop_max=0, fire_on_reset=False)
    _, info = env.reset(seed=0)
    assert info["episode_frame_number"].tolist() == [0]
    for t in range(1, 6):
        assert env.step(always(NOOP))[4]["episode_frame_number"].tolist() == [t * skip]
    assert env.metadata["render_fps"] == 60 / skip


def test_max_pooling_keeps_the_brighter_of_two_frames() -> None:
    pooled, plain = games(max_pool=True), games(max_pool=False)
    pooled.reset(seed=0)
    plain.reset(seed=0)
    brighter = 0
    for _ in range(30):
        one, other = (env.step(always(FIRE))[0].astype(int) for env in (pooled, plain))
        assert (one >= other).all()
        brighter += (one > other).sum()
    assert brighter > 0  # the ball is where it was and where it is


# How an episode starts


def test_up_to_30_idle_frames_before_an_episode() -> None:
    env, numbers = games(num_envs=4), []
    for _ in range(12):
        numbers += env.reset()[1]["episode_frame_number"].tolist()
    assert min(numbers) >= 1  # FIRE
    assert 25 <= max(numbers) <= 31
    assert len(set(numbers)) > 12


def test_without_them_every_episode_starts_alike() -> None:
    env = games(num_envs=3, noop_max=0, fire_on_reset=False)
    observation, info = env.reset(seed=0)
    assert info["episode_frame_number"].tolist() == [0] * 3
    assert (observation == observation[0]).all()


@pytest.mark.parametrize("fire", [True, False])
def test_breakout_waits_for_fire(fire: bool) -> None:
    env = games(fire_on_reset=fire)
    env.reset(seed=0)
    lives = [int(env.step(always(NOOP))[4]["lives"][0]) for _ in range(60)]
    assert lives[-1] == (4 if fire else 5)  # the ball is served, and lost; or it never was


def test_sticky_actions() -> None:
    """At probability 1 the emulator repeats its first action for ever, and ignores all other actions."""
    stuck, free = (
        [final_frame(games("pong", sticky_actions=p, fire_on_reset=False), action) for action in (2, 3)]
        for p in (1.0, 0.0)
    )
    assert np.array_equal(stuck[0], stuck[1])
    assert not np.array_equal(free[0], free[1])
    sometimes, never = (final_frame(games("pong", sticky_actions=p), None) for p in (0.25, 0.0))
    assert not np.array_equal(sometimes, never)
    assert AtariConfig().sticky_actions == 0


def final_frame(env: AtariGames, action: int | None) -> np.ndarray:
    """After 20 steps of one action, or of up and down in turn."""
    env.reset(seed=0)
    for t in range(20):
        observation = env.step(always(2 + t % 2 if action is None else action))[0]
    frame: np.ndarray = observation[0, -1]
    return frame


@pytest.mark.parametrize("keys", [{}, {"frame_skip": 2}, {"noop_max": 0, "fire_on_reset": False}, {"life_loss": True}])
def test_the_limit_of_an_episode_is_in_agent_steps(keys: dict[str, Any]) -> None:
    env = games(num_envs=2, max_episode_steps=10, **keys)
    env.reset(seed=0)
    flags = [env.step(always(NOOP, 2)) for _ in range(21)]
    truncated = np.array([step[3] for step in flags])
    assert np.flatnonzero(truncated[:, 0]).tolist() == [9, 20]  # the 11th step only resets
    assert (truncated == truncated[:, :1]).all()
    assert not any(step[2].any() for step in flags)
    assert AtariConfig().max_episode_steps == 27_000  # 108,000 frames


def test_the_final_observation_of_a_limit_was_on_the_screen() -> None:
    """Every frame of it is one that the same game shows without the limit; that of ale-py is not."""
    cut, whole = games(num_envs=2, max_episode_steps=50), games(num_envs=2)
    random = np.random.default_rng(0)
    before = cut.reset(seed=1)[0]
    whole.reset(seed=1)
    for step in range(1, 53):
        actions = random.integers(4, size=2)
        observation, _, _, truncated, _ = cut.step(actions)
        expected = whole.step(actions)[0]
        if step < 50:
            np.testing.assert_array_equal(observation, expected)
        elif step == 50:
            assert truncated.all()
            np.testing.assert_array_equal(observation, before)
        else:
            assert not truncated.any()
            assert (observation != expected).any()  # a new game has begun
        before = expected


def test_a_life_lost_on_the_last_step_ends_the_game_as_its_limit_does() -> None:
    """Both are reported, and the next step only resets."""
    free = games(life_loss=True)
    free.reset(seed=0)
    lost = next(t for t in range(1, 200) if free.step(always(NOOP))[2][0])  # the ball is served at the reset
    cut = games(life_loss=True, max_episode_steps=lost)
    cut.reset(seed=0)
    over = [bool(cut.episode_over(*(step := cut.step(always(NOOP)))[2:])[0]) for _ in range(lost)]
    assert step[2][0]
    assert step[3][0]
    assert over == [False] * (lost - 1) + [True]
    *_, ended, truncated, info = cut.step(always(NOOP))  # ignored: a new game
    assert info["lives"][0] == 5
    assert not cut.episode_over(ended, truncated, info)[0]
    later = [cut.step(always(NOOP)) for _ in range(lost)]
    assert [bool(cut.episode_over(*step[2:])[0]) for step in later] == [False] * (lost - 1) + [True]


# Scores and lives


@pytest.fixture(scope="module")
def breakout() -> dict[str, np.ndarray]:
    """700 steps of Breakout, one game played by following the ball, others at random; with and without lost lives."""
    tapes: dict[bool, list[Any]] = {True: [], False: []}
    random = np.random.default_rng(0)
    envs = {life_loss: games(num_envs=2, life_loss=life_loss) for life_loss in tapes}
    seen = {life_loss: env.reset(seed=1)[0] for life_loss, env in envs.items()}
    actions = []
    for _ in range(700):
        actions.append(np.array([follow_the_ball(seen[True][0, -1]), random.integers(4)]))
        for life_loss, env in envs.items():
            seen[life_loss], reward, terminated, truncated, info = env.step(actions[-1])
            over = env.episode_over(terminated, truncated, info)
            row = (reward, terminated, truncated, over, info["lives"], info["episode_frame_number"])
            tapes[life_loss].append((*row, seen[life_loss][:, -1].sum(axis=(1, 2))))
    names = ("rewards", "terminated", "truncated", "over", "lives", "frames", "brightness")
    taped = {
        f"{name} {key}": np.stack(column)
        for key, tape in tapes.items()
        for name, column in zip(names, zip(*tape, strict=True), strict=True)
    }
    return taped


def test_rewards_are_raw(breakout: dict[str, np.ndarray]) -> None:
    """Breakout's rows are worth 1, 1, 4, 4, 7 and 7 points, from below."""
    worth = set(breakout["rewards True"].ravel().tolist())
    assert {0, 1, 4} <= worth <= {0, 1, 4, 7, 8}  # 8: two bricks within four frames


def test_a_lost_life_is_a_termination_and_the_game_goes_on(breakout: dict[str, np.ndarray]) -> None:
    lives, terminated, over = (breakout[f"{name} True"] for name in ("lives", "terminated", "over"))
    frames = breakout["frames True"]
    lost = over_after = 0
    for n in range(2):
        before = 5
        for t in range(len(lives)):
            if t and over[t - 1, n]:  # this step's action was ignored: a new game
                assert lives[t, n] == 5
                assert not terminated[t, n]
                assert frames[t, n] < 40
            else:
                assert terminated[t, n] == (lives[t, n] < before), (t, n)
                assert over[t, n] == (lives[t, n] == 0), (t, n)
                if t:
                    assert over[t, n] or frames[t, n] == frames[t - 1, n] + 4  # the same game goes on
            lost += terminated[t, n] and not over[t, n]
            over_after += over[t, n]
            before = lives[t, n]
    assert lost > 8
    assert over_after > 1


def test_the_games_are_the_same_without(breakout: dict[str, np.ndarray]) -> None:
    for name in ("rewards", "over", "lives", "frames", "brightness", "truncated"):
        assert np.array_equal(breakout[f"{name} True"], breakout[f"{name} False"]), name
    assert np.array_equal(breakout["terminated False"], breakout["over False"])


@pytest.mark.parametrize(
    ("over", "before", "now", "terminated"),
    [
        (False, 5, 4, True),  # a life
        (True, 1, 0, True),
        (True, 1, 1, True),  # Adventure ends with a life left
        (True, 0, 0, True),  # games without lives
        (False, 1, 0, True),  # Q*bert with a bonus life that isn't counted goes on with none,
        (False, 0, -1, True),  # and then with fewer
        (False, 3, 4, False),  # an extra life
        (False, 0, 5, False),  # a new game
    ],
)
def test_a_lost_life_is_told_from_the_end(
    over: bool, before: int, now: int, terminated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = games("pong", life_loss=True, frame_size=8, frame_stack=1)
    observation, info = env.reset(seed=0)
    flags, none = np.array([over]), np.array([False])
    lives = {"lives": np.array([now], np.int32)}
    monkeypatch.setattr(env, "_lives", np.array([before], np.int32))
    monkeypatch.setattr(AtariVectorEnv, "step", lambda self, actions: (observation, info["lives"], flags, none, lives))
    *_, ended, truncated, told = env.step(always(NOOP))
    assert ended.tolist() == [terminated]
    assert env.episode_over(ended, truncated, told).tolist() == [over]
    assert env.episode_over(ended, np.array([True]), told).tolist() == [True]
    assert not env.step(always(NOOP))[2][0] or over  # the same number again is no further loss


def test_a_new_game_with_fewer_lives_has_lost_none(monkeypatch: pytest.MonkeyPatch) -> None:
    env = games("pong", life_loss=True, frame_size=8, frame_stack=1)
    observation, info = env.reset(seed=0)
    steps = iter([(6, True), (5, False), (4, False)])  # the limit ends a game with bonus lives

    def step(self: Any, actions: Any) -> Any:
        lives, truncated = next(steps)
        told = {"lives": np.array([lives], np.int32)}
        return observation, info["lives"], np.array([False]), np.array([truncated]), told

    monkeypatch.setattr(AtariVectorEnv, "step", step)
    assert [bool(env.step(always(NOOP))[2][0]) for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize("keys", [{}, {"fire_after_life_loss": True}, {"life_loss": True}])
def test_without_fire_the_ball_is_not_served_again(keys: dict[str, bool]) -> None:
    assert idle_lives(**keys) == 4


def test_fire_after_each_lost_life() -> None:
    assert idle_lives(life_loss=True, fire_after_life_loss=True) == 0


def idle_lives(**keys: Any) -> int:
    """Lives that are left after 400 steps of doing nothing, in each of two games."""
    env = games(num_envs=2, **keys)
    env.reset(seed=0)
    over = np.zeros(2, bool)
    for _ in range(400):
        *_, terminated, truncated, info = env.step(always(NOOP, 2))
        lives = np.where(over, 0, info["lives"])
        over |= env.episode_over(terminated, truncated, info)
    assert lives[0] == lives[1]
    return int(lives[0])


def test_pong_has_no_lives_to_fire_after() -> None:
    """The option changes no frame. Pong has the action FIRE, Freeway doesn't."""
    for rom in ("pong", "freeway"):
        plain, firing = (games(rom, life_loss=True, fire_after_life_loss=fire) for fire in (False, True))
        frames = [[env.reset(seed=0)[0]] + [env.step(always(2))[0] for _ in range(60)] for env in (plain, firing)]
        assert np.array_equal(np.stack(frames[0]), np.stack(frames[1]))


class Same(VectorWrapper[Any, Any, Any, Any, Any]):
    """Changes nothing."""


def test_a_lost_life_is_no_episode_behind_wrappers() -> None:
    env = games(life_loss=True)
    assert episode_over(Same(Same(env))) == env.episode_over
    other = Same(gym.make_vec("CartPole-v1", num_envs=2))
    assert episode_over(other)(np.array([True, False]), np.array([False, False]), {}).tolist() == [True, False]


class Taped:
    """Breakout whose every step is kept."""

    def __init__(self, env: AtariGames) -> None:
        self.env, self.steps = env, []  # type: AtariGames, list[tuple[Any, ...]]
        self.num_envs, self.autoreset_mode, self.episode_over = env.num_envs, env.autoreset_mode, env.episode_over

    def reset(self, **options: Any) -> Any:
        return self.env.reset(**options)

    def step(self, actions: np.ndarray) -> Any:
        self.steps.append(self.env.step(actions))
        return self.steps[-1]


T = 50


@pytest.fixture(scope="module")
def collected() -> tuple[Taped, list[tuple[Any, ...]]]:
    """Rollouts of random actions on Breakout: (rewards, terminated, valid, episodes) of each, and what was seen."""
    env = games(num_envs=4, life_loss=True, frame_size=8, frame_stack=1)
    spec, actions = observation_spec(env.single_observation_space), action_distribution(env.single_action_space)
    taped: Any = Taped(env)
    checked = CheckedEnvironment(taped, "breakout", spec)
    collector = Collector(checked, actions, T, 7, torch.Generator().manual_seed(0), lambda: None)
    network, rollouts = UniformNetwork(4), []
    for _ in range(10):
        episodes, rollout = collector.collect(network), collector.rollout
        rollouts.append((rollout.rewards.copy(), rollout.terminated.copy(), rollout.valid.copy(), episodes))
    return taped, rollouts


def test_what_is_learned_from_masks_the_ignored_steps_alone(collected: tuple[Taped, list[tuple[Any, ...]]]) -> None:
    taped, rollouts = collected
    lives = np.array([step[4]["lives"] for step in taped.steps])
    terminated, valid = (np.concatenate([rollout[k] for rollout in rollouts]) for k in (1, 2))
    ignored = np.vstack([np.zeros((1, 4), bool), lives[:-1] == 0])
    assert np.array_equal(valid, ~ignored)
    dropped = np.vstack([lives[:1] < 5, lives[1:] < lives[:-1]]) & ~ignored
    assert np.array_equal(terminated & valid, dropped)
    assert (terminated & (lives > 0)).sum() > 10


def test_episodes_are_whole_games(collected: tuple[Taped, list[tuple[Any, ...]]]) -> None:
    taped, rollouts = collected
    rewards, lives = (
        np.array(column) for column in zip(*((step[1], step[4]["lives"]) for step in taped.steps), strict=True)
    )
    expected = []
    for n in range(4):
        start = 0
        for end in np.flatnonzero(lives[:, n] == 0).tolist():
            expected.append((end, float(rewards[start : end + 1, n].sum()), end + 1 - start))
            start = end + 2  # the step after the end is ignored
    found = [(k * T + e.row, e.episode_return, e.length) for k, rollout in enumerate(rollouts) for e in rollout[3]]
    assert sorted(found) == sorted(expected)
    assert len(found) > 3
    assert any(score > 0 for _, score, _ in found)


def test_nothing_is_bootstrapped_across_a_lost_life() -> None:
    """V = 10 everywhere and γ = 0.5. A step's return is its reward plus 5, or its reward alone if a life was lost."""
    env = games(num_envs=1, life_loss=True, frame_size=8, frame_stack=1)
    spec, actions = observation_spec(env.single_observation_space), action_distribution(env.single_action_space)
    checked = CheckedEnvironment(env, "breakout", spec)
    collector = Collector(checked, actions, 100, 7, torch.Generator().manual_seed(0), lambda: None)
    collector.collect(UniformNetwork(4))
    rollout, tens = collector.rollout, np.full((100, 1), 10, np.float32)
    _, returns = advantages_and_returns(rollout, slice(0, 1), tens, tens, Objective(0.5, 0.0, 0.0, 0.5))
    lost = rollout.terminated[:, 0]
    assert 1 < lost.sum() < 5
    assert returns[lost, 0].tolist() == rollout.rewards[lost, 0].tolist()
    assert returns[~lost, 0].tolist() == (rollout.rewards[~lost, 0] + 5).tolist()


class RandomActions:
    """The same ones again for every evaluation."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[Any, Any]:
        return self.random.integers(4, size=len(observation)), state


def test_an_evaluation_plays_whole_games() -> None:
    results = []
    for life_loss in (True, False):
        keys = AtariConfig(life_loss=life_loss, frame_size=8, frame_stack=1)
        entry = atari_entry("breakout", "breakout")
        to_play = EpisodesToPlay(entry, keys, 3, seed=0, number=0, num_envs=2)
        result = evaluate_policy(RandomActions(), to_play).evaluation()
        results.append((result.mean_return, result.max_return, result.mean_length))
    assert results[0] == results[1]
    assert results[0][2] > 100  # five lives


# Pictures


def test_the_twin_that_is_drawn_starts_where_its_games_do() -> None:
    """Also without a seed, both begin with the same number of no-ops."""
    env = games(num_envs=8, render_mode="rgb_array")
    _, info = env.reset()
    assert env._twin is not None
    *_, of_twin = env._twin.step(np.zeros(8, np.int64))
    assert len(set(of_twin["episode_frame_number"])) > 1
    assert of_twin["episode_frame_number"].tolist() == (info["episode_frame_number"] + 4).tolist()
    env.close()


def test_the_twin_that_is_drawn_plays_the_same_games() -> None:
    env = games(num_envs=2, render_mode="rgb_array", sticky_actions=0.25, life_loss=True)
    observation, _ = env.reset(seed=3)
    random, ends, colours = np.random.default_rng(0), 0, set()
    for _ in range(250):
        for n, picture in enumerate(env.render()):
            assert (picture.shape, picture.dtype.name) == ((210, 160, 3), "uint8")
            grey = shrunk(picture @ np.array([0.299, 0.587, 0.114]), 84)
            # Grey of the brighter frame against the brightest of each colour: the ball alone may differ.
            assert np.abs(grey - observation[n, -1]).mean() < 1
        colours |= {tuple(colour) for colour in picture[::7, ::7].reshape(-1, 3).tolist()}
        observation, _, terminated, truncated, info = env.step(random.integers(4, size=2))
        ends += env.episode_over(terminated, truncated, info).sum()
    assert ends >= 1
    assert len({colour for colour in colours if len(set(colour)) > 1}) >= 6  # the rows of bricks
    env.close()


def shrunk(picture: np.ndarray, size: int) -> np.ndarray:
    """Returns each new pixel as the mean of the area that it covers."""
    for _ in range(2):
        height = len(picture)
        edges = np.arange(size + 1) * height / size
        rows = np.arange(height)
        weights = np.clip(np.minimum(edges[1:, None], rows + 1) - np.maximum(edges[:-1, None], rows), 0, None)
        picture = (weights @ picture / weights.sum(axis=1, keepdims=True)).T
    return picture


def test_games_write_into_no_others_metadata() -> None:
    before = dict(VectorEnv.metadata)
    games("pong", render_mode="rgb_array", frame_skip=7)  # as no other test's, so that none can have written it before
    assert dict(VectorEnv.metadata) == before
