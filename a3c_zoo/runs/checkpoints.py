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
_NAME = re.compile(r"step-(\d+)\.pt")


def checkpoint_steps(directory: RunDirectory) -> list[int]:
    """Steps at which there is a checkpoint, rising."""
    matches = (_NAME.fullmatch(path.name) for path in directory.checkpoints.glob("step-*.pt"))
    return sorted(int(match[1]) for match in matches if match)


def save_checkpoint(directory: RunDirectory, steps: int, content: dict[str, Any]) -> Path:
    """Writes a checkpoint: to a temporary file, then renamed."""
    path = directory.checkpoints / f"step-{steps:012d}.pt"
    whole = io.BytesIO()  # torch turns a disk's OSError into a RuntimeError of its own
    torch.save({"format": CHECKPOINT_FORMAT, **content}, whole)
    write_atomically(path, lambda file: file.write(whole.getbuffer()))
    return path


def load_checkpoint(directory: RunDirectory, which: str = "final") -> dict[str, Any]:
    """Reads the newest checkpoint ("final"), or the one at a given step. Tensors, numbers and strings only.

    Raises:
        RunDirectoryError: there is none, or it is damaged or of another format.
    """
    known = checkpoint_steps(directory)
    if not known:
        raise RunDirectoryError(f"run {directory.path.name} has no checkpoint")
    if which != "final" and not (which.isdecimal() and int(which) in known):
        steps = ", ".join(str(step) for step in known[-8:])
        raise RunDirectoryError(f"run {directory.path.name} has no checkpoint '{which}'; it has: final, {steps}")
    path = directory.checkpoints / f"step-{known[-1] if which == 'final' else int(which):012d}.pt"
    try:
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        found = content["format"]
        if found == CHECKPOINT_FORMAT and not {"agent", "session"} <= content.keys():
            raise KeyError("it has no 'agent' or no 'session'")
    except Exception as error:  # torch raises many kinds for a damaged file
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        others = [step for step in known[:-1] if which == "final"]
        hint = f". The one before it is at step {others[-1]}; to go on from there, delete this one" if others else ""
        raise RunDirectoryError(f"checkpoint {path} cannot be read: {reason}{hint}") from error
    if found != CHECKPOINT_FORMAT:
        raise RunDirectoryError(f"checkpoint {path} has format {found}; this version reads {CHECKPOINT_FORMAT}")
    return content
