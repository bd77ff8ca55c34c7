"""A module that runs as a child program: how its end is told, and that nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import threading

import psutil
import pytest

from a3c_zoo.engines.child_program import ChildProgram
from tests.waits import LIMIT_S, wait_until


def program(statements: str, grace_s: float = LIMIT_S) -> ChildProgram:
    """A program that runs these statements once."""
    return ChildProgram("timeit", "-n1", "-r1", statements, grace_s=grace_s)


@pytest.mark.parametrize(
    ("statements", "status", "fault"),
    [
        ("import os; print('one'); print('two', flush=True); os._exit(3)", 3, "two"),
        ("import os; print('Error: no disk'); print('bye', flush=True); os._exit(2)", 2, "no disk"),
        ("import os; os._exit(4)", 4, "its process ended by itself with exit status 4"),
        (
            "import os; print('begun', flush=True); os.kill(os.getpid(), 9)",
            -signal.SIGKILL,
            "its process was ended by signal SIGKILL (out of memory?)",
        ),
    ],
    ids=["last line", "line of the error", "status", "signal"],
)
def test_why_a_child_failed(statements: str, status: int, fault: str) -> None:
    with program(statements) as child:
        child.start()
        assert child.has_ended(LIMIT_S)
        assert (child.status, child.fault()) == (status, fault)


def test_a_child_that_ignores_sigterm_is_killed() -> None:
    statements = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
    with program(statements, grace_s=0.1) as child:
        child.start()
        assert not child.has_ended(0.0)
        process = psutil.Process(child._process.pid)  # type: ignore[union-attr]
    assert not process.is_running()


def test_two_threads_that_end_a_child_signal_it_once() -> None:
    """A run that gets a second signal ends without its state. This child ends with the number of its signals."""
    statements = (
        "import os, signal, time; came = []; signal.signal(15, lambda *_: came.append(1))\n"
        "print('begun', flush=True)\n"
        "while not came: time.sleep(0.01)\n"
        "time.sleep(0.5); os._exit(len(came))"
    )
    with program(statements) as child:
        child.start()
        wait_until(lambda: os.fstat(child._output.fileno()).st_size)  # its handler is there
        enders = [threading.Thread(target=child.end) for _ in range(2)]
        for ender in enders:
            ender.start()
        for ender in enders:
            ender.join(LIMIT_S)
        assert child.status == 1


def test_a_ctrl_c_during_the_start_leaves_no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    start = subprocess.Popen
    started = []

    def start_slowly(*arguments, **options):
        started.append(start(*arguments, **options))
        signal.raise_signal(signal.SIGINT)
        return started[0]

    monkeypatch.setattr("subprocess.Popen", start_slowly)
    with pytest.raises(KeyboardInterrupt), program("import time; time.sleep(600)") as child:
        child.start()
    assert started[0].poll() is not None
