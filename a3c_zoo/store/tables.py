"""The tables of a run and the curve in them: monitor.csv, evaluations.csv and evaluations.npz."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import zipfile
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.files import read_bytes, read_lines
from a3c_zoo.store.evaluation_files import read_played

Floats = NDArray[np.float64]
#: Agent steps, seconds of training, or the number of episodes.
Axis = Literal["steps", "seconds", "episodes"]
#: Emulator frames per step in stable-baselines3's Atari wrappers. Its monitors lie below them and count frames.
ATARI_FRAME_SKIP: Final = 4
#: A greater number in a table is damaged: whole numbers up to it are exact as float64, and fit into int64.
GREATEST: Final = 2.0**53
#: Sums of many returns up to it do not overflow.
GREATEST_RETURN: Final = 1e100
#: The most bytes of an evaluations.npz, and of each array in it: four million episodes.
MAX_NPZ: Final = 32 << 20
#: The most evaluations in it: each becomes records in memory.
MAX_EVALUATIONS: Final = 100_000
#: By how much a clock is set back at most, in seconds, where a monitor does not begin to count again.
CLOCK_SET_S: Final = 1.0
_ATARI_ID = re.compile(r"(?:ALE/\w+|\w+NoFrameskip)-v\d+")


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Every finished training episode of a run, in the order in which they ended: arrays `[K]`.

    Attributes:
        steps: agent steps of the whole run when the episode ended; never falling, int64.
        seconds: of training, or since the monitor's start in a run of another program; never falling, float64.
        returns: undiscounted and raw, float64.
        lengths: agent steps of the episode, int64.
    """

    steps: NDArray[np.int64]
    seconds: Floats
    returns: Floats
    lengths: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.steps)

    def axis(self, x: Axis) -> Floats:
        """The x axis of a plot of these episodes, `[K]`."""
        if x == "episodes":
            return np.arange(1, len(self) + 1, dtype=np.float64)
        if x == "seconds":
            return self.seconds
        return self.steps.astype(np.float64)

    @classmethod
    def ordered(cls, steps: Floats, seconds: Floats, returns: Floats, lengths: Floats) -> Curve:
        """Sorts rows by time. Workers report side by side, so a row can come after one with a later step."""
        order = np.lexsort((steps, seconds))
        return cls(
            np.maximum.accumulate(steps[order]).astype(np.int64),
            seconds[order],
            returns[order],
            lengths[order].astype(np.int64),
        )


@dataclass(frozen=True, slots=True, eq=False)
class MonitorFile:
    """The contents of a monitor.csv.

    Attributes:
        start_s: the time of day at the start, seconds since 1970.
        env_id: the Gymnasium id of the environment; None where the file does not name it.
        rows: one per episode, `[K, columns]`, float64.
    """

    start_s: float
    env_id: str | None
    rows: Floats


def read_monitor(
    file: Path, columns: tuple[str, ...] = ("r", "l", "t"), *, torn_end: bool = False
) -> MonitorFile:
    """Reads a monitor.csv, our own or one of stable-baselines3's Monitor.

    Args:
        columns: the names of the columns to read; others are skipped.
        torn_end: skip the last line if it is half written, instead of raising.

    Raises:
        RunDirectoryError: the file is damaged; the message names the line.
    """
    lines = _TableLines(file, torn_end)
    try:
        start_s, env_id, names = _head(file.name, list(islice(lines, 2)))
        missing = [name for name in columns if name not in names]
        if missing:
            raise RunDirectoryError(
                f"{file.name} is damaged: line {lines.number} names no column '{missing[0]}'"
            )
        rows = _rows(lines, {names.index(column): column for column in columns}, len(names))
    except (OSError, ValueError) as error:
        raise RunDirectoryError(f"{file.name} cannot be read: {error}") from error
    return MonitorFile(start_s, env_id, rows)


class _TableLines:
    """Iterates over the lines of a table that are not blank, as pandas reads them: some editors add blank ones.

    Args:
        torn_end: skip the last line if it is half written. Otherwise RunDirectoryError is raised.

    Attributes:
        number: of the newest line in the file, from 1. newest: its text.
    """

    def __init__(self, file: Path, torn_end: bool) -> None:
        self.name = file.name
        self.number = 0
        self.newest = ""
        self._lines = read_lines(file)
        self._torn_end = torn_end

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self.number += 1
            self.newest = line
            if line.isspace():
                continue
            if line.endswith("\n"):
                yield line
            elif not self._torn_end:
                raise RunDirectoryError(
                    f"{self.name} is damaged: it ends in the middle of line {self.number}"
                )


def _head(name: str, lines: list[str]) -> tuple[float, str | None, list[str]]:
    """What the first two lines of a monitor tell: the time of the start, the environment's id, the columns' names."""
    try:
        header = json.loads(lines[0].removeprefix("#"))
        start_s = float(header["t_start"])
        env_id = header.get("env_id")
        names = lines[1].rstrip().split(",")
        if not abs(start_s) <= GREATEST:
            raise ValueError("t_start is no time")
    except (IndexError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise RunDirectoryError(
            f'{name} is damaged: it does not begin with #{{"t_start": …}} and a line of column names'
        ) from error
    return start_s, None if env_id in (None, "None") else str(env_id), names  # the word is the Monitor's


def _rows(lines: _TableLines, wanted: Mapping[int, str], width: int) -> Floats:
    """wanted: place of a column → its name."""
    limits = [(place, GREATEST_RETURN if column == "r" else GREATEST) for place, column in wanted.items()]
    numbers = array("d")
    try:
        for cells in csv.reader(lines):
            if len(cells) != width:
                raise ValueError(f"{len(cells)} columns")
            for place, limit in limits:
                number = float(cells[place])
                if not abs(number) <= limit:
                    raise ValueError("not finite, or too great")
                numbers.append(number)
    except UnicodeError:
        raise
    except (ValueError, csv.Error) as error:
        line = lines.newest.removesuffix("\n")[:40]
        raise RunDirectoryError(f"{lines.name} is damaged: line {lines.number} reads {line!r}") from error
    return np.array(numbers, np.float64).reshape(-1, len(wanted))


def monitor_files(folder: Path) -> list[Path]:
    """The monitors in a folder, one per environment: `monitor.csv`, or `0.monitor.csv`, `1.monitor.csv`, …"""
    return sorted([*folder.glob("*.monitor.csv"), *folder.glob("monitor.csv")])


def is_atari(env_id: str | None) -> bool:
    """Whether a Gymnasium id is that of an Atari game."""
    return bool(env_id and _ATARI_ID.fullmatch(env_id))


def read_monitors(folder: Path, frame_skip: int | None = None) -> tuple[str | None, Curve]:
    """Joins all monitors of a folder by time of day. Returns the environment's Gymnasium id, if known, and the curve.

    Steps are the sum of the lengths so far, as stable-baselines3 counts them. Seconds count from the first start.

    Args:
        frame_skip: divides lengths; by default 4 for Atari games, whose lengths are emulator frames, else 1.

    Raises:
        RunDirectoryError: there is no monitor, one is damaged, or they are of several environments.
    """
    monitors = [read_monitor(file, torn_end=True) for file in monitor_files(folder)]
    if not monitors:
        if os.path.isdir(folder):
            reason = "no run and no monitor.csv lies in it"
        else:
            reason = "there is no such folder"
        raise RunDirectoryError(reason)
    ids = sorted({monitor.env_id for monitor in monitors if monitor.env_id})
    if len(ids) > 1:
        raise RunDirectoryError(f"its monitors are of different environments: {', '.join(ids)}")
    start_s = min(monitor.start_s for monitor in monitors)
    env_id = ids[0] if ids else None
    skip = frame_skip or (ATARI_FRAME_SKIP if is_atari(env_id) else 1)
    for monitor in monitors:
        _go_on(monitor.rows[:, 2])
    returns, frames, seconds = np.concatenate([monitor.rows for monitor in monitors]).T
    seconds = seconds + np.concatenate([np.full(len(each.rows), each.start_s - start_s) for each in monitors])
    order = np.argsort(seconds, kind="stable")
    lengths = np.ceil(frames[order] / skip)
    return env_id, Curve.ordered(np.cumsum(lengths), seconds[order], returns[order], lengths)


def _go_on(seconds: Floats) -> None:
    """Lets the seconds of a monitor rise, in place: stable-baselines3 counts from 0 again as it goes on in a file.

    They are differences of times of day. If they fall by a second at most, and not below half, the clock was set.
    """
    before, after = seconds[:-1], seconds[1:]
    is_new = after < np.maximum(before / 2, before - CLOCK_SET_S)
    seconds[1:] += np.cumsum(np.where(is_new, before, np.maximum(before - after, 0.0)))
    np.maximum.accumulate(seconds, out=seconds)  # sums are rounded


def read_evaluations(file: Path) -> Floats:
    """Reads the evaluations with sampled actions from the evaluations.csv that an evaluator writes beside training.

    Returns:
        `[K, 3]`, float64, rising: agent steps and training seconds of the evaluated policy, and its mean return.

    Raises:
        RunDirectoryError: the file is damaged.
    """
    played = sorted(read_played(file)["sampled"].items())
    rows = np.array([(*at, sum(each[::2]) / (len(each) // 2)) for at, each in played], np.float64)
    rows = rows.reshape(-1, 3)
    if not (np.abs(rows) <= (GREATEST, GREATEST, GREATEST_RETURN)).all():
        raise RunDirectoryError(f"{file.name} is damaged: it has a number that is not finite, or too great")
    return rows


def read_npz(file: Path) -> tuple[Floats, Floats, Floats]:
    """Reads the evaluations.npz of stable-baselines3's EvalCallback. Nothing in it is unpickled.

    Returns:
        steps of the run at K evaluations, `[K]`, rising; returns and lengths of their episodes, `[K, episodes]`.

    Raises:
        RunDirectoryError: it is damaged, too large, has too many evaluations, or is no regular file.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(read_bytes(file, MAX_NPZ))) as archive:
            steps, returns, lengths = (
                _array(archive, name) for name in ("timesteps", "results", "ep_lengths")
            )
        if (
            returns.ndim != 2
            or not returns.size
            or steps.shape != returns.shape[:1]
            or returns.shape != lengths.shape
        ):
            raise ValueError(f"its results have the shape {returns.shape}, its timesteps {steps.shape}")
        for array, most in ((steps, GREATEST), (returns, GREATEST_RETURN), (lengths, GREATEST)):
            if not (np.abs(array) <= most).all():
                raise ValueError("it has a number that is not finite, or too great")
        if (np.diff(steps) <= 0).any():
            raise ValueError("its timesteps do not rise")
    except Exception as error:  # zipfile, zlib and NumPy's reader of headers raise many kinds
        raise RunDirectoryError(f"{file.name} is damaged: {error or type(error).__name__}") from error
    if len(steps) > MAX_EVALUATIONS:
        raise RunDirectoryError(
            f"{file.name} has {len(steps):,} evaluations, and at most {MAX_EVALUATIONS:,} are read"
        )
    return steps, returns, lengths


def _array(archive: zipfile.ZipFile, name: str) -> Floats:
    member = archive.getinfo(f"{name}.npy")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or member.file_size > MAX_NPZ:
        raise ValueError(f"{name} is too large, or packed in an unusual way")
    with archive.open(member) as part:
        array = np.lib.format.read_array(part, allow_pickle=False)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} holds no numbers")
    return np.asarray(array, np.float64)
