"""A crew whose workers are processes: start, supervise, replace, stop.

Each worker has a one-way pipe of its own to the parent, and command cells in shared memory
(`worker_process.py`). With one queue for all, a worker that dies could take the queue's lock with it, and
would need a feeder thread beside its work. The end of a pipe shows the end of its worker.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing import connection, util
from typing import Any

import torch
from torch import Tensor

from a3c_zoo.config import NEVER
from a3c_zoo.errors import WorkerError, first_line
from a3c_zoo.learning.counters import EPISODES, REPLACED, TICKS, Counters
from a3c_zoo.learning.parameters import share
from a3c_zoo.processes.child import ChildProcess, end_children
from a3c_zoo.processes.crew import WorkerFactory
from a3c_zoo.processes.faults import Fault, error_of, raise_fault
from a3c_zoo.processes.worker_process import STOP, worker_main
from a3c_zoo.records import Report
from a3c_zoo.store_order import memory_barrier
from a3c_zoo.system import KILL

#: How long the parent waits for messages at a time, in seconds.
POLL_S = 0.1
#: How often it is seen whether a worker stands still in the middle of a message, in seconds.
WATCH_EVERY_S = 0.5
#: How long workers have to end by themselves, in seconds. They check the command after every environment step.
STOP_GRACE_S = 5.0
#: How long to wait before a worker that could not be started is tried again, in seconds.
SHORTEST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 8.0


class _Member(ChildProcess):
    """The parent's side of one worker.

    Attributes:
        state: the worker's state at a standstill, else None.
        has_reported: whether it has finished a rollout. episodes: of its rank, as far as they were reported.
        is_successor: whether it has taken the place of another.
        is_stuck: whether it was killed in the middle of a message, whose rest did not come.
    """

    is_ready = has_reported = is_successor = is_stuck = False
    episodes = 0
    state: dict[str, Any] | None = None


class _FailedError(Exception):
    """Within this module: a worker has failed."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.what)
        self.fault = fault


class WorkerPool:
    """Workers side by side.

    Args:
        factory: builds a worker; a module-level function. worker_context: its first argument; its tensors lie
            in shared memory.
        counters: shared by the workers; their ticks tell a slow worker from a hung one.
        states: for each worker the state to go on from, or None.
        start_method: see `process_context`. timeout_s: a worker without a tick for so many seconds counts as
            hung.
        next_pause: from the steps done to the steps of the next standstill: no worker begins a rollout in
            between.
        has_learner: the last worker is a learner: it comes to a standstill after the others.
        max_episodes: no worker begins a rollout once the run has so many.
        judge: gets the fault of a worker; returns if a new worker takes its place, else raises.
        on_ready: is told several times a second, until all workers are ready, how many of how many are.
        num_followers: the number of followers, which are the last of the workers that collect. A follower begins a
            rollout only with its leader, and stands still after all leaders.
        rollout_steps: the most steps of a rollout per environment; further ticks are those of a worker that waits.
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
        judge: Callable[[Fault], None] = raise_fault,
        on_ready: Callable[[int, int], None] = lambda ready, workers: None,
        num_followers: int = 0,
        rollout_steps: int = NEVER,
    ) -> None:
        self._factory = factory
        self._worker_context = worker_context
        self._counters = counters
        self._initial_states = states
        self._start_method = start_method
        self._timeout_s = timeout_s
        self._next_pause = next_pause
        self._max_episodes = max_episodes
        self._judge = judge
        self._on_ready = on_ready
        self._num_collecting = len(counters.tensor) - has_learner
        self._rollout_steps = rollout_steps
        self._num_leading = self._num_collecting - num_followers
        self._ticks_before = counters.ticks[: self._num_collecting]
        self._cells = torch.ones((len(counters.tensor), 3), dtype=torch.int64)
        share(self._cells)
        self._members: list[_Member] = []
        self._reports: list[Report] = []  # that nobody has got yet
        self._at_exit: util.Finalize | None = None
        self._reading: tuple[_Member, int] | None = None  # whose message is read, and its number
        self._num_read = 0
        self._is_over = threading.Event()

    def start(self) -> None:
        """Starts the processes; returns when all are ready. Raises WorkerError if one cannot be started."""
        # If the interpreter ends before the run does (in a daemon thread), it would wait for the workers.
        self._at_exit = util.Finalize(None, self.stop, exitpriority=0)
        threading.Thread(target=self._watch, daemon=True).start()
        num_members = len(self._counters.tensor)
        for rank in range(num_members):
            if self._initial_states:
                state = self._initial_states[rank]
            else:
                state = None
            self._on_ready(0, num_members)  # to start a thousand processes takes long
            self._members.append(self._begin(rank, state))
        while (ready := sum(member.is_ready for member in self._members)) < len(self._members):
            self._on_ready(ready, len(self._members))
            self._look()

    def _begin(self, rank: int, state: dict[str, Any] | None) -> _Member:
        """Starts the process of a worker."""
        # Pickled here and plainly: multiprocessing would send each tensor as a file descriptor.
        args = (self._cells[rank], self._counters.tensor, self._factory, self._worker_context, rank)
        episodes = int(self._counters.row(rank)[EPISODES])
        try:
            member = _Member(
                self._start_method, f"a3c-zoo {self._name(rank)}", worker_main, *args, pickle.dumps(state)
            )
        except (EOFError, OSError) as error:
            raise WorkerError(f"{self._name(rank)} cannot be started: {first_line(error)}") from error
        member.episodes = episodes
        return member

    def resume(self) -> None:
        """Lets the workers work until the next pause."""
        if self._turn % 2 == 0:
            return
        for member in self._members:
            member.state = None
            member.begin_watch()
        begin_work(self._cells, self._num_leading, self._next_pause(self._counters.steps), self._max_episodes)

    def poll(self) -> list[Report]:
        self._look()
        reports = self._reports
        self._reports = []
        collecting = self._members[: self._num_collecting]
        # A slow environment may need minutes for its first rollout. A learner reports at once.
        if not any(member.has_reported for member in collecting):
            ticks = self._counters.ticks[: self._num_collecting] - self._ticks_before
            reports.append(Report(first_rollout=min(int(ticks.max()), self._rollout_steps)))
        return reports

    def _look(self) -> None:
        """Waits a short time for messages, takes them in, and replaces the workers that have failed."""
        ready = connection.wait([member.pipe for member in self._members], timeout=POLL_S)
        for rank, member in enumerate(self._members):
            try:
                if member.pipe in ready:
                    self._receive(rank, member)
                # In turn 1 a member waits until all are ready.
                waits = member.state is not None or (member.is_ready and self._turn == 1)
                if not waits and member.is_hung(int(self._counters.row(rank)[TICKS]), self._timeout_s):
                    raise _FailedError(self._hung(rank, member))
            except _FailedError as failed:
                self._replace(rank, member, failed.fault)

    def _receive(self, rank: int, member: _Member) -> None:
        """Takes in the messages that are there. The rest of a long one may be still to come."""
        try:
            while member.pipe.poll():
                self._num_read += 1
                self._reading = (member, self._num_read)
                message = member.pipe.recv_bytes()
                self._reading = None
                self._take(rank, member, *pickle.loads(message))
        except (EOFError, OSError):
            fault = self._hung(rank, member) if member.is_stuck else self._ended(rank, member)
            raise _FailedError(fault) from None
        finally:
            self._reading = None

    def _watch(self) -> None:
        """Kills a worker that stands still in the middle of a message: the rest would never come."""
        before: object = None
        seen_s = 0.0  # the time between looks is added up: none passes while the whole run is suspended
        while not self._is_over.wait(WATCH_EVERY_S):
            reading = self._reading
            seen_s = seen_s + WATCH_EVERY_S if reading is before else 0.0
            before = reading
            if reading is not None and seen_s > self._timeout_s:
                member, _ = reading
                member.is_stuck = True
                member.signal(KILL)

    def _take(self, rank: int, member: _Member, kind: str, content: Any) -> None:
        if kind == "error":
            error, trace, line = content
            is_early = not (member.has_reported or member.is_successor)
            is_successor = member.is_successor
            fault = self._fault(
                rank,
                error_of(self._name(rank), error, line, trace),
                f"failed: {line}",
                trace,
                is_early,
                is_successor,
            )
            raise _FailedError(fault)
        if kind == "ready":
            member.is_ready = True
            return
        if kind == "parked":
            content, state, turn = content
            if turn == self._turn:
                member.state = state
            else:  # of a standstill that is over: it works again
                member.state = None
        member.has_reported = True
        member.episodes += len(content.episodes)
        self._reports.append(content)

    def _replace(self, rank: int, member: _Member, fault: Fault, pause_s: float = 0.0) -> None:
        """A new worker takes the place of one that has failed. It begins with new episodes, from other seeds.

        Args:
            pause_s: how long to wait before, because the last try has failed. Each pause is twice as long, up to 8 s.
        """
        member.kill()
        row = self._counters.row(rank)
        row[EPISODES] = member.episodes  # those that it had counted and did not report are lost
        self._judge(fault)
        row[REPLACED] += 1
        time.sleep(pause_s)
        try:
            self._members[rank] = self._begin(rank, None)
        except WorkerError as error:  # the fork server may have ended, or the machine has no memory
            failed = self._fault(rank, error, f"cannot be replaced: {error}", is_successor=True)
            self._replace(rank, member, failed, min(max(2 * pause_s, SHORTEST_PAUSE_S), LONGEST_PAUSE_S))
            return
        self._members[rank].is_successor = True

    def park(self, cuts: Callable[[], bool] = lambda: False) -> list[Report]:
        """Waits until every worker has sent its state: first those that lead, then their followers and the learner."""
        turn = self._turn + (1 if self._turn % 2 == 0 else 2)
        for group in (slice(0, self._num_leading), slice(self._num_leading, None)):
            self._cells[group, 0] = turn
            while any(member.state is None for member in self._members[: group.stop]):
                if cuts():
                    self._cut(turn)
                self._look()
        reports = self._reports
        self._reports = []
        return reports

    def _cut(self, turn: int) -> None:
        """Ends the rollouts under way: first those of the leaders, for whom a follower may still wait."""
        self._cells[: self._num_leading, 0] = -turn
        self._cells[self._num_leading : self._num_collecting, 0] = -turn

    def states(self) -> list[dict[str, Any]]:
        states = [member.state for member in self._members]
        if None not in states:
            return [state for state in states if state is not None]
        return []

    def stop(self) -> list[Report]:
        """Tells the workers to end, and kills those that do not within 5 s. Returns their last reports."""
        self._is_over.set()
        self._cells[:, 0] = STOP
        deadline_s = time.monotonic() + STOP_GRACE_S
        # A worker that stands still in the middle of a message would keep this process waiting for the rest
        # of it.
        killer = threading.Timer(STOP_GRACE_S, self._kill_silently)
        killer.daemon = True
        killer.start()
        talking = [member for member in self._members if not member.pipe.closed]
        while talking and (left_s := deadline_s - time.monotonic()) > 0:
            ready = connection.wait([member.pipe for member in talking], left_s)
            for member in [member for member in talking if member.pipe in ready]:
                try:
                    self._take(0, member, *pickle.loads(member.pipe.recv_bytes()))
                except (_FailedError, EOFError, OSError):  # it has ended, or fails while it ends
                    talking.remove(member)
        killer.cancel()
        end_children(self._members, max(0.0, deadline_s - time.monotonic()))
        for rank, member in enumerate(self._members):
            # What a killed worker did not report is lost.
            self._counters.row(rank)[EPISODES] = member.episodes
        if self._at_exit is not None:
            self._at_exit.cancel()
        reports = self._reports
        self._reports = []
        return reports

    def _kill_silently(self) -> None:
        for member in self._members:
            member.signal(KILL)

    @property
    def _turn(self) -> int:
        return abs(int(self._cells[0, 0]))

    def _name(self, rank: int) -> str:
        if rank < self._num_collecting:
            return f"worker {rank}"
        return "the learner"

    def _fault(
        self,
        rank: int,
        error: Exception,
        what: str,
        trace: str = "",
        is_early: bool = False,
        is_successor: bool = False,
    ) -> Fault:
        is_learner = rank >= self._num_collecting
        return Fault(rank, self._name(rank), error, what, trace, is_learner, is_early, is_successor)

    def _ended(self, rank: int, member: _Member) -> Fault:
        what = member.how_it_ended()
        code = member.process.exitcode
        is_early = not (member.is_ready or member.is_successor)
        is_silent = code is not None and code >= 0 and not member.is_ready
        text = f"{self._name(rank)} {what}"
        if is_silent:
            text += " before it began; its output is above"
        return self._fault(rank, WorkerError(text), what, is_early=is_early)

    def _hung(self, rank: int, member: _Member) -> Fault:
        what = f"has made no step for {self._timeout_s:g} s"
        if rank < self._num_collecting:
            hint = ": does its environment hang?"
        else:
            hint = ""
        error = WorkerError(f"{self._name(rank)} {what}{hint} (limit: run.worker_timeout_s)")
        return self._fault(rank, error, what, is_early=not (member.has_reported or member.is_successor))


def begin_work(cells: Tensor, num_leading: int, until_steps: int, until_episodes: int) -> None:
    """Begins the next turn of work, in which no worker begins a rollout at these counts or later.

    Args:
        cells: the commands of all workers, `[workers, 3]`. num_leading: workers that begin rollouts by themselves; the
            others follow them, or are the learner.
    """
    cells[:, 1:] = NEVER
    cells[:num_leading, 1] = until_steps
    cells[:num_leading, 2] = until_episodes
    memory_barrier()
    cells[:, 0] = cells[:, 0].abs() + 1
