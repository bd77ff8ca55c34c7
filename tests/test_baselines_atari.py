"""stable-baselines3 on Atari: its own wrappers as its users join them, and the zoo's games through the adapter."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.monitor import load_results
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike
from stable_baselines3.common.vec_env import VecFrameStack, VecTransposeImage

import a3c_zoo
from a3c_zoo.baselines.sb3_model import build_model, make_stack
from a3c_zoo.config import Config
from a3c_zoo.config.sets import resolve_config
from a3c_zoo.cures import install_needed
from a3c_zoo.errors import ConfigError
from a3c_zoo.learning.environments import make_vector_env
from a3c_zoo.plugins.registry import get_registry
from tests.toys_baselines import agent_state, one_thread, train
from tests.toys_runs import command_line
from tests.waits import LIMIT_S


@pytest.fixture(autouse=True)
def with_one_thread() -> Iterator[None]:
    with one_thread():
        yield


def config(env: str = "pong", agent: str = "sb3-a2c", *overrides: str) -> Config:
    registry = get_registry()
    return resolve_config(registry, registry.env(env), registry.agent(agent), overrides=list(overrides))


def stack(env: str, *overrides: str, num_envs: int = 2, seed: int = 3) -> Any:
    return make_stack(get_registry().env(env), config(env, "sb3-a2c", *overrides), num_envs, seed)


def test_on_the_zoos_games_its_actions_are_played() -> None:
    """Where nobody fires, a lost ball is not served again: one life is lost, and no game ends within 400 steps."""
    settings = [[], ["env.stack=zoo"], ["env.stack=zoo", "env.fire_after_life_loss=true"]]
    fires = [config("breakout", "sb3-a2c", *each).env.fire_after_life_loss for each in settings]  # type: ignore[attr-defined]
    assert fires == [True, False, True]  # what is typed counts
    env = stack("breakout", "env.stack=zoo")
    env.reset()
    lost = np.zeros(2, np.int64)
    for _ in range(400):
        _, _, dones, infos = env.step(np.zeros(2, np.int64))
        lost += dones
        assert not any("episode" in info for info in infos)
    env.close()
    assert lost.tolist() == [1, 1]


# Its own stack


def test_it_is_what_a_script_of_sb3s_users_makes() -> None:
    ours = stack("breakout")
    theirs: Any = make_atari_env("BreakoutNoFrameskip-v4", 2, seed=3)
    theirs = VecTransposeImage(VecFrameStack(theirs, 4))
    assert ours.observation_space == theirs.observation_space
    assert ours.observation_space.shape == (4, 84, 84)
    assert np.array_equal(ours.reset(), theirs.reset())
    random = np.random.default_rng(0)
    for _ in range(60):
        actions = random.integers(4, size=2)
        for mine, yours in zip(ours.step(actions)[:3], theirs.step(actions)[:3], strict=True):
            assert np.array_equal(mine, yours)


@pytest.mark.parametrize("agent", ["sb3-a2c", "sb3-ppo"])
@pytest.mark.parametrize("env", ["breakout", "atari:breakout"])
def test_idle_games_end_where_it_is_evaluated_too(env: str, agent: str) -> None:
    """SB3's wrappers press FIRE after each lost life, so its agents don't learn it. The zoo's games press it too."""
    trained_on = stack("breakout", num_envs=1)
    trained_on.reset()
    assert any("episode" in trained_on.step(np.zeros(1, int))[3][0] for _ in range(400))
    evaluated_on: Any = make_vector_env(get_registry().env(env), config(env, agent).env, 1, 3)
    evaluated_on.reset(seed=3)
    assert any(evaluated_on.step(np.zeros(1, int))[4]["game_over"][0] for _ in range(400))


def test_a_game_asked_for_by_its_id_has_no_wrappers() -> None:
    """Training and evaluation must have equal observations, and the zoo evaluates on plain frames."""
    env = stack("gym:ale_py:PongNoFrameskip-v4", num_envs=1)
    assert env.observation_space.shape == (210, 160, 3)


def test_keys_reach_its_wrappers() -> None:
    env = stack("pong", "frame_size=42", "frame_stack=2", "noop_max=0", "life_loss=false", num_envs=1)
    assert env.observation_space.shape == (2, 42, 42)


def test_keys_that_it_does_not_have_are_refused() -> None:
    for key in ("max_pool=false", "fire_on_reset=false", "max_episode_steps=9"):
        name = key.partition("=")[0]
        with pytest.raises(ConfigError, match=rf"env\.{name}: ale_py:PongNoFrameskip-v4 doesn't know this key of"):
            stack("pong", key)


def test_games_without_an_id_are_played_on_the_zoos() -> None:
    assert config("atari:space_invaders").env.stack == "own"
    assert config("atari:king_kong").env.stack == "zoo"


@pytest.mark.parametrize("which", ["own", "zoo"])
def test_scores_are_raw_and_episodes_whole_games(which: str) -> None:
    """Random actions on Breakout. The last of five lives ends the episode. Rewards are clipped for SB3."""
    env = stack("breakout", f"stack={which}", num_envs=2)
    env.reset()
    random = np.random.default_rng(0)
    dones, episodes, clipped = [0, 0], [], np.zeros(2)
    for _ in range(700):
        _, rewards, done, infos = env.step(random.integers(4, size=2))
        assert set(rewards.tolist()) <= {0, 1}
        clipped += rewards
        for n in np.flatnonzero(done):
            dones[n] += 1
            assert infos[n]["terminal_observation"].shape == (4, 84, 84)
            assert not infos[n]["TimeLimit.truncated"]
            if "episode" in infos[n]:
                episodes.append((dones[n], infos[n]["episode"]["r"], clipped[n]))
                dones[n], clipped[n] = 0, 0
    assert len(episodes) >= 4
    assert {lives for lives, _, _ in episodes} == {5}
    assert all(score >= seen for _, score, seen in episodes)
    assert sum(score for _, score, _ in episodes) > 0


def test_after_a_lost_life_the_zoos_game_goes_on() -> None:
    """Step by step the same as the game itself, until it is over."""
    ours: Any = stack("breakout", "stack=zoo", "frame_size=42", num_envs=1, seed=5)
    settings = config("breakout", "sb3-a2c", "stack=zoo", "frame_size=42")
    game: Any = make_vector_env(get_registry().env("breakout"), settings.env, 1, 5)
    ours.seed(5)
    assert np.array_equal(ours.reset(), game.reset(seed=5)[0])
    random, score, lost = np.random.default_rng(1), 0.0, 0
    for length in range(1, 1000):
        action = random.integers(4, size=1)
        observation, reward, done, infos = ours.step(action)
        expected, raw, terminated, _, info = game.step(action)
        score += raw[0]
        assert (reward[0], done[0]) == (np.sign(raw[0]), terminated[0])
        lost += done[0]
        if info["lives"][0] == 0:
            assert infos[0]["episode"] == {"r": score, "l": length}
            assert np.array_equal(infos[0]["terminal_observation"], expected[0])
            break
        assert np.array_equal(observation, expected)
        assert "episode" not in infos[0]
    assert lost == 5


# A run


def test_a_run_counts_agent_steps(tmp_path: Path) -> None:
    run = train(tmp_path, "sb3-a2c", 600, env="breakout", overrides=["num_envs=2", "agent.n_steps=100", "run.seed=1"])
    episodes = load_results(str(run))
    assert len(episodes) >= 2
    assert episodes.l.min() > 60  # a life alone lasts 20 to 60
    assert episodes.l.sum() <= 600  # its monitors count emulator frames, four times as many
    state = agent_state(run)
    assert state["steps"] == 600
    # The network of the DQN paper, as ours counts it.
    trained = {name: tensor for name, tensor in state["policy"].items() if not name.startswith(("pi_", "vf_"))}
    assert sum(tensor.numel() for tensor in trained.values()) == 1_687_719 - 2 * 513  # 4 actions, not 6
    actions, _ = a3c_zoo.load_agent(run).predict(np.zeros((3, 4, 84, 84), np.uint8))  # as the zoo's games show it
    assert actions.shape == (3,)


@pytest.mark.parametrize(("agent", "env"), [("sb3-a2c", "pong"), ("sb3-ppo", "breakout"), ("sb3-ppo", "atari:qbert")])
def test_rl_zoos_settings(agent: str, env: str) -> None:
    settings = config(env, agent)
    chosen: Any = settings.agent
    assert (settings.run.steps, settings.env.stack, chosen.policy, chosen.ent_coef) == (10**7, "own", "CnnPolicy", 0.01)
    model: Any = build_model(get_registry().env(env), settings, stack(env), seed=0)
    if agent == "sb3-a2c":
        assert (settings.env.num_envs, chosen.n_steps, chosen.vf_coef) == (16, 5, 0.25)
        assert isinstance(model.policy.optimizer, RMSpropTFLike)
        (group,) = model.policy.optimizer.param_groups
        assert (group["eps"], group["alpha"], group["lr"]) == (1e-5, 0.99, 7e-4)
    else:
        assert (settings.env.num_envs, chosen.n_steps, chosen.n_epochs, chosen.batch_size) == (8, 128, 4, 256)
        assert (chosen.vf_coef, chosen.gae_lambda, chosen.gamma) == (0.5, 0.95, 0.99)
        assert (model.lr_schedule(1.0), model.clip_range(1.0)) == (2.5e-4, 0.1)
        model.num_timesteps = 5_000_000
        assert (model.lr_schedule(1.0), model.clip_range(1.0)) == (1.25e-4, 0.05)


def test_a_command_leaves_no_emulator_to_pythons_end(tmp_path: Path) -> None:
    """ale-py would print each of them, after the last line of the run."""
    options = ["-o", "agent.vec_env=dummy", "-o", "agent.torch_threads=1", "-o", "env.num_envs=2"]
    command = [sys.executable, "-m", "a3c_zoo", "train", "pong", "--agent", "sb3-a2c", "--steps", "20", *options]
    done = subprocess.run([*command, "--runs-dir", str(tmp_path)], capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    assert "leaked" not in done.stdout + done.stderr


def test_without_opencv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    assert command_line("train", "pong", "--agent", "sb3-a2c", "--quiet", "--runs-dir", tmp_path) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("Error: stable-baselines3's Atari wrappers need OpenCV (")
    assert line.endswith(f"{install_needed('opencv-python-headless')}. Without it: env.stack=zoo")


def test_a_machine_without_opencv_trains_on_the_zoos_games(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    overrides = ["stack=zoo", "num_envs=2", "max_episode_steps=20", "agent.n_steps=10"]
    run = train(tmp_path, "sb3-a2c", 80, env="pong", overrides=overrides)
    assert load_results(str(run)).l.tolist() == [20] * 4
