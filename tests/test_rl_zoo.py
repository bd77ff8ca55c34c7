"""Files of RL Baselines3 Zoo: recognised, translated where a key exists here, the others named."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import A2C
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

import a3c_zoo
from a3c_zoo.config import Config
from a3c_zoo.config.sets import resolve_config
from a3c_zoo.errors import ConfigError
from a3c_zoo.plugins.registry import get_registry
from tests.toys_baselines import agent_state, one_thread, train
from tests.toys_runs import command_line

Captured = pytest.CaptureFixture[str]

FILE = """
atari:
  env_wrapper:
    - stable_baselines3.common.atari_wrappers.AtariWrapper
  frame_stack: 2
  policy: 'CnnPolicy'
  n_envs: 16
  n_timesteps: !!float 1e7
  policy_kwargs: "dict(optimizer_class=RMSpropTFLike, optimizer_kwargs=dict(eps=1e-5))"

Pendulum-v1: &shared
  normalize: "dict(norm_obs=False, norm_reward=True)"
  n_timesteps: 1e6
  policy: MlpPolicy
  learning_rate: lin_7e-4
  gamma: 0.9
  policy_kwargs: "dict(log_std_init=-2, ortho_init=False, activation_fn=nn.ReLU, net_arch=dict(pi=[64], vf=[32, 16]))"

MountainCarContinuous-v0:
  <<: *shared
  gamma: 0.5
  normalize: {norm_obs: True, norm_reward: False, clip_obs: 5}

CartPole-v1:
  n_timesteps: 500
  policy: MlpPolicy
  frame_stack: 4
  env_wrapper:
    - gymnasium.wrappers.TimeLimit:
        max_episode_steps: 200
    - my.wrappers.Mine: {a: 'x y'}
  env_kwargs: {is_slippery: false}
  clip_range_vf: 0.2
  train_freq: [1, "episode"]
  policy_kwargs: "dict(features_extractor_class=Mine, net_arch=[8])"

default:
  policy: MlpPolicy
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "a2c.yml").write_text(FILE)
    return tmp_path / "a2c.yml"


def resolved(file: Path, env: str, agent: str = "sb3-a2c") -> Config:
    registry = get_registry()
    registry.told.clear()
    return resolve_config(registry, registry.env(env), registry.agent(agent), hyperparams=str(file))


def given(config: Config, file: Path) -> dict[str, Any]:
    """The values that come from the file."""
    values = {f"{name}.{key}": value for name, section in config.sections().items() for key, value in section}
    return {label: values[label] for label, source in config.sources.items() if source.startswith(str(file))}


def test_an_entry_with_all_that_it_inherits(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = resolved(file, "gym:Pendulum-v1")
    expected = {
        "run.steps": 1_000_000, "env.num_envs": 1, "agent.policy": "MlpPolicy", "agent.normalize": "rewards",
        "agent.learning_rate": 7e-4, "agent.learning_rate_schedule": "linear", "agent.gamma": 0.9,
        "agent.log_std_init": -2, "agent.ortho_init": False, "agent.activation": "relu",
        "agent.net_arch": {"pi": [64], "vf": [32, 16]},
    }  # fmt: skip
    assert given(config, file) == expected
    assert config.sources["agent.learning_rate"] == f"{file}:15"
    assert config.to_dict()["agent"]["n_steps"] == 5  # SB3's own default, not that of the zoo's set for Pendulum
    assert caplog.messages == []
    other = given(resolved(file, "gym:MountainCarContinuous-v0"), file)
    assert other == expected | {"agent.gamma": 0.5, "agent.normalize": "observations"}
    assert caplog.messages == [f"{file}:22 normalize.clip_obs: 5 is left out: VecNormalize has its own default here"]


def test_the_entry_of_atari_games(file: Path) -> None:
    assert given(resolved(file, "atari:breakout"), file) == {
        "run.steps": 10_000_000, "env.num_envs": 16, "env.frame_stack": 2, "env.life_loss": True,
        "env.fire_after_life_loss": True, "agent.policy": "CnnPolicy", "agent.clip_rewards": True,
        "agent.rms_prop_tf_like": True, "agent.rms_prop_eps": 1e-5,
    }  # fmt: skip


def test_what_has_no_key_here_is_named(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = resolved(file, "gym:CartPole-v1")
    assert given(config, file) == {
        "run.steps": 500, "env.num_envs": 1, "env.max_episode_steps": 200, "agent.policy": "MlpPolicy",
        "agent.net_arch": [8], "env.kwargs": {"is_slippery": False},
    }  # fmt: skip
    wrappers = (
        "env.wrappers=[{gymnasium.wrappers:FrameStackObservation: {stack_size: 4}}, {my.wrappers:Mine: {a: x y}}]"
    )
    assert caplog.messages == [
        f"{file}:33 clip_range_vf: 0.2 is left out: there is no such key here",
        f"{file}:34 train_freq: [1, episode] is left out: there is no such key here",
        f"{file}:35 policy_kwargs.features_extractor_class: Mine is left out: there is no such key here",
        f"{file}:27 wrappers are left out; name them yourself: -o '{wrappers}'",
    ]
    caplog.clear()
    resolved(file, "cartpole")
    assert f"gym:CartPole-v1 takes them: -o '{wrappers}'" in caplog.messages[-1]
    assert "env_kwargs: {is_slippery: false} is left out: a factory makes this environment" in caplog.messages[0]


@pytest.mark.parametrize(
    ("env", "agent", "message"),
    [
        (
            "gym:Acrobot-v1",
            "a3c",
            "its values are those of stable-baselines3's algorithms: name one, as --agent sb3-a2c",
        ),
        ("gym:Acrobot-v1", "sb3-a2c", "it has no entry for Acrobot-v1. It has: CartPole-v1, atari"),
    ],
)
def test_a_file_that_does_not_fit(env: str, agent: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.yml").write_text("CartPole-v1: {n_envs: 8}\natari: {n_envs: 8}\n")
    with pytest.raises(ConfigError, match=f"^{tmp_path}/x.yml: this is a file of RL Baselines3 Zoo, and {message}$"):
        resolved(tmp_path / "x.yml", env, agent)


@pytest.mark.parametrize(
    "entry",
    [
        "a: &a {n_envs: 1, <<: *a}",  # an alias of itself
        "n_envs: 1\n  a0: &a0 [1, 2]\n" + "".join(f"  a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]\n" for n in range(1, 19)),
        "n_envs: 1\n  b0: &b0 {}\n" + "".join(f"  b{n}: &b{n} {{<<: [{f'*b{n - 1}, ' * 9}]}}\n" for n in range(1, 19)),
    ],
)
def test_aliases_that_repeat_themselves_cost_nothing(entry: str, tmp_path: Path) -> None:
    (tmp_path / "x.yml").write_text(f"CartPole-v1:\n  {entry}")
    start_s = time.process_time()
    with pytest.raises(ConfigError):
        resolved(tmp_path / "x.yml", "cartpole")
    assert time.process_time() - start_s < 5


@pytest.mark.parametrize(
    "text",
    ["__import__('os').system('false')", "(" * 1500, "{**a}", "dict(*a)", "dict(a=b())", "x" * 3000, "{1: 2}", "\0"],
)
def test_texts_of_python_are_not_run(text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "x.yml").write_text(f"CartPole-v1:\n  n_envs: 2\n  policy_kwargs: {json.dumps(text)}\n")
    assert "agent.net_arch" not in given(resolved(tmp_path / "x.yml", "cartpole"), tmp_path / "x.yml")
    assert caplog.messages[0].endswith("is left out: only a dict of plain values is read")


def test_show_writes_a_set(file: Path, tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "pendulum.yml"
    command = ("show", "hyperparams", "gym:Pendulum-v1", "--agent", "sb3-a2c", "--hyperparams", str(file))
    assert command_line(*command, "--out", str(out)) == 0
    assert resolved(out, "gym:Pendulum-v1").to_dict() == resolved(file, "gym:Pendulum-v1").to_dict()
    assert command_line(*command, "--out", str(out)) == 2
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize("half", ["observations", "rewards"])
def test_a_half_of_vec_normalize_to_the_bit(half: str, tmp_path: Path) -> None:
    with one_thread():
        run = train(tmp_path, "sb3-a2c", 80, seed=6, overrides={"agent.normalize": half, "env.num_envs": 2})
        inner = make_vec_env("CartPole-v1", 2, seed=6)
        env = VecNormalize(inner, norm_obs=half == "observations", norm_reward=half == "rewards", gamma=0.99)
        model = A2C("MlpPolicy", env, seed=6, device="cpu")
        model.learn(80)
        state, theirs = agent_state(run), model.policy.state_dict()
        assert [name for name, each in state["policy"].items() if not torch.equal(each, theirs[name])] == []
        assert ("observation" in state["normalize"]) == (half == "observations")
        observations = np.random.default_rng(0).normal(0, 0.05, (40, 4)).astype(np.float32)
        mine, _ = a3c_zoo.load_agent(run).predict(observations, deterministic=True)
        assert mine.tolist() == model.predict(env.normalize_obs(observations), deterministic=True)[0].tolist()
        a3c_zoo.train(resume=run, steps=120)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ('policy_kwargs: "dict(optimizer_class=RMSpropTFLike, optimizer_kwargs=None)"', ""),
        (
            'policy_kwargs: "dict(optimizer_class=RMSpropTFLike, optimizer_kwargs=dict(eps=1e-5, alpha=0.9))"',
            "optimizer_kwargs.alpha",
        ),
        ("env_wrapper: null", ""),
        ("env_wrapper: [[a.B, {x: 1}]]", "env_wrapper: [a.B, {x: 1}] is left out: a wrapper is one name"),
        ("env_wrapper: [{a.B: {x: 1}, c.D: {y: 2}}]", "c:D"),
        ("normalize: {norm_obs: 1, norm_reward: false}", ""),
        ("learning_rate: lin_abc", "learning_rate"),
    ],
)
def test_no_value_is_lost_without_a_word(
    lines: str, told: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "zoo.yml").write_text(f"CartPole-v1:\n  policy: MlpPolicy\n  n_timesteps: 500\n  {lines}\n")
    registry = get_registry()
    config = resolve_config(
        registry, registry.env("gym:CartPole-v1"), registry.agent("sb3-a2c"), hyperparams=str(tmp_path / "zoo.yml")
    )
    assert told in caplog.text
    assert ":None" not in caplog.text
    if "norm_obs: 1" in lines:
        assert config.agent.model_dump()["normalize"] == "observations"
