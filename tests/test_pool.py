"""Workers in processes: real ones, that really die."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest

from a3c_zoo.errors import EnvironmentContractError, WorkerError, ZooError
from a3c_zoo.learning.counters import Counters
from a3c_zoo.learning.parameters import share
from a3c_zoo.processes import pool as pool_module
from a3c_zoo.processes.faults import UnsavableStateError
from a3c_zoo.processes.pool import WorkerPool
from a3c_zoo.processes.start import WORKER_ENVIRONMENT
from tests.toys_pool import STEPS, CountingWorker
from tests.waits import LIMIT_S, wait_until


@contextmanager
def running(fault: str = "", workers: int = 2, **options: Any) -> Iterator[WorkerPool]:
    counters = Counters.zeros(workers)
    share(counters)
    pool = WorkerPool(CountingWorker, (fault, counters), Counters(counters), **options)
    try:
        yield pool
    finally:
        pool.stop()


def processes(pool: WorkerPool) -> list[psutil.Process]:
    return [psutil.Process(state["pid"]) for state in pool.states()]


def run_until_error(pool: WorkerPool, limit_s: float = LIMIT_S) -> ZooError:
    deadline = time.monotonic() + limit_s
    try:
        pool.start()
        pool.resume()
        while time.monotonic() < deadline:
            pool.poll()
    except ZooError as error:
        return error
    raise AssertionError("no error")


def test_the_first_rollout_shows_its_steps() -> None:
    """A slow environment may need minutes for it. Afterwards the exact counts tell."""
    with running("slow") as pool:
        pool.start()
        pool.resume()
        shown = wait_until(lambda: pool.poll()[0].first_rollout)
        wait_until(lambda: pool.poll()[0].first_rollout > shown)
    with running() as pool:
        pool.start()
        pool.resume()
        deadline = time.monotonic() + LIMIT_S
        while not any(report.worker >= 0 for report in pool.poll()):
            assert time.monotonic() < deadline
        assert all(report.first_rollout == 0 for report in pool.poll())


def test_a_learner_that_reports_does_not_end_the_first_rollout() -> None:
    with running("slow learner", has_learner=True) as pool:
        pool.start()
        pool.resume()
        reports = pool.poll()
        while not any(report.worker == 1 for report in reports):
            reports = wait_until(pool.poll)
        wait_until(lambda: pool.poll()[-1].first_rollout)


def test_the_start_tells_how_many_workers_are_ready() -> None:
    told: list[tuple[int, int]] = []
    with running(workers=3, on_ready=lambda ready, workers: told.append((ready, workers))) as pool:
        pool.start()
        assert told[0] == (0, 3)
        assert {workers for _, workers in told} == {3}
        assert [ready for ready, _ in told] == sorted(ready for ready, _ in told)
        assert told[-1][0] < 3


def test_workers_stand_still_until_resumed_and_when_parked() -> None:
    with running() as pool:
        pool.start()
        time.sleep(0.1)
        assert sum(pool._counters.tensor[:, 0]) == 0
        pool.resume()
        while pool._counters.steps < 5 * STEPS:
            pool.poll()
        reports = pool.park()
        steps = pool._counters.steps
        assert {report.worker for report in reports} == {0, 1}
        assert [state["rollouts"] * STEPS for state in pool.states()] == pool._counters.tensor[:, 0].tolist()
        time.sleep(0.1)
        assert pool._counters.steps == steps
        pool.resume()
        while pool._counters.steps < steps + 5 * STEPS:
            pool.poll()
        workers = pool._members
    assert not any(member.process.is_alive() for member in workers)


def test_workers_go_on_from_their_states() -> None:
    with running(states=[{"rollouts": 100}, {"rollouts": 200}]) as pool:
        pool.start()
        pool.park()
        assert [state["rollouts"] for state in pool.states()] == [100, 200]


def test_states_outlive_the_workers_only_from_a_standstill() -> None:
    with running() as pool:
        pool.start()
        assert pool.states() == []
        pool.park()
        pool.stop()
        assert len(pool.states()) == 2
    with running() as pool:
        pool.start()
        pool.park()
        pool.resume()
        pool.stop()
        assert pool.states() == []


def test_a_worker_that_sleeps_through_a_turn_is_still_parked() -> None:
    """RUN came and went while a worker was not scheduled: it must not take the second PARK for the first."""
    with running() as pool:
        pool.start()
        pool.park()
        sleeper = processes(pool)[0]
        sleeper.suspend()
        pool.resume()
        time.sleep(0.1)
        parking = threading.Thread(target=pool.park, daemon=True)
        parking.start()
        time.sleep(0.1)
        sleeper.resume()
        parking.join(LIMIT_S)
        assert not parking.is_alive()


def test_parking_in_haste() -> None:
    with running() as pool:
        pool.start()
        for _ in range(100):
            pool.resume()
            assert len(pool.park()) >= 2


@pytest.mark.parametrize("workers", [1, 3])
def test_no_rollout_begins_once_the_next_pause_is_reached(workers: int) -> None:
    with running(workers=workers, next_pause=lambda steps: 95 if steps < 95 else 95_000_000) as pool:
        pool.start()
        pool.resume()
        while pool._counters.steps < 95:
            pool.poll()
        time.sleep(0.3)  # for hundreds of steps more
        reports = pool.park()
        assert {report.worker for report in reports} == set(range(workers))
        assert pool._counters.steps < 95 + workers * STEPS
        pool.resume()
        while pool._counters.steps < 95 + 2 * workers * STEPS:  # the next turn has a pause of its own
            pool.poll()


@pytest.mark.parametrize("workers", [1, 2])
def test_no_rollout_begins_once_all_episodes_are_done(workers: int) -> None:
    with running(workers=workers, max_episodes=20) as pool:
        pool.start()
        pool.resume()
        while pool._counters.episodes < 20:
            pool.poll()
        time.sleep(0.3)  # for dozens of episodes more
        pool.park()
        assert pool._counters.episodes < 20 + workers


def test_an_exception_comes_with_its_traceback() -> None:
    with running("raise") as pool:
        error = run_until_error(pool)
        assert isinstance(error, WorkerError)
        assert error.exit_status == 1
        assert str(error).startswith("worker 1 failed: ValueError: boom\n\nTraceback (most recent call last):")
        assert "in misbehave\n" in str(error)
        assert str(error).endswith("ValueError: boom")


def test_what_a_user_did_wrong_comes_as_itself() -> None:
    with running("user") as pool:
        error = run_until_error(pool)
        assert type(error) is EnvironmentContractError
        assert str(error) == "environment 'x' returned rubbish"
        assert "in misbehave\n" in str(error.__cause__)  # for --debug


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("awkward", "AwkwardError: something awkward"),
        ("exit", "SystemExit: 4"),
        ("close", "RuntimeError: cannot close"),
        ("child", "ValueError: its child has ended"),
        ("pipe", "BrokenPipeError: [Errno 32] Broken pipe"),
    ],
)
def test_exceptions_of_other_kinds(fault: str, message: str) -> None:
    with running(fault) as pool:
        error = run_until_error(pool)
        assert type(error) is WorkerError
        assert str(error).startswith("worker 1 failed:")
        assert str(error).endswith(message)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("kill", "worker 1 was ended by signal SIGKILL (out of memory?)"),
        ("segfault", "worker 1 was ended by signal SIGSEGV"),
        ("leave", "worker 1 ended by itself with exit status 3"),
    ],
)
def test_a_worker_that_dies(fault: str, message: str) -> None:
    with running(fault) as pool:
        error = run_until_error(pool)
        assert (type(error), str(error)) == (WorkerError, message)


def test_a_state_that_cannot_be_pickled_is_told_as_such() -> None:
    with running("lock") as pool:
        pool.start()
        with pytest.raises(UnsavableStateError) as caught:
            pool.park()
    why = "TypeError: cannot pickle '_thread.lock' object"
    assert str(caught.value) == (
        f"the state of a worker cannot be saved: {why}. An environment's get_state() may return tensors, finite "
        "numbers, strings, lists and dicts"
    )


def test_a_worker_that_dies_while_the_others_are_parked_for() -> None:
    with running() as pool:
        pool.start()
        pool.park()
        victim = processes(pool)[1]
        victim.suspend()
        pool.resume()
        killer = threading.Timer(0.3, victim.kill)
        killer.start()
        with pytest.raises(WorkerError, match="worker 1 was ended by signal SIGKILL"):
            pool.park()


@pytest.mark.parametrize("fault", ["hang", "hang-at-start"])
def test_a_worker_that_hangs(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "STOP_GRACE_S", 0.5)
    with running(fault, timeout_s=3.0) as pool:
        error = run_until_error(pool)
        what = "worker 1 has made no step for 3 s: does its environment hang? (limit: run.worker_timeout_s)"
        assert str(error) == what  # not worker 0, which is ready and waits for it
        pool.stop()
        assert not any(member.process.is_alive() for member in pool._members)


def test_a_parked_worker_does_not_count_as_hung() -> None:
    with running() as pool:
        pool.start()
        pool.park()
        pool._timeout_s = 0.8
        time.sleep(1.0)
        pool.poll()
        pool.resume()
        pool.poll()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_of_the_group_are_left_to_the_parent(number: int) -> None:
    with running() as pool:
        pool.start()
        pool.park()
        for process in processes(pool):
            process.send_signal(number)
        pool.resume()
        before = pool._counters.steps
        while pool._counters.steps < before + 5 * STEPS:
            pool.poll()


def test_workers_with_much_to_say_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe holds 64 KiB: a worker that is still writing must not wait for a parent that waits for it."""
    monkeypatch.setattr(pool_module, "STOP_GRACE_S", LIMIT_S)  # nobody is killed before
    with running("talk") as pool:
        pool.start()
        pool.resume()
        time.sleep(0.5)  # nobody reads
        pool.stop()
        assert [member.process.exitcode for member in pool._members] == [0, 0]


def test_a_worker_that_stands_still_in_the_middle_of_a_message_counts_as_hung() -> None:
    """Its message is longer than its pipe holds, and the rest does not come."""
    with running("talk", timeout_s=1.0) as pool:
        pool.start()
        pool.resume()
        time.sleep(0.5)  # nobody reads
        pid = pool._members[1].process.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(WorkerError, match="worker 1 has made no step for 1 s"):
            wait_until(lambda: pool.poll() and False)


def test_stop_can_be_called_at_any_time() -> None:
    with running() as pool:
        pool.stop()  # before it has begun
    with running() as pool:
        pool.start()
        pool.stop()
        pool.stop()


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_every_start_method_gives_one_thread_and_the_allocator_settings(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")  # which a spawned process would take over
    before = dict(os.environ)
    with running(workers=1, start_method=method) as pool:
        pool.start()
        pool.park()
        (state,) = pool.states()
        assert WORKER_ENVIRONMENT.items() <= state["environment"].items()
        assert state["threads"] == 1
    assert dict(os.environ) == before
