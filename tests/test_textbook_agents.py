"""`nstep` and `monte-carlo`: across real processes, in the serial runner, stopped and resumed, and their faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import a3c_zoo
from a3c_zoo import hardware
from a3c_zoo.agents.a3c import A3CWorker
from a3c_zoo.agents.configs import MonteCarloConfig, NStepConfig, TextbookConfig
from a3c_zoo.agents.context import WorkerContext
from a3c_zoo.agents.worker import Member
from a3c_zoo.config import Config, EnvConfig, NetworkConfig, OptimizerConfig, RunConfig
from a3c_zoo.errors import ConfigError
from a3c_zoo.learning.counters import STEPS, Counters
from a3c_zoo.learning.model import Model, probe_spaces
from a3c_zoo.learning.optimizers import Adam
from a3c_zoo.learning.parameters import share
from a3c_zoo.plugins.entries import EnvEntry, NetworkEntry
from a3c_zoo.processes.serial import SerialCrew
from tests.test_serial import assert_equal_runs
from tests.toys import ADAM
from tests.toys_runs import checkpoint, episodes
from tests.turns import work_in_turn

WORKERS = 2
CARTPOLE = EnvEntry("cartpole", "a3c_zoo_envs.cartpole:make")
NETWORK = NetworkEntry("textbook", "a3c_zoo.learning.mlp:Textbook", inputs=("vector",))
CLASSIC: dict[str, Any] = {"termination_reward": -10.0, "normalize_returns": True}
AGENTS = [NStepConfig(n_steps=10, **CLASSIC), MonteCarloConfig(n_steps=500, **CLASSIC)]


def make_context(
    agent: TextbookConfig, is_shared: bool = False, private: bool = False, steps: int | None = None
) -> WorkerContext:
    """The context of a run without the run."""
    optimizer = OptimizerConfig(learning_rate=1e-3, max_grad_norm=None, shared_statistics=not private)
    run, env = RunConfig(workers=WORKERS, seed=5, steps=steps), EnvConfig(num_envs=1)
    config = Config("cartpole", "nstep", run, env, agent, NetworkConfig(name="textbook"), optimizer)
    spaces = probe_spaces(CARTPOLE, None, config, ("Discrete",))
    parameters = Model.create(spaces, NETWORK, config).flat.initial.clone()
    state = None if private else Adam.moments(parameters, optimizer)
    counters = Counters.zeros(WORKERS)
    if is_shared:
        share(parameters, counters, *(state or {}).values())
    return WorkerContext(CARTPOLE, NETWORK, ADAM, config, spaces, parameters, state, counters, None, 0)


@pytest.mark.parametrize("private", [False, True], ids=["shared", "private"])
@pytest.mark.parametrize("agent", AGENTS, ids=["nstep", "monte-carlo"])
def test_processes_learn_what_the_serial_runner_learns(agent: TextbookConfig, private: bool) -> None:
    rounds = 15
    serial = make_context(agent, private=private)
    start = serial.parameters.clone()
    crew = SerialCrew(A3CWorker, serial, WORKERS)
    crew.start()
    for _ in range(rounds):
        crew.poll()
    crew.stop()
    context = make_context(agent, is_shared=True, private=private)
    work_in_turn(A3CWorker, context, rounds)
    assert context.counters[:, :2].tolist() == serial.counters[:, :2].tolist()
    assert Counters(context.counters).updates == rounds * WORKERS
    assert float((serial.parameters - start).abs().max()) > 1e-3  # something was learned
    torch.testing.assert_close(context.parameters, serial.parameters, rtol=1e-5, atol=1e-6)


def test_a_worker_acts_on_what_others_do_at_once() -> None:
    context = make_context(AGENTS[0])
    workers = [A3CWorker(context, rank, None, lambda: None) for rank in range(WORKERS)]
    workers[0].work()
    first, second = (torch.cat([p.flatten() for p in worker.model.module.parameters()]) for worker in workers)
    assert torch.equal(first, context.parameters)
    assert torch.equal(second, context.parameters)


@pytest.mark.parametrize(("schedule", "left"), [("constant", 0.04), ("linear", 0.01)])
def test_the_entropy_bonus_falls_with_the_steps_of_all_workers(schedule: Any, left: float) -> None:
    """After 75 of 100 steps a quarter of it is left."""
    context = make_context(NStepConfig(entropy_coefficient=0.04, entropy_schedule=schedule), steps=100)
    member = Member(context, 0, lambda: None)
    assert member.objective().entropy_coefficient == 0.04
    context.counters[:, STEPS] = torch.tensor([50, 25])
    assert member.objective().entropy_coefficient == pytest.approx(left)


def train(agent: str, folder: Path, **options: Any) -> Any:
    return a3c_zoo.train("cartpole", agent=agent, seed=3, runs_dir=folder, **options)


@pytest.mark.parametrize("agent", ["nstep", "monte-carlo"])
def test_the_serial_runner_stopped_and_resumed(agent: str, tmp_path: Path) -> None:
    constant = {"optimizer.schedule": "constant"}  # one that ends with the budget would be another one
    whole = train(agent, tmp_path, serial=True, steps=1000, overrides=constant).run
    part = train(agent, tmp_path / "parts", serial=True, steps=400, overrides=constant).run
    a3c_zoo.train(resume=part, steps=1000)
    assert_equal_runs(part, whole)


@pytest.mark.parametrize("hyperparams", ["nstep-classic", "monte-carlo-classic"])
def test_the_classic_sets_count_exactly(hyperparams: str, tmp_path: Path) -> None:
    agent = hyperparams.removesuffix("-classic")
    outcome = train(agent, tmp_path, hyperparams=hyperparams, episodes=200)
    assert outcome.reason == "episodes"
    saved, played = checkpoint(outcome.run), episodes(outcome.run)
    counters = saved["agent"]["counters"]
    assert len(counters) == 7
    assert outcome.steps == int(counters[:, 0].sum()) == saved["session"]["steps"]
    assert 200 <= outcome.episodes == len(played) <= outcome.updates
    assert len(saved["agent"]["workers"]) == 7
    assert all("optimizer" in worker for worker in saved["agent"]["workers"])  # private statistics
    if agent == "monte-carlo":
        assert outcome.updates == outcome.episodes


@pytest.mark.parametrize(
    ("agent", "overrides", "message"),
    [
        ("nstep", {"agent.n_steps": 0}, "agent.n_steps: 0 — must be greater than or equal to 1"),
        ("monte-carlo", {"agent.n_steps": 0}, "agent.n_steps: 0 — must be greater than or equal to 1"),
        ("monte-carlo", {"env.num_envs": 8}, "env.num_envs: 8 — agent 'monte-carlo' takes one environment per worker"),
        ("nstep", {"env.num_envs": 2}, "env.num_envs: 2 — agent 'nstep' takes one environment per worker"),
        ("monte-carlo", {"agent.n_steps": 5}, "an episode of 'cartpole' is longer than 5 steps, the memory for one"),
        ("monte-carlo", {"agent.n_steps": 1_000_000, "run.workers": 1024}, "1024 × 1 environments need at least"),
    ],
)
def test_bad_input(
    agent: str, overrides: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "available_memory", lambda: 10**9)  # some machines have 100 GB
    with pytest.raises(ConfigError) as raised:
        train(agent, tmp_path, overrides=overrides, steps=1000)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_acting_live_needs_the_shared_precision(tmp_path: Path) -> None:
    overrides = {"env.frame_size": 42, "network.name": "conv42", "network.precision": "bfloat16"}
    with pytest.raises(ConfigError, match=r"'nstep' .*on cpu: -o network\.precision=float32$"):
        a3c_zoo.train("pong", agent="nstep", overrides=overrides, runs_dir=tmp_path, steps=1000)


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["nstep", "monte-carlo"])
@pytest.mark.parametrize("seed", [11, 12, 13])
def test_cartpole_is_solved(agent: str, seed: int, tmp_path: Path) -> None:
    outcome = a3c_zoo.train("cartpole", agent=agent, seed=seed, steps=1_000_000, runs_dir=tmp_path)
    assert outcome.solved
