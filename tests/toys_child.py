"""What children of the tests do. Each child imports this module, so it imports little, and neither torch nor pytest."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.waits import LIMIT_S, wait_until


class Late:
    """An argument of a child that arrives when a file is there. Until then the child's first line does not run."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return wait_until, (self.file.exists,)


def leave_a_trace(pipe: Any, late: Any, folder: Path) -> None:
    (folder / "lived on").touch()


def tell_imported(pipe: Any) -> None:
    is_there = all(name in sys.modules for name in ("torch", "gymnasium", "a3c_zoo.agents.a3c"))
    pipe.send_bytes(f"{is_there} {gc.isenabled()} {gc.get_freeze_count() > 100_000}".encode())


def tell_blocked(pipe: Any) -> None:
    pipe.send_bytes(repr(signal.pthread_sigmask(signal.SIG_BLOCK, [])).encode())


def wait_for_ever(pipe: Any) -> None:
    time.sleep(10 * LIMIT_S)


def start_a_program(pipe: Any) -> None:
    """A child whose environment starts a simulator."""
    process = subprocess.Popen(["sleep", "600"])
    pipe.send_bytes(str(process.pid).encode())
    time.sleep(600)
