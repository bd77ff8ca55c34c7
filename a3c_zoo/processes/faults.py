"""What became of a worker that failed, and whether a new one may take its place."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.synchronize import Lock

from a3c_zoo.errors import (
    ConfigError,
    CrewLostError,
    DivergedError,
    PluginError,
    UnsupportedSpaceError,
    WorkerError,
)


class UnsavableStateError(PluginError):
    """The state of a worker, or of its environments, cannot be pickled. It fails so at every standstill."""


#: Errors that come again: a new worker would fail as the old one did.
LASTING = (ConfigError, DivergedError, PluginError, UnsupportedSpaceError)
#: How long the lock of a living worker may stay held, in seconds. A worker holds it for about a millisecond.
LOCK_LIMIT_S = 5.0
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Fault:
    """The failure of one worker.

    Attributes:
        rank: the worker's. who: "worker 1" or "the learner".
        error: what ends the run if nobody takes the worker's place.
        what: one line that follows `who`: "was ended by signal SIGKILL". trace: the traceback, or "".
        is_learner: whether it is the learner. is_successor: whether it had taken the place of another.
        is_early: the first worker of this rank raised before it had finished a rollout, or died before it was
            ready.
    """

    rank: int
    who: str
    error: Exception
    what: str
    trace: str = ""
    is_learner: bool = False
    is_early: bool = False
    is_successor: bool = False


class Allowance:
    """Allows something at most so often within an hour.

    Attributes:
        most: how often. used: how often within the last hour.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._times: deque[float] = deque()

    @property
    def used(self) -> int:
        while self._times and time.monotonic() - self._times[0] > HOUR_S:
            self._times.popleft()
        return len(self._times)

    def take(self) -> bool:
        """Counts one use; false if there is none left."""
        if self.used >= self.most:
            return False
        self._times.append(time.monotonic())
        return True


class Replacements:
    """Judges the faults of a run's workers.

    Args:
        event: hears of each worker that is replaced, as `RunContext.event` does.
        most: how many workers may be replaced within an hour (`run.worker_restarts`).
        lock: what all workers share, None without one. A worker may die with it.
        in_teams: whether workers learn together: the others of a team are in the middle of an update with the one
            that failed.
    """

    def __init__(
        self, event: Callable[..., None], most: int, lock: Lock | None = None, in_teams: bool = False
    ) -> None:
        self._event = event
        self._lock = lock
        self._in_teams = in_teams
        self._allowance = Allowance(most)

    def judge(self, fault: Fault) -> None:
        """Returns if a new worker takes the place of the one that failed; the run's log has the fault.

        Raises:
            CrewLostError: no new worker can cure it: the learner failed, or a member of a team, or a worker died
                with the lock.
            Exception: the fault's error: it would come again, or too many workers have failed within an hour.
        """
        # An environment could be made before: it may lack memory, or a port of the simulator that was just
        # ended.
        is_saving = isinstance(fault.error, UnsavableStateError)
        is_passing = fault.is_successor and isinstance(fault.error, PluginError) and not is_saving
        if fault.is_early or (isinstance(fault.error, LASTING) and not is_passing):
            raise fault.error
        if fault.is_learner or self._in_teams:
            raise CrewLostError(str(fault.error)) from fault.error
        if self._lock is not None:
            if not self._lock.acquire(timeout=LOCK_LIMIT_S):
                raise CrewLostError(f"the lock of agent.locking is lost: {fault.error}") from fault.error
            self._lock.release()
        allowance = self._allowance
        if not allowance.take():
            if allowance.most:
                fault.error.add_note(
                    f"(worker {allowance.most + 1} to fail within an hour: run.worker_restarts)"
                )
            raise fault.error
        text = f"{fault.who} {fault.what}; a new one takes its place ({allowance.used} of {allowance.most} in an hour)"
        self._event("worker_replaced", text, worker=fault.rank, fault=fault.what, trace=fault.trace)


def raise_fault(fault: Fault) -> None:
    """The judge of a crew whose workers are never replaced."""
    raise fault.error


def error_of(who: str, error: Exception | None, line: str, trace: str) -> Exception:
    """The error that ends the run after a worker's exception: the exception itself if the user can correct it.

    line: the type and message of the exception.
    """
    if error is None:
        return WorkerError(f"{who} failed: {line}\n\n{trace.rstrip()}")
    error.__cause__ = WorkerError(f"in {who}:\n\n{trace.rstrip()}")  # as `raise … from` does
    return error
