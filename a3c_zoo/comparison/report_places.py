"""Where the files of a report go: into a new folder, without overwriting another report."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from a3c_zoo.errors import ZooError
from a3c_zoo.files import refuse_place
from a3c_zoo.runs.directory import disk_errors

#: The folder of reports for which the caller named none.
DEFAULT_OUT_DIR: Final = Path("comparisons")
#: If the environments' names have more characters, the name of a report's folder has the number of names instead.
MAX_STEM: Final = 100
#: The files of a report.
REPORT_FILES: Final = ("report.md", "report.html", "results.json", "runs.csv", "curves.png", "curves.svg")


def choose_out(out: str | Path | None, envs: Sequence[str]) -> Path:
    """The folder of a report; nothing is made yet.

    Raises:
        ZooError: it holds a report already, or cannot be written.
    """
    if out is None:
        stem = "-".join(env.replace(":", "_").replace("/", "_") for env in envs) or "runs"
        stem = stem if len(stem) <= MAX_STEM else f"{len(envs)}-environments"
        out = DEFAULT_OUT_DIR / f"{stem}-{datetime.now():%Y%m%d-%H%M%S}"
    folder = Path(out)
    exists = os.path.exists  # False, too, where the user may not look, and for a name that is too long
    if exists(folder) and (not folder.is_dir() or any(exists(folder / name) for name in REPORT_FILES)):
        raise ZooError(f"--out {folder}: a report is there already, and is not overwritten; choose another")
    refuse_place(folder)
    return folder


def claim_out(out: Path) -> Path:
    """Makes the folder of a report. If another comparison has taken it meanwhile, takes `-2`, `-3`, … beside it."""
    wanted = out if out.name.strip(".") else out.resolve()
    for folder in (out, *(Path(f"{wanted}-{number}") for number in range(2, 10_000))):
        if any(os.path.exists(folder / name) for name in REPORT_FILES):
            continue
        with disk_errors(folder, "write", "--out DIR"), suppress(FileExistsError):
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / REPORT_FILES[0]).open("x"):
                return folder
    raise ZooError(f"--out {out}: cannot find a free name for the report; choose another")


@contextmanager
def claimed(out: Path) -> Iterator[Path]:
    """Yields the folder of `claim_out`. After an error or Ctrl-C it holds no part of the report: the place is free."""
    folder = claim_out(out)
    try:
        yield folder
    except BaseException:
        for name in REPORT_FILES:
            (folder / name).unlink(missing_ok=True)
        raise
