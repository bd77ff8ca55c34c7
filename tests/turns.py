"""Real processes that work in the order of the serial runner: both must reach the same parameters."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from a3c_zoo.agents.context import WorkerContext
from a3c_zoo.learning.counters import Counters
from a3c_zoo.learning.parameters import share
from a3c_zoo.processes.crew import WorkerFactory
from a3c_zoo.processes.pool import WorkerPool
from a3c_zoo.processes.start import warm_up
from a3c_zoo.records import Report
from tests.waits import LIMIT_S


@dataclass(frozen=True)
class TurnContext:
    """What `InTurn` gets.

    Attributes:
        worker: makes a worker or learner. context: its context.
        turn: number of the next turn, `[1]`, in shared memory. last: number of turns.
        has_learner: whether the last rank is a learner; in its turn it empties the ring.
    """

    worker: WorkerFactory
    context: WorkerContext
    turn: Tensor
    last: int
    has_learner: bool

    @property
    def members(self) -> int:
        return len(self.context.counters)


class InTurn:
    """A real worker or learner that works when its turn comes."""

    def __init__(self, context: TurnContext, rank: int, state: Any, on_tick: Callable[[], None]) -> None:
        self._member: Any = context.worker(context.context, rank, state, on_tick)
        self._context, self._rank = context, rank
        self._is_learner = context.has_learner and rank == context.members - 1

    def work(self) -> None:
        turn = int(self._context.turn)
        if turn == self._context.last or turn % self._context.members != self._rank:
            time.sleep(0.0005)
            return
        self._member.finish() if self._is_learner else self._member.work()
        self._context.turn.add_(1)

    def finish(self) -> None:
        pass

    def report(self) -> Report:
        report: Report = self._member.report()
        return report

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = self._member.state_dict()
        return state

    def close(self) -> None:
        self._member.close()


def work_in_turn(worker: WorkerFactory, context: WorkerContext, rounds: int, has_learner: bool = False) -> None:
    """Every worker and the learner work `rounds` times, in turn, each in its own process."""
    warm_up()
    turn = torch.zeros(1, dtype=torch.int64)
    share(turn)
    turns = TurnContext(worker, context, turn, rounds * len(context.counters), has_learner)
    pool = WorkerPool(InTurn, turns, Counters(context.counters), has_learner=has_learner)
    try:
        pool.start()
        pool.resume()
        deadline = time.monotonic() + LIMIT_S
        while int(turn) < turns.last:
            assert time.monotonic() < deadline
            pool.poll()
        pool.park()
    finally:
        pool.stop()
