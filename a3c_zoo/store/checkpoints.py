"""What a checkpoint holds, and its files. Nothing else knows its keys. No torch before a file is opened.

A file is a dictionary with three keys: `format`; `agent`, which the agent writes and `AgentEntry.load` gets back;
`session`, the run's part. A file is whole or not there, has a digest, and is in safetensors' format
(`checkpoint_bytes.py`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, Generic

from pydantic import Field

from a3c_zoo.errors import DivergedError, RunDirectoryError, printable
from a3c_zoo.files import other_format, shown, why_closed
from a3c_zoo.records import Evaluation
from a3c_zoo.store.checkpoint_bytes import OtherFormatError, may_be_whole, read_content, read_head, to_bytes
from a3c_zoo.store.directory import RunDirectory, disk_errors, write_atomically
from a3c_zoo.store.run_files import PARAMETERS
from a3c_zoo.store.saved_state import State, from_plain, not_finite, to_plain

CHECKPOINT_FORMAT: Final = 3
#: A trained agent's file says the same in both formats; a checkpoint of format 2 was a pickle.
FORMATS_OF_TRAINED: Final = (2, 3)
#: The best policy of the run (`PolicyState`). Training goes on from it with fresh moments.
BEST = "best"
#: The newest checkpoint.
FINAL = "final"
_NAME = re.compile(r"step-(\d{1,18})\.pt")

Count = Annotated[int, Field(ge=0)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class DamagedCheckpointError(RunDirectoryError):
    """A checkpoint's file that cannot be used. Training can go on from the one before it."""


@dataclass(frozen=True, slots=True)
class WindowState:
    """Returns and lengths of the last 100 training episodes, the oldest first; and the returns of each agent."""

    returns: list[Finite]
    lengths: list[Count]
    agent_returns: list[list[Finite]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class EvaluatorState:
    """How far the evaluator beside training has come.

    Attributes:
        number: evaluations so far. at_step, at_s: agent steps and seconds of training at the start of the newest one.
        position: bytes of evaluations.csv.
    """

    number: Count
    at_step: Count
    at_s: Finite
    position: Count


@dataclass(frozen=True, slots=True)
class ResourceState:
    """CPU seconds of the run so far and its peak memory in MiB; None where the system does not tell."""

    cpu_s: Finite | None
    peak_memory_mib: Finite | None


@dataclass(frozen=True, slots=True)
class RunState:
    """The run's part of a checkpoint.

    Attributes:
        steps: agent steps. episodes: finished episodes. updates: optimizer steps.
        evaluations: solved checks so far. next_check: episodes at which the next one may come.
        evaluation: the newest solved check, after `evaluation_step` steps. window: the last training episodes.
        monitor_position: bytes of monitor.csv. seconds: part of the run → its seconds (`Clock`).
    """

    steps: Count
    episodes: Count
    updates: Count
    evaluations: Count
    next_check: Count
    window: WindowState
    monitor_position: Count
    seconds: dict[str, Finite]
    resources: ResourceState
    evaluation: Evaluation | None = None
    evaluation_step: Count | None = None
    evaluator: EvaluatorState | None = None


@dataclass(frozen=True, slots=True)
class PolicyState:
    """What a file for acting says about the run. That of the best policy has the mean return for which it was kept.

    Attributes:
        steps: agent steps before the policy was saved. seconds: as in `RunState`, empty where the file does not say.
        greedy_return, sampled_return: mean returns that the evaluator beside training has found.
        run: where the run stood when the parameters were copied, to go on from them; None where the file does not say.
        training_return: mean return of the last training episodes before the parameters were copied.
        return_episodes: the number of episodes in the mean `sampled_return`, or else `training_return`.
        return_deviation: the standard deviation of their returns; None where the file does not say.
    """

    steps: Count
    seconds: dict[str, Finite] = field(default_factory=dict)
    greedy_return: Finite | None = None
    sampled_return: Finite | None = None
    run: RunState | None = None
    training_return: Finite | None = None
    return_episodes: Count | None = None
    return_deviation: Finite | None = None

    @property
    def best_return(self) -> float | None:
        """The mean return for which the policy was kept as the best; None where the file does not say."""
        if self.sampled_return is None:
            return self.training_return
        return self.sampled_return


@dataclass(frozen=True, slots=True)
class Checkpoint(Generic[State]):
    """A checkpoint as it is read.

    Attributes:
        agent: for `AgentEntry.load`, or for `AgentEntry.run` to go on from.
        state: the run's part: a `RunState` to go on with training, a `PolicyState` to act.
        is_acting: `agent` may be only what acting needs (`Snapshot.acting`).
        damaged: why newer checkpoints could not be read, one line each.
    """

    agent: dict[str, Any]
    state: State
    is_acting: bool = False
    damaged: tuple[str, ...] = ()


def write_checkpoint(path: Path, agent: Mapping[str, Any], state: RunState | PolicyState) -> None:
    """Writes a file, whole or not at all; with a `PolicyState` it is for acting only.

    Raises:
        DivergedError: a parameter, or another number of the agent, is not finite. Nothing is written.
        RunDirectoryError: the disk refuses it, or it could not be read again. Nothing is written.
    """
    if place := not_finite(agent):
        raise DivergedError(f"the agent's {place} has numbers that are not finite: training diverged")
    content = {"format": CHECKPOINT_FORMAT, "agent": dict(agent), "session": to_plain(state)}
    try:
        from_plain(type(state), content["session"], "session")
        data = to_bytes(content)
    except (ValueError, RunDirectoryError) as error:
        raise RunDirectoryError(
            f"checkpoint {shown(path)} is not written, for it could not be read again: {printable(str(error))}. The "
            "states of agents, workers and environments may hold tensors, finite numbers, strings, lists and dicts"
        ) from None
    write_atomically(path, data)


def checkpoint_steps(directory: RunDirectory) -> list[int]:
    """Steps at which there is a checkpoint, rising. Raises RunDirectoryError if the user may not look."""
    if closed := why_closed(directory.checkpoints):
        raise RunDirectoryError(closed)
    matches = (_NAME.fullmatch(path.name) for path in directory.checkpoints.glob("step-*.pt"))
    return sorted(int(match[1]) for match in matches if match)


def checkpoint_file(directory: RunDirectory, which: str) -> Path:
    """The file of the newest checkpoint ("final"), of the "best", or of the one at a given step.

    Raises:
        RunDirectoryError: there is none; the message says what there is.
    """
    known = checkpoint_steps(directory)
    best = directory.best_file
    if which == BEST and best.exists():
        return best
    if not known:
        if which != FINAL and os.path.lexists(directory.home / PARAMETERS):
            raise RunDirectoryError(
                f"{directory.home.name} is a trained agent, and has no checkpoint '{which}'; it has: {FINAL}"
            )
        raise RunDirectoryError(
            f"run {directory.home.name} has no checkpoint{' but best' if best.exists() else ''}"
        )
    if which == FINAL:
        return step_file(directory, known[-1])
    if which.isdecimal() and len(which) < 20 and int(which) in known:
        return step_file(directory, int(which))
    names = [FINAL, *([BEST] if best.exists() else []), *(str(step) for step in known[-8:])]
    if which == BEST:
        hint = (
            " (best: from the first evaluation on, and in a run without evaluations from the 20th training episode on, "
            "written with the next checkpoint)"
        )
    else:
        hint = ""
    raise RunDirectoryError(
        f"run {directory.home.name} has no checkpoint '{which}'; it has: {', '.join(names)}{hint}"
    )


def step_file(directory: RunDirectory, step: int) -> Path:
    """Where the checkpoint at a step is, or will be."""
    return directory.checkpoints / f"step-{step:012d}.pt"


def resumable_checkpoint(directory: RunDirectory, which: str = FINAL) -> Checkpoint[RunState]:
    """Reads a checkpoint to go on with training; `which` as in `checkpoint_file`.

    If the newest one is damaged, the one before it is read, and so on.

    Raises:
        RunDirectoryError: there is none, or it is damaged or of another format, or training cannot go on from it.
    """
    if which == BEST:
        best = read_policy(checkpoint_file(directory, BEST))
        if best.state.run is None:
            best_file = shown(directory.best_file)
            text = (
                f"training cannot go on from {best_file}: it does not say where the run stood. Choose a step"
            )
            raise RunDirectoryError(text)
        return Checkpoint(best.agent, best.state.run, is_acting=True)
    path = checkpoint_file(directory, which)
    if which != FINAL:
        return _read(path, RunState)
    damaged: list[DamagedCheckpointError] = []
    for step in reversed(checkpoint_steps(directory)):
        try:
            return replace(_read(step_file(directory, step), RunState), damaged=tuple(map(str, damaged)))
        except DamagedCheckpointError as error:
            damaged.append(error)
    raise damaged[0]


def load_policy_state(directory: RunDirectory, which: str = FINAL) -> Checkpoint[PolicyState]:
    """Reads one checkpoint of a run, to act with; `which` as in `checkpoint_file`. Raises as `read_policy`."""
    try:
        return read_policy(checkpoint_file(directory, which))
    except DamagedCheckpointError as error:
        if which != FINAL:
            raise
        hint = "No older one can be read"
        with suppress(RunDirectoryError):
            step = resumable_checkpoint(directory).state.steps
            cure = f"move the newer files away, or --checkpoint {step} where there is one"
            hint = f"That of step {step} can be read: {cure}"
        raise DamagedCheckpointError(f"{error}. {hint}") from error


def read_policy(path: Path) -> Checkpoint[PolicyState]:
    """Reads any checkpoint's file, to act with.

    Raises:
        RunDirectoryError: it is damaged, of another format, or too large for the memory.
    """
    return _read(path, PolicyState)


def read_state(path: Path, kind: type[State]) -> State:
    """Reads the run's part of any checkpoint's file alone, which costs little: its tensors are not looked at.

    Raises:
        RunDirectoryError: this part is damaged, or of another format.
    """
    with _reading(path):
        head = read_head(path)
        _check_format(path, head["format"])
        return from_plain(kind, head["session"], "session")


def _read(path: Path, kind: type[State]) -> Checkpoint[State]:
    """Reads a file. kind: of the run's part."""
    with _reading(path):
        content = read_content(path)
        _check_format(path, content["format"])
        return _checked(content, kind)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turns what is raised for a damaged file, which torch does in many kinds, into one line."""
    try:
        yield
    except OtherFormatError as error:
        raise RunDirectoryError(f"checkpoint {shown(path)} {error}") from error
    except Exception as error:
        reason = printable((str(error).splitlines() or [type(error).__name__])[0][:300])
        if may_be_whole(error):
            kind_of_error = RunDirectoryError
        else:
            kind_of_error = DamagedCheckpointError
        raise kind_of_error(f"checkpoint {shown(path)} cannot be read: {reason}") from error


def _check_format(path: Path, number: object) -> None:
    if number not in (FORMATS_OF_TRAINED if path.name == PARAMETERS else (CHECKPOINT_FORMAT,)):
        raise OtherFormatError(f"has format {other_format(number, CHECKPOINT_FORMAT)}")


def _checked(content: Mapping[str, Any], kind: type[State]) -> Checkpoint[State]:
    """The parts of a file. Raises ValueError if one is missing or wrong."""
    if missing := [key for key in ("agent", "session") if not isinstance(content.get(key), dict)]:
        raise ValueError(f"it has no {missing[0]}")
    if place := not_finite(content["agent"]):
        raise ValueError(f"agent.{place} has numbers that are not finite")
    return Checkpoint(content["agent"], from_plain(kind, content["session"], "session"))


def prune_checkpoints(directory: RunDirectory, keep: int | None, budget_steps: float | None) -> None:
    """Deletes checkpoints; the best policy's file stays.

    Args:
        keep: how many of the newest stay; None for all.
        budget_steps: the steps of the whole run. The oldest checkpoint in each tenth of them stays, too.
    """
    steps = checkpoint_steps(directory)
    if keep is None:
        return
    kept = set(steps[-keep:])
    if budget_steps:
        kept |= set({int(10 * step / budget_steps): step for step in reversed(steps)}.values())
    with disk_errors(directory.checkpoints, "delete files in"):
        for step in set(steps) - kept:
            step_file(directory, step).unlink(missing_ok=True)
