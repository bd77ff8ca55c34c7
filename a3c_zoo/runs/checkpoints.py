"""Checkpoints: whole or not there, and loadable without trusting them."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.runs.directory import write_atomically

if TYPE_CHECKING:
    from a3c_zoo.runs.directory import RunDirectory

CHECKPOINT_FORMAT = 1
#: The best policy that the evaluator beside training has found, for acting: training cannot go on from it.
BEST = "best"
_NAME = re.compile(r"step-(\d+)\.pt")


def checkpoint_steps(directory: RunDirectory) -> list[int]:
    """Steps at which there is a checkpoint, rising."""
    matches = (_NAME.fullmatch(path.name) for path in directory.checkpoints.glob("step-*.pt"))
    return sorted(int(match[1]) for match in matches if match)


def save_checkpoint(directory: RunDirectory, steps: int, content: dict[str, Any]) -> Path:
    """Writes a checkpoint: to a temporary file, then renamed."""
    path = directory.checkpoints / f"step-{steps:012d}.pt"
    write_checkpoint(path, content)
    return path


def write_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Writes a checkpoint's file, whole or not at all."""
    whole = io.BytesIO()  # torch turns a disk's OSError into a RuntimeError of its own
    torch.save({"format": CHECKPOINT_FORMAT, **content}, whole)
    write_atomically(path, lambda file: file.write(whole.getbuffer()))


def best_file(directory: RunDirectory) -> Path:
    """Where the best policy is kept, if an evaluator has found one."""
    return directory.checkpoints / f"{BEST}.pt"


def load_checkpoint(directory: RunDirectory, which: str = "final") -> dict[str, Any]:
    """Reads the newest checkpoint ("final"), the "best", or the one at a given step.

    Raises:
        RunDirectoryError: there is none, or it is damaged or of another format.
    """
    known, best = checkpoint_steps(directory), best_file(directory)
    if which == BEST and best.exists():
        return read_checkpoint(best)
    if not known:
        raise RunDirectoryError(f"run {directory.path.name} has no checkpoint{' but best' if best.exists() else ''}")
    if which != "final" and not (which.isdecimal() and int(which) in known):
        names = ["final", *([BEST] if best.exists() else []), *(str(step) for step in known[-8:])]
        hint = " (best: of a run with run.evaluation_every_s or _steps)" if which == BEST else ""
        raise RunDirectoryError(
            f"run {directory.path.name} has no checkpoint '{which}'; it has: {', '.join(names)}{hint}"
        )
    others = known[:-1] if which == "final" else []
    hint = f". The one before it is at step {others[-1]}; to go on from there, delete this one" if others else ""
    return read_checkpoint(
        directory.checkpoints / f"step-{known[-1] if which == 'final' else int(which):012d}.pt", hint
    )


def read_checkpoint(path: Path, hint: str = "") -> dict[str, Any]:
    """Reads a checkpoint's file: tensors, numbers and strings only.

    Raises:
        RunDirectoryError: it is damaged or of another format; `hint` is the end of its message.
    """
    try:
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        found = content["format"]
        if found == CHECKPOINT_FORMAT and not {"agent", "session"} <= content.keys():
            raise KeyError("it has no 'agent' or no 'session'")
    except Exception as error:  # torch raises many kinds for a damaged file
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise RunDirectoryError(f"checkpoint {path} cannot be read: {reason}{hint}") from error
    if found != CHECKPOINT_FORMAT:
        raise RunDirectoryError(f"checkpoint {path} has format {found}; this version reads {CHECKPOINT_FORMAT}")
    return content
