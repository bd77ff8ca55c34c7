"""A crew whose workers are processes: start, supervise, stop.

Each worker has a one-way pipe of its own to the parent, and command cells in shared memory (`worker_process.py`). With
one queue for all, a worker that dies could take the queue's lock with it, and would need a feeder thread beside its
work. The end of a pipe shows the end of its worker.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from multiprocessing import connection, util
from typing import Any

import torch
from torch import Tensor

from a3c_zoo.config import NEVER
from a3c_zoo.errors import WorkerError
from a3c_zoo.learning.counters import Counters
from a3c_zoo.learning.parameters import share
from a3c_zoo.processes.child import ChildProcess, end_children
from a3c_zoo.processes.crew import WorkerFactory
from a3c_zoo.processes.worker_process import STOP, worker_main
from a3c_zoo.records import Report
from a3c_zoo.store_order import memory_barrier

#: How long the parent waits for messages at a time, in seconds.
POLL_S = 0.1
#: How long workers have to end by themselves, in seconds. They check the command after every environment step.
STOP_GRACE_S = 5.0


class _Member(ChildProcess):
    """The parent's side of one worker. `state` is its state at a standstill, else None."""

    is_ready = False
    state: dict[str, Any] | None = None


class WorkerPool:
    """Workers side by side.

    Args:
        factory: builds a worker; a module-level function. worker_context: its first argument; its tensors lie in shared
            memory.
        counters: shared by the workers; their ticks tell a slow worker from a hung one.
        states: for each worker the state to go on from, or None.
        start_method: see `process_context`. timeout_s: a worker without a tick for so many seconds counts as hung.
        next_pause: from the steps done to the steps of the next standstill: no worker begins a rollout in between.
        has_learner: the last worker is a learner: it comes to a standstill after the others.
        max_episodes: no worker begins a rollout once the run has so many.
    """

    def __init__(
        self,
        factory: WorkerFactory,
        worker_context: Any,
        counters: Counters,
        states: Sequence[dict[str, Any]] | None = None,
        start_method: str = "auto",
        timeout_s: float = 300.0,
        next_pause: Callable[[int], int] = lambda steps: NEVER,
        has_learner: bool = False,
        max_episodes: int = NEVER,
    ) -> None:
        self._factory, self._worker_context, self._counters = factory, worker_context, counters
        self._initial_states, self._start_method = states, start_method
        self._timeout_s, self._next_pause, self._max_episodes = timeout_s, next_pause, max_episodes
        self._num_collecting = len(counters.tensor) - has_learner
        self._cells = torch.ones((len(counters.tensor), 3), dtype=torch.int64)
        share(self._cells)
        self._members: list[_Member] = []
        self._at_exit: util.Finalize | None = None

    def start(self) -> None:
        """Starts the processes; returns when all are ready. Raises WorkerError if one cannot be started."""
        # If the interpreter ends before the run does (in a daemon thread), it would wait for the workers.
        self._at_exit = util.Finalize(None, self.stop, exitpriority=0)
        for rank in range(len(self._counters.tensor)):
            # Pickled here and plainly: multiprocessing would send each tensor as a file descriptor.
            state = pickle.dumps(self._initial_states[rank] if self._initial_states else None)
            args = (self._cells[rank], self._counters.tensor, self._factory, self._worker_context, rank, state)
            try:
                member = _Member(self._start_method, f"a3c-zoo {self._name(rank)}", worker_main, *args)
            except (EOFError, OSError) as error:
                raise WorkerError(f"{self._name(rank)} cannot be started: {type(error).__name__}: {error}") from error
            self._members.append(member)
        while not all(member.is_ready for member in self._members):
            self.poll()

    def resume(self) -> None:
        """Lets the workers work until the next pause."""
        if self._turn % 2 == 0:
            return
        for member in self._members:
            member.state = None
            member.working_s = time.monotonic()
        begin_work(self._cells, self._num_collecting, self._next_pause(self._counters.steps), self._max_episodes)

    def poll(self) -> list[Report]:
        ready = connection.wait([member.pipe for member in self._members], timeout=POLL_S)
        reports = []
        for rank, member in enumerate(self._members):
            while member.pipe in ready and member.pipe.poll():
                try:
                    message = pickle.loads(member.pipe.recv_bytes())
                except (EOFError, OSError):
                    raise self._ended(rank) from None
                reports += self._take(rank, member, *message)
        self._check_ticks()
        return reports

    def park(self) -> list[Report]:
        turn = self._turn + (1 if self._turn % 2 == 0 else 2)
        reports = []
        for group in (slice(0, self._num_collecting), slice(self._num_collecting, None)):
            self._cells[group, 0] = turn
            while any(member.state is None for member in self._members[group]):
                reports += self.poll()
        return reports

    def states(self) -> list[dict[str, Any]]:
        states = [member.state for member in self._members]
        return [state for state in states if state is not None] if None not in states else []

    def stop(self) -> None:
        """Tells the workers to end, and kills those that do not within 5 s."""
        self._cells[:, 0] = STOP
        end_children(self._members, STOP_GRACE_S)
        if self._at_exit is not None:
            self._at_exit.cancel()

    @property
    def _turn(self) -> int:
        return int(self._cells[0, 0])

    def _name(self, rank: int) -> str:
        return f"worker {rank}" if rank < self._num_collecting else "the learner"

    def _take(self, rank: int, member: _Member, kind: str, content: Any) -> list[Report]:
        if kind == "error":
            error, trace = content
            if error is not None:
                raise error from WorkerError(f"in {self._name(rank)}:\n\n{trace.rstrip()}")
            raise WorkerError(f"{self._name(rank)} failed:\n\n{trace.rstrip()}")
        if kind == "ready":
            member.is_ready = True
            return []
        if kind == "parked":
            report, member.state = content
            return [report]
        return [content]

    def _ended(self, rank: int) -> WorkerError:
        member = self._members[rank]
        how, code = member.how_it_ended(), member.process.exitcode
        silent = code is not None and code >= 0 and not member.is_ready
        return WorkerError(f"{self._name(rank)} {how}{' before it began; its output is above' if silent else ''}")

    def _check_ticks(self) -> None:
        for rank, (member, tick) in enumerate(zip(self._members, self._counters.ticks.tolist(), strict=True)):
            if member.state is None and member.is_hung(tick, self._timeout_s):
                hint = ": does its environment hang?" if rank < self._num_collecting else ""
                raise WorkerError(
                    f"{self._name(rank)} has made no step for {self._timeout_s:g} s{hint} (limit: run.worker_timeout_s)"
                )


def begin_work(cells: Tensor, num_collecting: int, until_steps: int, until_episodes: int) -> None:
    """Begins the next turn of work, in which no worker begins a rollout at these counts or later.

    Args:
        cells: the commands of all workers, `[workers, 3]`. num_collecting: workers that are not the learner.
    """
    cells[:, 1:] = NEVER
    cells[:num_collecting, 1], cells[:num_collecting, 2] = until_steps, until_episodes
    memory_barrier()
    cells[:, 0] += 1
