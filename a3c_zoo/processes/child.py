"""A supervised child process of a run, from both sides: its start, its first steps, and its end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from a3c_zoo.errors import MissingGuardError
from a3c_zoo.plugins.module_files import MODULE_FILES, ModuleFiles
from a3c_zoo.processes.start import (
    QUIET_CHECK,
    UNGUARDED_STATUS,
    forget_safe_path,
    process_context,
    start_process,
    warm_up,
)
from a3c_zoo.standard_streams import drop_lost_output

if sys.platform == "linux":
    import fcntl

#: How long a process may take to end after SIGKILL, in seconds.
KILL_GRACE_S = 2.0
#: How long a child may take to import the program's main module, in seconds.
MAIN_LIMIT_S = 60.0
#: The longest time that can count between two looks at a child, in seconds. If more has passed, the parent
#: and the child stood still: they were suspended, or the machine slept.
LONGEST_LOOK_S = 1.0

#: The children that live, for `signal_children`.
_living: weakref.WeakSet[ChildProcess] = weakref.WeakSet()


def _forget_children() -> None:
    """In a fork of this program: its children are not of the fork, which would keep them alive after its parent."""
    for child in list(_living):
        child.pipe.close()
        child._lifeline.close()
    _living.clear()


os.register_at_fork(after_in_child=_forget_children)


class ChildProcess:
    """The parent's side of a child process. Its ticks and the end of its pipe tell the parent whether it lives.

    Args:
        name: in listings of processes. target: runs in the child as `target(pipe, *args)`.
        is_duplex: whether the parent sends messages, too.

    Attributes:
        pipe: the parent's end; it ends with the child.

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
            target=_child_main, args=(MODULE_FILES, lifeline, target, theirs, *args), name=name, daemon=True
        )
        try:
            start_process(self.process)
        except BaseException:
            # Also a Ctrl-C that waited for the start: its traceback would keep the child alive.
            self._lifeline.close()
            raise
        theirs.close()  # the child's copy must be the last, so that the pipe ends with the child
        self.begin_watch()
        _living.add(self)

    def begin_watch(self) -> None:
        """The child begins to work: it has made no tick for 0 seconds."""
        self._tick = -1
        self._still_s = 0.0
        self._looked_s = time.monotonic()

    def is_hung(self, tick: int, limit_s: float) -> bool:
        """Whether the child has made no tick for too long. Called often. tick: how many it has made so far."""
        now = time.monotonic()
        if tick == self._tick:
            self._still_s += min(now - self._looked_s, LONGEST_LOOK_S)
        else:
            self._still_s = 0.0
        self._tick = tick
        self._looked_s = now
        return self._still_s > limit_s

    def signal(self, number: int) -> None:
        """Sends a signal to the child and to the processes that its environment has started."""
        if self.process.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """Ends the child at once, and with it the processes that its environment has started."""
        self.pipe.close()
        self._lifeline.close()  # ends the child even if its exit status is not known: the fork server may have died
        self.process.kill()  # does nothing to one that has ended
        self.signal(signal.SIGKILL)
        _living.discard(self)

    def how_it_ended(self) -> str:
        """Says how a child ended without a message of its own: "was ended by signal SIGKILL (out of memory?)".

        Raises:
            MissingGuardError: the child could not import the program's main module, which trains as it is
                imported.
        """
        self.process.join(KILL_GRACE_S)
        code = self.process.exitcode
        if code == UNGUARDED_STATUS:
            raise MissingGuardError
        return ending(code)


def ending(status: int | None) -> str:
    """Says how a process with this exit status ended, as a clause without a subject. A negative one is a signal."""
    if status is None or status >= 0:
        return f"ended by itself with exit status {status}"
    name = signal.Signals(-status).name
    hint = " (out of memory?)" if name == "SIGKILL" else ""
    return f"was ended by signal {name}{hint}"


def check_main(start_method: str = "auto", is_quiet: bool = False) -> None:
    """Raises MissingGuardError if child processes cannot import the program's main module.

    Args:
        is_quiet: whether the child that tries it says nothing.
    """
    name = QUIET_CHECK if is_quiet else "a3c-zoo check"
    child = ChildProcess(start_method, name, Connection.close)
    try:
        child.pipe.poll(MAIN_LIMIT_S)  # until the child closes its end
        child.how_it_ended()
    finally:
        end_children([child], grace_s=0.0)


def end_children(children: Sequence[ChildProcess], grace_s: float) -> None:
    """Waits for children that were told to stop, and kills those that have not ended after `grace_s` seconds."""
    for child in children:
        child.pipe.close()  # ends a child that waits for a message, or for room to send one
    for limit_s in (grace_s, KILL_GRACE_S):
        deadline = time.monotonic() + limit_s
        for child in children:
            child.process.join(max(0.0, deadline - time.monotonic()))
        for child in children:
            child.kill()


def signal_children(number: int) -> None:
    """Sends a signal to all children of this process. Each leads a process group of its own."""
    for child in list(_living):
        child.signal(number)


def _child_main(
    module_files: ModuleFiles, lifeline: Connection, target: Callable[..., None], *args: Any
) -> None:
    """The child from its first line: leaves signals to the parent, ends with it, and lets torch use one thread.

    It leads a process group, so that what its environment starts can be ended with it. Its global random
    generators are its own (`seed_process`).

    Args:
        module_files: unpickled before the other arguments, which can be of classes of its modules.
    """
    os.setpgid(0, 0)
    drop_lost_output("stdout", "stderr")
    forget_safe_path()
    _show_name()
    _leave_signals_to_parent()
    _leave_with_parent(lifeline)
    _allow_processes(args[0])
    import torch  # the parent's side does without it

    from a3c_zoo.learning.generators import seed_process

    torch.set_num_threads(1)
    seed_process()
    target(*args)


def _allow_processes(pipe: Connection) -> None:
    """Lets environments start processes, which end with this one's group.

    Their forks end with SIGTERM, as `terminate` sends it, and do not hold the pipe, whose end tells the
    parent of this process's end.
    """
    multiprocessing.current_process().daemon = False
    numbers = (signal.SIGTERM, signal.SIGHUP)

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)

    def in_fork() -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
        unblock()
        pipe.close()

    def block() -> None:  # a signal to a fork that still has the handler of this process would be lost
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)

    os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=in_fork)


def _show_name() -> None:
    """Shows what the process is in listings of processes (`top`, `ps -o comm`): "a3c worker 0"."""
    if sys.platform == "linux":
        name = multiprocessing.current_process().name.replace("a3c-zoo", "a3c")
        with suppress(OSError):
            Path("/proc/self/comm").write_text(name)


def _leave_signals_to_parent() -> None:
    """Ignores what Ctrl-C, `timeout` and a closed terminal send to the whole group; only the parent acts on them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # the fork server began with it blocked
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Programs that an environment starts would inherit SIG_IGN, and could not be terminated.
        signal.signal(number, lambda number, frame: None)


def _leave_with_parent(lifeline: Connection) -> None:
    """Ends this process and its group when its parent has ended, for any reason (about 10 ms after a SIGKILL)."""
    if sys.platform == "linux":
        # The kernel does it: no thread of this process runs while an environment holds Python's global lock.
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpid())  # a negative number names a process group
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC)
        if lifeline.poll():  # the parent ended before the kernel was asked
            os._exit(1)
    else:

        def watch() -> None:
            connection.wait([lifeline])
            os.killpg(os.getpid(), signal.SIGKILL)

        threading.Thread(target=watch, daemon=True).start()
