"""A run directory as it is written. It is made once, is never overwritten, and is locked while its run lives."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import filelock

from a3c_zoo.errors import RunDirectoryError, ZooError, is_full
from a3c_zoo.files import (
    absolute,
    is_locked,
    replace_file,
    shown,
    sync_folder,
    valid_name,
    write_new,
)
from a3c_zoo.hardware import machine
from a3c_zoo.records import Outcome
from a3c_zoo.store.run_files import (
    CONFIG_YML,
    META_JSON,
    OUTCOME_JSON,
    PULLED_JSON,
    RUN_LOCK,
    SOLVED_JSON,
    TIMING_JSON,
)
from a3c_zoo.system import is_own, user

if TYPE_CHECKING:
    from a3c_zoo.config import Config

#: Rises when a run directory of an older version can no longer be read.
RUN_FORMAT = 1
DEFAULT_RUNS_DIR = Path("runs")
#: How messages name another place for runs.
OTHER_RUNS_DIR: Final = "--runs-dir DIR"
#: What stands in the way of a file: a link, other names of it (hard links), a folder, a FIFO.
IN_THE_WAY: Final = (errno.ELOOP, errno.EMLINK, errno.EISDIR, errno.EINVAL)
#: The longest name that a run gets by itself, in bytes. Most disks take 255, with a number behind it.
MOST_NAME: Final = 250
#: How long a lock that is taken is tried again, in seconds: others who look whether a run lives hold it for a moment.
LOCK_PATIENCE_S = 0.1


@contextmanager
def disk_errors(path: Path, doing: str, option: str = OTHER_RUNS_DIR) -> Iterator[None]:
    """Turns an OSError into one line: what could not be done where, and why. option: how to name another place."""
    try:
        yield
    except OSError as error:
        is_in_the_way = error.errno in IN_THE_WAY or isinstance(error, IsADirectoryError)
        is_of_a_run = option == OTHER_RUNS_DIR and doing != "make"  # it keeps its files in one place
        other = f"begin a new run elsewhere: {option}" if is_of_a_run else f"choose another: {option}"
        cure = f"Choose another: {option}"
        if is_in_the_way and is_of_a_run and isinstance(error.filename, str):
            cure = f"Move {shown(Path(error.filename))} away"
        elif is_full(error):
            cure = f"Free space, or {other}"
        elif error.errno == errno.EFBIG:
            cure = f"Raise the limit of file sizes (ulimit -f), or {other}"
        text = f"cannot {doing} {shown(path)}: {error.strerror or error}. {cure}"
        raise RunDirectoryError(text) from error


def write_atomically(path: Path, content: bytes | memoryview) -> None:
    """Replaces a file at once, so that `path` is always whole, with the old or the new content (`replace_file`)."""
    with disk_errors(path, "write"):
        replace_file(path, content)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Writes one JSON object, completely or not at all."""
    write_atomically(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


class RunDirectory:
    """The files of one run, to make, lock and write them; `Run` reads them.

    Attributes:
        path: the directory, see docs/reference/run-directory.md. Its `run.lock` is locked while the run lives.
        home: the same from the root, for all files: an environment may change the current folder.
        new_config: what config.yml is going to hold when training begins; None for what it holds.
        best_file: the best policy: the evaluator's, or without one that of training.
        evaluated_file, checked_file: what the evaluator, and a solved check, plays.
        filmed_file: the film that is being made. solved_file: outcome.json of the session that solved it.
    """

    def __init__(self, path: Path) -> None:
        home = absolute(path)
        self.path = path
        self.home = home
        self.new_config: bytes | None = None
        self.config_file = home / CONFIG_YML
        self.meta_file = home / META_JSON
        self.outcome_file = home / OUTCOME_JSON
        self.solved_file = home / SOLVED_JSON
        self.checkpoints = home / "checkpoints"
        self.best_file = self.checkpoints / "best.pt"
        self.evaluated_file = self.checkpoints / ".evaluated.pt"
        self.checked_file = self.checkpoints / ".checked.pt"
        self.films = home / "films"
        self.filmed_file = self.films / ".filmed.mp4"
        self._lock = filelock.FileLock(home / RUN_LOCK)

    @classmethod
    def create(
        cls, runs_dir: Path, config: Config, meta: dict[str, Any], name: str | None = None
    ) -> RunDirectory:
        """Makes a new directory, and holds its lock.

        Raises:
            ConfigError: its configuration could not be read again.
            RunDirectoryError: it cannot be made or written, or `name` exists already.
        """
        from a3c_zoo.config.sets import dump_config

        values = dump_config(config).encode()
        path = _make_new(runs_dir, config, name)
        directory = cls(path)
        try:
            directory.lock()
            with disk_errors(path, "write"):
                directory.checkpoints.mkdir()
                write_new(directory.config_file, values)
                write_new(directory.meta_file, (json.dumps(meta, indent=2) + "\n").encode())
                sync_folder(path)
        except BaseException:  # half a directory would be a damaged run
            directory.unlock()
            shutil.rmtree(path, ignore_errors=True)
            raise
        return directory

    def lock(self) -> None:
        """Takes the lock, or raises RunDirectoryError: its run is still running."""
        try:
            self._lock.acquire(LOCK_PATIENCE_S, poll_interval=LOCK_PATIENCE_S / 10)
        except filelock.Timeout:
            raise RunDirectoryError(f"run {self.home.name} is still running; stop it first") from None
        except OSError as error:
            raise RunDirectoryError(f"cannot lock {self.path}: {error.strerror or error}") from error

    def unlock(self) -> None:
        """Gives the lock back."""
        self._lock.release()

    def is_running(self) -> bool:
        """Whether a process holds the lock. The operating system frees it when that process ends."""
        lock = self.path / RUN_LOCK
        try:
            return os.path.lexists(lock) and is_locked(lock, LOCK_PATIENCE_S)
        except OSError as error:
            raise RunDirectoryError(f"cannot lock {self.path}: {error.strerror or error}") from error

    def write_outcome(self, outcome: Outcome) -> None:
        """Writes outcome.json."""
        content = asdict(outcome)
        del content["run"]
        write_atomically(self.outcome_file, (json.dumps(content, indent=2) + "\n").encode())

    def begin_session(self) -> None:
        """Writes the new config.yml of a session whose training begins, and forgets how an earlier one ended."""
        if self.new_config is not None:
            write_atomically(self.config_file, self.new_config)
            self.new_config = None
        self.forget_end()

    def forget_end(self) -> None:
        """Deletes outcome.json, and timing.json, which is made of it: they must not seem to tell of this session."""
        with disk_errors(self.path, "delete files in"):
            for path in (self.outcome_file, self.home / TIMING_JSON):
                path.unlink(missing_ok=True)


def refuse_place_of_runs(runs_dir: Path, config: Config, name: str | None) -> None:
    """Raises RunDirectoryError, as `RunDirectory.create` does, if no run can be made. Leaves nothing."""
    there = next(path for path in (runs_dir, *absolute(runs_dir).parents) if os.path.lexists(path))
    with disk_errors(runs_dir, "make"):
        with suppress(FileNotFoundError):
            os.lstat(runs_dir)  # refuses a name that no folder may have
        tempfile.TemporaryDirectory(dir=there).cleanup()
    if name is None:
        own_name(config)  # another run of this second is no obstacle: the name gets a number
        return
    path = runs_dir / valid_name(name)
    if os.path.lexists(path):
        raise RunDirectoryError(f"{path} exists already; nothing is overwritten. Choose another --name")


def own_name(config: Config) -> str:
    """The name of a run that nobody has named. Raises RunDirectoryError if no folder may have it."""
    stamp = f"{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    stem = re.sub(r"[^\w.+=@-]", "_", f"{config.env_name}-{config.agent_name}-s{config.run.seed}-{stamp}")
    if len(os.fsencode(stem)) > MOST_NAME:
        raise RunDirectoryError(
            f"the run's name, {stem[:20]}..., would be too long. Give it another: --name TEXT"
        )
    return stem


def _make_new(runs_dir: Path, config: Config, name: str | None) -> Path:
    if name is None:
        stem = own_name(config)
        names = [stem, *(f"{stem}-{number}" for number in range(2, 10_000))]
    else:
        names = [valid_name(name)]
    with disk_errors(runs_dir, "make"):
        runs_dir.mkdir(parents=True, exist_ok=True)
    for path in (runs_dir / each for each in names):
        with disk_errors(path, "make"), suppress(FileExistsError):
            path.mkdir()
            return path
    if name is None:
        raise RunDirectoryError(f"cannot find a free name for {stem} in {runs_dir}")
    if any(path.glob("checkpoints/[!.]*.pt")):
        cure = f", or go on with it: --resume {name}"
    else:
        cure = ""
    raise RunDirectoryError(f"{path} exists already; nothing is overwritten. Choose another --name{cure}")


def refuse_trust(trust: bool, option: str) -> None:
    """Raises ZooError if `trust` was given without a run of somebody else, which `option` names."""
    if trust:
        raise ZooError(
            f"--trust is for a run that somebody else made: name it with {option}, or leave out --trust"
        )


def why_not_own(path: Path, runs_dir: Path) -> str:
    """Why a folder is not one's own; empty if it is.

    It must lie below `runs_dir`, links resolved, and not be pulled. This user must own the folder and the files that
    name environments: config.yml and meta.json; without meta.json, all files in it.
    """
    real = Path(os.path.realpath(path))
    ours = Path(os.path.realpath(runs_dir))
    if real == ours or not real.is_relative_to(ours):
        return f"{path} lies outside of {runs_dir} (--runs-dir)"
    if os.path.lexists(real / PULLED_JSON):
        return f"{path} was pulled from a hub"
    try:
        named = [real / name for name in (CONFIG_YML, META_JSON) if os.path.lexists(real / name)]
        for path_inside in (real, *(named if real / META_JSON in named else real.iterdir())):
            status = path_inside.lstat()
            if not is_own(status):
                return f"user {status.st_uid} owns {path_inside}, and you are user {user()}"
    except OSError as error:
        return f"cannot look into {path}: {error.strerror}"
    return ""


def run_argument(run: Path) -> str:
    """How a later command names a run, so that it is one's own there, too: its path, and --runs-dir where needed."""
    is_default = os.path.realpath(run.parent) == os.path.realpath(DEFAULT_RUNS_DIR)
    name = f"./{run}" if str(run).startswith("-") else run  # otherwise it would be an option
    return shlex.join(map(str, [name] if is_default else [name, "--runs-dir", run.parent]))


def run_paths(runs_dir: Path) -> list[Path]:
    """The run directories in a directory, by name: folders with a meta.json, and folders that cannot be looked into."""
    if not os.path.isdir(runs_dir):
        return []
    with disk_errors(runs_dir, "read"):
        return sorted(path for path in runs_dir.iterdir() if _may_be_run(path))


def _may_be_run(path: Path) -> bool:
    try:
        # lstat raises OSError if there is none.
        return stat.S_ISDIR(path.stat().st_mode) and bool((path / META_JSON).lstat())
    except PermissionError:
        return True
    except OSError:
        return False


def describe_host() -> dict[str, Any]:
    """The machine and the versions of software, on which a run's figures depend."""
    import platform
    from importlib import metadata

    versions = {"python": platform.python_version()}
    for name in ("a3c-zoo", "torch", "numpy", "gymnasium", "ale-py", "stable-baselines3"):
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return {"versions": versions, "host": machine()}
