"""Temporary folders that are gone after their process, however it ends, with all processes that still write there.

After a SIGKILL nobody else would: helpers of Ray live on for minutes, and nobody removes a folder. This module is also
the program of the process that waits for that end. It imports the standard library alone.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: How long processes have to end by themselves after the owned folder's process was killed, in seconds.
GRACE_S = 5.0
LOOK_EVERY_S = 0.2
#: How long killed processes have to be gone; a disk that does not answer keeps one.
KILL_LIMIT_S = 15.0
IN_ORDER = b"in order"


@contextmanager
def owned_folder(prefix: str, parent: str | None = None, grace_s: float = GRACE_S) -> Iterator[str]:
    """A new folder, which is removed in the end. Other processes that write there then are killed.

    Raises:
        OSError: it cannot be made.
    """
    parent = os.path.abspath(parent or tempfile.gettempdir())
    arguments = (prefix, parent, str(grace_s), str(os.getpid()))
    command = [sys.executable, "-I", "-S", __file__, *arguments]
    pipe = subprocess.PIPE
    owner = subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True)
    assert owner.stdin is not None
    assert owner.stdout is not None
    owner.wait()  # for the first of its two processes
    try:
        told = os.fsdecode(owner.stdout.readline()).rstrip("\n")
        if told.isdigit():  # the number of the error: the folder's path begins with a slash
            raise OSError(int(told), os.strerror(int(told)), parent)
        if not told:
            raise OSError("the process that makes temporary folders has ended before it made one")
        yield told
    finally:
        with suppress(BrokenPipeError), owner.stdin:
            owner.stdin.write(IN_ORDER)
        with owner.stdout:
            owner.stdout.read()  # until its end


def writers(folder: str) -> list[int]:
    """The processes that have opened a file below a folder to write to it."""
    pids = []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        with suppress(OSError):  # it has ended, or is another user's
            if any(_writes(pid, number, folder) for number in os.listdir(f"/proc/{pid}/fd")):
                pids.append(pid)
    return pids


def _writes(pid: int, number: str, folder: str) -> bool:
    with suppress(OSError):  # it was closed meanwhile
        if os.readlink(f"/proc/{pid}/fd/{number}").startswith(f"{folder}/"):
            lines = Path(f"/proc/{pid}/fdinfo/{number}").read_text().splitlines()
            flags = next(line for line in lines if line.startswith("flags:"))
            return int(flags.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY
    return False


def end(folder: str, grace_s: float, client: int) -> None:
    """Ends the processes that write to a folder, but for the one for which it was made, and removes it."""
    deadline_s = time.monotonic() + grace_s
    while (left := [pid for pid in writers(folder) if pid != client]) and time.monotonic() < deadline_s + KILL_LIMIT_S:
        if time.monotonic() >= deadline_s:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(LOOK_EVERY_S)
    shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Makes the folder, and waits for the end of the process that holds the other end of stdin."""
    if os.fork():  # now this process has no parent that would be killed together with its children
        os._exit(0)
    prefix, parent, grace_s, client = sys.argv[1:]
    try:
        folder = tempfile.mkdtemp(prefix=prefix, dir=parent)
    except OSError as error:
        print(error.errno, flush=True)
        return
    with suppress(BrokenPipeError):
        os.write(1, os.fsencode(f"{folder}\n"))
    is_in_order = sys.stdin.buffer.read() == IN_ORDER
    end(folder, 0.0 if is_in_order else float(grace_s), int(client))


if __name__ == "__main__":
    main()
