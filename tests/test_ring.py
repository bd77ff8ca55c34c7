"""The ring between workers and learner: order, bounds, and what happens when somebody is missing."""

from __future__ import annotations

import platform
import runpy
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from a3c_zoo import store_order
from a3c_zoo.errors import WorkerError
from a3c_zoo.learning import running_statistics as statistics_module
from a3c_zoo.learning.counters import Counters
from a3c_zoo.learning.observation_statistics import ObservationStatistics
from a3c_zoo.learning.parameters import share
from a3c_zoo.processes import pool as pool_module
from a3c_zoo.processes import ring as ring_module
from a3c_zoo.processes.pool import WorkerPool, begin_work
from a3c_zoo.processes.ring import Ring, ring_memory
from a3c_zoo.processes.start import warm_up
from a3c_zoo.records import Report
from tests.waits import LIMIT_S

LAYOUT = {"number": ((), torch.int64), "payload": ((1000,), torch.float32)}


class FullError(Exception):
    """Raised by a wait that would last."""


def give_up() -> None:
    raise FullError


def put(ring: Ring, worker: int, number: int) -> None:
    slot = ring.claim(worker, give_up)
    slot["number"].fill_(number)
    slot["payload"].fill_(number)
    ring.commit(worker)


def take(ring: Ring) -> tuple[int, int] | None:
    """Worker and number of the next slot."""
    if (offered := ring.offer()) is None:
        return None
    worker, slot = offered
    number = int(slot["number"])
    ring.release(worker)
    return worker, number


def test_each_worker_has_its_slots_and_its_order() -> None:
    ring = Ring(ring_memory(2, 2, LAYOUT, is_shared=False))
    assert take(ring) is None
    for number in (10, 11):
        put(ring, 0, number)
    with pytest.raises(FullError):
        ring.claim(0, give_up)
    put(ring, 1, 20)  # the other's slots are its own
    assert [take(ring) for _ in range(4)] == [(0, 10), (1, 20), (0, 11), None]  # workers in turn
    for number in (12, 13):
        put(ring, 0, number)
    assert [take(ring) for _ in range(3)] == [(0, 12), (0, 13), None]


def test_a_slot_is_free_only_when_it_is_released() -> None:
    ring = Ring(ring_memory(1, 1, LAYOUT, is_shared=False))
    put(ring, 0, 1)
    offered = ring.offer()
    assert offered is not None
    with pytest.raises(FullError):
        ring.claim(0, give_up)
    assert int(offered[1]["number"]) == 1
    ring.release(0)
    put(ring, 0, 2)
    assert take(ring) == (0, 2)


def test_a_claimed_slot_is_not_offered_before_it_is_handed_over() -> None:
    ring = Ring(ring_memory(1, 2, LAYOUT, is_shared=False))
    ring.claim(0, give_up)["number"].fill_(7)
    assert ring.offer() is None
    ring.commit(0)
    assert take(ring) == (0, 7)


class Sender:
    """A worker that puts numbers into the ring, and a learner, the last rank, that checks and counts them.

    Context: ring memory, counters, what the learner does at number 50; "barrier": every process takes barriers.
    """

    def __init__(
        self, plan: tuple[dict[str, Tensor], Tensor, str], rank: int, state: Any, on_tick: Callable[[], None]
    ) -> None:
        memory, counters, self.fault = plan
        self.lock = CountingLock()
        if self.fault == "barrier":
            store_order.KEEPS_ORDER, store_order._lock = False, self.lock  # type: ignore[assignment]
        self.ring, self.counters, self.rank, self.on_tick = Ring(memory), Counters(counters), rank, on_tick
        self.row = self.counters.row(rank)
        self.is_learner = rank == len(counters) - 1
        self.next = [0] * len(counters)

    def work(self) -> None:
        if self.is_learner:
            self.on_tick()
            if not self._take():
                time.sleep(0.0005)
            return
        slot = self.ring.claim(self.rank, self.on_tick)
        slot["number"].fill_(self.next[self.rank])
        slot["payload"].fill_(self.next[self.rank])
        self.ring.commit(self.rank)
        self.next[self.rank] += 1
        self.row[0] += 1

    def _take(self) -> bool:
        if (offered := self.ring.offer()) is None:
            return False
        worker, slot = offered
        number = int(slot["number"])
        assert number == self.next[worker], "a slot was lost or read twice"
        assert bool((slot["payload"] == number).all()), "a slot was read while it was written"
        if number == 50 and self.fault == "raise":
            raise ValueError("the learner broke")
        if number == 50 and self.fault == "sleep":
            time.sleep(600)
        self.next[worker] += 1
        self.row[1] += 1
        self.ring.release(worker)
        return True

    def finish(self) -> None:
        while self.is_learner and self._take():
            pass

    def report(self) -> Report:
        return Report(self.rank, self.counters.steps, self.counters.updates)

    def state_dict(self) -> dict[str, Any]:
        return {"next": self.next, "barriers": self.lock.rounds // 2}

    def close(self) -> None:
        pass


class CountingLock:
    def __init__(self) -> None:
        self.lock, self.rounds = threading.Lock(), 0

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(self, *exception: object) -> None:
        self.lock.release()
        self.rounds += 1


def pool_of_senders(fault: str = "", timeout_s: float = LIMIT_S) -> tuple[WorkerPool, Counters]:
    warm_up()
    counters = Counters.zeros(3)
    share(counters)
    memory = ring_memory(2, 2, LAYOUT, is_shared=True)
    pool = WorkerPool(Sender, (memory, counters, fault), Counters(counters), timeout_s=timeout_s, has_learner=True)
    return pool, Counters(counters)


@pytest.mark.parametrize("fault", ["", "barrier"])
def test_across_processes_nothing_is_lost_and_a_standstill_leaves_the_ring_empty(fault: str) -> None:
    pool, counters = pool_of_senders(fault)
    try:
        pool.start()
        for _ in range(5):
            pool.resume()
            before, deadline = counters.updates, time.monotonic() + LIMIT_S
            while counters.updates < before + 500:
                assert time.monotonic() < deadline
                pool.poll()
            pool.park()
            sent, received = pool.states()[:2], pool.states()[2]
            assert [state["next"][rank] for rank, state in enumerate(sent)] == received["next"][:2]
            assert counters.updates == counters.steps == sum(received["next"])
            for state in pool.states():  # two for each slot, on either side of it
                assert state["barriers"] >= (2 * state["next"][0] if fault else 0)
                assert (state["barriers"] > 0) == bool(fault)
    finally:
        pool.stop()


def poll_for_ever(pool: WorkerPool) -> None:
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        pool.poll()


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("raise", "the learner failed: ValueError: the learner broke\n\nTraceback"),
        ("sleep", "the learner has made no step for 3 s (limit: run.worker_timeout_s)"),
    ],
)
def test_a_learner_that_fails_ends_the_run_though_the_ring_is_full(fault: str, message: str) -> None:
    pool, _ = pool_of_senders(fault, timeout_s=3.0 if fault == "sleep" else LIMIT_S)
    try:
        pool.start()
        pool.resume()
        with pytest.raises(WorkerError) as raised:
            poll_for_ever(pool)
        assert str(raised.value).startswith(message)
        assert fault != "raise" or "ValueError: the learner broke" in str(raised.value)
    finally:
        pool.stop()
    assert not any(member.process.is_alive() for member in pool._members)


@pytest.mark.parametrize(
    ("machine", "keeps_order"), [("x86_64", True), ("AMD64", True), ("aarch64", False), ("riscv64", False)]
)
def test_only_x86_64_keeps_the_order_of_stores_by_itself(
    machine: str, keeps_order: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    found = runpy.run_path(store_order.__file__)
    assert found["KEEPS_ORDER"] == keeps_order


def test_a_barrier_is_two_rounds_of_a_lock_where_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = CountingLock()
    monkeypatch.setattr(store_order, "_lock", lock)
    for keeps_order, rounds in ((True, 0), (False, 2)):
        monkeypatch.setattr(store_order, "KEEPS_ORDER", keeps_order)
        store_order.memory_barrier()
        assert lock.rounds == rounds


def test_each_store_of_a_number_has_its_barrier(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data are there before the barrier and the number is not."""
    seen: list[tuple[float, ...]] = []
    memory = ring_memory(1, 1, LAYOUT, is_shared=False)
    ring, cells = Ring(memory), torch.ones((1, 3), dtype=torch.int64)
    rows = ObservationStatistics.zeros(1, 1)

    def look() -> None:
        commanded = cells[0].tolist()
        seen.append((*(int(memory[name][0, ...].flatten()[0]) for name in ("number", "filled", "emptied")), *commanded))

    monkeypatch.setattr(ring_module, "memory_barrier", look)
    monkeypatch.setattr(pool_module, "memory_barrier", look)
    put(ring, 0, 7)
    assert take(ring) == (0, 7)
    # claimed; written, not filled; offered; read, not emptied: then (number, filled, emptied) are
    assert [each[:3] for each in seen] == [(0, 0, 0), (7, 0, 0), (7, 1, 0), (7, 1, 0)]
    begin_work(cells, 1, 300, 20)
    assert seen[-1][3:] == (1, 300, 20)
    assert cells.tolist() == [[2, 300, 20]]

    halves: list[list[float]] = []
    monkeypatch.setattr(statistics_module, "memory_barrier", lambda: halves.append(rows[0].tolist()))
    statistics = ObservationStatistics(rows)
    statistics.update(0, np.array([[5.0], [7.0]], np.float32))
    # Before: nothing. Then 2 observations, mean 6, squared deviations 1 + 1, in the half that does not count yet.
    assert halves == [[0] * 7, [0, 0, 0, 0, 2, 6, 2]]
    assert rows[0].tolist() == [1, 0, 0, 0, 2, 6, 2]
    statistics.mean_and_scale()
    assert len(halves) == 4  # between number and data, and between data and number
