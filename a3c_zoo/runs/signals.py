"""Ctrl-C and SIGTERM end a run at its next rollout boundary; a second one ends it at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

_SIGNALS = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@dataclass(slots=True)
class StopRequest:
    """What a signal handler leaves for the run.

    Attributes:
        signal_number: of the first signal, 0 before any. detail: the same in words, "" before any.
        is_training: whether there is a rollout boundary to wait for; before, a signal interrupts at once.
    """

    signal_number: int = 0
    detail: str = ""
    is_training: bool = False


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """While the body runs, signals fill in the request. In a thread that gets no signals, nothing happens."""
    stop = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(number: int, frame: FrameType | None) -> None:
        is_second = bool(stop.signal_number)
        if not is_second:
            stop.signal_number = number
            stop.detail = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        if is_second or not stop.is_training:
            raise KeyboardInterrupt

    before = {name: signal.signal(getattr(signal, name), handle) for name in _SIGNALS}
    try:
        yield stop
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)
