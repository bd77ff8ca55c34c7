"""A crew whose workers are processes: start, supervise, stop.

Each worker has a one-way pipe of its own to the parent, and a cell in shared memory that tells it what to do. A pipe
per worker rather than one queue: a worker that dies cannot take a lock with it, needs no feeder thread beside its
work, and its end is seen as the end of its pipe.
"""

from __future__ import annotations

import pickle
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import connection, util
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import torch
from torch import Tensor

from a3c_zoo.config import NEVER
from a3c_zoo.errors import WorkerError, ZooError
from a3c_zoo.learning.counters import Counters
from a3c_zoo.learning.parameters import share
from a3c_zoo.processes.child import how_it_ended, settle_in
from a3c_zoo.processes.crew import REPORT_EVERY_S, WorkerFactory
from a3c_zoo.processes.start import importable_main, process_context, warm_up
from a3c_zoo.records import Report

#: What the first command cell holds: STOP, or the number of a turn. In odd turns workers stand still, in even ones they
#: work. With PARK and RUN for ever the same, a worker that sleeps through RUN would take the next PARK for the last.
#: The second and third cells hold the steps and the episodes at which the turn ends. Each worker has cells of its own,
#: since a learner stands still only after all others.
STOP = 0
POLL_S = 0.1
STOP_GRACE_S = 5.0  # a worker sees the stop cell after each environment step
KILL_GRACE_S = 2.0


class StopWork(BaseException):
    """Raised inside a worker, between two environment steps, when the parent says stop."""


@dataclass(slots=True)
class _Member:
    """The parent's side of one worker."""

    process: BaseProcess
    pipe: Connection
    last_tick: int = -1
    last_tick_s: float = field(default_factory=time.monotonic)
    is_ready: bool = False
    state: dict[str, Any] | None = None  # set while parked


class WorkerPool:
    """Workers side by side.

    Args:
        factory: builds a worker; a module-level function. plan: what it needs; its tensors lie in shared memory.
        counters: shared by the workers; their ticks tell a slow worker from a hung one.
        states: one state for each worker to go on from, or nothing.
        start_method: see `process_context`. timeout_s: without a tick for so long, a worker counts as hung.
        has_learner: the last worker is a learner: brought to a standstill after the others, called so in messages.
        next_pause: from the steps done, those at which training stands still next: once the counters have reached them,
            no worker begins a rollout before the next turn. max_episodes: likewise, the episodes of the whole run.
    """

    def __init__(
        self,
        factory: WorkerFactory,
        plan: Any,
        counters: Counters,
        states: Sequence[dict[str, Any]] | None = None,
        start_method: str = "auto",
        timeout_s: float = 300.0,
        next_pause: Callable[[int], int] = lambda steps: NEVER,
        has_learner: bool = False,
        max_episodes: int = NEVER,
    ) -> None:
        self._factory, self._plan, self._counters, self._initial_states = factory, plan, counters, states
        warm_up(start_method)  # done long before in a run
        self._context = process_context(start_method)
        self._timeout_s, self._next_pause, self._max_episodes = timeout_s, next_pause, max_episodes
        self._num_collecting = len(counters.tensor) - has_learner
        self._command = torch.ones((len(counters.tensor), 3), dtype=torch.int64)
        share(self._command)
        self._members: list[_Member] = []
        self._at_exit: util.Finalize | None = None

    def start(self) -> None:
        """Starts the processes; returns when all are ready. Raises WorkerError where one cannot be started."""
        # Should the interpreter end before the run does (in a daemon thread), it would wait for the workers.
        self._at_exit = util.Finalize(None, self.stop, exitpriority=0)
        for rank in range(len(self._counters.tensor)):
            receiver, sender = self._context.Pipe(duplex=False)
            # Pickled here and plainly: multiprocessing would send each tensor as a file descriptor.
            state = pickle.dumps(self._initial_states[rank] if self._initial_states else None)
            process = self._context.Process(  # type: ignore[attr-defined]
                target=worker_main,
                args=(
                    sender,
                    self._command[rank],
                    self._counters.tensor,
                    self._factory,
                    self._plan,
                    rank,
                    state,
                ),
                name=f"a3c-zoo {self._name(rank)}",
                daemon=True,
            )
            try:
                with importable_main():
                    process.start()
            except (EOFError, OSError) as error:
                raise WorkerError(f"{self._name(rank)} cannot be started: {type(error).__name__}: {error}") from error
            sender.close()  # else the pipe would not end with the worker
            self._members.append(_Member(process, receiver))
        while not all(member.is_ready for member in self._members):
            self._receive(POLL_S)

    def resume(self) -> None:
        """Lets the workers work until the next pause."""
        if self._turn % 2 == 0:
            return
        for member in self._members:
            member.state = None
            member.last_tick_s = time.monotonic()
        self._command[:, 1:] = NEVER
        self._command[: self._num_collecting, 1] = self._next_pause(self._counters.steps)
        self._command[: self._num_collecting, 2] = self._max_episodes
        self._command[:, 0] = self._turn + 1

    def poll(self) -> list[Report]:
        return self._receive(POLL_S)

    def park(self) -> list[Report]:
        turn = self._turn + (1 if self._turn % 2 == 0 else 2)
        reports = []
        for group in (slice(0, self._num_collecting), slice(self._num_collecting, None)):
            self._command[group, 0] = turn
            while any(member.state is None for member in self._members[group]):
                reports += self._receive(POLL_S)
        return reports

    def states(self) -> list[dict[str, Any]]:
        states = [member.state for member in self._members]
        return [state for state in states if state is not None] if None not in states else []

    def stop(self) -> None:
        """Tells the workers to end, and ends those that don't within 5 s."""
        self._command[:, 0] = STOP
        self._await_end(STOP_GRACE_S)
        for member in self._members:
            member.process.kill()
        self._await_end(KILL_GRACE_S)
        for member in self._members:
            member.pipe.close()
        if self._at_exit is not None:
            self._at_exit.cancel()

    @property
    def _turn(self) -> int:
        return int(self._command[0, 0])

    def _name(self, rank: int) -> str:
        return f"worker {rank}" if rank < self._num_collecting else "the learner"

    def _await_end(self, limit_s: float) -> None:
        """Reads the pipes meanwhile, lest a worker that is still writing waits for us."""
        deadline = time.monotonic() + limit_s
        while (alive := [m for m in self._members if m.process.is_alive()]) and time.monotonic() < deadline:
            ready = connection.wait([m.pipe for m in alive] + [m.process.sentinel for m in alive], timeout=POLL_S)
            for member in alive:
                if member.pipe in ready:
                    try:
                        member.pipe.recv_bytes()
                    except (EOFError, OSError):
                        member.process.join(POLL_S)

    def _receive(self, timeout_s: float) -> list[Report]:
        """Takes in what workers sent; waits at most `timeout_s` for the first of it."""
        pipes = [member.pipe for member in self._members]
        ready = connection.wait(pipes, timeout=timeout_s)
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
        process = self._members[rank].process
        process.join(KILL_GRACE_S)
        code = process.exitcode
        silent = code is not None and code >= 0 and not self._members[rank].is_ready
        hint = " before it began; what it said is above" if silent else ""
        return WorkerError(f"{self._name(rank)} {how_it_ended(code)}{hint}")

    def _check_ticks(self) -> None:
        now = time.monotonic()
        for rank, (member, tick) in enumerate(zip(self._members, self._counters.ticks.tolist(), strict=True)):
            if tick != member.last_tick or member.state is not None:
                member.last_tick, member.last_tick_s = tick, now
            elif now - member.last_tick_s > self._timeout_s:
                hint = ": does its environment hang?" if rank < self._num_collecting else ""
                raise WorkerError(
                    f"{self._name(rank)} has made no step for {self._timeout_s:g} s{hint} (limit: run.worker_timeout_s)"
                )


def worker_main(
    pipe: Connection,
    command: Tensor,
    counters: Tensor,
    factory: WorkerFactory,
    plan: Any,
    rank: int,
    state: bytes,
) -> None:
    """A worker process from its first line to its last."""
    settle_in()
    try:
        _work(pipe, command, counters, factory, plan, rank, pickle.loads(state))
    except StopWork:
        pass  # told to, or nobody listens any more
    except BaseException as error:
        # What a user did wrong travels as itself; anything else as its traceback.
        content = (_portable(error) if isinstance(error, ZooError) else None, traceback.format_exc())
        with suppress(BrokenPipeError):
            pipe.send_bytes(pickle.dumps(("error", content)))
        raise SystemExit(1) from None


def _portable(error: ZooError) -> ZooError | None:
    """The error as the parent will see it; None where a plugin's exception class cannot be pickled."""
    try:
        return pickle.loads(pickle.dumps(error))  # type: ignore[no-any-return]
    except Exception:
        return None


def _work(
    pipe: Connection,
    command: Tensor,
    counters: Tensor,
    factory: WorkerFactory,
    plan: Any,
    rank: int,
    state: dict[str, Any] | None,
) -> None:
    cell, all_counters = command.numpy(), Counters(counters)
    row = all_counters.row(rank)

    def on_tick() -> None:
        row[2] += 1
        if cell[0] == STOP:
            raise StopWork

    def send(kind: str, content: Any) -> None:
        try:
            pipe.send_bytes(pickle.dumps((kind, content)))
        except BrokenPipeError:  # of this pipe: an environment's own is its failure
            raise StopWork from None

    worker = factory(plan, rank, state, on_tick)
    try:
        send("ready", None)
        _wait_for_turn_after(1, cell)
        reported_s = time.monotonic()
        while (turn := int(cell[0])) != STOP:
            if turn % 2:
                worker.finish()
                send("parked", (worker.report(), worker.state_dict()))
                _wait_for_turn_after(turn, cell)
                continue
            is_spent = all_counters.steps >= cell[1] or all_counters.episodes >= cell[2]
            if not is_spent:
                worker.work()
            now = time.monotonic()
            if is_spent or now - reported_s >= REPORT_EVERY_S:
                reported_s = now
                send("report", worker.report())
            if is_spent:
                _wait_for_turn_after(turn, cell)
    finally:
        worker.close()


def _wait_for_turn_after(turn: int, cell: Any) -> None:
    """Without a limit of its own: the parent's end, or its stop, ends it."""
    while cell[0] == turn:
        time.sleep(0.001)
