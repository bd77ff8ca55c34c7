"""`a3c-data` and `a3c-grad`: what the learner applies, by hand, over real processes, and through the serial runner."""

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
import torch

import a3c_zoo
from a3c_zoo.agents import a3c_data, a3c_grad
from a3c_zoo.agents.a3c import A3CWorker
from a3c_zoo.agents.configs import A3CConfig, A3CDataConfig, A3CGradConfig, HandoverConfig
from a3c_zoo.agents.learner import check_handover
from a3c_zoo.agents.plan import Plan
from a3c_zoo.config import Config, EnvConfig, NetworkConfig, OptimizerConfig, RunConfig
from a3c_zoo.entries import EnvEntry, NetworkEntry
from a3c_zoo.errors import ConfigError, WorkerError
from a3c_zoo.learning.configs import MLPConfig
from a3c_zoo.learning.model import Model, probe_spaces
from a3c_zoo.learning.shared import Counters, optimizer_state, share
from a3c_zoo.processes.pool import WorkerPool
from a3c_zoo.processes.ring import ring_memory
from a3c_zoo.processes.serial import SerialCrew
from a3c_zoo.processes.start import process_context, warm_up
from a3c_zoo.records import Report
from tests.test_serial import assert_equal_runs
from tests.toys import CONSTANT, toy_entry
from tests.toys_runs import checkpoint, episodes, scalars
from tests.turns import work_in_turn

WORKERS = 2
CARTPOLE = EnvEntry("cartpole", "a3c_zoo_envs.cartpole:make")
MLP = NetworkEntry("mlp", "a3c_zoo.learning.networks:build_mlp", inputs=("vector",))
#: With β1 = 0, Adam's first moment is the gradient that was applied last.
SIGN_STEP = OptimizerConfig(name="adam", learning_rate=1.0, beta1=0.0, beta2=0.0, epsilon=1e-9, max_grad_norm=None)
#: The loss is ½(V − R)² then, its gradient V − R.
VALUE_LOSS: dict[str, Any] = {"entropy_coefficient": 0.0, "value_coefficient": 0.5, "gamma": 0.5}


def make_plan(
    agent: HandoverConfig,
    entry: EnvEntry = CARTPOLE,
    network: NetworkEntry = MLP,
    optimizer: OptimizerConfig = SIGN_STEP,
    num_envs: int = 4,
    slots: int = 64,
    is_shared: bool = False,
) -> Plan:
    """The plan of a run without the run."""
    config = Config(
        entry.name,
        "agent",
        RunConfig(workers=WORKERS, seed=5),
        EnvConfig(num_envs=num_envs),
        agent,
        MLPConfig(hidden_sizes=(16,)),
        optimizer,
    )
    spaces = probe_spaces(entry, None, config, ("Discrete",))
    model = Model.create(spaces, network, config)
    parameters = model.flat.initial.clone()
    state, counters = optimizer_state(optimizer, parameters), torch.zeros((WORKERS + 1, 3), dtype=torch.int64)
    layout = a3c_data.layout(model, config) if isinstance(agent, A3CDataConfig) else a3c_grad.layout(model)
    memory = ring_memory(WORKERS, slots, layout, is_shared)
    if is_shared:
        share(parameters, counters, *state.values())
    return Plan(entry, network, config, spaces, parameters, state, counters, None, 0, memory)


def build_of(agent: HandoverConfig) -> Any:
    return a3c_data.build if isinstance(agent, A3CDataConfig) else a3c_grad.build


class TestByHand:
    """One parameter, the value of every state; episodes of one step with the reward 10 in worker 0, 20 in worker 1."""

    def crew(self, agent: HandoverConfig, num_envs: int = 2, **optimizer: Any) -> tuple[Plan, list[Any]]:
        plan = make_plan(
            agent, toy_entry(), CONSTANT, SIGN_STEP.model_copy(update=optimizer), num_envs=num_envs, slots=8
        )
        members = []
        for rank in range(WORKERS):
            script = (((10.0 * (rank + 1),), "terminated"),)
            entry = toy_entry(scripts=(script,), mode="SameStep")
            members.append(build_of(agent)(replace(plan, entry=entry), rank, None, lambda: None))
        members.append(build_of(agent)(plan, WORKERS, None, lambda: None))
        return plan, members

    def applied(self, plan: Plan) -> list[float]:
        assert plan.optimizer_state is not None
        gradient: list[float] = plan.optimizer_state["exp_avg"].tolist()
        return gradient

    @pytest.mark.parametrize("transfer", ["microbatches", "transitions"])
    def test_a_batch_of_two_workers(self, transfer: Any) -> None:
        agent = A3CDataConfig(n_steps=1, reward_steps=1, batch_size=4, transfer=transfer, **VALUE_LOSS)
        plan, (one, other, learner) = self.crew(agent)
        one.work()
        learner.finish()
        assert plan.counters[:, 1].tolist() == [0, 0, 0]  # half a batch
        other.work()
        learner.finish()
        assert self.applied(plan) == [-15]  # the mean of 0 − 10, 0 − 10, 0 − 20, 0 − 20
        assert plan.parameters.tolist() == pytest.approx([1])
        assert plan.counters.tolist()[2][:2] == [0, 1]
        assert plan.counters[:2, 0].tolist() == [2, 2]
        one.work()
        one.work()
        learner.finish()
        assert self.applied(plan) == pytest.approx([-9])  # 1 − 10: the learner's newest parameter

    def test_the_worker_bootstraps_a_micro_batch_and_the_learner_a_transition(self) -> None:
        # Rewards of 10 without an end, γ ½: R = 10 + ½·V(s'). Collected with V = 0, learned from with V = 4.
        for transfer, expected in (("microbatches", 4 - 10), ("transitions", 4 - (10 + 2))):
            agent = A3CDataConfig(n_steps=1, reward_steps=1, batch_size=1, transfer=transfer, **VALUE_LOSS)
            plan, _ = self.crew(agent, num_envs=1)
            entry = toy_entry(scripts=((((10.0,) * 9, "terminated"),),))
            worker = a3c_data.build(replace(plan, entry=entry), 0, None, lambda: None)
            learner = a3c_data.build(plan, WORKERS, None, lambda: None)
            worker.work()
            plan.parameters.fill_(4.0)
            learner.finish()
            assert self.applied(plan) == [expected]

    def test_gradients_are_clipped_added_up_and_clipped(self) -> None:
        agent = A3CGradConfig(n_steps=1, reward_steps=1, gradients_per_update=2, **VALUE_LOSS)
        for limit, expected in ((None, -30.0), (15.0, -15.0), (12.5, -12.5)):
            plan, (one, other, learner) = self.crew(agent, max_grad_norm=limit)
            one.work()
            learner.finish()
            assert plan.counters[:, 1].tolist() == [0, 0, 0]
            other.work()
            learner.finish()
            assert self.applied(plan) == pytest.approx([expected])
            assert plan.counters[:, 1].tolist() == [0, 0, 1]
        # Without the workers' own clipping at 12.5 the sum would be −10 − 20, with it −10 − 12.5; either is clipped.
        learner._applier._config = learner._applier._config.model_copy(update={"max_grad_norm": None})
        plan.parameters.zero_()
        one.work()
        other.work()
        learner.finish()
        assert self.applied(plan) == pytest.approx([-22.5])

    def test_staleness_is_that_of_every_item(self) -> None:
        agent = A3CGradConfig(n_steps=1, reward_steps=1, gradients_per_update=1, **VALUE_LOSS)
        _, (one, other, learner) = self.crew(agent)
        one.work()
        one.work()
        other.work()
        learner.finish()  # three updates: the versions were all 0
        assert list(learner.staleness) == [0, 1, 2]
        metrics = learner.report().metrics
        assert metrics["staleness"] == 0.0  # told with the first update; statistics are told 20 times a second
        learner.tell({})
        metrics = learner.report().metrics
        assert metrics["staleness"] == 1.0
        assert metrics["staleness_p95"] == 2.0  # the nearest rank, ⌈0.95 · 3⌉

    def test_half_a_batch_is_part_of_the_learners_state(self) -> None:
        for agent in (
            A3CDataConfig(n_steps=1, reward_steps=1, batch_size=4, **VALUE_LOSS),
            A3CGradConfig(n_steps=1, reward_steps=1, gradients_per_update=2, **VALUE_LOSS),
        ):
            plan, (one, other, learner) = self.crew(agent)
            one.work()
            learner.finish()
            resumed = build_of(agent)(plan, WORKERS, learner.state_dict(), lambda: None)
            other.work()
            resumed.finish()
            assert self.applied(plan) == [-15 if isinstance(agent, A3CDataConfig) else -30]

    def test_a_worker_that_acts_live_sees_every_update(self) -> None:
        for pull, expected in (("rollout", 0.0), ("live", 7.0)):
            agent = A3CDataConfig(n_steps=1, reward_steps=1, batch_size=4, pull=pull, **VALUE_LOSS)
            plan, (one, _, _) = self.crew(agent)
            one.pull()
            plan.parameters.fill_(7.0)
            assert one.model.network.value(torch.zeros(1, 2)).tolist() == [expected]


@pytest.mark.parametrize(
    "agent",
    [
        A3CDataConfig(n_steps=4, reward_steps=4, batch_size=32),
        A3CDataConfig(n_steps=4, reward_steps=2, batch_size=32, pull="live"),
        A3CDataConfig(n_steps=4, reward_steps=4, batch_size=25, transfer="transitions"),
        A3CGradConfig(n_steps=8, reward_steps=4, gradients_per_update=2),
        A3CGradConfig(n_steps=8, reward_steps=3, gradients_per_update=1, pull="live"),
    ],
    ids=["microbatches", "microbatches-live", "transitions", "gradients", "gradients-live"],
)
def test_processes_learn_what_the_serial_runner_learns(agent: HandoverConfig) -> None:
    rounds, optimizer = 20, OptimizerConfig(learning_rate=1e-3)
    serial = make_plan(agent, optimizer=optimizer)
    crew = SerialCrew(build_of(agent), serial, WORKERS + 1, has_learner=True)
    crew.start()
    for _ in range(rounds):
        crew.poll()
    crew.stop()
    plan = make_plan(agent, optimizer=optimizer, is_shared=True)
    work_in_turn(build_of(agent), plan, rounds, has_learner=True)
    assert Counters(plan.counters).updates >= rounds - 1
    assert plan.counters[:, :2].tolist() == serial.counters[:, :2].tolist()
    start = make_plan(agent).parameters
    assert float((serial.parameters - start).abs().max()) > 1e-3  # something was learned
    torch.testing.assert_close(plan.parameters, serial.parameters, rtol=1e-5, atol=1e-6)


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
    whole = train(agent, overrides, tmp_path, serial=True, steps=3000).run
    part = train(agent, overrides, tmp_path / "parts", serial=True, steps=1100).run
    a3c_zoo.train(resume=part, steps=2050)
    a3c_zoo.train(resume=part, steps=3000)
    assert_equal_runs(part, whole)


@pytest.mark.parametrize(("agent", "overrides"), RUNS)
def test_a_run_in_processes_counts_exactly_and_goes_on(agent: str, overrides: dict[str, Any], tmp_path: Path) -> None:
    outcome = train(agent, overrides, tmp_path, steps=20_000)
    assert outcome.reason == "steps"
    for steps in (20_000, 30_000):
        if steps > 20_000:
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
        train("a3c-data", SMALL["a3c-data"], tmp_path, steps=10_000_000, observer=Killer())
    assert found
    saved = checkpoint(next(tmp_path.iterdir()))
    assert saved["session"]["steps"] > 2000


def learner_pid() -> int:
    (process,) = [p for p in multiprocessing.active_children() if p.name == "a3c-zoo the learner"]
    assert process.pid is not None
    return process.pid


def test_a_learner_that_raises_shows_its_traceback(tmp_path: Path) -> None:
    overrides = SMALL["a3c-grad"] | {"optimizer.learning_rate": 10.0, "optimizer.max_grad_norm": "null"}
    overrides |= {"agent.value_coefficient": 1e30, "agent.n_steps": 64, "agent.reward_steps": 64}
    with pytest.raises(WorkerError, match=r"(?s)failed:.*Traceback.*FloatingPointError: the gradient is not finite"):
        train("a3c-grad", overrides, tmp_path, steps=10_000_000)


class Holder:
    """The real worker of `a3c`; the first one takes the lock and dies with it in its third rollout."""

    def __init__(self, plan: Plan, rank: int, state: Any, on_tick: Callable[[], None]) -> None:
        self._worker = A3CWorker(plan, rank, state, on_tick)
        self._lock, self._rank, self._rollouts = plan.exchange, rank, 0

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


def test_a_worker_that_dies_with_the_lock_hangs_nobody() -> None:
    warm_up()
    agent = A3CGradConfig()  # for its parameters' sake
    plan = make_plan(agent, is_shared=True)
    config = replace(plan.config, agent=A3CConfig(n_steps=5, locking="apply"))
    plan = replace(plan, config=config, counters=plan.counters[:WORKERS], exchange=process_context().Lock())
    pool = WorkerPool(Holder, plan, Counters(plan.counters))
    try:
        pool.start()
        pool.resume()
        with pytest.raises(WorkerError, match="worker 0 was ended by signal SIGKILL"):
            poll(pool, 20.0)
    finally:
        start_s = time.monotonic()
        pool.stop()
    assert time.monotonic() - start_s < 3  # the other saw the stop while it waited for the lock
    assert [member.process.exitcode for member in pool._members] == [-signal.SIGKILL, 0]


def poll(pool: WorkerPool, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        pool.poll()


def test_a_locked_run(tmp_path: Path) -> None:
    overrides = {"agent.locking": "apply", "optimizer.shared_statistics": False, "env.num_envs": 4}
    outcome = train("a3c", overrides, tmp_path, steps=20_000)
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
            "agent.batch_size: 100 — must be a multiple of a micro-batch: n_steps 4 × num_envs 8 = 32 samples",
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
        match=r"agent .a3c-data. acts with the shared parameters.* in bfloat16 on cpu: -o agent.pull=rollout, or ",
    ):
        a3c_zoo.train("pong", agent="a3c-data", overrides=overrides, runs_dir=tmp_path, steps=1000)


class CoreConfig(NetworkConfig):
    """Any network's with a core."""

    recurrent: str = "lstm"


@pytest.mark.parametrize("agent", [A3CDataConfig(), A3CDataConfig(transfer="transitions"), A3CGradConfig()])
def test_a_recurrent_core_is_refused(agent: HandoverConfig) -> None:
    config = replace(make_plan(agent).config, network=CoreConfig())
    with pytest.raises(ConfigError, match=r"network.recurrent: lstm — .* or use --agent a3c"):
        check_handover(config)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("agent", ["a3c-data", "a3c-grad"])
@pytest.mark.parametrize("seed", [11, 12, 13])
def test_cartpole_is_solved(agent: str, seed: int, tmp_path: Path) -> None:
    outcome = a3c_zoo.train("cartpole", agent=agent, seed=seed, steps=500_000, runs_dir=tmp_path)
    assert outcome.solved
