"""A supervised child process of a run, from both sides: its start, its first steps, and its end."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from a3c_zoo.output import drop_lost_output
from a3c_zoo.processes.start import process_context, start_process, warm_up

if sys.platform == "linux":
    import fcntl

#: How long a process may take to end after SIGKILL, in seconds.
KILL_GRACE_S = 2.0


class ChildProcess:
    """The parent's side of a child process. The parent alone judges it: by its ticks and by the end of its pipe.

    Args:
        name: in listings of processes. target: runs in the child as `target(pipe, *args)`.
        is_duplex: whether the parent sends messages, too.

    Attributes:
        pipe: the parent's end; it ends with the child.
        working_s: `time.monotonic()` when the child began to work or was last seen to make a tick.

    Raises:
        EOFError, OSError: the process cannot be started.
    """

    def __init__(
        self, start_method: str, name: str, target: Callable[..., None], *args: Any, is_duplex: bool = False
    ) -> None:
        warm_up(start_method)  # does nothing if the fork server runs already
        context: Any = process_context(start_method)
        pipes: tuple[Connection, Connection] = context.Pipe(is_duplex)
        self.pipe, theirs = pipes
        lifeline, self._lifeline = context.Pipe(duplex=False)  # nothing is sent on it
        self.process: BaseProcess = context.Process(
            target=_child_main, args=(lifeline, target, theirs, *args), name=name, daemon=True
        )
        start_process(self.process)
        theirs.close()  # the child's copy must be the last, so that the pipe ends with the child
        self._tick, self.working_s = -1, 0.0

    def is_hung(self, tick: int, limit_s: float) -> bool:
        """Whether the child has made no tick for too long. tick: how many it has made so far."""
        now = time.monotonic()
        if tick != self._tick:
            self._tick, self.working_s = tick, now
        return now - self.working_s > limit_s

    def how_it_ended(self) -> str:
        """Says how a child ended without a message of its own: "was ended by signal SIGKILL (out of memory?)"."""
        self.process.join(KILL_GRACE_S)
        code = self.process.exitcode
        if code is None or code >= 0:
            return f"ended by itself with exit status {code}"
        name = signal.Signals(-code).name
        return f"was ended by signal {name}{' (out of memory?)' if name == 'SIGKILL' else ''}"


def end_children(children: Sequence[ChildProcess], grace_s: float) -> None:
    """Waits for children that were told to stop, and kills those that have not ended after `grace_s` seconds."""
    for child in children:
        child.pipe.close()  # ends a child that waits for a message, or for room to send one
    for limit_s in (grace_s, KILL_GRACE_S):
        deadline = time.monotonic() + limit_s
        for child in children:
            child.process.join(max(0.0, deadline - time.monotonic()))
        for child in children:
            child.process.kill()  # does nothing to one that has ended


def _child_main(lifeline: Connection, target: Callable[..., None], *args: Any) -> None:
    """The child from its first line: leaves signals to the parent, ends with it, and lets torch use one thread."""
    drop_lost_output("stdout", "stderr")
    _leave_signals_to_parent()
    _leave_with_parent(lifeline)
    torch.set_num_threads(1)
    target(*args)


def _leave_signals_to_parent() -> None:
    """Ignores what Ctrl-C, `timeout` and a closed terminal send to the whole group; only the parent acts on them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # the fork server began with it blocked
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            # Programs that an environment starts would inherit SIG_IGN, and could not be terminated.
            signal.signal(getattr(signal, name), lambda number, frame: None)


def _leave_with_parent(lifeline: Connection) -> None:
    """Ends this process when its parent has ended, for any reason (about 10 ms after a SIGKILL)."""
    if sys.platform == "linux":
        # The kernel does it: no thread of this process runs while an environment holds Python's global lock.
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC)
        if lifeline.poll():  # the parent ended before the kernel was asked
            os._exit(1)
    else:

        def watch(leave: Callable[[int], None] = os._exit) -> None:
            connection.wait([lifeline])
            leave(1)

        threading.Thread(target=watch, daemon=True).start()
