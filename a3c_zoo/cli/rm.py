"""`a3c-zoo rm`."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import click

from a3c_zoo.cli.common import complete_run, kept_runs_option
from a3c_zoo.errors import RunDirectoryError, ZooError, printable
from a3c_zoo.files import shown
from a3c_zoo.store.directory import PULLED, run_argument
from a3c_zoo.store.run import Run, find_run, list_runs
from a3c_zoo.words import counted

#: How a run has ended that failed: with an error, or with its process.
FAILED = ("died", "error")
#: What a run directory has; the rest is somebody's, and stays.
OF_A_RUN = {
    ".evaluations.lock",
    "checkpoints",
    "config.yml",
    "evaluations.csv",
    "evaluations.json",
    "evaluations.npz",
    "evaluator.log",
    "events.jsonl",
    "films",
    "looks.jsonl",
    "meta.json",
    "monitor.csv",
    "outcome.json",
    "parameters.safetensors",
    "pulled.json",
    "run.lock",
    "solved.json",
    "tensorboard",
    "timing.json",
}
#: What a pulled agent has in addition: its card and its film.
OF_A_PULLED_AGENT = {"README.md", "replay.mp4"}
#: A file that was being written when its process was killed.
TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{16}\.tmp")
#: What is removed last. As long as they are there, the rest of a run can be removed by this command.
LAST = (PULLED, "meta.json", "run.lock")


@click.command(epilog="Example: a3c-zoo rm cartpole-a3c-s1-20260101-120000")
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
        _remove(run)
        if others := _others(run):
            click.echo(printable(f"{run.path} stays, with {others}"))
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
    line = f"{run.path}  {summary.status}, {steps}, {_mib(_parts(run)):,.1f} MiB"
    if others := _others(run):
        return f"{line}; what stays: {others}"
    return line


def _names_in(run: Run) -> list[str]:
    """All names in a run directory. Raises RunDirectoryError if the user may not list them."""
    try:
        return os.listdir(run.home)
    except OSError as error:
        raise RunDirectoryError(
            f"{run.path} cannot be listed: {error.strerror}. Look at its permissions"
        ) from error


def _names_of(run: Run) -> set[str]:
    """The names in a run directory that are parts of the run."""
    known = OF_A_RUN
    if os.path.lexists(run.home / PULLED):
        known = OF_A_RUN | OF_A_PULLED_AGENT
    temporary = {name: TEMPORARY.fullmatch(name) for name in _names_in(run)}
    return {name for name, match in temporary.items() if (match[1] if match else name) in known}


def _parts(run: Run) -> list[Path]:
    """The files and folders of a run, in the order in which they are removed."""
    parts = [run.home / name for name in _names_of(run)]
    return sorted(parts, key=lambda path: path.name in LAST)


def _others(run: Run) -> str:
    """What lies in a run directory and is no part of the run, in words; "" if nothing does."""
    if not os.path.lexists(run.home):
        return ""
    names = sorted({*_names_in(run)} - _names_of(run))
    return f"{', '.join(names[:5])}{' …' if len(names) > 5 else ''}"


def _mib(parts: list[Path]) -> float:
    files = [path for part in parts for path in (part, *part.rglob("*"))]
    sizes = [os.lstat(path).st_size for path in files if os.path.lexists(path) and not path.is_dir()]
    return sum(sizes) / (1 << 20)


def _remove(run: Run) -> None:
    """Removes a run, and its directory if nothing else is in it.

    If it is interrupted, the rest is a run directory still, and can be removed.
    """
    if not shutil.rmtree.avoids_symlink_attacks:
        raise ZooError("this system cannot remove folders without following links; remove the run by hand")
    _refuse(Run(run.path))  # somebody may have gone on with it since the question
    run.lock()
    try:
        for path in _parts(run):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        if not _others(run):
            run.home.rmdir()
    except OSError as error:
        where = shown(Path(error.filename or run.path))
        raise RunDirectoryError(
            f"cannot remove {where}: {error.strerror or error}. Look at its permissions, then type: "
            f"a3c-zoo rm {run_argument(run.path)}"
        ) from error
    finally:
        run.unlock()
