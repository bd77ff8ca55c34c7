"""What must hold of a run after all that was done to it, counted from its files alone."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import torch

from a3c_zoo.store.checkpoint_bytes import read_content
from benchmarks.chaos.environment import RESUMED_FROM, RESUMED_WITH, digests
from benchmarks.chaos.trial import DamageError, Trial

STEPS, EPISODES = 0, 3  # columns of the counters
#: Lines of monitor.csv before its rows.
HEAD_LINES = 2
#: The number of values of a row, and the place of the step among them.
VALUES = 5
STEP = 3


def require(condition: bool, what: str) -> None:
    """Raises DamageError if a condition does not hold."""
    if not condition:
        raise DamageError(what)


def check_files(trial: Trial) -> None:
    """Every file of a run whose command has ended, in order or not: without outcome.json it was killed.

    Raises:
        DamageError: a file is torn, or two files disagree.
    """
    run = trial.run
    if not run.exists():
        require(trial.is_removed, "the run is gone")
        return
    outcome_file = run / "outcome.json"
    outcome = json.loads(outcome_file.read_text()) if outcome_file.exists() else None
    check_events(run, is_whole=outcome is not None)
    require(outcome is None or not list(run.rglob("*.tmp")), "temporary files are left")
    paths = [path for path in trial.checkpoints() if path.name != trial.damaged]
    if not paths:
        require(trial.is_removed, "no checkpoint")
        check_rows(trial, outcome)
        return
    sessions = [check_checkpoint(path) for path in paths]
    newest = sessions[-1]
    data = (run / "monitor.csv").read_bytes()
    position = newest["monitor_position"]
    require(len(data) >= position, f"monitor.csv has {len(data)} bytes, not {position} as the checkpoint says")
    rows = whole_rows(data[:position])
    known = newest["episodes"] - trial.rows_lost
    require(len(rows) == known, f"monitor.csv has {len(rows)} rows up to the checkpoint, not {known}")
    require(max(map(step_of, rows), default=0) <= newest["steps"], "monitor.csv goes further than the checkpoint")
    check_evaluations(run, newest)
    if outcome is None:
        whole_rows(data.rpartition(b"\n")[0] + b"\n")
        read_tensorboard(run)
        return
    require(outcome["steps"] == newest["steps"], f"outcome.json has {outcome['steps']} steps, not {newest['steps']}")
    require(outcome["episodes"] == newest["episodes"], "outcome.json has other episodes than the newest checkpoint")
    require(len(data) == position, "monitor.csv goes on behind the newest checkpoint")
    check_tensorboard(run, newest["steps"])


def check_checkpoint(path: Path) -> dict[str, Any]:
    """A checkpoint agrees with its name and with itself. Returns the run's part."""
    content = read_content(path)
    session, agent = content["session"], content["agent"]
    require(path.name == f"step-{session['steps']:012d}.pt", f"{path.name} holds step {session['steps']}")
    counters = agent["counters"]
    require(int(counters[:, STEPS].sum()) == session["steps"], f"{path.name}: counters and steps differ")
    require(int(counters[:, EPISODES].sum()) == session["episodes"], f"{path.name}: counters and episodes differ")
    require(bool(torch.isfinite(agent["model"]["parameters"]).all()), f"{path.name}: parameters are not finite")
    found: dict[str, Any] = session
    return found


def check_rows(trial: Trial, outcome: dict[str, Any] | None) -> None:
    """monitor.csv of a run that has lost its checkpoints."""
    rows = whole_rows((trial.run / "monitor.csv").read_bytes())
    if outcome is not None:
        known = outcome["episodes"] - trial.rows_lost
        require(len(rows) == known, f"monitor.csv has {len(rows)} rows, not {known} as outcome.json says")


def whole_rows(data: bytes) -> list[list[bytes]]:
    """The values of each row of monitor.csv, all whole."""
    require(not data or data.endswith(b"\n"), "monitor.csv is torn")
    rows = [line.split(b",") for line in data.splitlines()[HEAD_LINES:]]
    require(all(len(row) == VALUES and row[STEP].isdigit() for row in rows), "a row of monitor.csv is torn")
    return rows


def step_of(row: list[bytes]) -> int:
    """The step at which an episode has ended."""
    return int(row[STEP])


def check_evaluations(run: Path, session: dict[str, Any]) -> None:
    """evaluations.csv has whole rows up to where the checkpoint says, and none of them is of a later step."""
    if not session["evaluator"] or not (position := session["evaluator"]["position"]):
        return
    data = (run / "evaluations.csv").read_bytes()[:position]
    require(len(data) == position and data.endswith(b"\n"), "evaluations.csv ends before its checkpoint's rows")
    rows = [line.split(b",") for line in data.splitlines()[1:]]
    require(all(len(row) == VALUES for row in rows), "a row of evaluations.csv is torn")
    require(max(int(row[0]) for row in rows) <= session["steps"], "evaluations.csv goes further than the checkpoint")


def check_events(run: Path, is_whole: bool) -> None:
    """Each line of events.jsonl is JSON; the last one may be torn if the command was killed."""
    file = run / "events.jsonl"
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    require(not (is_whole and lines and not lines[-1].endswith("\n")), "events.jsonl is torn")
    for line in lines:
        if line.endswith("\n"):
            json.loads(line)


def read_tensorboard(run: Path) -> dict[str, int]:
    """The latest step of each of TensorBoard's curves."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logging.getLogger("tensorboard").setLevel(logging.ERROR)  # a resume takes points back, and it warns of that
    events = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: max(point.step for point in events.Scalars(tag)) for tag in events.Tags()["scalars"]}


def check_tensorboard(run: Path, steps: int) -> None:
    """TensorBoard shows no point beyond the run."""
    for tag, latest in read_tensorboard(run).items():
        require(latest <= steps, f"TensorBoard has {tag} at step {latest}, after the run's {steps}")


class Resume:
    """What a resume must leave as it is; made while no command runs.

    Args:
        trial: its newest checkpoint that is not damaged is the one to go on from.
    """

    def __init__(self, trial: Trial) -> None:
        path = [path for path in trial.checkpoints() if path.name != trial.damaged][-1]
        self._session = check_checkpoint(path)
        self._rows = (trial.run / "monitor.csv").read_bytes()[: self._session["monitor_position"]]
        for name in (RESUMED_FROM, RESUMED_WITH):
            (trial.folder / name).unlink(missing_ok=True)

    def check(self, trial: Trial) -> None:
        """The run trains again: from the right checkpoint, with its numbers, and behind its rows."""
        check_numbers(trial, self._session["steps"])
        data = trial.rows() + b"\n"
        require(data.startswith(self._rows), "the resume has changed rows of monitor.csv before its checkpoint")
        later = whole_rows(data)[len(whole_rows(self._rows)) :]
        steps = self._session["steps"]
        require(min(map(step_of, later), default=steps) >= steps, "monitor.csv still has rows that are trained again")


def check_numbers(trial: Trial, steps: int | None = None) -> None:
    """The newest session has begun with the numbers of its checkpoint, bit by bit. steps: those of the checkpoint."""
    require((trial.folder / RESUMED_WITH).exists(), "the session did not go on from a checkpoint")
    content = read_content(trial.folder / RESUMED_FROM)
    found = content["session"]["steps"]
    require(steps in (None, found), f"the session went on from step {found}, not from {steps}")
    saved, begun = digests(content["agent"]), json.loads((trial.folder / RESUMED_WITH).read_text())
    differ = [name for name in saved if saved[name] != begun.get(name)]
    require(not differ, f"the session began with other numbers than its checkpoint has: {', '.join(differ)}")
