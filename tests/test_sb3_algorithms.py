"""DQN, RecurrentPPO, VecNormalize and torch's threads: real trainings, held against the libraries alone."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import psutil
import pytest
import torch
from gymnasium.envs.classic_control import CartPoleEnv
from sb3_contrib import RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecNormalize

import a3c_zoo
from a3c_zoo.baselines import computing, env_process, sb3_choice, sb3_model
from a3c_zoo.baselines.baseline_configs import RecurrentPPOConfig, SB3A2CConfig, SB3Config, SB3DQNConfig, SB3PPOConfig
from a3c_zoo.baselines.computing import Computing, VecEnvName
from a3c_zoo.baselines.env_process import ProcessVecEnv
from a3c_zoo.baselines.sb3_model import build_model, make_stack
from a3c_zoo.config.sets import resolve_config
from a3c_zoo.cures import install_extra
from a3c_zoo.errors import ConfigError, PluginError, RunDirectoryError, ZooError
from a3c_zoo.plugins.entries import load_part
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.processes.start import warm_up
from a3c_zoo.runs.api import evaluate
from a3c_zoo.store.run import Run
from a3c_zoo.store.run_records import read_run
from a3c_zoo.store.timing_file import write_timing
from tests.toys_baselines import Watcher, agent_state, one_thread, train
from tests.waits import LIMIT_S

OBSERVATIONS = np.random.default_rng(0).normal(0, 0.05, (40, 4)).astype(np.float32)
PPO_KEYS: dict[str, Any] = {"n_steps": 32, "batch_size": 64, "n_epochs": 2}
LSTM_KEYS: dict[str, Any] = {"n_steps": 16, "batch_size": 64, "n_epochs": 1}


@pytest.fixture(autouse=True)
def with_one_thread() -> Iterator[None]:
    with one_thread():
        yield


def normalized(num_envs: int, seed: int, gamma: float = 0.98) -> VecNormalize:
    """The environments of RL Zoo's `normalize: true`."""
    return VecNormalize(make_vec_env("CartPole-v1", num_envs, seed=seed), gamma=gamma)


def assert_same_policy(run: Path, model: BaseAlgorithm) -> None:
    mine, theirs = agent_state(run)["policy"], model.policy.state_dict()
    assert mine.keys() == theirs.keys()
    assert [name for name, tensor in mine.items() if not torch.equal(tensor, theirs[name])] == []


def test_dqn_is_sb3s_to_the_bit_with_its_exploration(tmp_path: Path) -> None:
    rates: list[float] = []
    observer = Watcher(lambda progress: rates.append(progress.metrics.get("exploration_rate", 1.0)))
    run = train(tmp_path, "sb3-dqn", 2048, seed=3, overrides={"net_arch": [16]}, observer=observer)
    model = DQN("MlpPolicy", make_vec_env("CartPole-v1", 1, seed=3), learning_rate=2.3e-3, batch_size=64,
                buffer_size=100_000, learning_starts=1000, target_update_interval=10, train_freq=256,
                gradient_steps=128, exploration_fraction=0.16, exploration_final_eps=0.04,
                policy_kwargs={"net_arch": [16]}, seed=3, device="cpu")  # fmt: skip
    model.learn(2048)
    assert_same_policy(run, model)
    assert agent_state(run)["updates"] == 5 * 128
    assert rates[-1] == 0.04
    actions, _ = a3c_zoo.load_agent(run, checkpoint="final").predict(OBSERVATIONS)
    assert actions.tolist() == model.predict(OBSERVATIONS, deterministic=True)[0].tolist()  # it acts without noise


def test_a_resumed_dqn_fills_its_buffer_again(tmp_path: Path) -> None:
    keys = {"learning_starts": 40, "train_freq": 8, "gradient_steps": -1, "net_arch": [8]}
    run = train(tmp_path, "sb3-dqn", 80, overrides=keys)
    assert agent_state(run)["updates"] == 80 - 40
    a3c_zoo.train(resume=run, steps=160)
    state = agent_state(run)
    assert state["updates"] == 2 * 40
    assert state["n_calls"] == 160


@pytest.mark.parametrize("stack", ["own", "zoo"])
def test_normalize_is_vec_normalize_to_the_bit(stack: str, tmp_path: Path) -> None:
    keys = PPO_KEYS | {"agent.normalize": True, "env.stack": stack, "env.num_envs": 4}
    run = train(tmp_path, "sb3-ppo", 512, seed=6, overrides=keys | {"learning_rate_schedule": "constant"})
    env = normalized(4, 6)
    model = PPO("MlpPolicy", env, gae_lambda=0.8, gamma=0.98, learning_rate=0.001,
                clip_range=lambda remaining: 0.2 * remaining, seed=6, device="cpu", **PPO_KEYS)  # fmt: skip
    model.learn(512)
    assert_same_policy(run, model)
    agent = a3c_zoo.load_agent(run)
    expected = model.predict(env.normalize_obs(OBSERVATIONS), deterministic=True)[0].tolist()
    assert agent.predict(OBSERVATIONS, deterministic=True)[0].tolist() == expected
    assert agent.predict(OBSERVATIONS[0], deterministic=True)[0] == expected[0]
    saved = agent_state(run)["normalize"]
    assert isinstance(env.obs_rms, RunningMeanStd)
    assert saved["observation"]["mean"].tolist() == env.obs_rms.mean.tolist()
    assert saved["return"]["count"] == env.ret_rms.count
    played = evaluate(run, episodes=3, seed=1)
    assert played.mean_return == evaluate(run, episodes=3, seed=1).mean_return == round(played.mean_return * 3) / 3
    a3c_zoo.train(resume=run, steps=768)
    assert agent_state(run)["normalize"]["observation"]["count"] == pytest.approx(1e-4 + 768 + 4 + 4)  # two resets


def test_statistics_of_another_shape_are_refused(tmp_path: Path) -> None:
    run = train(tmp_path, "sb3-a2c", 40)
    text = (run / "config.yml").read_text()
    (run / "config.yml").write_text(text.replace("normalize: false", "normalize: true"))
    with pytest.raises(RunDirectoryError, match=r"the checkpoint does not fit the run's config.yml: .*return"):
        a3c_zoo.load_agent(run)


@pytest.mark.parametrize("lstm", [{}, {"n_lstm_layers": 2}, {"enable_critic_lstm": False, "shared_lstm": True}])
def test_recurrent_ppo_is_sb3_contribs_to_the_bit(lstm: dict[str, Any], tmp_path: Path) -> None:
    keys = LSTM_KEYS | {"learning_rate_schedule": "constant", "clip_range_schedule": "constant"}
    lstm = {"lstm_hidden_size": 8, **lstm}
    run = train(tmp_path, "recurrent-ppo", 256, seed=4, overrides=keys | lstm)
    network = {"net_arch": {"pi": [64], "vf": [64]}, "activation_fn": torch.nn.ReLU, "ortho_init": False}
    env = normalized(8, 4)
    model = RecurrentPPO("MlpLstmPolicy", env, gae_lambda=0.8, gamma=0.98, learning_rate=0.001, seed=4, device="cpu",
                         policy_kwargs=network | lstm, **LSTM_KEYS)  # fmt: skip
    model.learn(256)
    assert_same_policy(run, model)
    agent, state, theirs = a3c_zoo.load_agent(run), None, None
    for observations in OBSERVATIONS.reshape(10, 4, 4):
        starts = np.zeros(4, np.bool_)
        action, state = agent.predict(observations, state, starts, deterministic=True)
        wanted, theirs = model.predict(env.normalize_obs(observations), theirs, starts, deterministic=True)
        assert action.tolist() == wanted.tolist()
    assert state is not None
    assert theirs is not None
    assert [part.tolist() for part in state] == [part.tolist() for part in theirs]
    assert evaluate(run, episodes=3, seed=1).episodes == 3
    assert a3c_zoo.train(resume=run, steps=384).steps == 384


def test_without_sb3_contrib_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sb3_contrib", None)
    monkeypatch.delitem(sys.modules, "a3c_zoo.baselines.recurrent_ppo", raising=False)
    install = re.escape(install_extra("sb3-contrib"))
    with pytest.raises(ZooError, match=rf"^sb3-contrib cannot be imported .*: {install}$"):
        load_part("agent 'recurrent-ppo'", get_registry().agent("recurrent-ppo").run)


# Threads


def test_updates_of_a_rollout() -> None:
    assert SB3A2CConfig().updates(8) == (1, 40)
    assert SB3PPOConfig(n_steps=32, batch_size=100, n_epochs=20).updates(8) == (60, 100)
    assert SB3PPOConfig(n_steps=2, n_epochs=3).updates(8) == (3, 16)
    assert SB3DQNConfig().updates(1) == (1, 32)
    assert SB3DQNConfig(gradient_steps=-1).updates(2) == (8, 32)
    assert RecurrentPPOConfig().updates(1) == (10, 128)


@pytest.mark.parametrize("env", ["cartpole", "gym:Pendulum-v1"])  # Pendulum's sets have use_sde
@pytest.mark.parametrize("agent", ["sb3-a2c", "sb3-ppo", "sb3-dqn", "recurrent-ppo"])
def test_measuring_changes_nothing(agent: str, env: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if (agent, env) == ("sb3-dqn", "gym:Pendulum-v1"):
        pytest.skip("DQN has no continuous actions")
    monkeypatch.setattr(computing, "MEASURE_S", 0.0)
    registry = get_registry()
    entry = registry.env(env)
    config = resolve_config(registry, entry, registry.agent(agent))
    one, other = (make_stack(entry, config, 2, 0) for _ in range(2))
    one.reset()
    other.reset()
    model = build_model(entry, config, one, 0)
    before = {name: tensor.clone() for name, tensor in model.policy.state_dict().items()}
    random = torch.get_rng_state()
    assert isinstance(config.agent, SB3Config)
    envs: dict[VecEnvName, Any] = {"dummy": one, "subproc": other}
    with computing.torch_threads(2):
        seconds = computing.seconds_of_a_rollout(model, config.agent, [1, 2], envs, lambda: None)
        assert torch.get_num_threads() == 2
    assert seconds.keys() == {Computing(threads, name) for threads in (1, 2) for name in ("dummy", "subproc")}
    assert min(seconds.values()) > 0
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.policy.state_dict().items())
    assert all(parameter.grad is None for parameter in model.policy.parameters())


ALL_WAYS = {"1 dummy": 0.5, "2 dummy": 0.25, "1 subproc": 0.75, "2 subproc": 1.0}


def trained_events(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch, ways: dict[str, float], **options: Any
) -> tuple[list[dict[str, Any]], Run, list[int]]:
    """Trains with two threads of torch. The measured seconds are those of `ways`: "threads vec_env" → seconds.

    Returns the events, the run, and with how many threads it has computed.
    """
    used = list[int]()

    def seconds(model: Any, agent: Any, numbers: list[int], envs: dict[VecEnvName, Any], look: Any) -> Any:
        return {Computing(number, env): ways[f"{number} {env}"] for number in numbers for env in envs}

    monkeypatch.setattr(sb3_choice, "seconds_of_a_rollout", seconds)
    observer = Watcher(lambda progress: used.append(torch.get_num_threads()))
    with computing.torch_threads(2):
        run = train(folder, "sb3-a2c", 80, name=name, observer=observer, **options)
    file = run / "events.jsonl"
    events = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return events, Run(run), used


def test_the_faster_number_of_threads_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dummy = {"agent.vec_env": "dummy"}
    (event,), run, used = trained_events(tmp_path, "all", monkeypatch, ALL_WAYS, overrides=dummy)
    assert (event["kind"], event["threads"], event["seconds"]) == ("torch_threads", 2, {"1": 0.5, "2": 0.25})
    assert event["text"] == "torch computes with 2 threads; a rollout and its updates take 0.5 s with 1, 0.25 s with 2"
    assert (used[-1], run.torch_threads) == (2, 2)
    equal = {"1 dummy": 0.5, "2 dummy": 0.5}
    (event,), run, used = trained_events(tmp_path, "one", monkeypatch, equal, overrides=dummy)
    assert (event["threads"], used[-1], run.torch_threads) == (1, 1, 1)
    given = dummy | {"agent.torch_threads": 3}
    events, run, used = trained_events(tmp_path, "given", monkeypatch, {}, overrides=given)
    assert (events, used[-1], run.torch_threads) == ([], 3, 3)
    assert torch.get_num_threads() == 1


def test_no_round_begins_after_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computing, "MEASURE_S", 0.0)
    monkeypatch.setattr(computing, "CLEAR", 1e9)
    registry = get_registry()
    entry = registry.env("cartpole")
    config = resolve_config(registry, entry, registry.agent("sb3-a2c"))
    assert isinstance(config.agent, SB3Config)
    env = make_stack(entry, config, 2, 0)
    env.reset()
    model = build_model(entry, config, env, 0)
    looks = list[int]()
    for limit_s, rounds in ((0.0, 1), (100.0, computing.ROUNDS)):
        looks.clear()
        monkeypatch.setattr(computing, "LIMIT_S", limit_s)
        computing.seconds_of_a_rollout(model, config.agent, [1, 2], {"dummy": env}, lambda: looks.append(1))
        assert len(looks) == 2 * rounds


def test_slow_work_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def slow() -> None:
        now[0] += 0.75

    assert computing._mean_s(slow) == 0.75
    assert now == [0.75]


# Vector environments


def test_cheap_environments_are_stepped_in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To send an action through a pipe takes longer than a step of CartPole."""
    monkeypatch.setattr(sb3_choice, "available_cores", lambda: 2)
    monkeypatch.setattr(sb3_choice, "seconds_of_a_step", lambda env: 8 * 20e-6)
    (event, threads), run, _ = trained_events(tmp_path, "cheap", monkeypatch, {"1 dummy": 0.5, "2 dummy": 1.0})
    assert event["text"] == (
        "DummyVecEnv steps the environments; a step of one environment takes 20 µs, and SubprocVecEnv is not tried "
        "below 25 µs"
    )
    assert (event["kind"], event["vec_env"], event["seconds"]) == ("vec_env", "dummy", {})
    assert (threads["kind"], run.vec_env) == ("torch_threads", "dummy")
    assert run.vec_env_choice == "not tried"


def test_the_faster_vector_environment_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sb3_choice, "available_cores", lambda: 2)
    monkeypatch.setattr(sb3_choice, "seconds_of_a_step", lambda env: 8 * 30e-6)
    (threads, event), run, used = trained_events(tmp_path, "dummy", monkeypatch, ALL_WAYS)
    assert (threads["threads"], event["vec_env"], event["seconds"]) == (2, "dummy", {"dummy": 0.25, "subproc": 1.0})
    assert (used[-1], run.vec_env) == (2, "dummy")
    faster = ALL_WAYS | {"1 subproc": 0.125}
    (threads, event), run, used = trained_events(tmp_path, "subproc", monkeypatch, faster)
    assert (threads["threads"], threads["seconds"]) == (1, {"1": 0.125, "2": 1.0})
    assert event["text"] == (
        "SubprocVecEnv steps the environments; a rollout and its updates take 0.5 s with DummyVecEnv, "
        "0.12 s with SubprocVecEnv"
    )
    assert (event["vec_env"], used[-1], run.vec_env) == ("subproc", 1, "subproc")
    assert run.vec_env_choice == "measured"
    write_timing(run.path, 0.25, 9.5, run.settings)
    record = read_run(run.path)
    assert record.timing is not None
    assert (record.timing.vec_env, record.host["vec_env of sb3-a2c"]) == ("subproc", "subproc")


def test_a_resume_that_measures_nothing_says_what_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sb3_choice, "available_cores", lambda: 2)
    monkeypatch.setattr(sb3_choice, "seconds_of_a_step", lambda env: 8 * 30e-6)
    _, run, _ = trained_events(tmp_path, "moved", monkeypatch, ALL_WAYS | {"2 subproc": 0.125})
    assert (run.vec_env, run.torch_threads) == ("subproc", 2)
    monkeypatch.setattr(sb3_choice, "available_cores", lambda: 1)
    with computing.torch_threads(1):
        a3c_zoo.train(resume=run.path, steps=160)
    moved = Run(run.path)
    assert (moved.vec_env, moved.torch_threads, moved.vec_env_choice) == ("dummy", 1, "not tried")


def test_where_processes_fail_the_environments_stay_in_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unsendable:
        def __call__(self, **kwargs: Any) -> Any:
            raise AssertionError

        def __reduce__(self) -> Any:
            raise TypeError("cannot be sent")

    monkeypatch.setattr(sb3_choice, "available_cores", lambda: 2)
    monkeypatch.setattr(sb3_choice, "seconds_of_a_step", lambda env: 1.0)
    monkeypatch.setattr(sb3_model, "MadeInProcess", lambda *arguments: Unsendable())
    (threads, event), run, _ = trained_events(tmp_path, "here", monkeypatch, ALL_WAYS)
    assert (threads["kind"], event["vec_env"], run.vec_env) == ("torch_threads", "dummy", "dummy")
    assert "SubprocVecEnv does not work here: " in event["text"]
    assert "cannot be sent" in event["text"]
    assert run.vec_env_choice == "failed"
    one_thread = {"agent.torch_threads": 1}
    (event,), run, used = trained_events(tmp_path, "one", monkeypatch, {}, overrides=one_thread)
    assert (event["vec_env"], run.vec_env, used[-1]) == ("dummy", "dummy", 1)


@pytest.mark.parametrize("threads", [1, 2])
def test_processes_and_threads_change_no_bit(threads: int, tmp_path: Path) -> None:
    """Initial weights depend on the number of threads, so the model is built with the number that trains."""
    with computing.torch_threads(3 - threads):
        overrides = {"agent.torch_threads": threads, "agent.vec_env": "subproc"}
        run = train(tmp_path, "sb3-a2c", 400, seed=5, overrides=overrides)
    assert Run(run).vec_env == "subproc"
    with computing.torch_threads(threads):
        model = A2C("MlpPolicy", make_vec_env("CartPole-v1", 8, seed=5), seed=5, device="cpu", ent_coef=0.0)
        model.learn(400)
    mine = agent_state(run)["policy"]
    for name, tensor in model.policy.state_dict().items():
        assert torch.equal(mine[name], tensor), name


def test_no_process_stays_behind(tmp_path: Path) -> None:
    warm_up()  # its fork server stays, and the processes from it look like it
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    train(tmp_path, "sb3-a2c", 80, overrides={"agent.vec_env": "subproc", "agent.torch_threads": 1})
    assert {process.pid for process in psutil.Process().children(recursive=True)} == before


def test_an_environment_whose_process_ends_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ends_at_once.py").write_text(
        "import os\n\nimport gymnasium\nfrom gymnasium.envs.classic_control import CartPoleEnv\n\n\n"
        "class Ends(CartPoleEnv):\n    def step(self, action):\n        os._exit(3)\n\n\n"
        "gymnasium.register('Ends-v0', Ends)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    words = r"a process of environment 'gym:ends_at_once:Ends-v0' has ended; agent.vec_env=dummy steps it in this"
    with pytest.raises(PluginError, match=words):
        train(
            tmp_path / "runs",
            "sb3-a2c",
            80,
            env="gym:ends_at_once:Ends-v0",
            overrides={"agent.vec_env": "subproc", "agent.torch_threads": 1},
        )


FAILING = """
import os

import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

class Fails(CartPoleEnv):
    steps = 0
    is_last = False

    def reset(self, *, seed=None, options=None):
        self.is_last = self.is_last or seed == 3 + 2  # seeds are those of the run and the environment's number
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self.steps += 1
        if self.is_last and self.steps == 30:
            {fails}
        return super().step(action)

gymnasium.register('Fails-v0', Fails)
"""


@pytest.mark.parametrize("fails", ["raise ValueError('broken')", "os._exit(3)"])
def test_one_failed_process_ends_the_run(fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SB3's `close` would wait for ever for the first environment, whose step was received."""
    module = f"fails_{len(fails)}"
    (tmp_path / f"{module}.py").write_text(FAILING.format(fails=fails))
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginError, match=r"a process of environment .* has ended"):
        train(tmp_path / "runs", "sb3-a2c", 4000, env=f"gym:{module}:Fails-v0", seed=3,
              overrides={"agent.vec_env": "subproc", "agent.torch_threads": 1, "env.num_envs": 3})  # fmt: skip
    assert_no_environment_is_left()


def assert_no_environment_is_left() -> None:
    """The fork server and the resource tracker stay for the next run; they have no children."""
    for process in psutil.Process().children(recursive=True):
        words = " ".join(process.cmdline())
        assert "resource_tracker" in words or "forkserver" in words, words
        assert process.children() == []


def test_processes_close_after_ctrl_c_amid_a_step(tmp_path: Path) -> None:
    """Some replies were received, others not."""
    registry = get_registry()
    config = resolve_config(registry, registry.env("cartpole"), registry.agent("sb3-a2c"))
    env = make_stack(registry.env("cartpole"), config, 3, 0, "subproc")
    env.reset()
    env.step_async(np.zeros(3, np.int64))
    assert isinstance(env, ProcessVecEnv)
    env.remotes[0].recv()
    env.close()
    assert [process.exitcode for process in env.processes] == [0, 0, 0]
    env.close()  # twice does no harm
    assert_no_environment_is_left()


def test_a_process_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    def make() -> gymnasium.Env[Any, Any]:
        class Stays(CartPoleEnv):
            def close(self) -> None:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                time.sleep(100)

        return Stays()

    monkeypatch.setattr(env_process, "CLOSE_LIMIT_S", 0.5)
    monkeypatch.setattr(env_process, "TERMINATE_LIMIT_S", 0.1)
    warm_up()
    env = ProcessVecEnv([make, make], "forkserver")
    env.reset()
    env.close()
    assert [process.exitcode for process in env.processes] == [-signal.SIGKILL, -signal.SIGKILL]


def test_where_a_process_ends_as_it_makes_its_environment_the_cure_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cannot_be_made.py").write_text(
        "import multiprocessing, os\n\nimport gymnasium\nfrom gymnasium.envs.classic_control import CartPoleEnv\n\n\n"
        "def make():\n    if multiprocessing.parent_process():\n        os._exit(3)\n    return CartPoleEnv()\n\n\n"
        "gymnasium.register('No-v0', make)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    registry = get_registry()
    entry = registry.env("gym:cannot_be_made:No-v0")
    config = resolve_config(registry, entry, registry.agent("sb3-a2c"))
    with pytest.raises(PluginError, match=r"agent\.vec_env=dummy steps it in this process"):
        make_stack(entry, config, 3, 0, "subproc")
    assert_no_environment_is_left()


TRAINS = """
import sys

import a3c_zoo
from a3c_zoo.baselines import sb3_choice

sb3_choice.available_cores = lambda: 2
sb3_choice.LEAST_STEP_S = 0.0
a3c_zoo.train("cartpole", agent="sb3-a2c", steps=80, serial=True, runs_dir="runs", name="run",
              overrides={"agent.vec_env": "VEC_ENV", "agent.torch_threads": 1, "env.num_envs": 3})
"""


def run_script(folder: Path, vec_env: str, from_input: bool) -> subprocess.CompletedProcess[str]:
    source = TRAINS.replace("VEC_ENV", vec_env)
    (folder / "prog.py").write_text(source)
    command = [sys.executable, "-" if from_input else "prog.py"]
    given = source if from_input else ""
    return subprocess.run(
        command, cwd=folder, input=given, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


def test_a_script_without_a_guard_trains_where_it_may_choose(tmp_path: Path) -> None:
    done = run_script(tmp_path, "auto", from_input=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert Run(tmp_path / "runs" / "run").vec_env == "dummy"


def test_a_script_without_a_guard_is_told_once(tmp_path: Path) -> None:
    done = run_script(tmp_path, "subproc", from_input=False)
    assert done.returncode == 2
    assert done.stderr.count("this script trains as it is imported") == 1


def test_a_program_from_standard_input_has_processes(tmp_path: Path) -> None:
    done = run_script(tmp_path, "subproc", from_input=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert Run(tmp_path / "runs" / "run").vec_env == "subproc"


def test_processes_are_for_environments_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"agent\.vec_env: subproc — .*: set env\.stack=own$"):
        train(tmp_path, "sb3-a2c", 80, overrides={"agent.vec_env": "subproc", "env.stack": "zoo"})
