"""Baselines: real training runs of stable-baselines3 and of random actions, through the run that every agent has."""

from __future__ import annotations

import json
import os
import signal
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import Monitor, load_results

import a3c_zoo
from a3c_zoo.baselines.vec_env import make_zoo_vec_env
from a3c_zoo.cli.main import cli
from a3c_zoo.config import EnvConfig
from a3c_zoo.errors import PluginError, RunDirectoryError
from a3c_zoo.records import Evaluation
from a3c_zoo.runs.api import evaluate as evaluate_run
from a3c_zoo.runs.setup import SilentObserver
from a3c_zoo.runs.solved_check import SolvedCheck
from a3c_zoo.store.checkpoints import checkpoint_file
from a3c_zoo.store.directory import RunDirectory
from tests.toys import ToyVectorEnv, toy_entry
from tests.toys_baselines import BASELINES, Watcher, agent_state, one_thread, toys_installed, train
from tests.toys_runs import checkpoint, toy_installed, write_content


@pytest.fixture(autouse=True)
def with_one_thread() -> Iterator[None]:
    with one_thread():
        yield


@pytest.fixture
def toys(tmp_path: Path) -> Iterator[None]:
    with toys_installed(tmp_path / "plugins"):
        yield


def assert_same_policy(one: Path, other: dict[str, torch.Tensor]) -> None:
    mine = agent_state(one)["policy"]
    assert mine.keys() == other.keys()
    for name, tensor in mine.items():
        assert torch.equal(tensor, other[name]), name


# A run


@pytest.mark.parametrize("agent", BASELINES)
def test_a_run_directory_is_as_any_agents(agent: str, tmp_path: Path) -> None:
    run = train(tmp_path, agent, 1500)
    names = {path.name for path in run.iterdir()}
    assert names >= {"config.yml", "meta.json", "monitor.csv", "tensorboard", "checkpoints", "outcome.json"}
    meta, outcome = (json.loads((run / f"{name}.json").read_text()) for name in ("meta", "outcome"))
    assert (meta["agent"], meta["kind"]) == (agent, "baseline")
    episodes = load_results(str(run))
    assert len(episodes) == outcome["episodes"] > 10
    assert episodes.r.tolist() == episodes.l.tolist()  # CartPole: 1 per step
    assert episodes.l.sum() <= outcome["steps"]
    assert episodes.step.is_monotonic_increasing
    assert episodes.step.max() <= outcome["steps"]
    assert set(episodes.worker) == {0}
    assert 1500 <= outcome["steps"] < 1500 + 8 * 32


def test_updates_are_optimizer_steps(tmp_path: Path) -> None:
    a2c, ppo = train(tmp_path, "sb3-a2c", 400), train(tmp_path, "sb3-ppo", 512, overrides=["batch_size=64"])
    assert agent_state(a2c)["updates"] == 400 / (5 * 8)
    assert agent_state(ppo)["updates"] == 2 * 20 * 4  # two rollouts of 256, 20 passes, minibatches of 64
    assert json.loads((ppo / "outcome.json").read_text())["updates"] == 160


def test_figures_have_the_agents_names(tmp_path: Path) -> None:
    seen: dict[str, dict[str, float]] = {}
    for agent in ("sb3-a2c", "sb3-ppo"):
        watched: list[dict[str, float]] = []
        train(tmp_path, agent, 1024, observer=Watcher(partial(keep_metrics, watched)))
        seen[agent] = watched[-1]
    common = {"loss_policy", "loss_value", "entropy", "learning_rate", "explained_variance"}
    assert seen["sb3-a2c"].keys() == common
    assert seen["sb3-ppo"].keys() == common | {"loss_total", "approx_kl", "clip_fraction", "clip_range"}
    for figures in seen.values():
        assert 0 < figures["entropy"] <= np.log(2) + 1e-6
    assert seen["sb3-a2c"]["learning_rate"] == 7e-4
    assert seen["sb3-ppo"]["learning_rate"] == 0.0  # fallen to its end
    assert seen["sb3-ppo"]["clip_range"] == 0.0


def keep_metrics(kept: list[dict[str, float]], progress: Any) -> None:
    kept.append({**progress.metrics})


def test_a_network_larger_than_its_checkpoint_is_not_built(tmp_path: Path) -> None:
    """config.yml may be a stranger's: 36 million parameters in a few bytes."""
    run = train(tmp_path, "sb3-a2c", 40, overrides=["net_arch=[8]"])
    text = (run / "config.yml").read_text()
    (run / "config.yml").write_text(text.replace("net_arch: [8]", "net_arch: [6000, 6000]"))
    with pytest.raises(RunDirectoryError, match=r"the checkpoint is of a smaller network: it has \d+ numbers$"):
        a3c_zoo.load_agent(run)


# The same as SB3 alone


@pytest.fixture(scope="module")
def a2c_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with one_thread():
        return train(tmp_path_factory.mktemp("a2c"), "sb3-a2c", 4000, seed=5)


@pytest.mark.parametrize("stack", ["own", "zoo"])
def test_a2c_is_sb3s_to_the_bit_on_either_stack(stack: str, a2c_run: Path, tmp_path: Path) -> None:
    if stack == "own":
        assert "stack: own" in (a2c_run / "config.yml").read_text()
        run = a2c_run
    else:
        run = train(tmp_path, "sb3-a2c", 4000, seed=5, overrides={"env.stack": "zoo"})
        assert "stack: zoo" in (run / "config.yml").read_text()
    model = A2C("MlpPolicy", make_vec_env("CartPole-v1", 8, seed=5), seed=5, device="cpu", ent_coef=0.0)
    model.learn(4000)
    assert_same_policy(run, model.policy.state_dict())


def test_ppo_is_sb3s_to_the_bit_with_its_linear_schedules(tmp_path: Path) -> None:
    run = train(tmp_path, "sb3-ppo", 1024, seed=2)
    model = PPO(
        "MlpPolicy",
        make_vec_env("CartPole-v1", 8, seed=2),
        n_steps=32,
        batch_size=256,
        gae_lambda=0.8,
        gamma=0.98,
        n_epochs=20,
        learning_rate=lambda remaining: 0.001 * remaining,
        clip_range=lambda remaining: 0.2 * remaining,
        seed=2,
        device="cpu",
    )
    model.learn(1024)
    assert_same_policy(run, model.policy.state_dict())


def test_an_evaluation_in_between_changes_nothing(a2c_run: Path, tmp_path: Path) -> None:
    seen: list[str] = []

    class Listener(SilentObserver):
        def message(self, text: str) -> None:
            seen.append(text)

    # Every 100 episodes from the first 100 on an evaluation is due, which never agrees with so low a target.
    options: dict[str, Any] = {"stop_return": 15.0, "observer": Listener()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SolvedCheck, "play", never_good_enough)
        run = train(tmp_path, "sb3-a2c", 4000, seed=5, overrides={"run.evaluation_episodes": 2}, **options)
    assert any("on fresh seeds" in text for text in seen)
    assert_same_policy(run, agent_state(a2c_run)["policy"])


def never_good_enough(check: SolvedCheck, *arguments: Any) -> Evaluation:
    return replace(PLAY(check, *arguments), mean_return=0.0)


PLAY = SolvedCheck.play


# Going on


@pytest.mark.parametrize("agent", BASELINES)
def test_a_run_can_be_gone_on_with(agent: str, tmp_path: Path) -> None:
    run = train(tmp_path, agent, 512)
    before, rows = agent_state(run), load_results(str(run))
    outcome = a3c_zoo.train(resume=run, steps=1280)
    assert (outcome.reason, outcome.run) == ("steps", run)
    assert 1280 <= outcome.steps < 1280 + 256
    after = load_results(str(run))
    assert after.iloc[: len(rows)].drop(columns="t").equals(rows.drop(columns="t"))
    assert len(after) == outcome.episodes > len(rows)
    assert after.step.iloc[len(rows)] > 512
    if agent != "random":
        state = agent_state(run)
        per_step = before["updates"] / before["steps"]
        assert state["updates"] == state["steps"] * per_step
        assert state["session"] == 1
        assert not torch.equal(*(each["policy"]["action_net.weight"] for each in (before, state)))


def test_a_resumed_random_run_without_its_worker_draws_other_actions(tmp_path: Path) -> None:
    """After a failure a checkpoint has no states of workers. The rewards of these environments are the actions."""
    with toy_installed(tmp_path / "toy"):
        run = train(tmp_path, "random", 256, env="coin", overrides={"env.num_envs": 1})
        saved = checkpoint(run)
        saved["agent"]["workers"] = []
        write_content(checkpoint_file(RunDirectory(run), "final"), saved)
        a3c_zoo.train(resume=run, steps=512)
    actions = load_results(str(run)).r.tolist()
    assert len(actions) >= 512
    assert actions[:200] != actions[256:456]


def test_a_resumed_run_goes_on_with_the_optimizer_and_the_schedule(tmp_path: Path) -> None:
    run = train(tmp_path, "sb3-ppo", 512, overrides={"schedule_steps": 2048})
    rates = []
    a3c_zoo.train(resume=run, steps=1024, observer=Watcher(lambda p: rates.append(p.metrics.get("learning_rate"))))
    assert rates[-1] == pytest.approx(0.001 * (1 - 1024 / 2048))
    state = agent_state(run)["optimizer"]["state"]
    assert {int(each["step"]) for each in state.values()} == {4 * 20}


def test_a_run_at_its_end_stays_there(a2c_run: Path) -> None:
    before = agent_state(a2c_run)["steps"]
    assert a3c_zoo.train(resume=a2c_run, steps=before).reason == "steps"
    assert agent_state(a2c_run)["steps"] == before


def test_settings_that_only_training_can_bear_do_not_keep_a_policy_from_loading(tmp_path: Path) -> None:
    run = train(tmp_path, "sb3-ppo", 24, overrides={"n_steps": 1, "batch_size": 8})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert a3c_zoo.load_agent(run).predict(np.zeros(4))[0].shape == ()


def test_a_checkpoint_of_another_policy_is_refused(tmp_path: Path) -> None:
    run = train(tmp_path, "sb3-a2c", 40)
    text = (run / "config.yml").read_text()
    (run / "config.yml").write_text(text.replace("net_arch: null", "net_arch: [8]"))
    with pytest.raises(RunDirectoryError, match=r"config\.yml: .*size mismatch"):
        a3c_zoo.load_agent(run)


def test_runs_of_one_seed_are_equal(tmp_path: Path) -> None:
    for agent in ("random", "sb3-a2c"):
        one, other, third = (
            load_results(str(train(tmp_path, agent, 1000, seed=seed, name=f"{agent}{n}")))
            for n, seed in enumerate((1, 1, 2**62))
        )
        assert one.drop(columns="t").equals(other.drop(columns="t"))
        assert one.l.tolist() != third.l.tolist()


def test_ctrl_c_saves_and_the_run_goes_on(tmp_path: Path) -> None:
    pressed: list[int] = []

    def press(progress: Any) -> None:
        if progress.steps >= 300 and not pressed:
            pressed.append(progress.steps)
            os.kill(os.getpid(), signal.SIGINT)

    outcome = a3c_zoo.train("cartpole", agent="sb3-a2c", runs_dir=tmp_path, observer=Watcher(press))
    assert (outcome.reason, outcome.detail, outcome.steps) == ("interrupted", "Ctrl-C", pressed[0])
    assert agent_state(outcome.run)["steps"] == outcome.steps
    assert a3c_zoo.train(resume=outcome.run, steps=800).steps == 800


def test_what_was_learned_before_a_failure_is_saved(toys: None, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the toy broke") as caught:
        a3c_zoo.train("raising", agent="sb3-a2c", runs_dir=tmp_path, name="failed", overrides={"env.num_envs": 1})
    assert "(raised in step() of environment 'raising')" in caught.value.__notes__
    assert agent_state(tmp_path / "failed")["updates"] == 10
    assert json.loads((tmp_path / "failed" / "outcome.json").read_text())["reason"] == "error"


def test_a_failure_within_a_rollout_keeps_the_episodes_before_it(toys: None, tmp_path: Path) -> None:
    options: dict[str, Any] = {"runs_dir": tmp_path, "name": "failed", "overrides": {"env.num_envs": 1, "n_steps": 64}}
    with pytest.raises(RuntimeError, match="the toy broke"):
        a3c_zoo.train("raising", agent="sb3-a2c", **options)
    episodes, outcome = load_results(str(tmp_path / "failed")), (tmp_path / "failed" / "outcome.json").read_text()
    assert len(episodes) == json.loads(outcome)["episodes"] > 20
    assert json.loads(outcome)["steps"] - episodes.l.sum() < 3  # an episode has three steps at most


@pytest.mark.parametrize(("env", "end"), [("toy", "steps"), ("raising", "error")])
def test_an_environment_that_fails_to_close_changes_no_end(
    env: str, end: str, toys: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(env: ToyVectorEnv, **options: Any) -> None:
        if env.received:
            raise OSError("the door is stuck")

    monkeypatch.setattr(ToyVectorEnv, "close_extras", close)
    with pytest.raises(RuntimeError, match="the toy broke") if end == "error" else nullcontext():
        a3c_zoo.train(env, agent="sb3-a2c", steps=1000, runs_dir=tmp_path, name="x", overrides={"env.num_envs": 1})
    assert json.loads((tmp_path / "x/outcome.json").read_text())["reason"] == end


def test_an_environment_that_never_closes_is_one_line(
    toys: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(env: ToyVectorEnv, **options: Any) -> None:
        raise OSError("the door is stuck")

    monkeypatch.setattr(ToyVectorEnv, "close_extras", close)
    line = r"^environment 'toy' cannot be closed: OSError: the door is stuck \(in "
    with pytest.raises(PluginError, match=line):
        a3c_zoo.train("toy", agent="sb3-a2c", steps=10, runs_dir=tmp_path)
    with pytest.raises(PluginError, match=line):
        make_zoo_vec_env(toy_entry(mode="SameStep"), EnvConfig(), 2, seed=0)


def test_monitors_of_sb3_keep_no_figure_of_every_episode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[list[float]] = []
    monkeypatch.setattr(Monitor, "close", lambda monitor: kept.append(monitor.get_episode_rewards()))
    run = train(tmp_path, "sb3-a2c", 800, overrides={"agent.vec_env": "dummy"})
    assert len(load_results(str(run))) > 10
    assert kept == [[]] * 9  # one to read its spaces, eight to train


# Acting


@pytest.mark.parametrize("agent", BASELINES)
def test_a_trained_baseline_can_be_evaluated(agent: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = train(tmp_path, agent, 300)
    first, second = (evaluate_run(run, episodes=4, seed=1) for _ in range(2))
    assert first.mean_return == second.mean_return >= 8
    with pytest.raises(SystemExit) as left:
        cli.main(["evaluate", str(run), "--episodes", "2", "--deterministic", "--json"])
    assert not left.value.code
    assert json.loads(capsys.readouterr().out)["episodes"] == 2


def test_actions_are_numbered_as_the_environment_numbers_them(toys: None, tmp_path: Path) -> None:
    for agent in BASELINES:
        run = train(tmp_path, agent, 64, env="from-3", overrides={"env.num_envs": 2})
        policy = a3c_zoo.load_agent(run)
        actions, _ = policy.predict(np.zeros((50, 2), np.float32))
        assert set(actions.tolist()) == {3, 4}, agent


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("agent", ["sb3-a2c", "sb3-ppo"])
def test_cartpole_is_solved(agent: str, tmp_path: Path) -> None:
    # SB3's A2C falls back on some seeds; on which depends on how the CPU's kernels round.
    outcomes = (a3c_zoo.train("cartpole", agent=agent, runs_dir=tmp_path, seed=seed) for seed in (1, 2, 3))
    outcome = next((outcome for outcome in outcomes if outcome.solved), None)
    assert outcome is not None
    assert outcome.evaluation is not None
    assert outcome.evaluation.mean_return >= 475
