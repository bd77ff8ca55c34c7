"""Reads tables of episodes: monitor.csv, our own and that of stable-baselines3's Monitor, and evaluations.csv."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from a3c_zoo.comparison.curves import Curve
from a3c_zoo.errors import RunDirectoryError

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Emulator frames of a step in stable-baselines3's Atari wrappers; its monitors lie below them and count frames.
ATARI_FRAME_SKIP: Final = 4
_ATARI_ID = re.compile(r"(?:ALE/\w+|\w+NoFrameskip)-v\d+")


def read_monitor(
    file: Path, columns: tuple[str, ...] = ("r", "l", "t"), *, torn_end: bool = False
) -> tuple[dict[str, Any], NDArray[np.float64]]:
    """Reads a monitor.csv: what its first line says, and a row `[columns]` for each episode, float64.

    Args:
        columns: those that are wanted; others are passed over.
        torn_end: the last line may be half written, and is then passed over.

    Raises:
        RunDirectoryError: it is damaged; the message says in which line.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise RunDirectoryError(f"{file.name} cannot be read: {error}") from error
    lines = text.splitlines()
    if text and not text.endswith("\n"):
        if not torn_end:
            raise RunDirectoryError(f"{file.name} is damaged: it ends in the middle of line {len(lines)}")
        lines = lines[:-1]
    header, names = _header(file.name, lines)
    missing = [name for name in columns if name not in names]
    if missing:
        raise RunDirectoryError(f"{file.name} is damaged: line 2 names no column '{missing[0]}'")
    return header, _rows(file.name, lines[2:], [names.index(column) for column in columns], len(names))


def _header(name: str, lines: list[str]) -> tuple[dict[str, Any], list[str]]:
    try:
        header = json.loads(lines[0].removeprefix("#"))
        return {**header, "t_start": float(header["t_start"])}, lines[1].split(",")
    except (IndexError, ValueError, KeyError, TypeError) as error:
        raise RunDirectoryError(
            f'{name} is damaged: it does not begin with #{{"t_start": …}} and a line of column names'
        ) from error


def _rows(name: str, lines: list[str], wanted: list[int], width: int) -> NDArray[np.float64]:
    rows: list[list[float]] = []
    try:
        for cells in csv.reader(lines):
            if len(cells) != width:
                raise ValueError(f"{len(cells)} columns")
            rows.append([float(cells[index]) for index in wanted])
        table = np.array(rows, np.float64).reshape(-1, len(wanted))
        bad = np.flatnonzero(~np.isfinite(table).all(axis=1))
        if len(bad):
            del rows[bad[0] :]
            raise ValueError("not finite")
    except (ValueError, csv.Error) as error:
        line = lines[len(rows)][:40]
        raise RunDirectoryError(f"{name} is damaged: line {len(rows) + 3} reads {line!r}") from error
    return table


def read_evaluations(file: Path) -> NDArray[np.float64]:
    """The mean returns that an evaluator beside training played with sampled actions.

    Returns:
        `[K, 3]`, rising: agent steps and training seconds of the policy that played, and its mean return.

    Raises:
        RunDirectoryError: evaluations.csv is damaged.
    """
    whole, _, _ = file.read_text(encoding="utf-8", errors="replace").rpartition("\n")  # it may be growing
    returns: dict[tuple[float, float], list[float]] = {}
    try:
        for row in csv.DictReader(whole.splitlines()):
            if row["mode"] == "sampled":
                at = float(row["step"]), float(row["seconds"])
                returns.setdefault(at, []).append(float(row["return"]))
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise RunDirectoryError(f"{file.name} is damaged: {error}") from error
    rows = [(*at, sum(each) / len(each)) for at, each in sorted(returns.items())]
    return np.array(rows, np.float64).reshape(-1, 3)


def monitor_files(folder: Path) -> list[Path]:
    """The monitors in a folder, one for each environment: `monitor.csv`, or `0.monitor.csv`, `1.monitor.csv`, …"""
    return sorted([*folder.glob("*.monitor.csv"), *folder.glob("monitor.csv")])


def read_monitors(folder: Path, frame_skip: int | None = None) -> tuple[str, Curve]:
    """All monitors of a folder together, in the order of the time of day: the environment's Gymnasium id, and a curve.

    Steps are the sum of the lengths so far, as stable-baselines3 counts them; seconds count from the first start.

    Args:
        frame_skip: divides lengths; by default 4 for Atari games, whose lengths are emulator frames, else 1.

    Raises:
        RunDirectoryError: there is none, one is damaged, or they are of several environments.
    """
    read = [read_monitor(file, torn_end=True) for file in monitor_files(folder)]
    if not read:
        raise RunDirectoryError("no run and no monitor.csv lies in it")
    ids = sorted({str(header.get("env_id")) for header, _ in read})
    if len(ids) > 1:
        raise RunDirectoryError(f"its monitors are of different environments: {', '.join(ids)}")
    start_s = min(header["t_start"] for header, _ in read)
    skip = frame_skip or (ATARI_FRAME_SKIP if _ATARI_ID.fullmatch(ids[0]) else 1)
    returns, frames, seconds = np.concatenate([table for _, table in read]).T
    seconds = seconds + np.concatenate([np.full(len(table), header["t_start"] - start_s) for header, table in read])
    order = np.argsort(seconds, kind="stable")
    lengths = np.ceil(frames[order] / skip)
    return ids[0], Curve.ordered(np.cumsum(lengths), seconds[order], returns[order], lengths)
