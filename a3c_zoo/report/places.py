"""Where the files of a report go: into a new folder, without overwriting another report."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import filelock

from a3c_zoo.errors import ZooError
from a3c_zoo.files import path_argument, read_bytes, refuse_place
from a3c_zoo.store.directory import disk_errors

#: The folder of reports for which the caller named none.
DEFAULT_OUT_DIR: Final = Path("comparisons")
#: If the environments' names have more characters, the name of a report's folder has the number of names instead.
MAX_STEM: Final = 100
#: The most bytes of a report's results.json that are read: some 3 kB for each run.
MAX_RESULTS: Final = 64 << 20
#: The page of a report, and all its files.
REPORT_PAGE: Final = "report.html"
REPORT_FILES: Final = ("report.md", REPORT_PAGE, "results.json", "runs.csv", "curves.png", "curves.svg")
#: Is locked while a comparison writes the report beside it.
LOCK_FILE: Final = ".report.lock"


def opening(page: Path) -> str:
    """The command that opens a page in a browser; where there is none, the page's path."""
    for program in ("open", "xdg-open"):
        if shutil.which(program):
            return f"{program} {shlex.quote(str(page))}"
    return str(page)


def choose_out(out: str | Path | None, envs: Sequence[str]) -> Path:
    """The folder of a report; nothing is made yet. A report that was interrupted may be there: it will be finished.

    Raises:
        ZooError: it holds a finished report, or cannot be written.
    """
    if out is None:
        stem = "-".join(env.replace(":", "_").replace("/", "_") for env in envs) or "runs"
        stem = stem if len(stem) <= MAX_STEM else f"{len(envs)}-environments"
        out = DEFAULT_OUT_DIR / f"{stem}-{datetime.now():%Y%m%d-%H%M%S}"
    folder = path_argument("out", out)
    exists = os.path.exists  # False, too, where the user may not look, and for a name that is too long
    is_taken = exists(folder) and (not folder.is_dir() or any(exists(folder / name) for name in REPORT_FILES))
    if is_taken and not is_unfinished(folder):
        raise ZooError(f"--out {folder}: a report is there already, and is not overwritten; choose another")
    refuse_place(folder)
    return folder


@dataclass(frozen=True, slots=True)
class _ClaimedFolder:
    """A folder that no other comparison takes.

    Attributes:
        made: the folder and those above it, as far as they were made for the report; the innermost first.
    """

    folder: Path
    made: Sequence[Path]
    lock: filelock.BaseFileLock


@contextmanager
def claimed(out: Path, plan: str = "") -> Iterator[Path]:
    """Makes the folder of a report and yields it. No other comparison takes it while the body runs.

    If another one has taken it already, takes `-2`, `-3`, … beside it. A report of the same plan that was interrupted,
    and that nobody writes now, is taken over. A folder that was made and holds no report in the end is removed.

    Args:
        plan: see `Making`.
    """
    claim = _claim(out, plan)
    try:
        yield claim.folder
    finally:
        with suppress(OSError):
            (claim.folder / LOCK_FILE).unlink(missing_ok=True)
        claim.lock.release()
        with suppress(OSError):  # it holds the report
            for path in claim.made:
                path.rmdir()


def _claim(out: Path, plan: str) -> _ClaimedFolder:
    """The first folder that can be had. Raises ZooError if there is none."""
    wanted = out if out.name.strip(".") else out.resolve()
    for folder in (out, *(Path(f"{wanted}-{number}") for number in range(2, 10_000))):
        claim = _try_to_claim(folder, plan)
        if claim is not None:
            return claim
    raise ZooError(f"--out {out}: cannot find a free name for the report; choose another")


def is_unfinished(folder: Path, plan: str = "") -> bool:
    """Whether a folder holds a report whose comparison has not ended. plan: only of this plan, see `Making`."""
    try:
        results = json.loads(read_bytes(folder / "results.json", MAX_RESULTS))
    except (OSError, ValueError, RecursionError):
        return False
    if not isinstance(results, dict):
        return False
    return bool(results.get("missing")) and plan in ("", results.get("plan"))


def _try_to_claim(folder: Path, plan: str) -> _ClaimedFolder | None:
    """Makes a folder and locks it. Returns None if a report of others is there, or is written there now."""
    if _is_taken(folder, plan):
        return None
    lock = filelock.FileLock(folder / LOCK_FILE)
    with disk_errors(folder, "write", "--out DIR"):
        try:
            made = [path for path in (folder, *folder.parents) if not os.path.exists(path)]
            folder.mkdir(parents=True, exist_ok=True)
            lock.acquire(blocking=False)
        except (filelock.Timeout, FileExistsError):
            return None
    if _is_taken(folder, plan):  # another one has written its report in this moment
        lock.release()
        return None
    return _ClaimedFolder(folder, made, lock)


def _is_taken(folder: Path, plan: str) -> bool:
    has_report = any(os.path.exists(folder / name) for name in REPORT_FILES)
    return has_report and not (plan and is_unfinished(folder, plan))
