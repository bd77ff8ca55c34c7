"""Trains what a plan lacks: one fresh process after the other, so that each run has the machine for itself."""

from __future__ import annotations

import ctypes
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from a3c_zoo.comparison.calibration import calibrate
from a3c_zoo.comparison.plan import FINISHED
from a3c_zoo.comparison.timing import write_timing
from a3c_zoo.errors import RunDirectoryError, ZooError
from a3c_zoo.runs.directory import RunDirectory

if TYPE_CHECKING:
    from typing import IO

    from a3c_zoo.comparison.plan import Plan, PlannedRun

LOOK_EVERY_S = 1.0
#: A run that is told to stop saves first; an environment may be slow.
STOP_GRACE_S = 60.0
#: Bytes at the end of monitor.csv that hold the last hundred episodes.
TAIL_BYTES = 8192


@dataclass(frozen=True, slots=True)
class Trained:
    """What became of a planned run.

    Attributes:
        path: its directory. fault: why it has no figures, None where it has.
    """

    run: PlannedRun
    path: Path
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """How far a run is, from its monitor.csv: agent steps, training seconds, mean return of its last episodes."""

    steps: int
    training_s: float
    mean_return: float


class Watcher(Protocol):
    """Somebody who watches a comparison."""

    def planned(self, plan: Plan) -> None:
        """Before anything is run."""
        ...

    def running(self, run: PlannedRun, look: Look | None) -> None:
        """About once a second while a run trains."""
        ...

    def trained(self, trained: Trained) -> None:
        """A run has ended, or is there already."""
        ...

    def evaluating(self, done: int, total: int) -> None:
        """So many evaluations of so many have been played."""
        ...


class SilentWatcher:
    """Watches a comparison and says nothing."""

    def planned(self, plan: Plan) -> None:
        """Ignored."""

    def running(self, run: PlannedRun, look: Look | None) -> None:
        """Ignored."""

    def trained(self, trained: Trained) -> None:
        """Ignored."""

    def evaluating(self, done: int, total: int) -> None:
        """Ignored."""


def train_plan(plan: Plan, watcher: Watcher) -> list[Trained]:
    """Trains what is missing. A run that fails is told of, and the others go on.

    Raises:
        KeyboardInterrupt: on Ctrl-C or a SIGTERM that was turned into one. The run at hand saves and stops; a later
            call trains it anew, in another directory, since the seconds of two halves would not be those of a whole.
    """
    trained = []
    for run in plan.runs:
        if run.done is not None:
            trained.append(Trained(run, run.done))
        else:
            watcher.running(run, None)
            trained.append(_train(run, plan.runs_dir, watcher))
        watcher.trained(trained[-1])
    return trained


def _train(run: PlannedRun, runs_dir: Path, watcher: Watcher) -> Trained:
    path = runs_dir / _free_name(run, runs_dir)
    command = [sys.executable, "-m", "a3c_zoo", "train", *run.options, "--quiet", "--name", path.name]
    calibration_s, start_s = calibrate(), time.monotonic()
    with tempfile.TemporaryFile() as output:
        # In a session of its own: Ctrl-C reaches it once, through us.
        process = subprocess.Popen(
            [*command, "--runs-dir", str(runs_dir)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=END_WITH_PARENT,
        )
        try:
            while process.poll() is None:
                try:
                    process.wait(LOOK_EVERY_S)
                except subprocess.TimeoutExpired:
                    watcher.running(run, look_at(path / "monitor.csv"))
        except BaseException:
            _stop(process)
            raise
        wall_s, fault = time.monotonic() - start_s, _fault(process.returncode, path, output)
    if fault is None:
        write_timing(path, calibration_s, wall_s)
    return Trained(run, path, fault)


def end_with_parent() -> None:
    """In a new process: a SIGTERM when its parent has gone, however that went (PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


#: For `subprocess`; elsewhere than on Linux, a run whose parent was killed ends with its budget.
END_WITH_PARENT = end_with_parent if sys.platform == "linux" else None


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_GRACE_S)
    finally:  # also on a second Ctrl-C
        if process.poll() is None:
            process.kill()
            process.wait()


def _fault(status: int, path: Path, output: IO[bytes]) -> str | None:
    """Why a run that has ended is of no use; its last words, where it says itself."""
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


def _free_name(run: PlannedRun, runs_dir: Path) -> str:
    stem = re.sub(r"[^\w.+=@-]", "_", f"{run.env}-{run.method}-s{run.seed}-{datetime.now():%Y%m%d-%H%M%S}")
    names = [stem, *(f"{stem}-{number}" for number in range(2, 1000))]
    for name in names:
        if not (runs_dir / name).exists():
            return name
    raise ZooError(f"cannot find a free name for {stem} in {runs_dir}")


def look_at(monitor: Path) -> Look | None:
    """Reads the end of a run's monitor.csv while it is written; None before the first episode."""
    try:
        with monitor.open("rb") as file:
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
