"""The ring between workers and learner: order, bounds, and what happens when somebody is missing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from a3c_zoo.errors import WorkerError
from a3c_zoo.learning.counters import Counters
from a3c_zoo.learning.parameters import share
from a3c_zoo.processes.pool import WorkerPool
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

    Plan: ring memory, counters, what the learner does at number 50.
    """

    def __init__(
        self, plan: tuple[dict[str, Tensor], Tensor, str], rank: int, state: Any, on_tick: Callable[[], None]
    ) -> None:
        memory, counters, self.fault = plan
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
        return {"next": self.next}

    def close(self) -> None:
        pass


def pool_of_senders(fault: str = "", timeout_s: float = LIMIT_S) -> tuple[WorkerPool, Counters]:
    warm_up()
    counters = Counters.zeros(3)
    share(counters)
    memory = ring_memory(2, 2, LAYOUT, is_shared=True)
    pool = WorkerPool(Sender, (memory, counters, fault), Counters(counters), timeout_s=timeout_s, has_learner=True)
    return pool, Counters(counters)


def test_across_processes_nothing_is_lost_and_a_standstill_leaves_the_ring_empty() -> None:
    pool, counters = pool_of_senders()
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
    finally:
        pool.stop()


def poll_for_ever(pool: WorkerPool) -> None:
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        pool.poll()


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("raise", "the learner failed:\n\nTraceback"),
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
