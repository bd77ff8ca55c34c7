"""A supervised child process of a run, from both sides: its start, its first steps, and its end."""

from __future__ import annotations

import multiprocessing
import signal
import time
import weakref
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
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
from a3c_zoo.processes.watched_time import WatchedTime
from a3c_zoo.standard_streams import drop_lost_output
from a3c_zoo.system import (
    GROUP_SIGNALS,
    HAS_GROUPS,
    KILL,
    at_fork,
    block_signals,
    end_group_with,
    lead_group,
    show_name,
    signal_group,
    unblock_signals,
)

#: How long a process may take to end after SIGKILL, in seconds.
KILL_GRACE_S = 2.0
#: How long a child may take to import the program's main module, in seconds.
MAIN_LIMIT_S = 60.0

#: The children that live, for `signal_children`.
_living: weakref.WeakSet[ChildProcess] = weakref.WeakSet()


def _forget_children() -> None:
    """In a fork of this program: its children are not of the fork, which would keep them alive after its parent."""
    for child in list(_living):
        child.pipe.close()
        child._lifeline.close()
    _living.clear()


at_fork(after_in_child=_forget_children)


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
        self._still = WatchedTime()

    def is_hung(self, tick: int, limit_s: float) -> bool:
        """Whether the child has made no tick for too long. Called often. tick: how many it has made so far."""
        if tick != self._tick:
            self._tick = tick
            self._still.restart()
            return False
        return self._still.look() > limit_s

    def signal(self, number: int) -> None:
        """Sends a signal to the child and to the processes that its environment has started."""
        if self.process.pid is not None:
            signal_group(self.process.pid, number)

    def kill(self) -> None:
        """Ends the child at once, and with it the processes that its environment has started."""
        self.pipe.close()
        self._lifeline.close()  # ends the child even if its exit status is not known: the fork server may have died
        if not HAS_GROUPS:
            self.signal(KILL)  # as long as it lives, what it has started can be found
        self.process.kill()  # does nothing to one that has ended
        self.signal(KILL)
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
    lead_group()
    drop_lost_output("stdout", "stderr")
    forget_safe_path()
    show_name(multiprocessing.current_process().name.replace("a3c-zoo", "a3c"))
    _leave_signals_to_parent()
    end_group_with(lifeline)
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

    def unblock() -> None:
        unblock_signals(GROUP_SIGNALS)

    def in_fork() -> None:
        for number in GROUP_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        unblock()
        pipe.close()

    def block() -> None:  # a signal to a fork that still has the handler of this process would be lost
        block_signals(GROUP_SIGNALS)

    at_fork(before=block, after_in_parent=unblock, after_in_child=in_fork)


def _leave_signals_to_parent() -> None:
    """Ignores what Ctrl-C, `timeout` and a closed terminal send to the whole group; only the parent acts on them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    unblock_signals([signal.SIGINT])  # the fork server began with it blocked
    for number in GROUP_SIGNALS:
        # Programs that an environment starts would inherit SIG_IGN, and could not be terminated.
        signal.signal(number, lambda number, frame: None)
