"""What a checkpoint holds, and its files. Nothing else knows its keys. No torch before a file is opened.

A file is a dictionary with three keys: `format`; `agent`, which the agent writes and `AgentEntry.load` gets back;
`session`, the run's part. A file is whole or not there, and loads with `torch.load(weights_only=True)`.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic

from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.records import Evaluation
from a3c_zoo.runs.directory import RunDirectory, write_atomically
from a3c_zoo.saved_state import State, from_plain, to_plain

#: Rises when a checkpoint of an older version can no longer be read.
CHECKPOINT_FORMAT = 1
#: The best policy that the evaluator beside training has found, for acting: training cannot go on from it.
BEST = "best"
_NAME = re.compile(r"step-(\d+)\.pt")


@dataclass(frozen=True, slots=True)
class WindowState:
    """Returns and lengths of the last 100 training episodes, the oldest first."""

    returns: list[float]
    lengths: list[int]


@dataclass(frozen=True, slots=True)
class EvaluatorState:
    """How far the evaluator beside training has come.

    Attributes:
        number: evaluations so far. at_step, at_s: agent steps and seconds of training at the start of the newest one.
        position: bytes of evaluations.csv.
    """

    number: int
    at_step: int
    at_s: float
    position: int


@dataclass(frozen=True, slots=True)
class ResourceState:
    """CPU seconds of the run so far and its peak memory in MiB; None where the system does not tell."""

    cpu_s: float | None
    peak_memory_mib: float | None


@dataclass(frozen=True, slots=True)
class RunState:
    """The run's part of a checkpoint.

    Attributes:
        steps: agent steps. episodes: finished episodes. updates: optimizer steps.
        evaluations: solved checks so far. next_check: episodes at which the next one may come.
        evaluation: the newest solved check. window: the last training episodes.
        monitor_position: bytes of monitor.csv. seconds: part of the run → its seconds (`Clock`).
    """

    steps: int
    episodes: int
    updates: int
    evaluations: int
    next_check: int
    window: WindowState
    monitor_position: int
    seconds: dict[str, float]
    resources: ResourceState
    evaluation: Evaluation | None = None
    evaluator: EvaluatorState | None = None


@dataclass(frozen=True, slots=True)
class PolicyState:
    """What a file for acting tells of the run: all that is known of a policy that the evaluator has played.

    Attributes:
        steps: agent steps before the policy was saved. seconds: as in `RunState`, empty where the file does not say.
        greedy_return, sampled_return: mean returns that the evaluator has found.
    """

    steps: int
    seconds: dict[str, float] = field(default_factory=dict)
    greedy_return: float | None = None
    sampled_return: float | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint(Generic[State]):
    """A checkpoint as it is read.

    Attributes:
        agent: for `AgentEntry.load`, or for `AgentEntry.run` to go on from.
        state: the run's part: a `RunState` to go on with training, a `PolicyState` to act.
    """

    agent: dict[str, Any]
    state: State


def write_checkpoint(path: Path, agent: Mapping[str, Any], state: RunState | PolicyState) -> None:
    """Writes a file, whole or not at all; with a `PolicyState` it is for acting only."""
    import torch

    whole = io.BytesIO()  # torch would turn the OSError of a full disk into a RuntimeError
    torch.save({"format": CHECKPOINT_FORMAT, "agent": dict(agent), "session": to_plain(state)}, whole)
    write_atomically(path, whole.getbuffer())


def checkpoint_steps(directory: RunDirectory) -> list[int]:
    """Steps at which there is a checkpoint, rising."""
    matches = (_NAME.fullmatch(path.name) for path in directory.checkpoints.glob("step-*.pt"))
    return sorted(int(match[1]) for match in matches if match)


def checkpoint_file(directory: RunDirectory, which: str) -> Path:
    """The file of the newest checkpoint ("final"), of the "best", or of the one at a given step.

    Raises:
        RunDirectoryError: there is none; the message says what there is.
    """
    known, best = checkpoint_steps(directory), directory.best_file
    if which == BEST and best.exists():
        return best
    if not known:
        raise RunDirectoryError(f"run {directory.path.name} has no checkpoint{' but best' if best.exists() else ''}")
    if which == "final":
        return step_file(directory, known[-1])
    if which.isdecimal() and int(which) in known:
        return step_file(directory, int(which))
    names = ["final", *([BEST] if best.exists() else []), *(str(step) for step in known[-8:])]
    hint = " (best: of a run with run.evaluation_every_s or _steps)" if which == BEST else ""
    raise RunDirectoryError(f"run {directory.path.name} has no checkpoint '{which}'; it has: {', '.join(names)}{hint}")


def step_file(directory: RunDirectory, step: int) -> Path:
    """Where the checkpoint at a step is, or will be."""
    return directory.checkpoints / f"step-{step:012d}.pt"


def newest_checkpoint(directory: RunDirectory) -> Checkpoint[RunState]:
    """Reads the newest checkpoint, to go on with training.

    Raises:
        RunDirectoryError: there is none, or it is damaged or of another format.
    """
    return _read(checkpoint_file(directory, "final"), RunState, newest_of=directory)


def load_policy_state(directory: RunDirectory, which: str = "final") -> Checkpoint[PolicyState]:
    """Reads one checkpoint of a run, to act with; `which` as in `checkpoint_file`. Raises as `newest_checkpoint`."""
    return _read(checkpoint_file(directory, which), PolicyState, directory if which == "final" else None)


def read_policy(path: Path) -> Checkpoint[PolicyState]:
    """Reads any checkpoint's file, to act with. Raises as `newest_checkpoint`."""
    return _read(path, PolicyState)


def _read(path: Path, kind: type[State], newest_of: RunDirectory | None = None) -> Checkpoint[State]:
    """Reads a file. kind: of the run's part. newest_of: the run of which this is the newest checkpoint."""
    import torch

    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        found = content["format"]
        if found == CHECKPOINT_FORMAT:
            for key in ("agent", "session"):
                if not isinstance(content.get(key), dict):
                    raise ValueError(f"it has no {key}")
            return Checkpoint(content["agent"], from_plain(kind, content["session"], "session"))
    except Exception as error:  # torch raises many kinds for a damaged file
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        older = checkpoint_steps(newest_of)[:-1] if newest_of else []
        hint = f". The one before it is at step {older[-1]}; to go on from there, delete this one" if older else ""
        raise RunDirectoryError(f"checkpoint {path} cannot be read: {reason}{hint}") from error
    raise RunDirectoryError(f"checkpoint {path} has format {found}; this version reads {CHECKPOINT_FORMAT}")
