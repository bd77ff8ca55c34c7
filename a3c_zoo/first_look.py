"""A first look at an environment, before a run begins: a forked process makes it, because it may hang or end."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from types import ModuleType
from typing import NoReturn

from a3c_zoo.system import HAS_FORK, STOP_SIGNALS, end_group_of, end_group_with, fork, lead_session

#: How long an environment may take to be made, in seconds; the default of `run.worker_timeout_s`.
LIMIT_S = 300
#: After so many seconds the user is told what is waited for.
PATIENCE_S = 5
#: The first byte of what the process sends: what it has read follows, or it has raised.
READ, RAISED = b"+", b"-"
#: Modules whose import has started threads of which Python knows nothing, as those of a graphics library.
_with_threads: set[str] = set()


def imported(module: str) -> ModuleType:
    """Imports a module. Notes whether this starts threads, beside which a fork is not safe."""
    before = _count_threads()
    found = importlib.import_module(module)
    if _count_threads() > before:
        _with_threads.add(module)
    return found


def first_look(name: str, read: Callable[[], str]) -> str | None:
    """What `read` returns, a short text, in a process that is forked for it.

    Beside other threads or torch a fork is not safe, and Windows has none: then this process reads it.

    Args:
        name: of the environment, for the line that says what is waited for.

    Returns:
        The text; None if the process has ended, or has taken more than LIMIT_S. Training makes the environment again,
        and reports it.

    Raises:
        Exception: what `read` raises. This process reads it again then, so that the error has its traceback.
    """
    if not _may_fork():
        return read()
    sent = _in_a_fork(name, read)
    if sent.startswith(RAISED):
        return read()
    if not sent.startswith(READ):
        return None
    return sent[len(READ) :].decode()


def _may_fork() -> bool:
    if not HAS_FORK or "torch" in sys.modules:
        return False
    return threading.active_count() == 1 and not _with_threads


def _count_threads() -> int:
    """The threads of this process as the operating system counts them; 0 where it does not tell (not Linux)."""
    with suppress(OSError):
        return len(os.listdir("/proc/self/task"))
    return 0


def _in_a_fork(name: str, read: Callable[[], str]) -> bytes:
    """What the process sends; empty if it has ended before, or hangs."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # a program may have none, or a lost one
            stream.flush()  # the fork would print it, too
    reading, writing = Pipe(duplex=False)
    lifeline, held = Pipe(duplex=False)
    child = fork()
    if child == 0:
        reading.close()
        held.close()
        _look(read, writing, lifeline)
    writing.close()
    lifeline.close()
    try:
        return _received(name, reading)
    finally:
        end_group_of(child)
        reading.close()
        held.close()


def _look(read: Callable[[], str], writing: Connection, lifeline: Connection) -> NoReturn:
    """Reads, and sends what it has read. Then this process ends, without what others do at their end."""
    try:
        lead_session()
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_DFL)  # each ends this process without a word
        end_group_with(lifeline)
        try:
            sent = READ + read().encode()
        except Exception:
            sent = RAISED
        writing.send_bytes(sent)
    finally:
        os._exit(0)


def _received(name: str, reading: Connection) -> bytes:
    if not reading.poll(PATIENCE_S):
        print(f"{name} was not made within {PATIENCE_S} s; it may take {LIMIT_S} s …", file=sys.stderr)
        if not reading.poll(LIMIT_S - PATIENCE_S):
            return b""
    with suppress(EOFError, OSError):
        return reading.recv_bytes()
    return b""
