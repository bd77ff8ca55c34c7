"""Reads finished runs: our run directories, and folders of other programs. Imports no torch."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from a3c_zoo.errors import RunDirectoryError, ZooError, printable
from a3c_zoo.files import absolute, shown, why_closed
from a3c_zoo.plugins.registry import get_registry, imported_by
from a3c_zoo.records import Outcome
from a3c_zoo.store.checkpoint_evaluations import CheckpointEvaluation
from a3c_zoo.store.directory import DEFAULT_RUNS_DIR, why_not_own
from a3c_zoo.store.foreign_runs import ForeignRun, is_foreign_run, read_foreign_run
from a3c_zoo.store.run import Run, RunSummary, method_name
from a3c_zoo.store.run_files import CONFIG_YML, META_JSON, MONITOR_CSV
from a3c_zoo.store.tables import Curve, read_monitor
from a3c_zoo.store.timing_file import Timing

#: The reasons of an end before the budget was spent. Such a run has no figures of a whole one.
CUT_SHORT: Final = ("interrupted", "error")
#: How the names of folders begin in which methods are tried before a comparison (`rehearsal`). They hold no runs.
REHEARSAL: Final = ".rehearsal-"


@dataclass(frozen=True, slots=True, eq=False)
class RunRecord:
    """One run, as it was read. A run of another program has a path, a method, an environment, a curve and evaluations.

    Its texts are printable: a stranger can have written them.

    Attributes:
        path: its directory.
        method: see `method_name`; the name of the folder for a run of another program.
        env: the environment's name; `gym:ID` if the zoo has no name for it; see `foreign_runs.UNKNOWN_ENV`.
        seed: None if it is not known.
        curve: every training episode.
        settings: every value of the configuration, "section.key" → value.
        host, versions: name → value, from meta.json: the machine, and the packages. host has torch's threads and the
            vector environment, too, if the agent has such settings.
        command: the command line of a3c-zoo that made the run, in words; empty if none did.
        outcome: None for a run that has not ended.
        evaluations: of its checkpoints, rising in steps; those beside training in a run of another program.
        timing: None for a run that no comparison trained to its end.
        vec_env_choice: see `vec_env_choice_of`.
        is_smoothed: each point of the curve is a mean of up to 100 episodes.
        is_trusted: whether `env` may name a module to import.
        their_settings: name → value as text, of another program that tells them.
    """

    path: Path
    method: str
    env: str
    seed: int | None
    curve: Curve
    settings: Mapping[str, Any] = field(default_factory=dict)
    host: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    outcome: Outcome | None = None
    evaluations: tuple[CheckpointEvaluation, ...] = ()
    timing: Timing | None = None
    vec_env_choice: str = ""
    is_smoothed: bool = False
    is_trusted: bool = False
    their_settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_ours(self) -> bool:
        """Whether a3c-zoo made it."""
        return bool(self.settings)

    @property
    def settings_but_seed(self) -> dict[str, Any]:
        """All settings but `run.seed`: equal for runs that differ only in their seed."""
        return {key: value for key, value in self.settings.items() if key != "run.seed"}

    @property
    def command_line(self) -> str:
        """The command line that trained it, with the variables that were set; "" if no command did."""
        if not self.command:
            return ""
        variables = self.timing.variables if self.timing else {}
        words = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
        return " ".join([*words, shlex.join(self.command)])


def threshold_of(run: RunRecord) -> float | None:
    """The return at which a run's environment counts as solved.

    None if there is none, if its plugin is not installed, or if `hidden_threshold` has something to say.
    """
    try:
        return get_registry().env(run.env, is_trusted=run.is_trusted).threshold
    except ZooError:
        return None


def score_range_of(run: RunRecord) -> tuple[float, float] | None:
    """The returns that count as 0 and as 1 in a run's environment; None as for `threshold_of`."""
    try:
        return get_registry().env(run.env, is_trusted=run.is_trusted).score_range
    except ZooError:
        return None


def hidden_threshold(run: RunRecord) -> str | None:
    """Why a threshold is not looked up, in one sentence; None if it is."""
    module = imported_by(run.env)
    if run.is_trusted or not module:
        return None
    return f"The threshold of {run.env} is not known: '{module}' would be imported for it. To allow that: --trust."


def read_runs(
    paths: Iterable[str | Path],
    *,
    strict: bool = True,
    frame_skip: int | None = None,
    runs_dir: Path = DEFAULT_RUNS_DIR,
    trust: bool = False,
    wanted: Callable[[RunSummary], bool] = lambda run: True,
) -> tuple[list[RunRecord], dict[Path, str]]:
    """Reads every run at or below `paths`, sorted by path within each.

    Args:
        strict, frame_skip: see `read_run`.
        runs_dir: where one's own runs lie. trust: whether to trust the others as well. An environment that one
            trusted run names is trusted in all runs.
        wanted: whether to read a run. Of one of another program it learns environment, method (as agent) and seed.

    Returns:
        The runs; and path → reason in one line, for each run that it could not use.
    """
    runs = []
    left_out = {}
    seen = set()
    for folder in (folder for path in paths for folder in _run_folders(Path(path))):
        if folder.resolve() in seen:  # named twice
            continue
        seen.add(folder.resolve())
        try:
            run = Run(folder)
            if _is_ours(folder) and not wanted(run.summary):
                continue
            record = record_of(run, strict=strict, frame_skip=frame_skip)
            if record.is_ours or wanted(_their_summary(record)):
                runs.append(record)
        except RunDirectoryError as error:
            left_out[folder] = printable(str(error))
    trusted = {run.env for run in runs if trust or not why_not_own(run.path, runs_dir)}
    return [replace(run, is_trusted=run.env in trusted) for run in runs], left_out


def lost_runs(paths: Iterable[Path]) -> list[RunRecord]:
    """The lost runs among those at `paths`, which `read_runs` could not use; without curves.

    A run that trained and has no figures is lost, whatever it lacks: an error ended it, it was killed, or its figures
    are damaged or not finite. A run is not lost if a user interrupted it, if it still runs, or if it never trained.
    """
    lost = []
    for run in map(Run, paths):
        with suppress(RunDirectoryError):
            if not run.is_alive and not run.says_nothing:
                lost.append(_without_curves(run))
    return lost


def _without_curves(run: Run) -> RunRecord:
    """What meta.json and config.yml tell of a run; what meta.json alone tells if config.yml is damaged."""
    meta = run.meta
    env = printable(meta["env"])
    nothing = Curve.ordered(*np.empty((4, 0)))
    try:
        return RunRecord(run.path, run.method, env, run.seed, nothing, settings=run.settings)
    except RunDirectoryError:
        method = printable(method_name(meta["agent"], None, meta.get("init_from")))
        return RunRecord(run.path, method, env, meta.get("seed"), nothing)


def _their_summary(run: RunRecord) -> RunSummary:
    nothing = dict.fromkeys(("steps", "mean_return_100", "solved"))
    return RunSummary(
        run.path.name, run.path, run.env, run.method, run.seed, "unknown", **nothing, started=""
    )


def _run_folders(path: Path) -> list[Path]:
    """All runs and closed folders below `path`, sorted, links last; `path` itself if it is one, or if there is none."""
    if _is_run(path):
        return [path]
    runs = []
    waiting = [path]
    while waiting:  # `os.walk` calls itself for each folder, and a thousand may lie in each other
        folder = waiting.pop()
        with suppress(OSError):  # without what goes away meanwhile, and without paths that are too long
            if _is_run(folder):
                runs.append(folder)
            if not _is_ours(folder):  # below ours are event files, and rows that were set aside
                below, links = _folders_in(folder)
                waiting += below
                runs += filter(_is_run, links)  # what lies below a link may lead back
    return sorted(runs, key=lambda run: (run.is_symlink(), run)) or [path]  # a run and a link to it: the run


def _folders_in(folder: Path) -> tuple[list[Path], list[Path]]:
    """The folders in a folder and the links to folders, without rehearsals. Raises OSError."""
    with os.scandir(folder) as entries:
        named = [Path(entry.path) for entry in entries if not entry.name.startswith(REHEARSAL)]
    below = [path for path in named if os.path.isdir(path)]  # no link that leads nowhere, or to itself
    folders = [path for path in below if not path.is_symlink()]
    return folders, [path for path in below if path.is_symlink()]


def read_run(path: Path, *, strict: bool = True, frame_skip: int | None = None) -> RunRecord:
    """Reads a run directory, or a folder of another program (`foreign_runs`).

    Args:
        strict: refuse a run directory whose run has not ended, and a folder without a monitor.
        frame_skip: of other programs, see `read_monitors`.

    Raises:
        RunDirectoryError: the run cannot be used; the message gives the reason, without the path.
    """
    return record_of(Run(path), strict=strict, frame_skip=frame_skip)


def record_of(run: Run, *, strict: bool = True, frame_skip: int | None = None) -> RunRecord:
    """As `read_run`, of a run whose files may have been read in part."""
    path = run.path
    try:
        if _is_ours(path):
            return _ours(run, strict)
        if closed := why_closed(path):
            raise RunDirectoryError(closed)
        record = _theirs(path, read_foreign_run(path, strict, frame_skip))
        if strict and not len(record.curve.steps):
            raise RunDirectoryError("it has no episode")
        return record
    except RunDirectoryError as error:
        text = str(error)
        for spelling in (path, absolute(path), shown(absolute(path))):
            text = text.removeprefix(f"{spelling}/").removeprefix(f"{spelling} ")
        raise RunDirectoryError(text) from error


def _is_run(path: Path) -> bool:
    return _is_ours(path) or bool(why_closed(path)) or is_foreign_run(path)


def _is_ours(path: Path) -> bool:
    is_file, is_dir = os.path.isfile, os.path.isdir  # False for what may not be looked at
    return is_file(path / META_JSON) or (is_file(path / CONFIG_YML) and is_dir(path / "checkpoints"))


def _ours(run: Run, strict: bool) -> RunRecord:
    if not os.path.lexists(run.meta_file):
        raise RunDirectoryError("incomplete: it has no meta.json")
    if strict and run.is_alive:
        raise RunDirectoryError("still running")
    outcome = run.outcome
    settings = run.settings
    if strict:
        _refuse_unfinished(outcome)
    file = run.path / MONITOR_CSV
    if not os.path.lexists(file):
        raise RunDirectoryError("incomplete: it has no monitor.csv")
    returns, lengths, seconds, steps = read_monitor(file, ("r", "l", "t", "step"), torn_end=not strict).rows.T
    return RunRecord(
        path=run.path,
        method=run.method,
        env=printable(run.meta["env"]),
        seed=run.seed,
        curve=Curve.ordered(steps, seconds, returns, lengths),
        settings=settings,
        host=run.host,
        versions=run.versions,
        command=run.command,
        outcome=outcome,
        evaluations=run.evaluations,
        timing=run.timing,
        vec_env_choice=run.vec_env_choice,
    )


def _refuse_unfinished(outcome: Outcome | None) -> None:
    if outcome is None:
        raise RunDirectoryError("incomplete: it has no outcome.json, so it was killed")
    if outcome.reason in CUT_SHORT:
        last_line = outcome.detail.strip().rpartition("\n")[2]
        raise RunDirectoryError(
            f"incomplete: its end was '{outcome.reason}'" + (f", {last_line}" if last_line else "")
        )


def _theirs(path: Path, run: ForeignRun) -> RunRecord:
    return RunRecord(
        path=path,
        method=printable(run.method),
        env=printable(run.env),
        seed=run.number,
        curve=run.curve,
        evaluations=run.evaluations,
        is_smoothed=run.is_smoothed,
        their_settings=run.settings,
    )
