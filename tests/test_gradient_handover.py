"""What each update applies is the gradient just computed: real workers, real processes, gradients worked out by hand.

The well-known A3C programs hand gradients over by `shared.grad = local.grad`, once, and rely on `zero_grad()` keeping
the tensors. Since torch 2.0 it sets them to None, and from the second update on they apply something else without a
word: true gradients of 1, 2, 3 arrive as 1, 3, 6 in one of them, as 1, 1, 1 in another.

Episodes of one step that terminates make the return the reward r. With a value coefficient of ½, no entropy bonus and
a policy without parameters, the loss is ½·(r − V)², so its gradient is −(r − V)·∂V/∂w.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from a3c_zoo.agents.a3c import A3CWorker
from a3c_zoo.agents.configs import A3CConfig
from a3c_zoo.agents.context import WorkerContext
from a3c_zoo.config import OptimizerConfig
from a3c_zoo.learning.actions import Categorical
from a3c_zoo.learning.counters import Counters
from a3c_zoo.learning.model import Spaces
from a3c_zoo.learning.optimizers import optimizer_class
from a3c_zoo.learning.parameters import share
from a3c_zoo.learning.spaces import observation_spec
from a3c_zoo.plugins.entries import NetworkEntry
from a3c_zoo.processes.crew import CutShort
from a3c_zoo.processes.pool import WorkerPool
from a3c_zoo.processes.start import warm_up
from tests.toys import (
    CONSTANT,
    OBSERVATION_SPACE,
    OPTIMIZERS,
    SLOPE,
    CountingWorker,
    HandoverContext,
    HandoverWorker,
    Script,
    toy_config,
    toy_entry,
)
from tests.waits import LIMIT_S

WORKERS = 2
#: With β1 = β2 = 0 and next to no ε, Adam goes one learning rate against the gradient's sign, whatever its size.
SIGN_STEP = OptimizerConfig(name="adam", learning_rate=1.0, beta1=0.0, beta2=0.0, epsilon=1e-9, max_grad_norm=None)
VALUE_LOSS = A3CConfig(n_steps=1, entropy_coefficient=0.0, value_coefficient=0.5, gamma=0.5)


def make_context(
    network: NetworkEntry,
    num_parameters: int,
    optimizer: OptimizerConfig = SIGN_STEP,
    agent: A3CConfig = VALUE_LOSS,
    num_envs: int = 1,
    **toy: Any,
) -> WorkerContext:
    """A context whose tensors lie in shared memory; parameters start at 0."""
    parameters = torch.zeros(num_parameters)
    entry = OPTIMIZERS[optimizer.name]
    state = optimizer_class(entry).moments(parameters, optimizer) if optimizer.shared_statistics else None
    counters = Counters.zeros(WORKERS)
    share(parameters, counters, *(state or {}).values())
    spaces = Spaces(observation_spec(OBSERVATION_SPACE), Categorical(2))
    config = toy_config(agent, optimizer, num_envs, WORKERS)
    return WorkerContext(toy_entry(**toy), network, entry, config, spaces, parameters, state, counters, None, 0)


def shared_zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    tensor = torch.zeros(shape, dtype=dtype)
    share(tensor)
    return tensor


@contextmanager
def running(factory: Any, context: Any, counters: Counters) -> Iterator[WorkerPool]:
    warm_up()
    pool = WorkerPool(factory, context, counters)
    try:
        pool.start()
        pool.resume()
        yield pool
    finally:
        pool.stop()


def poll_until(pool: WorkerPool, is_done: Any) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not is_done():
        assert time.monotonic() < deadline, "the workers do not get there"
        pool.poll()


def updates_in_turn(context: WorkerContext, rewards: Sequence[Sequence[float]], num_updates: int) -> list[list[float]]:
    """Lets two worker processes update in turn; returns (applied gradient …, parameters after …) of each update."""
    turn = shared_zeros(1, dtype=torch.int64)
    log = shared_zeros(num_updates, 2 * len(context.parameters))
    counters = Counters(context.counters)
    with running(HandoverWorker, HandoverContext(context, log, turn, rewards), counters) as pool:
        poll_until(pool, lambda: int(turn) == num_updates)
        pool.park()
    assert counters.updates == counters.steps == num_updates
    rows: list[list[float]] = log.tolist()
    return rows


def test_moments_of_parameters_without_a_gradient_become_0_and_are_no_denormals() -> None:
    # A parameter's first moment of 2e-38 halves to 1e-38, below float32's smallest normal number, 1.18e-38.
    context = make_context(SLOPE, 2, SIGN_STEP.model_copy(update={"beta1": 0.5}))
    assert context.moments is not None
    moments = context.moments["exp_avg"]
    moments[:] = torch.tensor([2e-38, 1.0])
    worker = A3CWorker(context, 0, None, lambda: None)
    worker.applier.apply(torch.zeros(2), (0,))
    worker.close()
    assert moments.tolist() == [0, 0.5]
    assert torch.tensor([2e-38]).mul(0.5).item() > 0, "environments in this thread compute as ever"


def test_a_rollout_that_is_counted_is_learned_from_whole() -> None:
    """The time limit is over after the last of three steps, and before the second of three updates."""
    context = make_context(CONSTANT, 1, agent=VALUE_LOSS.model_copy(update={"update_samples": 1}), num_envs=3)

    def on_tick() -> None:
        if context.counters[0, 0] == 3:
            raise CutShort

    worker = A3CWorker(context, 0, None, on_tick)
    worker.work()
    worker.close()
    assert context.counters[0, :2].tolist() == [3, 3]


def test_the_updates_of_a_rollout_see_the_same_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four steps, four updates. Statistics are copied before the rollout, and with what it saw for the updates."""
    agent = VALUE_LOSS.model_copy(update={"update_samples": 1})
    context = make_context(CONSTANT, 1, agent=agent, num_envs=4)
    worker = A3CWorker(context, 0, None, lambda: None)
    pulled: list[list[int]] = []
    monkeypatch.setattr(worker.model, "pull_statistics", lambda _: pulled.append(context.counters[0, :2].tolist()))
    worker.work()
    worker.close()
    assert pulled == [[0, 0], [4, 1]]  # steps and updates until then
    assert context.counters[0, :2].tolist() == [4, 4]


def test_a_worker_tells_where_its_time_goes() -> None:
    """Of a rollout and of the learning before it: without that, a share of 0 would be told."""
    worker = A3CWorker(make_context(CONSTANT, 1, agent=VALUE_LOSS, num_envs=3), 0, None, lambda: None)
    worker.work()
    assert worker.report().seconds == {}
    worker.work()
    seconds = worker.report().seconds
    assert seconds.keys() == {"environment", "acting", "learning"}
    assert all(part_s > 0 for part_s in seconds.values())
    worker.state_dict()  # a standstill, which is no learning
    worker.work()
    assert worker.report().seconds == {}
    worker.close()


def test_gradients_1_2_3_arrive_as_1_2_3() -> None:
    # V is 0 with the slope 1 in the worker's own parameter: rewards −1, −2, −3 give the gradients 1, 2, 3 there, and
    # 10, 20, 30 in the other's. Each update takes 1 from its parameter.
    context = make_context(SLOPE, 2)
    rewards = ((-1.0, -2.0, -3.0), (-10.0, -20.0, -30.0))
    rows = updates_in_turn(context, rewards, 6)
    assert [row[:2] for row in rows] == [[1, 0], [0, 10], [2, 0], [0, 20], [3, 0], [0, 30]]
    assert [row[2:] for row in rows] == [
        pytest.approx(after) for after in ([-1, 0], [-1, -1], [-2, -1], [-2, -2], [-3, -2], [-3, -3])
    ]


def test_a_gradient_moves_the_parameters_by_its_size() -> None:
    # RMSprop whose ε dwarfs every gradient is plain descent: 10·g/√(g² + 10¹⁰) = 10⁻⁴·g. So the parameters
    # themselves tell what was applied: −1 − 2 − 3 and −10 − 20 − 30, times 10⁻⁴. (1, 3, 6 would sum to 10.)
    optimizer = OptimizerConfig(name="rmsprop", learning_rate=10.0, alpha=0.0, epsilon=1e10, max_grad_norm=None)
    context = make_context(SLOPE, 2, optimizer)
    turn, log = shared_zeros(1, dtype=torch.int64), shared_zeros(6, 4)
    state = context.moments
    assert state is not None
    state["exp_avg"] = shared_zeros(2)  # RMSprop has none to log
    rewards = ((-1.0, -2.0, -3.0), (-10.0, -20.0, -30.0))
    with running(HandoverWorker, HandoverContext(context, log, turn, rewards), Counters(context.counters)) as pool:
        poll_until(pool, lambda: int(turn) == 6)
    after = torch.tensor([[-1, 0], [-1, -10], [-3, -10], [-3, -30], [-6, -30], [-6, -60]]) * 1e-4
    torch.testing.assert_close(log[:, 2:], after, rtol=1e-5, atol=1e-9)


def test_each_gradient_is_that_of_the_parameters_as_they_are() -> None:
    # One parameter, V = w: the gradient is w − r, and each update adds 1 to w as long as w < r. Rewards 10 and 20:
    # w   0    1    2   3    4   5        before the update
    # r  10   20   10  20   10  20
    # g −10  −19   −8 −17   −6 −15
    # A worker that did not see the other's updates would give −10, −20, −9, −19, −8, −18.
    context = make_context(CONSTANT, 1)
    rows = updates_in_turn(context, ((10.0,), (20.0,)), 6)
    assert [gradient for gradient, _ in rows] == pytest.approx([-10, -19, -8, -17, -6, -15], rel=1e-6)
    assert [after for _, after in rows] == pytest.approx([1, 2, 3, 4, 5, 6], rel=1e-6)


def test_workers_that_run_free_apply_their_own_gradients_and_count_exactly() -> None:
    # Neither turns nor a shared optimizer: both update as fast as they can, and the private first moment tells what
    # each applied. The gradient does not depend on the parameters, so not even a torn read could change it.
    optimizer = SIGN_STEP.model_copy(update={"shared_statistics": False})
    context = make_context(SLOPE, 2, optimizer)
    log, counters = shared_zeros(WORKERS, 60, 2), Counters(context.counters)
    rewards = ((-1.0, -2.0, -3.0), (-10.0, -20.0, -30.0))
    with running(HandoverWorker, HandoverContext(context, log, None, rewards), counters) as pool:
        poll_until(pool, lambda: bool((context.counters[:, 1] >= 60).all()))
        reports = pool.park()
        own = [state["own_updates"] for state in pool.states()]
    assert log[0].tolist() == [[1, 0], [2, 0], [3, 0]] * 20
    assert log[1].tolist() == [[0, 10], [0, 20], [0, 30]] * 20
    assert context.counters[:, 1].tolist() == own
    assert context.counters[:, 0].tolist() == own  # one step to each update
    assert counters.steps == counters.updates == sum(own)
    assert max(report.steps for report in reports) <= sum(own)


def test_counters_are_exact_over_two_processes() -> None:
    times = 200_000
    tensor = shared_zeros(WORKERS, 4, dtype=torch.int64)
    counters = Counters(tensor)
    with running(CountingWorker, (tensor, times), counters) as pool:
        poll_until(pool, lambda: counters.updates >= 2 * times)
        pool.park()
        assert pool.states() == [{"counted": times}] * 2
    assert (counters.steps, counters.updates) == (2 * 3 * times, 2 * times)
    assert counters.ticks.tolist() == [times, times]


class TestOneProcess:
    """The same worker without a process, where its inside is open."""

    SCRIPTS: tuple[Script, ...] = ((((10.0,), "terminated"),), (((20.0,), "terminated"),))

    def worker(self, context: WorkerContext) -> A3CWorker:
        return A3CWorker(context, 0, None, lambda: None)

    def context(self, **options: Any) -> WorkerContext:
        agent = VALUE_LOSS.model_copy(update=options)
        return make_context(CONSTANT, 1, agent=agent, num_envs=2, scripts=self.SCRIPTS, mode="SameStep")

    def test_one_update_of_the_whole_rollout(self) -> None:
        # the mean of 0 − 10 and 0 − 20
        context = self.context()
        self.worker(context).work()
        assert context.moments is not None
        assert context.moments["exp_avg"].tolist() == [-15]
        assert context.parameters.tolist() == pytest.approx([1])
        assert context.counters[0].tolist() == [2, 1, 0, 2, 0]  # two steps, one update, an episode of each step

    def test_several_updates_of_one_rollout_pull_before_each(self) -> None:
        # w = 0: 0 − 10; then w = 1: 1 − 20 and not 0 − 20
        context = self.context(update_samples=1)
        self.worker(context).work()
        assert context.moments is not None
        assert context.moments["exp_avg"].tolist() == pytest.approx([-19])
        assert context.parameters.tolist() == pytest.approx([2])
        assert context.counters[0].tolist() == [2, 2, 0, 2, 0]

    def test_the_report(self) -> None:
        context = self.context()
        worker = self.worker(context)
        context.counters[1] = torch.tensor([100, 7, 0, 0, 0])  # the other worker's
        worker.work()
        report = worker.report()
        assert (report.worker, report.steps, report.updates) == (0, 102, 8)
        assert [(e.episode_return, e.length, e.step) for e in report.episodes] == [(10, 1, 102), (20, 1, 102)]
        # V = 0, R = 10 and 20: the mean square is (100 + 400)/2
        assert report.metrics["loss_value"] == pytest.approx(250)
        assert report.metrics["batch_return"] == pytest.approx(15)
        assert report.metrics["grad_norm"] == pytest.approx(15)
        assert report.metrics["learning_rate"] == 1.0
        assert report.metrics["staleness"] == 0.0
        assert worker.report().episodes == []  # each is told once

    def test_a_clipped_gradient_is_what_is_applied(self) -> None:
        optimizer = SIGN_STEP.model_copy(update={"max_grad_norm": 3.0})
        context = make_context(CONSTANT, 1, optimizer, num_envs=2, scripts=self.SCRIPTS, mode="SameStep")
        worker = self.worker(context)
        worker.work()
        assert context.moments is not None
        assert context.moments["exp_avg"].tolist() == pytest.approx([-3])
        assert worker.report().metrics["grad_norm"] == pytest.approx(15)  # before

    def test_a_private_optimizers_state_is_a_snapshot(self) -> None:
        optimizer = SIGN_STEP.model_copy(update={"shared_statistics": False})
        context = make_context(CONSTANT, 1, optimizer, num_envs=2, scripts=self.SCRIPTS, mode="SameStep")
        worker = self.worker(context)
        worker.work()
        state = worker.state_dict()
        worker.work()
        assert state["optimizer"]["exp_avg"].tolist() == [-15]
        assert worker.state_dict()["optimizer"]["exp_avg"].tolist() == pytest.approx([-14])
