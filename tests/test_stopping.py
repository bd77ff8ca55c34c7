"""What ends a run is the same for every agent, and so is what it leaves behind."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import a3c_zoo
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.records import Outcome
from a3c_zoo.store.checkpoints import checkpoint_file
from a3c_zoo.store.directory import RunDirectory
from a3c_zoo.store.run import Run
from tests.shared import all_agents
from tests.toys_baselines import one_thread
from tests.toys_runs import checkpoint, episodes, toy_installed, write_content
from tests.waits import LIMIT_S

AGENTS = all_agents()
NOT_SB3: list[Any] = ["a3c", "a3c-data", "random"]
NOT_SB3 += [
    pytest.param(name, marks=pytest.mark.slow) for name in ("a3c-grad", "monte-carlo", "nstep", "recurrent-ppo")
]


@pytest.fixture(autouse=True)
def with_one_thread() -> Iterator[None]:
    with one_thread():  # stable-baselines3 on busy cores
        yield


def train(agent: str, folder: Path, **options: Any) -> Outcome:
    outcome = a3c_zoo.train("cartpole", agent=agent, seed=1, runs_dir=folder, **options)
    session = checkpoint(outcome.run)["session"]
    assert outcome.steps == session["steps"]
    assert outcome.episodes == session["episodes"] == len(episodes(outcome.run))
    assert multiprocessing.active_children() == []
    return outcome


def rollout_of(outcome: Outcome) -> int:
    """What all workers together may do after the last look at a budget; some agents collect whole episodes."""
    config = Run(outcome.run).config(get_registry())
    longest = max(getattr(config.agent, "n_steps", 0) or 0, 500)
    return config.run.workers * config.env.num_envs * longest


@pytest.mark.parametrize("agent", AGENTS)
def test_steps(agent: str, tmp_path: Path) -> None:
    outcome = train(agent, tmp_path, steps=700, time_limit_s=LIMIT_S)
    assert (outcome.reason, outcome.detail) == ("steps", "700 steps done")
    assert 700 <= outcome.steps < 700 + rollout_of(outcome)


@pytest.mark.parametrize("agent", AGENTS)
def test_episodes(agent: str, tmp_path: Path) -> None:
    outcome = train(agent, tmp_path, episodes=30, time_limit_s=LIMIT_S)
    assert (outcome.reason, outcome.detail) == ("episodes", "30 episodes done")
    assert outcome.episodes >= 30


@pytest.mark.parametrize("agent", ["a3c", "a3c-data"])
def test_episodes_that_nobody_could_tell_of_any_more(agent: str, tmp_path: Path) -> None:
    """A worker's end leaves episodes that are counted and not recorded; a resumed run still ends by those recorded."""
    run = train(agent, tmp_path, episodes=30, time_limit_s=LIMIT_S).run
    saved = checkpoint(run)
    saved["agent"]["counters"][0, 3] += 25
    write_content(checkpoint_file(RunDirectory(run), "final"), saved)
    resumed = a3c_zoo.train(resume=run, episodes=60, time_limit_s=LIMIT_S)
    assert (resumed.reason, resumed.detail) == ("episodes", "60 episodes done")


@pytest.mark.parametrize("agent", AGENTS)
def test_time(agent: str, tmp_path: Path) -> None:
    outcome = train(agent, tmp_path, time_limit_s=0.25, overrides={"run.stop_when_solved": False})
    assert (outcome.reason, outcome.detail) == ("time-limit", "0.25 s are over")
    assert 0.25 <= outcome.training_s < 50


@pytest.mark.parametrize("agent", ["a3c", "sb3-a2c", "sb3-ppo", pytest.param("recurrent-ppo", marks=pytest.mark.slow)])
def test_time_is_over_within_a_rollout(agent: str, tmp_path: Path) -> None:
    """That rollout is lost: here the first one, which takes many seconds."""
    n_steps = 5000 if agent == "recurrent-ppo" else 50_000  # whose buffer would take gigabytes, and which is slow
    overrides = {"run.workers": 1, "env.num_envs": 8, "agent.n_steps": n_steps, "run.stop_when_solved": False}
    outcome = train(agent, tmp_path, time_limit_s=0.2, overrides=overrides)
    assert (outcome.reason, outcome.steps, outcome.episodes, outcome.updates) == ("time-limit", 0, 0, 0)
    longer_s = outcome.training_s + 0.1
    assert a3c_zoo.train(resume=outcome.run, time_limit_s=longer_s).reason == "time-limit"


@pytest.mark.parametrize("agent", AGENTS)
def test_a_return(agent: str, tmp_path: Path) -> None:
    """Random actions on CartPole are worth about 22: both the window and an evaluation are above 12."""
    outcome = train(agent, tmp_path, stop_return=12.0, time_limit_s=LIMIT_S)
    assert (outcome.reason, outcome.solved) == ("stop-return", False)
    assert outcome.evaluation is not None
    assert outcome.mean_return_100 is not None
    assert min(outcome.evaluation.mean_return, outcome.mean_return_100) >= 12
    assert outcome.detail.startswith("evaluation mean ")


@pytest.mark.parametrize("agent", NOT_SB3)
def test_an_environment_that_fails(agent: str, tmp_path: Path) -> None:
    """The error that comes up is the environment's, and what was learned until then is kept."""
    with toy_installed(tmp_path / "toy"):
        overrides = {"env.fault": "raise", "env.after": 400, "env.step_s": 0.002, "run.stop_when_solved": False}
        with pytest.raises(Exception, match="the toy broke"):
            a3c_zoo.train("toy", agent=agent, runs_dir=tmp_path, name="x", overrides=overrides, time_limit_s=LIMIT_S)
        saved = checkpoint(tmp_path / "x")["session"]
        assert saved["steps"] > 0
        resumed = a3c_zoo.train(resume=tmp_path / "x", steps=saved["steps"] + 100)
        assert resumed.reason == "steps"
