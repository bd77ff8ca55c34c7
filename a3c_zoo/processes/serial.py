"""A crew whose workers, and then the learner, take turns in this process: for debugging, exact results and tests."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from a3c_zoo.errors import without_exit
from a3c_zoo.learning.model import one_torch_thread
from a3c_zoo.processes.crew import CutShort, Worker, WorkerFactory
from a3c_zoo.records import Report

#: What is said of a worker whose environment ends the program. In a process of its own it ends the
#: worker alone.
FAILED = "a worker failed"


class SerialCrew:
    """Workers in turn, one rollout each. The order of events depends only on the seed.

    From start to stop, torch uses one thread, as in a worker process: results do not depend on the number of
    cores.

    Args:
        factory: builds a worker. worker_context: its first argument. num_workers: how many, the learner
            included.
        states: for each worker the state to go on from, or None.
        has_learner: the last worker is a learner. It learns from what the others have handed over in this
            round.
        cuts_rollouts: whether the rollout under way must not be finished; asked after every environment step
            of a worker, but not while the learner learns.
    """

    def __init__(
        self,
        factory: WorkerFactory,
        worker_context: Any,
        num_workers: int,
        states: Sequence[dict[str, Any]] | None = None,
        has_learner: bool = False,
        cuts_rollouts: Callable[[], bool] = lambda: False,
    ) -> None:
        self._has_learner = has_learner
        self._cuts_rollouts = cuts_rollouts
        self._factory = factory
        self._worker_context = worker_context
        self._num_workers = num_workers
        self._initial_states = states
        self._workers: list[Worker] = []
        self._one_thread = contextlib.ExitStack()

    def start(self) -> None:
        self._one_thread.enter_context(one_torch_thread())
        for rank in range(self._num_workers):
            if self._initial_states:
                state = self._initial_states[rank]
            else:
                state = None
            is_learner = self._has_learner and rank == self._num_workers - 1
            # A learner is not interrupted: what was collected is learned from, or kept.
            on_tick = (lambda: None) if is_learner else self._on_tick
            with without_exit(FAILED):
                self._workers.append(self._factory(self._worker_context, rank, state, on_tick))

    def _on_tick(self) -> None:
        if self._cuts_rollouts():
            raise CutShort

    def resume(self) -> None:
        """Does nothing: workers work when polled."""

    def poll(self) -> list[Report]:
        with without_exit(FAILED), contextlib.suppress(CutShort):
            if self._has_learner:
                collecting = self._workers[:-1]
            else:
                collecting = self._workers
            for worker in collecting:
                worker.work()
        if self._has_learner:
            self._workers[-1].finish()
        return [worker.report() for worker in self._workers]

    def park(self, cuts: Callable[[], bool] = lambda: False) -> list[Report]:
        return []

    def states(self) -> list[dict[str, Any]]:
        return [worker.state_dict() for worker in self._workers]

    def stop(self) -> list[Report]:
        reports = [worker.report() for worker in self._workers]  # of the round in which one has failed
        for worker in self._workers:
            # An environment that failed may fail to close, too.
            with contextlib.suppress(Exception, SystemExit):
                worker.close()
        self._workers.clear()
        self._one_thread.close()
        return reports
