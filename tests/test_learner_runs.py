"""`a3c-data` and `a3c-grad` as runs: resumed, ended by a fault, given what they cannot take."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import a3c_zoo
from a3c_zoo.agents.a3c import A3CWorker
from a3c_zoo.agents.configs import A3CConfig, A3CGradConfig
from a3c_zoo.agents.context import WorkerContext
from a3c_zoo.errors import ConfigError, DivergedError, WorkerError
from a3c_zoo.learning.counters import Counters
from a3c_zoo.processes import pool as pool_module
from a3c_zoo.processes.pool import WorkerPool
from a3c_zoo.processes.start import process_context, warm_up
from a3c_zoo.records import Report
from tests.test_learner_agents import WORKERS, make_context
from tests.test_serial import assert_equal_runs
from tests.toys_runs import checkpoint, episodes, scalars
from tests.waits import LIMIT_S

SMALL: dict[str, dict[str, Any]] = {
    "a3c-data": {"env.num_envs": 4, "agent.n_steps": 8, "agent.batch_size": 96},
    "a3c-grad": {"env.num_envs": 4, "agent.n_steps": 8, "agent.gradients_per_update": 3},
}
TRANSITIONS = {"env.num_envs": 4, "agent.n_steps": 8, "agent.batch_size": 50, "agent.transfer": "transitions"}
RUNS = [*SMALL.items(), ("a3c-data", TRANSITIONS)]


def train(agent: str, overrides: dict[str, Any], folder: Path, **options: Any) -> Any:
    return a3c_zoo.train("cartpole", agent=agent, seed=3, overrides=overrides, runs_dir=folder, **options)


@pytest.mark.parametrize(("agent", "overrides"), RUNS)
def test_the_serial_runner_stopped_and_resumed(agent: str, overrides: dict[str, Any], tmp_path: Path) -> None:
    overrides = overrides | {"optimizer.schedule": "constant"}  # one that ends with the budget would be another one
    whole = train(agent, overrides, tmp_path, serial=True, steps=1600).run
    part = train(agent, overrides, tmp_path / "parts", serial=True, steps=700).run
    a3c_zoo.train(resume=part, steps=1600)
    assert_equal_runs(part, whole)


@pytest.mark.parametrize(
    ("agent", "overrides"), [*SMALL.items(), pytest.param("a3c-data", TRANSITIONS, marks=pytest.mark.slow)]
)
def test_a_run_in_processes_counts_exactly_and_goes_on(agent: str, overrides: dict[str, Any], tmp_path: Path) -> None:
    outcome = train(agent, overrides, tmp_path, steps=3000)
    assert outcome.reason == "steps"
    for steps in (3000, 5000):
        if steps > 3000:
            outcome = a3c_zoo.train(resume=outcome.run, steps=steps)
        saved = checkpoint(outcome.run)
        counters = saved["agent"]["counters"]
        assert steps <= outcome.steps == saved["session"]["steps"] == int(counters[:, 0].sum()) < steps + 2 * 32
        assert counters[2, 0] == counters[0, 1] == counters[1, 1] == 0  # the learner makes no steps, workers no updates
        assert outcome.updates == counters[2, 1] > 0
        assert len(episodes(outcome.run)) == saved["session"]["episodes"]
        # Every sample was learned from, but for what makes no whole update: windows not complete, resets ignored.
        per_update = overrides.get("agent.batch_size", 96)
        assert outcome.updates * per_update <= outcome.steps + outcome.episodes + 200
        assert outcome.updates * per_update >= outcome.steps * 0.95 - 500
    tags = scalars(outcome.run)
    assert {"train/staleness", "train/staleness_p95", "train/learner_utilisation", "train/entropy"} <= tags.keys()
    assert all(0 <= share <= 1 for _, share in tags["train/learner_utilisation"])


def test_a_learner_that_dies_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []

    class Killer:
        """Ends the learner's process once training is under way."""

        def starting(self, *about: Any) -> None: ...

        def message(self, text: str) -> None: ...

        def progress(self, progress: Any) -> None:
            if progress.steps > 2000 and not found:
                found.append(learner_pid())
                os.kill(found[0], signal.SIGKILL)

    with pytest.raises(WorkerError, match=r"the learner was ended by signal SIGKILL"):
        train("a3c-data", SMALL["a3c-data"] | {"run.restarts": 0}, tmp_path, steps=10_000_000, observer=Killer())
    assert found
    assert [p.name for p in multiprocessing.active_children() if p.name.startswith("a3c-zoo")] == []
    saved = checkpoint(next(tmp_path.iterdir()))
    assert saved["session"]["steps"] > 2000


def learner_pid() -> int:
    (process,) = [p for p in multiprocessing.active_children() if p.name == "a3c-zoo the learner"]
    assert process.pid is not None
    return process.pid


def test_a_learner_that_diverges_says_so(tmp_path: Path) -> None:
    """The workers of `a3c-data` never differentiate: only the learner can come to a gradient that is not finite."""
    overrides = SMALL["a3c-data"] | {"agent.value_coefficient": 1e38}
    with pytest.raises(DivergedError, match=r"^100 gradients in a row are not finite: training diverged\."):
        train("a3c-data", overrides, tmp_path, steps=10_000_000)
    assert [p.name for p in multiprocessing.active_children() if p.name.startswith("a3c-zoo")] == []


class Holder:
    """The real worker of `a3c`; the first one takes the lock and dies with it in its third rollout."""

    def __init__(self, context: WorkerContext, rank: int, state: Any, on_tick: Callable[[], None]) -> None:
        self._worker = A3CWorker(context, rank, state, on_tick)
        self._lock, self._rank, self._rollouts = context.exchange, rank, 0

    def work(self) -> None:
        self._worker.work()
        self._rollouts += 1
        if self._rank == 0 and self._rollouts == 3:
            self._lock.acquire()
            os.kill(os.getpid(), signal.SIGKILL)

    def finish(self) -> None: ...

    def report(self) -> Report:
        return self._worker.report()

    def state_dict(self) -> dict[str, Any]:
        return self._worker.state_dict()

    def close(self) -> None:
        self._worker.close()


def test_a_worker_that_dies_with_the_lock_hangs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "STOP_GRACE_S", LIMIT_S)  # nobody is killed before
    warm_up()
    agent = A3CGradConfig()  # for its parameters' sake
    context = make_context(agent, is_shared=True)
    config = replace(context.config, agent=A3CConfig(n_steps=5, locking="apply"))
    context = replace(context, config=config, counters=context.counters[:WORKERS], exchange=process_context().Lock())
    pool = WorkerPool(Holder, context, Counters(context.counters))
    try:
        pool.start()
        pool.resume()
        with pytest.raises(WorkerError, match="worker 0 was ended by signal SIGKILL"):
            poll(pool, LIMIT_S)
    finally:
        pool.stop()
    # The other saw the stop while it waited for the lock, and left by itself.
    assert [member.process.exitcode for member in pool._members] == [-signal.SIGKILL, 0]


def poll(pool: WorkerPool, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        pool.poll()


def test_a_locked_run(tmp_path: Path) -> None:
    overrides = {"agent.locking": "apply", "optimizer.shared_statistics": False, "env.num_envs": 4}
    outcome = train("a3c", overrides, tmp_path, steps=2000)
    assert outcome.reason == "steps"
    assert outcome.updates == int(checkpoint(outcome.run)["agent"]["counters"][:, 1].sum())
    assert outcome.updates * 20 >= outcome.steps  # rollouts of 5 × 4


@pytest.mark.parametrize(
    ("agent", "overrides", "message"),
    [
        ("a3c-data", {"agent.slots": 0}, "agent.slots: 0 — must be greater than or equal to 1"),
        ("a3c-grad", {"agent.slots": 0}, "agent.slots: 0 — must be greater than or equal to 1"),
        ("a3c-data", {"agent.reward_steps": 0}, "agent.reward_steps: 0 — must be greater than or equal to 1"),
        ("a3c-grad", {"agent.n_steps": 0}, "agent.n_steps: 0 — must be greater than or equal to 1"),
        (
            "a3c-data",
            {"agent.batch_size": 100, "env.num_envs": 8},
            "agent.batch_size: 100 — must be a multiple of a micro-batch: n_steps 4 × num_envs 8 = 32 samples: "
            "choose 96 or 128",
        ),
        (
            "a3c-grad",
            {"agent.n_steps": 100_000, "env.num_envs": 4096, "run.workers": 1024},
            "1024 × 4096 environments need at least",
        ),
    ],
)
def test_bad_input(agent: str, overrides: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        train(agent, overrides, tmp_path, steps=1000)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_acting_live_needs_the_shared_precision(tmp_path: Path) -> None:
    overrides = {"agent.pull": "live", "network.precision": "bfloat16"}
    with pytest.raises(
        ConfigError,
        match=r"a3c-data.* in bfloat16 on cpu: -o agent\.pull=rollout",
    ):
        a3c_zoo.train("pong", agent="a3c-data", overrides=overrides, runs_dir=tmp_path, steps=1000)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("agent", ["a3c-data", "a3c-grad"])
@pytest.mark.parametrize("seed", [11, 12, 13])
def test_cartpole_is_solved(agent: str, seed: int, tmp_path: Path) -> None:
    outcome = a3c_zoo.train("cartpole", agent=agent, seed=seed, steps=500_000, runs_dir=tmp_path)
    assert outcome.solved
