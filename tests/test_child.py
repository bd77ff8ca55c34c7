"""A child process of a run starts alone, and ends with its parent."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest

from a3c_zoo.errors import PluginError
from a3c_zoo.processes import start
from a3c_zoo.processes.child import ChildProcess
from a3c_zoo.processes.start import start_process, warm_up
from tests.toys_child import Late, leave_a_trace, tell_blocked, tell_imported, wait_for_ever
from tests.waits import LIMIT_S, wait_until


@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_a_child_whose_parent_died_before_its_first_line_ends(start_method: str, tmp_path: Path) -> None:
    """The kernel tells of the end of a pipe only those that asked for it before."""
    child = ChildProcess(start_method, "late", leave_a_trace, Late(tmp_path / "begin"), tmp_path)
    child._lifeline.close()  # as the kernel does when the parent ends
    (tmp_path / "begin").touch()
    child.process.join(LIMIT_S)
    assert child.process.exitcode == 1
    assert not (tmp_path / "lived on").exists()


def test_ctrl_c_while_the_fork_server_starts_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The new process begins with it blocked; this one gets it."""
    got: list[int] = []
    is_blocked: list[bool] = []

    def ensure_running() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        is_blocked.append(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))

    monkeypatch.setattr(forkserver, "ensure_running", ensure_running)
    before = signal.signal(signal.SIGINT, lambda number, frame: got.append(number))
    try:
        warm_up("forkserver")
        wait_until(lambda: got)  # a thread that another test has left may have got it, and be slow
    finally:
        signal.signal(signal.SIGINT, before)
    assert is_blocked == [True]
    assert got == [signal.SIGINT]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_the_fork_server_has_imported_what_workers_need() -> None:
    """The collector runs again in a child, and does not see the objects of modules: there are over 100,000 of them."""
    warm_up("forkserver")
    child = ChildProcess("forkserver", "told", tell_imported)
    assert child.pipe.poll(LIMIT_S)
    assert child.pipe.recv_bytes() == b"True True True"
    child.process.join(LIMIT_S)


@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_programs_that_an_environment_starts_can_be_interrupted(start_method: str) -> None:
    """A blocked signal would stay blocked in them, even if they set a handler."""
    child = ChildProcess(start_method, "told", tell_blocked)
    assert child.pipe.poll(LIMIT_S)
    assert child.pipe.recv_bytes() == b"set()"
    child.process.join(LIMIT_S)


@pytest.mark.parametrize(("limit_s", "has_ended"), [(start.LONGEST_START_S, True), (0.0, False)])
def test_ctrl_c_waits_for_a_start_but_not_for_one_that_hangs(
    limit_s: float, has_ended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Starting:
        has_ended = False

        def start(self) -> None:
            signal.raise_signal(signal.SIGINT)
            self.has_ended = True

    monkeypatch.setattr(start, "LONGEST_START_S", limit_s)
    starting: Any = Starting()
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        start_process(starting)
    assert starting.has_ended == has_ended
    assert signal.getsignal(signal.SIGINT) is before


def test_a_child_ends_though_the_traceback_of_a_ctrl_c_during_its_start_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As an interactive Python keeps it, which waits for its children when it ends."""

    def start_interrupted(self: Any, begin: Any = multiprocessing.process.BaseProcess.start) -> None:
        begin(self)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(multiprocessing.process.BaseProcess, "start", start_interrupted)
    with pytest.raises(KeyboardInterrupt) as kept:
        ChildProcess("spawn", "interrupted", wait_for_ever)
    (process,) = (each for each in multiprocessing.active_children() if each.name == "interrupted")
    process.join(LIMIT_S)
    assert process.exitcode is not None
    assert kept.tb is not None


def test_what_cannot_be_pickled_is_the_fault_of_a_plugin() -> None:
    with pytest.raises(PluginError, match=r"Can't pickle .*lambda.*functions"):
        ChildProcess("spawn", "unsendable", lambda pipe: None)


def test_runs_in_threads_start_their_processes_in_turn() -> None:
    """A start changes the environment of the whole process for a moment, and must find it as it was before."""
    inside, most = 0, 0

    class Starting:
        def start(self) -> None:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            time.sleep(0.1)
            inside -= 1

    before = dict(os.environ)
    process: Any = Starting()
    threads = [threading.Thread(target=start_process, args=(process,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert dict(os.environ) == before
