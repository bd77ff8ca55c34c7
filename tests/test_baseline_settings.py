"""Choosing and configuring baselines: the stack, what stable-baselines3 is given, and what is refused."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib import RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.monitor import load_results

import a3c_zoo
from a3c_zoo import hardware
from a3c_zoo.baselines.baseline_configs import RecurrentPPOConfig, SB3A2CConfig, SB3Config, SB3DQNConfig, SB3PPOConfig
from a3c_zoo.cli.main import cli
from a3c_zoo.config.sets import resolve_config
from a3c_zoo.errors import ConfigError, EnvironmentContractError, UnknownNameError
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.store.directory import RunDirectory
from tests.toys_baselines import BASELINES, agent_state, one_thread, toys_installed, train
from tests.toys_runs import checkpoint, write_content

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def with_one_thread() -> Iterator[None]:
    with one_thread():
        yield


@pytest.fixture
def toys(tmp_path: Path) -> Iterator[None]:
    with toys_installed(tmp_path / "plugins"):
        yield


def config(agent: str, env: str = "cartpole", *overrides: str, flags: Any = None) -> Any:
    registry = get_registry()
    return resolve_config(registry, registry.env(env), registry.agent(agent), overrides=overrides, flags=flags)


def test_baselines_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    listed = {}
    for what in ("baselines", "agents"):
        with pytest.raises(SystemExit):
            cli.main(["list", what, "--json"])
        listed[what] = [row["name"] for row in json.loads(capsys.readouterr().out)]
    assert listed["baselines"] == [*BASELINES, "sb3-dqn", "recurrent-ppo"]
    assert not set(listed["agents"]) & set(listed["baselines"])


def test_an_unknown_baseline_gets_a_hint(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown agent 'sb3-a2x'. Did you mean 'sb3-a2c'\?"):
        a3c_zoo.train("cartpole", agent="sb3-a2x", runs_dir=tmp_path)


def test_the_stack_is_settled_when_the_configuration_is(toys: None) -> None:
    assert config("sb3-a2c").env.stack == "own"
    assert config("sb3-a2c", "cartpole", "stack=zoo").env.stack == "zoo"
    assert config("sb3-ppo", "gym:Acrobot-v1").env.stack == "own"
    assert config("sb3-ppo", "toy").env.stack == "zoo"
    assert config("random").env.stack == config("a3c").env.stack == "zoo"


@pytest.mark.parametrize(
    ("agent", "env", "overrides", "message"),
    [
        ("a3c", "cartpole", ["stack=own"], "-o env.stack: own — agent 'a3c' trains on: zoo"),
        ("random", "cartpole", ["stack=own"], "-o env.stack: own — agent 'random' trains on: zoo"),
        (
            "sb3-a2c",
            "toy",
            ["stack=own"],
            "-o env.stack: own — environment 'toy' has no Gymnasium id (EnvEntry.gym_id)",
        ),
        ("sb3-a2c", "cartpole", ["stack=ours"], "-o env.stack: ours — must be 'auto', 'own' or 'zoo'"),
        ("sb3-a2c", "cartpole", ["workers=2"], "-o run.workers: 2 — agent 'sb3-a2c' trains in one process; give it"),
        ("sb3-a2c", "cartpole", ["batch_size=2"], "-o batch_size: unknown key"),
        ("sb3-a2c", "cartpole", ["torch_threads=none"], "-o agent.torch_threads: none — must be a valid integer"),
        ("sb3-dqn", "cartpole", ["n_steps=5"], "-o n_steps: unknown key"),
        ("sb3-dqn", "cartpole", ["net_arch={pi: [64]}"], "-o agent.net_arch: {pi: [64]} — must be a valid list"),
        (
            "sb3-ppo",
            "cartpole",
            ["policy=MlpLstmPolicy"],
            "-o agent.policy: MlpLstmPolicy — must be 'auto', 'MlpPolicy',",
        ),
        ("sb3-ppo", "cartpole", ["network.name=mlp"], "-o network: agent 'sb3-ppo' has no such section"),
        ("sb3-ppo", "cartpole", ["clip_range=lin_0.2"], "-o agent.clip_range: lin_0.2 — must be a valid number"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(
    toys: None, agent: str, env: str, overrides: list[str], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        config(agent, env, *overrides)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_fault_of_a_key_of_two_forms_names_the_key_alone() -> None:
    with pytest.raises(ConfigError) as caught:
        config("sb3-ppo", "cartpole", "net_arch=64")
    assert str(caught.value).splitlines()[1:] == [
        "  -o agent.net_arch: 64 — must be a mapping: {name: value}",
        "  -o agent.net_arch: 64 — must be a valid list",
    ]


def test_a_baseline_has_one_process() -> None:
    assert config("sb3-a2c", "gym:Acrobot-v1").run.workers == 1
    assert config("sb3-a2c", flags={"run.workers": (1, "--workers")}).run.workers == 1
    assert config("a3c").run.workers == 2


@pytest.mark.parametrize(
    ("env", "agent", "overrides", "message"),
    [
        (
            "cartpole",
            "sb3-a2c",
            ["policy=CnnPolicy"],
            "agent 'sb3-a2c' with agent.policy=CnnPolicy doesn't fit environment 'cartpole': "
            "You should use NatureCNN only with images",
        ),
        (
            "cartpole",
            "sb3-ppo",
            ["policy=MultiInputPolicy"],
            "agent 'sb3-ppo' with agent.policy=MultiInputPolicy doesn't fit environment 'cartpole': ",
        ),
        (
            "cartpole",
            "sb3-a2c",
            ["use_sde=true"],
            "agent 'sb3-a2c' with agent.policy=MlpPolicy doesn't fit environment 'cartpole': generalized State-Dep",
        ),
        (
            "toy",
            "sb3-ppo",
            ["learning_rate_schedule=linear"],
            "agent.learning_rate_schedule: linear — needs agent.schedule_steps, or a budget: --steps N",
        ),
        ("toy", "sb3-dqn", [], "agent.exploration_fraction — needs agent.schedule_steps, or a budget: --steps N"),
        (
            "cartpole",
            "sb3-dqn",
            ["buffer_size=1000000000"],
            "a replay buffer of 1,000,000,000 steps needs 32.0 GB of memory, ",
        ),
        (
            "gym:FrozenLake-v1",
            "sb3-a2c",
            ["agent.normalize=true"],
            "agent.normalize: true — environment 'gym:FrozenLake-v1' has observations Discrete(16); VecNorm",
        ),
        ("gym-from-3", "sb3-a2c", [], "env.stack: own — the actions of environment 'gym-from-3' begin with 3"),
        ("gym-broken", "sb3-a2c", [], "environment 'gym-broken' cannot be made: TypeError: "),
        ("poles", "sb3-a2c", ["max_episode_steps=9"], "env.max_episode_steps: CartPole-v1 doesn't know this key of"),
    ],
)
def test_what_does_not_fit_the_environment_is_one_line(
    toys: None,
    env: str,
    agent: str,
    overrides: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hardware, "available_memory", lambda: 10**9)  # some machines have 100 GB
    arguments = [each for override in overrides for each in ("-o", override)]
    with pytest.raises(SystemExit) as left:
        cli.main(["train", env, "--agent", agent, "--runs-dir", str(tmp_path / "runs"), "--quiet", *arguments])
    assert left.value.code == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Error")]
    assert line.startswith(f"Error: {message}")


def test_keys_of_a_factory_are_kept_on_the_zoos_stack(toys: None, tmp_path: Path) -> None:
    run = train(tmp_path, "sb3-a2c", 400, env="poles", overrides={"max_episode_steps": 9, "env.stack": "zoo"})
    assert load_results(str(run)).l.max() == 9


def test_continuous_actions(tmp_path: Path) -> None:
    settings = ["env.num_envs=2", "n_steps=200", "batch_size=100", "use_sde=true", "log_std_init=-1"]
    for stack in ("own", "zoo"):
        run = train(
            tmp_path,
            "sb3-ppo",
            400,
            env="gym:Pendulum-v1",
            name=stack,
            overrides=[*settings, f"env.stack={stack}"],
        )
        assert load_results(str(run)).l.tolist() == [200, 200]
        action, _ = a3c_zoo.load_agent(run).predict(np.zeros(3, np.float32))
        assert action.shape == (1,)
        assert action.dtype == np.float32


@pytest.mark.parametrize("agent", ["sb3-a2c", "sb3-ppo", "recurrent-ppo"])
def test_noise_that_depends_on_the_state_is_drawn_for_each_episode(agent: str, tmp_path: Path) -> None:
    settings = ["env.num_envs=2", "n_steps=32", "use_sde=true", "log_std_init=-1", "env.stack=zoo"]
    run = train(tmp_path, agent, 64, env="gym:Pendulum-v1", name="x", overrides=settings)
    observations, begin, middle = np.ones((2, 3), np.float32), np.array([True, True]), np.array([False, False])
    drawn = []
    for seed in (1, 2):
        torch.manual_seed(seed)  # the policy has a random state of its own
        policy = a3c_zoo.load_agent(run)
        first, again, second = (policy.predict(observations, None, starts)[0] for starts in (begin, middle, begin))
        assert (first == again).all()
        assert first[0] != first[1]
        assert (first != second).all()
        third = policy.predict(observations, None, np.array([True, False]))[0]
        assert (third != second).tolist() == [[True], [False]]
        drawn.append((first, second, third))
    assert np.array_equal(drawn[0], drawn[1])
    saved = checkpoint(run)
    saved["agent"]["policy"]["log_std"] -= 20.0  # hardly any noise is left
    write_content(RunDirectory(run).checkpoints / "step-000000000064.pt", saved)
    policy = a3c_zoo.load_agent(run)
    greedy = policy.predict(observations, deterministic=True)[0]
    np.testing.assert_allclose(policy.predict(observations, None, begin)[0], greedy, atol=1e-4)


def test_network_settings_reach_sb3(tmp_path: Path) -> None:
    settings = ["net_arch={pi: [8], vf: [6, 4]}", "activation=relu", "ortho_init=false", "use_rms_prop=false"]
    run = train(tmp_path, "sb3-a2c", 40, overrides=settings)
    state = agent_state(run)
    shapes = {name: list(tensor.shape) for name, tensor in state["policy"].items() if name.endswith("weight")}
    assert shapes == {
        "mlp_extractor.policy_net.0.weight": [8, 4],
        "mlp_extractor.value_net.0.weight": [6, 4],
        "mlp_extractor.value_net.2.weight": [4, 6],
        "action_net.weight": [2, 8],
        "value_net.weight": [1, 4],
    }
    assert "exp_avg" in state["optimizer"]["state"][0]  # Adam


def test_sets_of_single_gym_environments() -> None:
    """RL Zoo's values (hyperparams/ppo.yml, a2c.yml, dqn.yml): those of an environment, else its defaults."""
    pendulum, taxi = config("sb3-ppo", "gym:Pendulum-v1"), config("sb3-ppo", "gym:Taxi-v4")
    assert pendulum.sources["agent.gamma"].startswith("gym/Pendulum-v1/sb3-ppo.yml:")
    assert (pendulum.agent.gamma, pendulum.agent.n_steps, pendulum.env.num_envs, pendulum.run.steps) == (
        0.9,
        1024,
        4,
        100_000,
    )
    assert taxi.sources["env.num_envs"].startswith("gym/sb3-ppo.yml:")
    assert (taxi.agent, taxi.env.num_envs, taxi.run.steps) == (SB3PPOConfig(), 1, 1_000_000)
    hopper = config("sb3-ppo", "gym:Hopper-v5").agent
    assert (hopper.normalize, hopper.batch_size, hopper.net_arch) == (True, 32, {"pi": [256, 256], "vf": [256, 256]})
    for name in ("Ant", "HalfCheetah", "Hopper", "Humanoid", "Swimmer", "Walker2d"):
        assert config("sb3-a2c", f"gym:{name}-v5").agent.normalize
    assert config("sb3-a2c", "gym:Acrobot-v1").agent.normalize
    assert config("sb3-dqn", "gym:LunarLander-v3").agent.gradient_steps == -1
    assert not config("a3c", "gym:Pendulum-v1").sources["agent.n_steps"].startswith("gym/Pendulum-v1/")


def test_defaults_are_sb3s_own() -> None:
    known: list[tuple[SB3Config, Any]] = [(SB3A2CConfig(), A2C), (SB3PPOConfig(), PPO), (SB3DQNConfig(), DQN)]
    for model, algorithm in [*known, (RecurrentPPOConfig(), RecurrentPPO)]:
        theirs = inspect.signature(algorithm).parameters
        shared = {name: value for name, value in model if name in theirs and name != "policy"}
        assert shared == {name: theirs[name].default for name in shared}
        assert len(shared) > 10


# Without the library

#: The last line ends the process.
WITHOUT_SB3 = """
from a3c_zoo.cli.main import cli
for words in (["list", "baselines"], ["train", "cartpole", "--agent", "random", "--steps", "500", "--quiet"]):
    assert not cli.main(words, prog_name="a3c-zoo", standalone_mode=False)
print("---")
cli.main(["train", "cartpole", "--agent", "sb3-a2c", "--quiet"], prog_name="a3c-zoo")
"""


def test_without_sb3_only_its_baselines_do_not_work(tmp_path: Path) -> None:
    (tmp_path / "stable_baselines3").mkdir()
    (tmp_path / "stable_baselines3" / "__init__.py").write_text("raise OSError('libbroken.so: no such file')")

    environ = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", WITHOUT_SB3]
    result = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    listed, _, refused = result.stdout.partition("---\n")
    assert (result.returncode, refused) == (2, "")
    assert result.stderr.splitlines() == [
        "Error: stable-baselines3 cannot be imported (OSError: libbroken.so: no such file). "
        f"Install it: pip install -c {ROOT}/constraints.txt 'stable-baselines3<3,>=2.7'"
    ]
    assert "sb3-ppo" in listed


class Growing(gymnasium.Env[Any, Any]):
    """Its seventh observation has three numbers, or a dictionary's part has."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, is_dict: bool = False, render_mode: str | None = None) -> None:
        numbers = spaces.Box(-1, 1, (2,), np.float32)
        self.observation_space = spaces.Dict({"arm": numbers}) if is_dict else numbers
        self.action_space, self._is_dict, self._calls = spaces.Discrete(2), is_dict, 0

    def _observe(self) -> Any:
        self._calls += 1
        numbers = np.zeros(3 if self._calls == 7 else 2, np.float32)
        return {"arm": numbers} if self._is_dict else numbers

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return self._observe(), {}

    def step(self, action: int) -> Any:
        return self._observe(), 1.0, False, False, {}


@pytest.mark.parametrize(("is_dict", "where"), [(False, ""), (True, " at 'arm'")])
def test_an_observation_that_does_not_fit_names_its_environment(is_dict: bool, where: str, tmp_path: Path) -> None:
    """On SB3's own environments, which put observations into arrays; the run keeps what it has."""
    name = f"Growing-{is_dict}-v0"
    gymnasium.register(name, entry_point="tests.test_baseline_settings:Growing", kwargs={"is_dict": is_dict})
    overrides = {"policy": "MultiInputPolicy" if is_dict else "MlpPolicy"}
    try:
        with pytest.raises(EnvironmentContractError) as raised:
            a3c_zoo.train(f"gym:{name}", agent="sb3-a2c", steps=100, runs_dir=tmp_path, overrides=overrides)
    finally:
        del gymnasium.registry[name]
    promise = f"a wrong observation{where}: float32 [3], where its spaces promise float32 [2]"
    assert str(raised.value) == f"environment 'gym:{name}' returned {promise}"


class Shown(gymnasium.Env[Any, Any]):
    """Observations of a space, drawn at random. It refuses a render mode, as some environments do."""

    action_space = spaces.Discrete(2)
    metadata = {"render_modes": ["human"]}  # noqa: RUF012

    def __init__(self, kind: str, render_mode: str | None = None) -> None:
        if render_mode is not None:
            raise ValueError(f"render_mode {render_mode} is refused")
        vector = spaces.Box(-1, 1, (3,))
        picture = spaces.Box(0, 255, (40, 40, 3), np.uint8)
        self.observation_space: Any = {
            "vector": vector,
            "picture": picture,
            "small": spaces.Box(0, 255, (7, 7, 3), np.uint8),
            "parts": spaces.Dict({"camera": picture, "arm": vector}),
        }[kind]
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self._steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: int) -> Any:
        self._steps += 1
        return self.observation_space.sample(), 1.0, self._steps == 5, False, {}


@pytest.mark.parametrize("stack", ["own", "zoo"])
@pytest.mark.parametrize(
    ("kind", "layer"),
    [
        ("vector", "mlp_extractor.policy_net.0.weight"),
        ("picture", "features_extractor.cnn.0.weight"),
        ("small", "mlp_extractor.policy_net.0.weight"),
        ("parts", "features_extractor.extractors.camera.cnn.0.weight"),
    ],
)
def test_the_policy_fits_the_observations(
    kind: str, layer: str, stack: str, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    """The default set names no class of policies, on SB3's own environments and on the zoo's."""
    name = f"Shown-{kind}-v0"
    gymnasium.register(name, entry_point="tests.test_baseline_settings:Shown", kwargs={"kind": kind})
    try:
        overrides = {"n_steps": 8, "env.stack": stack}
        outcome = a3c_zoo.train(f"gym:{name}", agent="sb3-a2c", steps=16, runs_dir=tmp_path, overrides=overrides)
        state = agent_state(outcome.run)["policy"]
        assert a3c_zoo.load_agent(outcome.run).policy is not None
    finally:
        del gymnasium.registry[name]
    assert outcome.steps == 16
    assert layer in state
    assert [each.message for each in recwarn if "render" in str(each.message)] == []
