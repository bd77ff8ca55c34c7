"""Trains the missing runs of a plan, one fresh process after the other: each run has the machine for itself."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Final

import numpy as np

from a3c_zoo.comparison.evaluations import write_json
from a3c_zoo.comparison.plan import FINISHED, KnownRuns, Plan, PlannedRun
from a3c_zoo.comparison.reading import speed_variables
from a3c_zoo.comparison.turns import turn
from a3c_zoo.config.sets import dump_config
from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.files import open_file
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.runs.directory import TIMING_FILE, RunDirectory

#: How often the watcher is told how far a run is, in seconds.
TELL_EVERY_S: Final = 1.0
#: How long a run may take to save its state after it was told to stop.
STOP_GRACE_S: Final = 60.0
#: Bytes at the end of monitor.csv that hold the last hundred episodes.
TAIL_BYTES: Final = 8192


@dataclass(frozen=True, slots=True)
class Trained:
    """The end of a planned run.

    Attributes:
        path: its directory. fault: why it has no figures; None if it has.
        by_another: another comparison trained it since it was planned.
    """

    run: PlannedRun
    path: Path
    fault: str | None = None
    by_another: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """How far a run is, from its monitor.csv: agent steps, training seconds, mean return of its last 100 episodes."""

    steps: int
    training_s: float
    mean_return: float


class ComparisonWatcher:
    """Is told the progress of a comparison. This one ignores it; derive from it to show the progress."""

    def planned(self, plan: Plan) -> None:
        """Called before anything is run."""

    def running(self, run: PlannedRun, look: Look | None) -> None:
        """Called about once a second while a run trains."""

    def trained(self, trained: Trained) -> None:
        """Called when a run has ended, and for a run that exists already."""

    def evaluating(self, done: int, total: int) -> None:
        """Called when `done` of `total` checkpoints have been evaluated."""

    def message(self, text: str) -> None:
        """Something worth a line."""


def train_plan(plan: Plan, watcher: ComparisonWatcher) -> list[Trained]:
    """Trains the missing runs. A run that fails is reported, and the others go on.

    A run that another comparison trains meanwhile in the same folder is waited for, and used.

    Raises:
        KeyboardInterrupt: on Ctrl-C or a SIGTERM that was turned into one. The current run saves and stops. A later
            call trains it again, in another directory: the seconds of two halves are not those of a whole run.
    """
    trained = []
    for run in plan.runs:
        if run.done is not None:
            trained.append(Trained(run, run.done))
        else:
            watcher.running(run, None)
            trained.append(_share(run, plan.runs_dir, watcher) if plan.reuse else _train(run, plan.runs_dir, watcher))
        watcher.trained(trained[-1])
    return trained


def _share(run: PlannedRun, runs_dir: Path, watcher: ComparisonWatcher) -> Trained:
    """Trains a run, unless another comparison has trained it since it was planned."""
    name = hashlib.blake2b(dump_config(run.config).encode(), digest_size=8).hexdigest()
    with turn(runs_dir, name, f"trains {run.method} on {run.env}, seed {run.seed}", watcher.message) as give_sign:
        path = KnownRuns(get_registry(), runs_dir, reuse=True).same(run.config)
        return Trained(run, path, by_another=True) if path else _train(run, runs_dir, watcher, give_sign)


def _train(
    run: PlannedRun, runs_dir: Path, watcher: ComparisonWatcher, give_sign: Callable[[], None] = lambda: None
) -> Trained:
    """Trains a run in a process of its own. give_sign: called every `TELL_EVERY_S` seconds."""
    path = runs_dir / new_name(run)
    command = [sys.executable, "-P", "-m", "a3c_zoo", "train", *run.options, "--quiet", "--name", path.name]
    calibration_s, start_s = calibrate(), time.monotonic()
    with tempfile.TemporaryFile() as output:
        # A session of its own: Ctrl-C reaches it once, through this process.
        process = subprocess.Popen(
            [*command, "--runs-dir", str(runs_dir)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=_environment(),
            start_new_session=True,
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )
        try:
            while process.poll() is None:
                try:
                    process.wait(TELL_EVERY_S)
                except subprocess.TimeoutExpired:
                    give_sign()
                    watcher.running(run, look_at(path / "monitor.csv"))
        except BaseException:
            _stop(process)
            raise
        wall_s, fault = time.monotonic() - start_s, _fault(process.returncode, path, output)
    if fault is None:
        content = {"format": 1, "calibration_s": round(calibration_s, 6), "wall_s": round(wall_s, 3)}
        write_json(path / TIMING_FILE, {**content, "variables": speed_variables()})
    return Trained(run, path, fault)


def _environment() -> dict[str, str]:
    """The environment of a training: it finds the modules that lie beside this program's own script, as we do."""
    folders = [sys.path[0] or os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(folders)}


def _end_with_parent() -> None:
    """In a new process: a SIGTERM at the end of its parent, even after a SIGKILL (PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_GRACE_S)
    finally:  # also on a second Ctrl-C
        if process.poll() is None:
            process.kill()
            process.wait()


def _fault(status: int, path: Path, output: IO[bytes]) -> str | None:
    """Why a run that has ended has no figures; the last line that it printed if it failed. None if it has figures."""
    output.seek(0)
    lines = output.read().decode(errors="replace").strip().splitlines()
    if status:
        return (lines[-1] if lines else f"it ended with exit status {status}").removeprefix("Error: ")
    try:
        outcome = RunDirectory(path).outcome()
    except RunDirectoryError as error:
        return str(error)
    if outcome is None or outcome.reason not in FINISHED:
        return f"it ended before its budget: {outcome.detail if outcome else 'without an outcome'}"
    return None


def new_name(run: PlannedRun) -> str:
    """A name for a run's directory. With its microseconds, another comparison does not choose it in the same second."""
    return re.sub(r"[^\w.+=@-]", "_", f"{run.env}-{run.method}-s{run.seed}-{datetime.now():%Y%m%d-%H%M%S-%f}")


def look_at(monitor: Path) -> Look | None:
    """Reads the end of a run's monitor.csv while it is written; None before the first episode."""
    try:
        with open_file(monitor) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return None
    rows = [row for row in (line.split(",") for line in lines[1:-1]) if len(row) == 5 and row[0] != "r"][-100:]
    try:
        returns = [float(row[0]) for row in rows]
        return Look(int(rows[-1][3]), float(rows[-1][2]), sum(returns) / len(returns)) if rows else None
    except ValueError:
        return None


def calibrate() -> float:
    """How long a fixed loop takes now, in seconds: the differences between runs tell how noisy the machine is.

    One thread computes integers in Python, then products of small matrices. About 0.2 s on a desktop processor.
    """
    matrix = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32) / 8
    start_s, total = time.perf_counter(), 0
    for number in range(2_000_000):
        total += number & 7
    product = matrix
    for _ in range(300):
        product = np.tanh(product @ matrix)
    return time.perf_counter() - start_s
