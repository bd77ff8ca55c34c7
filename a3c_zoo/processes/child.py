"""The first steps of every process that a run starts, and the message on its end."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing import connection, current_process, parent_process

import torch

from a3c_zoo.processes.start import LIFELINE

if sys.platform == "linux":
    import fcntl


def settle_in() -> None:
    """Leaves signals to the parent, ends with the parent, and makes torch use one thread."""
    _leave_signals_to_parent()
    _leave_with_parent()
    torch.set_num_threads(1)


def how_it_ended(exit_code: int | None) -> str:
    """Says how a process without a message of its own ended: "was ended by signal SIGKILL (out of memory?)"."""
    if exit_code is not None and exit_code < 0:
        name = signal.Signals(-exit_code).name
        return f"was ended by signal {name}{' (out of memory?)' if name == 'SIGKILL' else ''}"
    return f"ended by itself with exit status {exit_code}"


def _leave_signals_to_parent() -> None:
    """Ignores what Ctrl-C, `timeout` and a closed terminal send to the whole group; only the parent acts on them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            # Programs that an environment starts would inherit SIG_IGN, and could not be terminated.
            signal.signal(getattr(signal, name), lambda number, frame: None)


def _leave_with_parent() -> None:
    """Ends this process when its parent has ended, for any reason (about 10 ms after a SIGKILL)."""
    parent = parent_process()
    if parent is None:
        return
    if sys.platform == "linux":
        # The kernel does it: no thread of this process runs while an environment holds Python's global lock.
        lifeline = vars(current_process())[LIFELINE]
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC)
        if lifeline.poll():  # the parent ended before the kernel was asked
            os._exit(1)
    else:

        def watch(sentinel: int, leave: Callable[[int], None] = os._exit) -> None:
            connection.wait([sentinel])
            leave(1)

        threading.Thread(target=watch, args=(parent.sentinel,), daemon=True).start()
