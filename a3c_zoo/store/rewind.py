"""Going on from a checkpoint of a run: what is later moves to a folder of its own before."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.files import MAX_TABLE, open_file, shown
from a3c_zoo.store.checkpoint_evaluations import evaluations_of
from a3c_zoo.store.checkpoints import (
    BEST,
    FINAL,
    Checkpoint,
    DamagedCheckpointError,
    PolicyState,
    RunState,
    checkpoint_steps,
    read_policy,
    read_state,
    resumable_checkpoint,
    step_file,
    write_checkpoint,
)
from a3c_zoo.store.directory import RunDirectory, disk_errors
from a3c_zoo.store.films import films_by_step
from a3c_zoo.store.rows import (
    EVALUATIONS,
    MONITOR,
    NoRowEndsHereError,
    Table,
    end_of_rows,
    free_name,
    open_rows,
    set_file_aside,
)
from a3c_zoo.store.run_files import (
    EVALUATIONS_CSV,
    EVALUATIONS_JSON,
    EVALUATIONS_NPZ,
    MONITOR_CSV,
    OUTCOME_JSON,
    SOLVED_JSON,
    TIMING_JSON,
)
from a3c_zoo.system import bytes_on_disk

#: A file over `MAX_TABLE` is copied if its size is at most so many times the bytes that it takes on the disk, which may
#: compress it. A sparse file of a terabyte takes none.
MOST_COMPRESSED = 16


class RunEvent(NamedTuple):
    """Something of note that happened to a run, as events.jsonl has it. trace: a traceback; "" without one."""

    kind: str
    text: str
    trace: str = ""


def go_on_from(
    directory: RunDirectory, which: str = FINAL, examine: Callable[[RunState], None] = lambda state: None
) -> tuple[Checkpoint[RunState], list[RunEvent]]:
    """Reads a checkpoint to go on with training (`resumable_checkpoint`), and moves aside what is later.

    Args:
        examine: raises ZooError to refuse the run's part of the checkpoint, before anything moves.

    Returns:
        The checkpoint, and events to tell.

    Raises:
        RunDirectoryError: training cannot go on from it, or the disk refuses something.
    """
    saved = resumable_checkpoint(directory, which)
    examine(saved.state)
    state, lost_rows = _with_known_rows(directory, saved.state)
    saved = replace(saved, state=state)
    events = [RunEvent("checkpoint_damaged", reason) for reason in saved.damaged]
    events += [RunEvent("rows_lost", text) for text in lost_rows]
    if folder := set_aside(directory, saved.state.steps, also_at=which == BEST):
        where = f"what is later, and a copy of rows and evaluations, is in {shown(folder)}"
        events.append(RunEvent("set_aside", f"going on from step {saved.state.steps:,}: {where}"))
    _only_for_acting(directory, saved.state.steps)
    return saved, events


def _with_known_rows(directory: RunDirectory, state: RunState) -> tuple[RunState, list[str]]:
    """The state with the ends of its tables where they are now, and a sentence for each table that lacks rows.

    Raises:
        RunDirectoryError: something that is no plain file stands in the place of a table.
    """
    lost_rows: list[str] = []
    end = _known_end(directory, MONITOR, state.monitor_position, state.steps, lost_rows)
    state = replace(state, monitor_position=end)
    if state.evaluator:
        end = _known_end(directory, EVALUATIONS, state.evaluator.position, state.steps, lost_rows)
        state = replace(state, evaluator=replace(state.evaluator, position=end))
    return state, lost_rows


def _known_end(directory: RunDirectory, table: Table, position: int, step: int, lost_rows: list[str]) -> int:
    """Where a table's rows until a step end, in bytes: at the position of the checkpoint if a row ends there.

    Otherwise others have changed the table. Training needs none of its rows, so it goes on with those that are known.
    """
    if not position:
        return 0
    path = directory.home / table.name
    if not os.path.lexists(path):
        lost_rows.append(f"{shown(path)} is gone: training goes on, and a new one has the later rows")
        return 0
    with suppress(NoRowEndsHereError):
        open_rows(path, position).close()
        return position
    end = end_of_rows(directory.home, table, step)
    with disk_errors(path, "copy"):
        if end:
            aside = free_name(path)
            shutil.copy2(path, aside, follow_symlinks=False)
            then = (
                f"training goes on behind those of its first {end:,} bytes; all of it is kept as {aside.name}"
            )
        else:
            renamed = set_file_aside(path)
            assert renamed is not None  # it is there
            if table == EVALUATIONS:
                set_file_aside(directory.home / EVALUATIONS_NPZ)
            then = f"training goes on with a new one; this one is now {renamed.name}"
    lost_rows.append(f"{shown(path)} has other rows than its checkpoint says: {then}")
    return end


def _only_for_acting(directory: RunDirectory, step: int) -> None:
    """Training no longer goes on from a best policy that is later than a step: the rows that it counts will be cut."""
    best = directory.best_file
    if not best.exists():
        return
    state = read_state(best, PolicyState)
    if state.steps > step and state.run:
        write_checkpoint(best, read_policy(best).agent, replace(state, run=None))


def set_aside(directory: RunDirectory, step: int, also_at: bool = False) -> Path | None:
    """Moves everything later than a step to a folder of its own, before a run goes on from that step.

    The folder, `checkpoints/set-aside-N`, gets the later checkpoints and films, `best.pt` if it is later or damaged,
    and copies of the files whose rows are going to be cut.

    Args:
        also_at: whether a checkpoint at that step moves as well: the run goes on from another file, and writes its own.

    Returns:
        The folder; None if no checkpoint, no evaluation of one and no film is later, and best.pt is not damaged.
    """
    later = [
        step_file(directory, each) for each in checkpoint_steps(directory) if each >= step + (not also_at)
    ]
    if (best := directory.best_file).exists():
        try:
            is_void = read_policy(best).state.steps > step and bool(later)
        except DamagedCheckpointError:
            is_void = True
        later = [best, *later] if is_void else later
    films = [film for at_step, film in films_by_step(directory).items() if at_step > step]
    if not later and not films and not _is_evaluated_behind(directory, step):
        return None
    copied = _files_to_copy(directory)
    with disk_errors(directory.checkpoints, "write"):
        folder = _folder_with(copied, directory.checkpoints)
        # These are of checkpoints, and of a run, that are no more.
        for name in (EVALUATIONS_JSON, TIMING_JSON):
            (directory.home / name).unlink(missing_ok=True)
        # If this is cut short, the newest that is left is the nearest to the step.
        for path in films + later[::-1]:
            path.rename(folder / path.name)
    return folder


def _is_evaluated_behind(directory: RunDirectory, step: int) -> bool:
    """Whether evaluations.json has a later checkpoint, such as one that the user has moved away."""
    try:
        return any(each.steps > step for each in evaluations_of(directory.home))
    except RunDirectoryError:  # it is damaged, or of a newer version, and then no figure comes from it
        return False


def _folder_with(copied: Sequence[Path], parent: Path) -> Path:
    """Makes a new folder with copies of files, or none if the disk refuses one."""
    folder = next(path for n in itertools.count(1) if not (path := parent / f"set-aside-{n}").exists())
    folder.mkdir()
    try:
        for path in copied:
            shutil.copy2(path, folder, follow_symlinks=False)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def _files_to_copy(directory: RunDirectory) -> list[Path]:
    """The files whose rows are going to be cut. Raises RunDirectoryError for a link, a FIFO or a huge sparse file."""
    evaluations = (EVALUATIONS_CSV, EVALUATIONS_NPZ, EVALUATIONS_JSON)
    names = (MONITOR_CSV, *evaluations, OUTCOME_JSON, SOLVED_JSON, TIMING_JSON)
    paths = [path for path in (directory.home / name for name in names) if os.path.lexists(path)]
    for path in paths:
        try:
            most = MOST_COMPRESSED * bytes_on_disk(path.lstat())
            open_file(path, limit=max(MAX_TABLE, most)).close()
        except OSError as error:
            text = f"{shown(path)} cannot be copied: {error.strerror}. Put a plain file in its place first"
            raise RunDirectoryError(text) from error
    return paths
