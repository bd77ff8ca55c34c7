"""What a run does while its disk takes no files: it goes on, says so, and ends when that lasts too long."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from a3c_zoo.errors import RunDirectoryError, is_full
from a3c_zoo.runs.resources import awake_s
from a3c_zoo.runs.signals import StopRequest

#: How often a checkpoint that the disk has refused is tried again, in seconds. A shorter patience has five tries.
CHECKPOINT_RETRY_S = 10.0
TRIES = 5
#: How often a run that waits for room looks for a signal, in seconds.
LOOK_S = 0.1


class Tell(Protocol):
    """Tells of an event (`RunContext.event`)."""

    def __call__(self, kind: str, text: str, **facts: object) -> None: ...


def may_pass(error: RunDirectoryError) -> bool:
    """Whether it is worth trying again: the disk has refused, for lack of space or another reason that can go.

    It is not worth it if the run's directory was removed: nothing that the run writes would be kept.
    """
    cause = error.__cause__
    return isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError | NotADirectoryError)


def lacks_room(error: RunDirectoryError) -> bool:
    """Whether deleting older files can help."""
    return isinstance(error.__cause__, OSError) and is_full(error.__cause__)


class FullDisk:
    """Follows the faults of a run's disk.

    Args:
        patience_s: how long the disk may refuse checkpoints. tell: tells when the fault begins and ends.
    """

    def __init__(self, patience_s: float, tell: Tell) -> None:
        self._patience_s = patience_s
        self._tell = tell
        # The moment of the first checkpoint that was refused since the last that was taken.
        self._since_s: float | None = None
        self._is_told = False

    @property
    def retry_s(self) -> float:
        """How long to wait before the next try, in seconds."""
        return min(CHECKPOINT_RETRY_S, self._patience_s / TRIES)

    def note(self, fault: RunDirectoryError | None) -> None:
        """Notes that the disk has refused a file, but no checkpoint; None: it has refused nothing."""
        if fault is not None and not self._is_told:
            self._is_told = True
            self._tell(
                "disk_full", f"training goes on, but the disk refuses files: {fault}", error=str(fault)
            )

    def refused(self, fault: RunDirectoryError) -> None:
        """The disk has refused a checkpoint. Raises the fault if trying again is useless, or patience is at its end."""
        self._check(fault)
        self.note(fault)

    def _check(self, fault: RunDirectoryError) -> None:
        now_s = awake_s()
        if self._since_s is None:
            self._since_s = now_s
        if not may_pass(fault):
            raise fault
        if now_s - self._since_s >= self._patience_s:
            if self._patience_s:
                fault.add_note(
                    f"(for {self._patience_s:g} s, run.disk_patience_s, the disk has taken no checkpoint)"
                )
            raise fault

    def accepted(self) -> None:
        """The disk has taken a checkpoint, and all rows before it."""
        self._since_s = None
        if self._is_told:
            self._is_told = False
            self._tell("disk_recovered", "the disk takes files again")

    def insist(self, write: Callable[[], None], stop: StopRequest) -> None:
        """Writes a file without which the run must not end. Waits for room, but not after a signal.

        Raises:
            RunDirectoryError: the disk has refused it for too long, or a signal has come.
        """
        is_waiting = False
        while True:
            try:
                write()
            except RunDirectoryError as fault:
                self._check(fault)
                if not (is_waiting or stop.detail):
                    self._is_told = is_waiting = True
                    self._tell(
                        "disk_wait", f"the run waits for room, and then ends: {fault}", error=str(fault)
                    )
                retry_at_s = time.monotonic() + self.retry_s
                while time.monotonic() < retry_at_s:
                    if stop.detail:
                        raise
                    time.sleep(LOOK_S)
            else:
                self.accepted()
                return
