"""Ctrl-C and SIGTERM end a run at its next rollout boundary; a second one ends it at once. Ctrl-Z suspends it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from a3c_zoo.display.terminals import leave_terminal
from a3c_zoo.processes.child import signal_children
from a3c_zoo.runs.resources import add_suspension
from a3c_zoo.system import CONTINUE, CTRL_Z, STOP, STOP_SIGNALS, stop_itself

#: For this long after a KeyboardInterrupt further signals are not obeyed, so that cleaning up can end.
CLEANUP_S = 15.0


class StopEvaluationError(Exception):
    """The evaluation was asked to stop before its end."""


@dataclass(slots=True)
class StopRequest:
    """What a signal handler, or a plugin, tells the run. It outlives the sessions of the run.

    Attributes:
        detail: the first signal in words, "" before any. plugin: the first reason of a plugin, "" before any.
        interrupts: whether the first signal raises KeyboardInterrupt at once, because no rollout boundary will come.
        is_over: whether the run has ended; signals then change nothing any more.
    """

    detail: str = ""
    plugin: str = ""
    interrupts: bool = False
    is_over: bool = False
    _raised_s: float = -CLEANUP_S

    def allow_interrupts(self) -> None:
        """From now on a signal interrupts at once. If one has come already, it interrupts now."""
        self.interrupts = True
        if self.detail:
            self.interrupt()

    def interrupt(self) -> None:
        """Raises KeyboardInterrupt, unless one was raised just before."""
        if not self.is_over and time.monotonic() - self._raised_s >= CLEANUP_S:
            self._raised_s = time.monotonic()
            raise KeyboardInterrupt

    def stop_evaluation(self, played: int) -> None:
        """Raises StopEvaluationError after a signal. Called after each step of an evaluation in this process."""
        if self.detail:
            raise StopEvaluationError


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """While the body runs, signals fill in the request. In a thread other than the main one, nothing happens."""
    stop = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(number: int, frame: FrameType | None) -> None:
        is_second = bool(stop.detail)
        stop.detail = stop.detail or ("Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name)
        if is_second or stop.interrupts:
            stop.interrupt()

    # Ignored signals stay ignored: `nohup` ignores SIGHUP, a shell lets its background jobs ignore SIGINT.
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    before = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, handle)
    if CTRL_Z is not None and signal.getsignal(CTRL_Z) == signal.SIG_DFL:
        before[CTRL_Z] = signal.signal(CTRL_Z, _suspend)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _suspend(number: int, frame: FrameType | None) -> None:
    """Stops the children, then this process; they go on together. Ctrl-Z in a terminal reaches this process alone."""
    if not leave_terminal():
        return
    since_s = time.monotonic()
    signal_children(STOP)
    stop_itself()
    add_suspension(since_s)
    signal_children(CONTINUE)
