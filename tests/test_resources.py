"""What a run cost: CPU seconds and memory of all its processes, whoever has ended meanwhile."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import a3c_zoo
from a3c_zoo.processes.child import ChildProcess, end_children
from a3c_zoo.runs.resources import SAMPLE_SHARE, Meter, cpu_seconds, family, memory_mib
from tests.toys_runs import checkpoint, toy_installed
from tests.waits import LIMIT_S, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems don't tell")

#: Burns 0.2 CPU seconds in a child that it waits for and 0.2 itself, then waits for its stdin to end.
BURN = """
import subprocess, sys, time
burn = "import time\\nwhile time.process_time() < 0.2: pass"
subprocess.run([sys.executable, "-c", burn])
exec(burn)
print("ready", flush=True)
sys.stdin.read()
"""

#: Two processes that both hold the same 200 MiB, of which each has written 20 MiB anew.
SHARE = """
import mmap, os, sys
block = mmap.mmap(-1, 200 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
block[:] = b"x" * len(block)
child = os.fork()
block[: 20 << 20] = b"y" * (20 << 20)
if child:
    os.waitpid(child, 0)
else:
    print("ready", flush=True)
    sys.stdin.read()
"""


def program(source: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


#: Prints the seconds of a clock, and the moment of a worker's episode on it, once it is suspended and goes on.
SUSPENDED = """
import sys, time
from a3c_zoo.runs.resources import Clock
from a3c_zoo.runs.signals import stop_on_signals
with stop_on_signals():
    clock = Clock()
    clock.switch("training")
    before_s = time.monotonic()
    print("ready", flush=True)
    sys.stdin.read()
    print(clock.of("training"), clock.total_s, clock.of("training", before_s), clock.of("training", time.monotonic()))
"""


def test_a_suspended_program_does_not_train() -> None:
    process = program(SUSPENDED)
    began_s = time.monotonic()
    process.send_signal(signal.SIGTSTP)
    wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
    time.sleep(3)
    process.send_signal(signal.SIGCONT)
    told = process.communicate(timeout=LIMIT_S)[0]
    most_s = time.monotonic() - began_s - 2  # of the three that it did not run
    training_s, total_s, before_s, now_s = map(float, told.split())
    assert 0 <= before_s < training_s < total_s < most_s
    assert before_s < now_s < most_s


def test_cpu_seconds_of_living_and_ended_processes() -> None:
    process = program(BURN)
    try:
        assert 0.38 <= cpu_seconds(psutil.Process(process.pid)) < 1.5  # the kernel counts in hundredths
    finally:
        process.communicate()


def test_the_meter_counts_from_its_start_and_across_ends() -> None:
    program(BURN).communicate()  # before
    meter = Meter()
    assert meter.cpu_s == pytest.approx(0.0, abs=0.2)
    process = program(BURN)
    living = meter.cpu_s
    process.communicate()
    ended = meter.cpu_s
    assert living is not None
    assert ended is not None
    assert 0.375 <= living <= ended < 1.5  # the kernel tells hundredths, of each process


def burn(pipe: Any) -> None:
    while time.process_time() < 0.5:
        pass
    pipe.send_bytes(b"burnt")
    pipe.poll(10 * LIMIT_S)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_group_loses_no_cpu_seconds(number: int) -> None:
    """The fork server gets it, too. Without it, workers would be nobody's children."""
    child = ChildProcess("forkserver", "burning", burn, is_duplex=True)
    try:
        assert child.pipe.recv_bytes() == b"burnt"
        before = cpu_seconds(psutil.Process())
        assert child.process.pid is not None
        server = psutil.Process(psutil.Process(child.process.pid).ppid())
        server.send_signal(number)
        end_children([ChildProcess("forkserver", "another", burn)], grace_s=0.0)  # the fork server works on
        assert server.is_running()
        assert cpu_seconds(psutil.Process()) >= before >= 0.5
    finally:
        end_children([child], grace_s=0.0)


def test_shared_pages_count_once() -> None:
    alone = program("import os, mmap, sys; print('ready', flush=True); sys.stdin.read()")
    both = program(SHARE)
    try:
        found = memory_mib(family(psutil.Process(both.pid))) - memory_mib(family(psutil.Process(alone.pid)))
        assert 219 < found < 260  # 180 MiB that they share, and 20 each
    finally:
        for process in (alone, both):
            process.communicate()


def test_what_was_held_before_training_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """SB3's agents try SubprocVecEnv before they train: its processes are not those of the run."""
    held = iter([900.0, 300.0, 350.0, 1.0])
    monkeypatch.setattr("a3c_zoo.runs.resources.memory_mib", lambda processes: next(held))
    meter = Meter()
    meter.sample()
    assert meter.peak_memory_mib == 900.0
    meter.forget_start()
    assert meter.peak_memory_mib is None
    meter.sample()
    meter.sample()
    assert meter.peak_memory_mib == 350.0
    resumed = Meter()
    resumed.go_on_from(meter.state())
    resumed.sample()
    resumed.forget_start()
    assert resumed.peak_memory_mib == 350.0


def test_what_a_measurement_computes_does_not_count() -> None:
    """Its processes have ended, and what they computed counts in their parents."""
    meter = Meter()
    with meter.uncounted():
        burning = program("import time; print('ready', flush=True)\nwhile time.process_time() < 0.6: pass")
        burning.communicate()
    assert meter.cpu_s is not None
    assert meter.cpu_s < 0.3
    burning = program("import time; print('ready', flush=True)\nwhile time.process_time() < 0.6: pass")
    burning.communicate()
    assert meter.cpu_s > 0.5


def test_the_meter_watches_in_the_background() -> None:
    meter = Meter()
    with meter.watching():
        process = program("held = b'x' * (150 << 20); print('ready', flush=True); import sys; sys.stdin.read()")
        held = memory_mib(family(psutil.Process(process.pid)))
        wait_until(lambda: (meter.peak_memory_mib or 0) >= held)
        process.communicate()
        meter.sample()  # less now
    assert meter.peak_memory_mib is not None
    assert meter.peak_memory_mib > held > 150


def test_the_meter_tells_how_many_cores_are_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that were found with the memory: one sleeps, one computes all the time that it gets."""
    monkeypatch.setattr("a3c_zoo.runs.resources.SAMPLE_EVERY_S", 0.2)
    meter = Meter()
    sleeps = program("import sys; print('ready', flush=True); sys.stdin.read()")
    computes = program("print('ready', flush=True)\nwhile True: pass")
    try:
        before_s = cpu_seconds(psutil.Process(computes.pid))
        with meter.watching():
            used: list[float] = []
            while cpu_seconds(psutil.Process(computes.pid)) < before_s + 1.0:
                time.sleep(0.1)
                if meter.usage is not None and meter.usage.cores is not None:
                    used.append(meter.usage.cores)
        assert max(used) > 0.1  # on a busy machine it gets less than a core
        assert all(0 <= cores < 2 for cores in used)
    finally:
        computes.kill()
        for process in (sleeps, computes):
            process.communicate()


def test_samples_keep_to_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample that took 10 ms of CPU is followed by 2.5 s without any."""
    meter, taken = Meter(), []

    def sample() -> None:
        start_s = time.thread_time()
        taken.append(time.monotonic())
        while time.thread_time() - start_s < 0.010:
            pass

    monkeypatch.setattr(meter, "sample", sample)
    monkeypatch.setattr("a3c_zoo.runs.resources.SAMPLE_EVERY_S", 0.1)
    with meter.watching():
        wait_until(lambda: len(taken) == 2)
    assert taken[1] - taken[0] >= 0.010 / SAMPLE_SHARE


@pytest.fixture
def _toy(tmp_path: Path) -> Iterator[None]:
    with toy_installed(tmp_path / "toy"):
        yield


@pytest.mark.usefixtures("_toy")
@pytest.mark.parametrize("serial", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_run_tells_what_it_cost(serial: bool, tmp_path: Path) -> None:
    """Each step of two environments takes 10 ms of CPU: 200 steps a second at least, in workers that end before."""
    overrides = {"env.busy_s": 0.01, "agent.n_steps": 5}
    outcome = a3c_zoo.train("toy", serial=serial, steps=100, stop_return=9, overrides=overrides, runs_dir=tmp_path)
    assert outcome.cpu_s is not None
    assert outcome.peak_memory_mib is not None
    assert 0.45 <= outcome.cpu_s <= outcome.total_s * (os.cpu_count() or 1) + 0.5
    written = json.loads((outcome.run / "outcome.json").read_text())
    assert (written["cpu_s"], written["peak_memory_mib"]) == (outcome.cpu_s, outcome.peak_memory_mib)
    in_checkpoint = checkpoint(outcome.run)["session"]["resources"]["peak_memory_mib"]
    assert 0 <= outcome.peak_memory_mib - in_checkpoint < 5  # the last look comes after the last checkpoint
    resumed = a3c_zoo.train(resume=outcome.run, steps=200)
    assert resumed.cpu_s is not None
    assert resumed.peak_memory_mib is not None
    assert resumed.cpu_s >= outcome.cpu_s + 0.4  # the checkpoint came just before the end
    assert resumed.peak_memory_mib >= outcome.peak_memory_mib


@pytest.mark.usefixtures("_toy")
def test_the_memory_of_workers_is_in_it(tmp_path: Path) -> None:
    """Each worker holds 100 MiB; this process and the fork server hold the rest."""
    overrides = {"env.held_mib": 100, "env.step_s": 0.02, "agent.n_steps": 5}
    start: dict[str, Any] = {"stop_return": 9.0, "overrides": overrides, "runs_dir": tmp_path}
    few = a3c_zoo.train("toy", workers=1, steps=100, **start)
    many = a3c_zoo.train("toy", workers=4, steps=400, **start)
    assert few.peak_memory_mib is not None
    assert many.peak_memory_mib is not None
    assert 300 < many.peak_memory_mib - few.peak_memory_mib < 600
    assert multiprocessing.active_children() == []
