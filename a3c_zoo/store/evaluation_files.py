"""evaluations.csv, every episode of an evaluator; and evaluations.npz, the same in the format of stable-baselines3.

The format is that of its EvalCallback (stable_baselines3/common/callbacks.py), which RL Zoo's plots read.
"""

from __future__ import annotations

import csv
import io
import time
from array import array
from pathlib import Path
from typing import Any, Final

import numpy as np

from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.files import read_lines
from a3c_zoo.store.directory import disk_errors, write_atomically
from a3c_zoo.store.rows import EVALUATIONS, RowFile
from a3c_zoo.store.run_files import EVALUATIONS_CSV, EVALUATIONS_NPZ

HEADER = "step,seconds,mode,return,length\n"
#: Mode → what the names of its arrays in evaluations.npz begin with. EvalCallback plays greedily by default.
PREFIXES: Final = {"greedy": "", "sampled": "sampled_"}
#: Writing evaluations.npz takes at most one part in so many of the time.
MOST_SHARE: Final = 100

#: Step and training seconds of an evaluated policy → return and length of one episode after the other, in the order of
#: the file.
Played = dict[tuple[float, float], "array[float]"]


class DamagedTableError(RunDirectoryError):
    """A table has other rows than its writer gave it."""


def read_played(file: Path) -> dict[str, Played]:
    """Reads an evaluations.csv, which may be growing: mode → what was played. Raises RunDirectoryError if damaged."""
    played: dict[str, Played] = {mode: {} for mode in PREFIXES}
    try:
        whole = (line for line in read_lines(file, errors="replace") if line.endswith("\n"))
        for row in csv.DictReader(whole):
            at = float(row["step"]), float(row["seconds"])
            played[row["mode"]].setdefault(at, array("d")).extend(
                (float(row["return"]), float(row["length"]))
            )
    except OSError as error:
        raise RunDirectoryError(f"{file.name} cannot be read: {error}") from error
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise DamagedTableError(f"{file.name} is damaged: {error}") from error
    return played


def write_npz(folder: Path) -> None:
    """Makes a run's evaluations.npz from its evaluations.csv; without evaluations there is none.

    Its arrays have a column for each episode. So evaluations with another number of episodes than the newest are left
    out. A part of one would be its short episodes, which end first.

    Raises:
        DamagedTableError: evaluations.csv is damaged. RunDirectoryError: the disk refuses the file.
    """
    arrays: dict[str, Any] = {}
    for mode, played in read_played(folder / EVALUATIONS_CSV).items():
        if not played:  # others have cut the table short
            continue
        episodes = len(next(reversed(played.values())))
        kept = {at: each for at, each in played.items() if len(each) == episodes}
        # Two numbers of each episode.
        table = np.array(list(kept.values()), np.float64).reshape(len(kept), -1, 2)
        try:
            arrays["timesteps"] = np.array([step for step, _ in kept], np.int64)
        except (OverflowError, ValueError) as error:
            raise DamagedTableError(f"{EVALUATIONS_CSV} is damaged: a step is no whole number") from error
        arrays[f"{PREFIXES[mode]}results"] = table[..., 0]
        arrays[f"{PREFIXES[mode]}ep_lengths"] = table[..., 1].astype(np.int64)
    if not arrays:
        return
    content = io.BytesIO()
    np.savez(content, **arrays)
    write_atomically(folder / EVALUATIONS_NPZ, content.getbuffer())


class EvaluationRows(RowFile):
    """evaluations.csv of the run in `folder`, and evaluations.npz, which follows it before checkpoints and at the end.

    Raises what `RowFile` raises, for both files.
    """

    head_lines = EVALUATIONS.head_lines

    def __init__(self, folder: Path, resume_at: int | None = None) -> None:
        super().__init__(folder / EVALUATIONS_CSV, resume_at)
        self._folder = folder
        self._copied = 0
        self._has_told_damage = False
        self._not_before_s = 0.0
        if resume_at:
            self._copy()
        elif resume_at is not None:  # all rows were cut off
            with disk_errors(folder / EVALUATIONS_NPZ, "delete"):
                (folder / EVALUATIONS_NPZ).unlink(missing_ok=True)

    def sync(self) -> None:
        """As `RowFile.sync`."""
        super().sync()
        if self._copied != self.position and time.monotonic() >= self._not_before_s:
            self._copy()

    def close(self) -> None:
        """As `RowFile.close`."""
        super().close()
        if self._copied != self.position:
            self._copy()

    def _copy(self) -> None:
        start_s = time.monotonic()
        try:
            write_npz(self._folder)
        except DamagedTableError as damage:  # by others; the run needs neither file
            if not self._has_told_damage:
                self._has_told_damage = True
                self.tell(f"{damage}; {EVALUATIONS_NPZ} stays as it was")
        self._copied = self.position
        self._not_before_s = (1 + MOST_SHARE) * time.monotonic() - MOST_SHARE * start_s
