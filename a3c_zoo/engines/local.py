"""The engine `local`: one training after the other on this machine, each a fresh process that has it for itself."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

import numpy as np

from a3c_zoo.config import EngineConfig
from a3c_zoo.engines.interface import Engine, JobProgress, TrainingJob
from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.files import open_file
from a3c_zoo.processes.start import handlers_wait
from a3c_zoo.records import FINISHED
from a3c_zoo.store.run import Run
from a3c_zoo.store.timing_file import write_timing

#: How often the caller is told how far a run is, in seconds.
TELL_EVERY_S: Final = 1.0
#: How long a run may take to save its state after it was told to stop.
STOP_GRACE_S: Final = 60.0
#: Bytes at the end of monitor.csv that hold the last hundred episodes.
TAIL_BYTES: Final = 8192


class LocalEngine(Engine):
    """Trains one run at a time and evaluates with a process per core."""

    def __init__(self, settings: EngineConfig | None = None) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = threading.Lock()
        self._is_stopped = False

    @property
    def slots(self) -> int:
        return 1

    def train(self, job: TrainingJob, tell: Callable[[JobProgress | None], None]) -> str | None:
        """Trains in a process of its own, which ends with this call, also if the call raises."""
        calibration_s = calibrate()
        start_s = time.monotonic()
        with tempfile.TemporaryFile() as output:
            with handlers_wait(), self._starting:  # a Ctrl-C meanwhile would leave it without an owner
                if self._is_stopped:
                    return "it was stopped before it began"
                self._process = process = _start(job, output)
            try:
                while process.poll() is None:
                    try:
                        process.wait(TELL_EVERY_S)
                    except subprocess.TimeoutExpired:
                        tell(progress_of(job.path / "monitor.csv"))
            except BaseException:
                self._end()
                raise
            wall_s = time.monotonic() - start_s
            run = Run(job.path)
            fault = _fault(process.returncode, run, output)
        if fault is None and not job.resumes:  # the seconds of two halves are not those of a whole run
            write_timing(
                job.path, calibration_s, wall_s, run.settings
            )  # on another machine a job has no configuration
        return fault

    def stop(self) -> None:
        """Lets the run save its state, and kills it if that takes too long. No other run begins."""
        with self._starting:
            self._is_stopped = True
        self._end()

    def _end(self) -> None:
        if (process := self._process) is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_GRACE_S)
        finally:  # also on a second Ctrl-C
            if process.poll() is None:
                process.kill()
                process.wait()


def local_engine() -> Engine:
    """The engine `local`; an engine of other machines can run its jobs there with it."""
    return LocalEngine()


def _start(job: TrainingJob, output: IO[bytes]) -> subprocess.Popen[bytes]:
    """Starts `a3c-zoo train`, in a session of its own: Ctrl-C reaches it once, through this process."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "a3c_zoo", *job.arguments(job.runs_dir)],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=training_environment(),
        start_new_session=True,
        preexec_fn=end_with_parent if sys.platform == "linux" else None,
    )


def training_environment() -> dict[str, str]:
    """The environment of a training: it finds the modules that lie beside this program's own script, as we do."""
    folders = [sys.path[0] or os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(folders)}


def end_with_parent() -> None:
    """In a new process: a SIGTERM at the end of its parent, even after a SIGKILL (PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _fault(status: int, run: Run, output: IO[bytes]) -> str | None:
    """Why a run that has ended has no figures; the last line that it printed if it failed. None if it has figures."""
    output.seek(0)
    lines = output.read().decode(errors="replace").strip().splitlines()
    if status:
        errors = [line for line in lines if line.startswith("Error: ")]  # libraries may print more at the end
        return ([*lines, *errors][-1] if lines else f"it ended with exit status {status}").removeprefix(
            "Error: "
        )
    try:
        outcome = run.outcome
    except RunDirectoryError as error:
        return str(error)
    if outcome is None or outcome.reason not in FINISHED:
        return f"it ended before its budget: {outcome.detail if outcome else 'without an outcome'}"
    return None


def progress_of(monitor: Path) -> JobProgress | None:
    """Reads the end of a run's monitor.csv while it is written; None before the first episode."""
    try:
        with open_file(monitor) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return None
    rows = [row for row in (line.split(",") for line in lines[1:-1]) if len(row) == 5 and row[0] != "r"][
        -100:
    ]
    try:
        returns = [float(row[0]) for row in rows]
        if rows:
            return JobProgress(int(rows[-1][3]), float(rows[-1][2]), sum(returns) / len(returns))
        return None
    except ValueError:
        return None


def calibrate() -> float:
    """How long a fixed loop takes now, in seconds: the differences between runs tell how noisy the machine is.

    One thread computes integers in Python, then products of small matrices. About 0.2 s on a desktop processor.
    """
    matrix = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32) / 8
    start_s = time.perf_counter()
    total = 0
    for number in range(2_000_000):
        total += number & 7
    product = matrix
    for _ in range(300):
        product = np.tanh(product @ matrix)
    return time.perf_counter() - start_s
