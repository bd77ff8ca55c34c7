"""What one operating system has and another lacks, each behind a function that all of them have.

| | Linux | macOS | Windows |
| --- | --- | --- | --- |
| processes start by | fork server | spawn | spawn |
| a child ends with its parent | the kernel sends SIGKILL to its group | a thread of the child | a thread of the child |
| process groups, SIGHUP, SIGSTOP, SIGTSTP, masks of signals | yes | yes | no |
| a file is opened without following a link | by the kernel | by the kernel | after a look at its name |
| locks of files | flock | flock | a byte of the file |
| owners of files | yes | yes | no |

A module that only Unix has is None where it is missing. Tests take all of them away (`tests/test_system.py`).
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing import connection
from multiprocessing.connection import Connection
from typing import Any, Final, TextIO

fcntl: Any
msvcrt: Any
resource: Any
try:
    import fcntl
except ImportError:
    fcntl = None
try:
    import msvcrt
except ImportError:
    msvcrt = None
try:
    import resource
except ImportError:
    resource = None

IS_LINUX: Final = sys.platform == "linux"
IS_WINDOWS: Final = sys.platform == "win32"

#: Whether a signal can be sent to a process and to all that it has started.
HAS_GROUPS: Final = hasattr(os, "killpg")
#: Whether a process can go on as two.
HAS_FORK: Final = hasattr(os, "fork")

#: Flags of `os.open`; 0 where a system has no such flag.
NO_FOLLOW: Final[int] = getattr(os, "O_NOFOLLOW", 0)
NON_BLOCKING: Final[int] = getattr(os, "O_NONBLOCK", 0)


def _present(*names: str) -> tuple[int, ...]:
    numbers = (getattr(signal, name, None) for name in names)
    return tuple(number for number in numbers if number is not None)


#: Signals that ask a program to stop, and those of them that come to a whole group of processes but are no Ctrl-C.
STOP_SIGNALS: Final = _present("SIGINT", "SIGTERM", "SIGHUP")
GROUP_SIGNALS: Final = _present("SIGTERM", "SIGHUP")
#: What Ctrl-Z sends; None where terminals have no Ctrl-Z. Then there are no stops, and the next two are never sent.
CTRL_Z: Final[int | None] = getattr(signal, "SIGTSTP", None)
STOP: Final[int] = getattr(signal, "SIGSTOP", 0)
CONTINUE: Final[int] = getattr(signal, "SIGCONT", 0)
_group: Callable[[], int] = getattr(os, "getpgrp", os.getpid)
_BLOCK: Final[int] = getattr(signal, "SIG_BLOCK", 0)
_UNBLOCK: Final[int] = getattr(signal, "SIG_UNBLOCK", 0)
#: The end that no process can refuse.
KILL: Final[int] = getattr(signal, "SIGKILL", signal.SIGTERM)


# ----------------------------------------------------------------------------------------------------------------------
# Files


def open_without_links(path: str, flags: int, permissions: int = 0o666) -> int:
    """`os.open` for a name that is no link, without waiting for the writer of a FIFO.

    Where the kernel cannot refuse links, the name is looked at before. Somebody may exchange it in between.

    Raises:
        OSError: as `os.open`; the name is a link.
    """
    if not NO_FOLLOW and os.path.islink(path):
        raise OSError(errno.ELOOP, "it is a link, and links are not followed", path)
    try:
        return os.open(path, flags | NO_FOLLOW | NON_BLOCKING, permissions)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a link, and links are not followed", path) from None
        raise


def lock(file: int, exclusive: bool) -> bool:
    """Takes the lock of an open file, which ends when the file is closed. False if another process holds it.

    On a system without such locks the answer is always False: there, a file of a lock exists only while it is held.

    Args:
        file: its descriptor.
        exclusive: whether nobody else may hold the lock; false: others may, if they want it shared, too. On Windows
            nobody else may in either case.

    Raises:
        OSError: the file cannot be locked.
    """
    if fcntl is not None:
        return _flock(file, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
    if msvcrt is None:
        return False
    os.lseek(file, 0, os.SEEK_SET)
    try:
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EDEADLK):
            return False
        raise
    return True


def _flock(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError as error:
        # As for filelock. ENOSYS: a file system without locks, where the file is there only while it is held.
        if error.errno in (errno.EAGAIN, errno.EACCES, errno.ENOSYS):
            return False
        raise
    return True


def user() -> int | None:
    """The number of this process's user; None where files have no owners."""
    if not hasattr(os, "geteuid"):
        return None
    number: int = os.geteuid()
    return number


def is_own(status: os.stat_result) -> bool:
    """Whether a file is this user's, as far as the system has owners."""
    return user() in (None, status.st_uid)


def is_regular(status: os.stat_result) -> bool:
    """Whether it is the status of a regular file."""
    return stat.S_ISREG(status.st_mode)


def most_open_files() -> int:
    """How many files a process may have open."""
    return _limit("RLIMIT_NOFILE")


def largest_file() -> int:
    """How many bytes a file of this process may have."""
    return _limit("RLIMIT_FSIZE")


def _limit(name: str) -> int:
    if resource is None:
        return sys.maxsize
    limit: int = resource.getrlimit(getattr(resource, name))[0]
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    return limit


def bytes_on_disk(status: os.stat_result) -> int:
    """How many bytes a file takes on its disk: few, if it is sparse. Its size where the system does not tell."""
    blocks = getattr(status, "st_blocks", None)
    if blocks is None:
        return status.st_size
    return 512 * int(blocks)


# ----------------------------------------------------------------------------------------------------------------------
# Signals of this process


def block_signals(numbers: Iterable[int]) -> set[int]:
    """Makes these signals wait until they are unblocked, where signals have masks. Returns those that waited before."""
    if not hasattr(signal, "pthread_sigmask"):
        return set()
    return {int(number) for number in signal.pthread_sigmask(_BLOCK, numbers)}


def unblock_signals(numbers: Iterable[int]) -> None:
    """Lets these signals come again, also those that have waited."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(_UNBLOCK, numbers)


def signal_thread(thread: int, number: int) -> None:
    """Sends a signal to a thread of this process; where that cannot be, to the process."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(thread, number)
    else:
        signal.raise_signal(number)


def stop_itself() -> None:
    """Stops this process, as Ctrl-Z does; returns when it goes on, at once where nothing stops."""
    if STOP:
        os.kill(os.getpid(), STOP)


def at_fork(
    before: Callable[[], None] | None = None,
    after_in_parent: Callable[[], None] | None = None,
    after_in_child: Callable[[], None] | None = None,
) -> None:
    """`os.register_at_fork`, where processes fork."""
    if hasattr(os, "register_at_fork"):
        given = {"before": before, "after_in_parent": after_in_parent, "after_in_child": after_in_child}
        os.register_at_fork(**{name: function for name, function in given.items() if function is not None})


# ----------------------------------------------------------------------------------------------------------------------
# Processes


def usable_cores() -> set[int]:
    """The numbers of the cores on which this process may run."""
    if not hasattr(os, "sched_getaffinity"):
        return set(range(os.cpu_count() or 1))
    cores: set[int] = os.sched_getaffinity(0)
    return cores


def forget_ended_child(process_id: int) -> bool:
    """Whether a child of this process has ended; then the system forgets it.

    Raises:
        OSError: it is no child of this process.
    """
    return hasattr(os, "WNOHANG") and os.waitpid(process_id, os.WNOHANG)[0] != 0


def is_in_foreground(stream: TextIO) -> bool:
    """Whether this process may draw on the terminal of a stream; also if the terminal is nobody's, or no terminal."""
    if not hasattr(os, "tcgetpgrp"):
        return True
    with suppress(OSError, ValueError, AttributeError):
        return bool(os.tcgetpgrp(stream.fileno()) == _group())
    return True


def fork() -> int:
    """Forks this process: 0 in the child, its number in the parent. Only where `HAS_FORK`."""
    return os.fork() if hasattr(os, "fork") else -1


def lead_session() -> None:
    """Makes this process the leader of a session and a group of its own, which no terminal stops."""
    if hasattr(os, "setsid"):
        os.setsid()


def end_group_of(child: int) -> None:
    """Ends a child that leads a group, or will, with what it has started, and forgets it."""
    with suppress(ProcessLookupError):
        os.kill(child, KILL)
    signal_group(child, KILL)  # it may lead none yet
    os.waitpid(child, 0)


def lead_group() -> None:
    """Makes this process the leader of a group, so that what it starts can be ended with it."""
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)


def signal_group(leader: int, number: int) -> None:
    """Sends a signal to a process that leads a group, and to those that it has started. They may have ended.

    Where there are no groups, only the end can be sent: to the process and its descendants.
    """
    if HAS_GROUPS and hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, number)
    elif number == KILL:
        _kill_descendants(leader)


def _kill_descendants(process_id: int) -> None:
    import psutil

    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(process_id)
        for each in (*process.children(recursive=True), process):
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                each.kill()


def end_group_with(lifeline: Connection) -> None:
    """Ends this process and its group when the other end of a pipe is closed (about 10 ms after a SIGKILL)."""
    if sys.platform == "linux" and fcntl is not None:
        # The kernel does it: no thread of this process runs while an environment holds Python's global lock.
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpid())  # a negative number names a process group
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC)
        if lifeline.poll():  # the parent ended before the kernel was asked
            os._exit(1)
        return

    def watch() -> None:
        connection.wait([lifeline])
        signal_group(os.getpid(), KILL)

    threading.Thread(target=watch, daemon=True).start()


def end_with_parent() -> Callable[[], None] | None:
    """What a new program runs first, to get a SIGTERM at the end of its parent; None where the kernel sends none."""
    if IS_LINUX:
        return _ask_for_sigterm
    return None


def _ask_for_sigterm() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def show_name(name: str) -> None:
    """Shows what this process is in listings of processes (`top`, `ps -o comm`), where that can be."""
    if IS_LINUX:
        with suppress(OSError), open("/proc/self/comm", "w", encoding="utf-8") as file:
            file.write(name)
