"""The engine `local`: one training after the other on this machine, each a fresh process that has it for itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from a3c_zoo.config import EngineConfig
from a3c_zoo.engines.child_program import ChildProgram
from a3c_zoo.engines.interface import Engine, JobProgress, TrainingJob
from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.files import open_file
from a3c_zoo.records import RETURN_WINDOW
from a3c_zoo.store.run import Run
from a3c_zoo.store.run_files import MONITOR_CSV
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
        self._child: ChildProgram | None = None
        self._starting = threading.Lock()
        self._is_stopped = False

    @property
    def slots(self) -> int:
        return 1

    def train(self, job: TrainingJob, tell: Callable[[JobProgress | None], None]) -> str | None:
        """Trains in a process of its own, which ends with this call, also if the call raises."""
        calibration_s = calibrate()
        start_s = time.monotonic()
        with ChildProgram("a3c_zoo", *job.arguments(job.runs_dir), grace_s=STOP_GRACE_S) as child:
            with self._starting:
                if self._is_stopped:
                    return "it was stopped before it began"
                self._child = child
                child.start()
            while not child.has_ended(TELL_EVERY_S):
                tell(progress_of(job.path / MONITOR_CSV))
            wall_s = time.monotonic() - start_s
            run = Run(job.path)
            fault = child.fault() if child.status else _fault(run)
        if fault is None and not job.resumes:  # the seconds of two halves are not those of a whole run
            try:
                settings = run.settings  # those of the machine that trained: the job has none on another one
                write_timing(job.path, calibration_s, wall_s, settings)
            except RunDirectoryError as error:
                fault = str(error)
        return fault

    def stop(self) -> None:
        """Lets the run save its state, and kills it if that takes too long. No other run begins."""
        with self._starting:
            self._is_stopped = True
        if self._child is not None:
            self._child.end()


def local_engine() -> Engine:
    """The engine `local`; an engine of other machines can run its jobs there with it."""
    return LocalEngine()


def _fault(run: Run) -> str | None:
    """Why a run whose process has ended in order has no figures; None if it has figures."""
    try:
        outcome = run.outcome
    except RunDirectoryError as error:
        return str(error)
    if outcome is None or not outcome.has_spent_its_budget:
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
    cells = [line.split(",") for line in lines[1:-1]]
    rows = [row for row in cells if len(row) >= 5 and row[0] != "r"][-RETURN_WINDOW:]
    if not rows:
        return None
    try:
        returns = [float(row[0]) for row in rows]
        return JobProgress(int(rows[-1][3]), float(rows[-1][2]), sum(returns) / len(returns))
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
