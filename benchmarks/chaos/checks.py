"""What must hold of a run after all that was done to it, counted from its files alone."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import torch

from a3c_zoo.store.checkpoint_bytes import read_content
from benchmarks.chaos.trial import DamageError, Trial

STEPS, EPISODES = 0, 3  # columns of the counters


def require(condition: bool, what: str) -> None:
    """Raises DamageError if a condition does not hold."""
    if not condition:
        raise DamageError(what)


def check_files(trial: Trial) -> None:
    """Every file of a run that has ended in order.

    Raises:
        DamageError: a file is torn, or two files disagree.
    """
    run = trial.run
    contents = {path: read_content(path) for path in trial.checkpoints()}
    require(bool(contents), "no checkpoint")
    for path, content in contents.items():
        check_checkpoint(path, content)
    newest = contents[trial.checkpoints()[-1]]["session"]
    rows = monitor_rows(run / "monitor.csv")
    outcome = json.loads((run / "outcome.json").read_text())
    require(outcome["steps"] == newest["steps"], f"outcome.json has {outcome['steps']} steps, not {newest['steps']}")
    require(outcome["episodes"] == newest["episodes"], "outcome.json has other episodes than the newest checkpoint")
    require((run / "monitor.csv").stat().st_size == newest["monitor_position"], "monitor.csv ends elsewhere")
    require(len(rows) == newest["episodes"], f"monitor.csv has {len(rows)} rows, not {newest['episodes']}")
    require(max((int(row["step"]) for row in rows), default=0) <= newest["steps"], "monitor.csv goes further")
    require(not list(run.rglob("*.tmp")), "temporary files are left")
    for line in (run / "events.jsonl").read_text().splitlines() if (run / "events.jsonl").exists() else []:
        json.loads(line)
    check_tensorboard(run, newest["steps"])


def check_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """A checkpoint agrees with its name and with itself."""
    session, agent = content["session"], content["agent"]
    require(path.name == f"step-{session['steps']:012d}.pt", f"{path.name} holds step {session['steps']}")
    counters = agent["counters"]
    require(int(counters[:, STEPS].sum()) == session["steps"], f"{path.name}: counters and steps differ")
    require(int(counters[:, EPISODES].sum()) == session["episodes"], f"{path.name}: counters and episodes differ")
    require(bool(torch.isfinite(agent["model"]["parameters"]).all()), f"{path.name}: parameters are not finite")


def monitor_rows(path: Path) -> list[dict[str, str]]:
    """The rows of monitor.csv, all whole."""
    text = path.read_text()
    require(text.endswith("\n"), "monitor.csv is torn")
    rows = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
    require(all(None not in row.values() and None not in row for row in rows), "a row of monitor.csv is torn")
    return rows


def check_tensorboard(run: Path, steps: int) -> None:
    """TensorBoard shows no point beyond the run."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    for tag in events.Tags()["scalars"]:
        latest = max(point.step for point in events.Scalars(tag))
        require(latest <= steps, f"TensorBoard has {tag} at step {latest}, after the run's {steps}")
