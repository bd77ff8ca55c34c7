"""`a3c-zoo rm`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import click

from a3c_zoo.cli.common import complete_run, example, kept_runs_option
from a3c_zoo.errors import RunDirectoryError, ZooError, printable
from a3c_zoo.files import TEMPORARY, shown
from a3c_zoo.store.directory import run_argument
from a3c_zoo.store.run import Run, find_run, list_runs
from a3c_zoo.store.run_files import META_JSON, PULLED_JSON, RUN_FILES, RUN_LOCK
from a3c_zoo.system import NO_FOLLOW
from a3c_zoo.words import counted

#: Folders of what was later than the checkpoint of a resume.
SET_ASIDE = r"set-aside-\d+"
#: How a run has ended that failed: with an error, or with its process.
FAILED = ("died", "error")
#: What a pulled agent has in addition: its card and its film.
OF_A_PULLED_AGENT = {"README.md", "replay.mp4"}
#: The folders of a run. They go with it if nothing else is in them.
FOLDERS = re.compile(rf"checkpoints(/{SET_ASIDE})?|films|tensorboard")
#: The files in these folders.
IN_FOLDERS = re.compile(
    rf"checkpoints/({SET_ASIDE}/)?(step-\d+|best|\.evaluated|\.checked)\.pt"
    rf"|(films|checkpoints/{SET_ASIDE})/(step-\d+|\.filmed)\.mp4"
    r"|tensorboard/events\.out\.(tf)?events\..+"
)
#: What is removed last. As long as they are there, the rest of a run can be removed by this command.
LAST = (PULLED_JSON, META_JSON, RUN_LOCK)


@click.command(epilog=example("a3c-zoo rm cartpole-a3c-s1-20260101-120000"))
@click.argument("runs", nargs=-1, metavar="[RUN]...", shell_complete=complete_run)
@kept_runs_option
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(runs: tuple[str, ...], runs_dir: Path, yes: bool) -> None:
    """Remove run directories: RUN, or without RUN those that ended with an error or were killed.

    It shows what it is going to remove, and asks. A run that is still running stays, and so does what is no part of a
    run, such as notes of yours. No link is followed.
    """
    chosen = [_named(run, runs_dir) for run in runs] if runs else _failed(runs_dir)
    if not chosen:
        click.echo(f"No run in {printable(str(runs_dir))} has failed.", err=True)
        return
    chosen = list({run.home: run for run in chosen}.values())
    what = counted(len(chosen), "runs")
    for run in chosen:
        click.echo(printable(_line(run)))
    if not yes:
        if not sys.stdin.isatty():
            raise ZooError(f"{what} would be removed, and there is no terminal to ask: give --yes")
        click.confirm(f"Remove {what}?", default=False, abort=True)
    for run in chosen:
        if others := _remove(run):
            click.echo(printable(f"{run.path} stays, with {_listed(others)}"))
    click.echo(f"Removed {what}.")


def _named(name: str, runs_dir: Path) -> Run:
    """The run of this name. Raises RunDirectoryError for a link, what is no run directory, and a run that lives."""
    run = find_run(name, runs_dir)
    _refuse(run)
    return run


def _failed(runs_dir: Path) -> list[Run]:
    found = [run for run in list_runs(runs_dir) if run.status in FAILED and not run.path.is_symlink()]
    return [Run(run.path) for run in found]


def _refuse(run: Run) -> None:
    if os.path.islink(run.home):
        raise RunDirectoryError(f"{run.path} is a link, and links are not followed: name the folder itself")
    run.meta  # noqa: B018 - raises unless it is a run directory
    if run.is_alive:
        raise RunDirectoryError(f"run {run.home.name} is still running; stop it first")


def _line(run: Run) -> str:
    """What is removed: the run's path, how it ended, how long it trained and its size; and what stays."""
    summary = run.summary
    steps = "no steps" if not summary.steps else f"{summary.steps:,} steps"
    if summary.steps is None and any(run.checkpoints.glob("[!.]*.pt")):
        steps = "has checkpoints"
    parts, others = _sorted_out(run)
    line = f"{run.path}  {summary.status}, {steps}, {_mib(run, parts):,.1f} MiB"
    if others:
        return f"{line}; what stays: {_listed(others)}"
    return line


def _sorted_out(run: Run, folder: str = "") -> tuple[list[str], list[str]]:
    """The paths in a folder of a run that are parts of the run, in the order of removal; and the others.

    A folder of the run in which something else lies is neither.
    """
    parts, others = [], []
    for name in _names_in(run.path / folder, run.home / folder):
        path = f"{folder}/{name}" if folder else name
        is_folder = os.path.isdir(run.home / path) and not os.path.islink(run.home / path)
        if is_folder and FOLDERS.fullmatch(path):
            inner_parts, inner_others = _sorted_out(run, path)
            parts += inner_parts if inner_others else [*inner_parts, path]
            others += inner_others
        elif not is_folder and _is_file_of(run, path):
            parts.append(path)
        else:
            others.append(path)
    return sorted(parts, key=LAST.__contains__), sorted(others)


def _names_in(path: Path, home: Path) -> list[str]:
    """All names in a folder. Raises RunDirectoryError if the user may not list them."""
    try:
        return os.listdir(home)
    except OSError as error:
        raise RunDirectoryError(
            f"{path} cannot be listed: {error.strerror}. Look at its permissions"
        ) from error


def _is_file_of(run: Run, path: str) -> bool:
    """Whether a file is one of the run, by its name."""
    folder, _, name = path.rpartition("/")
    if being_written := TEMPORARY.fullmatch(name):
        name = being_written[1]
    if re.fullmatch(f"(checkpoints/{SET_ASIDE})?", folder) and name in RUN_FILES:
        return True
    if not folder:
        return name in OF_A_PULLED_AGENT and os.path.lexists(run.home / PULLED_JSON)
    return IN_FOLDERS.fullmatch(f"{folder}/{name}") is not None


def _listed(paths: Sequence[str]) -> str:
    return f"{', '.join(paths[:5])}{' …' if len(paths) > 5 else ''}"


def _mib(run: Run, parts: Sequence[str]) -> float:
    files = [run.home / part for part in parts if not FOLDERS.fullmatch(part)]
    return sum(os.lstat(path).st_size for path in files if os.path.lexists(path)) / (1 << 20)


def _remove(run: Run) -> list[str]:
    """Removes a run, and its directory if nothing else is in it. Returns the paths that stay.

    If it is interrupted, the rest is a run directory still, and can be removed.
    """
    if os.unlink not in os.supports_dir_fd:
        raise ZooError("this system cannot remove files without following links; remove the run by hand")
    _refuse(Run(run.path))  # somebody may have gone on with it since the question
    run.lock()
    path = ""
    try:
        parts, others = _sorted_out(run)
        for path in parts:
            _remove_part(run, path)
        path = ""
        if not others:
            run.home.rmdir()
        return others
    except OSError as error:
        where = shown(run.home / path)
        raise RunDirectoryError(
            f"cannot remove {where}: {error.strerror or error}. Look at its permissions, then type: "
            f"a3c-zoo rm {run_argument(run.path)}"
        ) from error
    finally:
        run.unlock()


def _remove_part(run: Run, path: str) -> None:
    """Removes a file, or an empty folder. Raises OSError, also if a folder above it has become a link."""
    *folders, name = path.split("/")
    flags = os.O_RDONLY | os.O_DIRECTORY | NO_FOLLOW
    with ExitStack() as stack:
        place = os.open(run.home, flags)
        stack.callback(os.close, place)
        for folder in folders:
            place = os.open(folder, flags, dir_fd=place)
            stack.callback(os.close, place)
        if FOLDERS.fullmatch(path):
            os.rmdir(name, dir_fd=place)
        else:
            os.unlink(name, dir_fd=place)
