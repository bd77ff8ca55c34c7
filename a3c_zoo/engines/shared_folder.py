"""Reservations in a folder of runs that comparisons share: one trains a run, or plays evaluations; the others wait."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import filelock

from a3c_zoo.store.directory import disk_errors

#: The folder of lock files within a folder of runs. They are empty, and stay.
LOCKS_DIR: Final = ".turns"
#: How long others wait for a comparison that gives no sign of life, such as a suspended one, in seconds.
PATIENCE_S: Final = 60.0
#: How often a waiting comparison tries again, in seconds.
TRY_EVERY_S: Final = 0.2


@contextmanager
def reserved(
    runs_dir: Path,
    name: str,
    what: str,
    tell: Callable[[str], None],
    check: Callable[[], None] = lambda: None,
) -> Iterator[Callable[[], None]]:
    """Waits for a reservation and holds it while the body runs. It ends with the process, however that ends.

    A folder that cannot be written has no reservations, because nobody trains there.

    Args:
        name: of the reservation, and of its file. what: what another comparison may be doing now, in words.
        tell: gets a line when the waiting begins, and one when a comparison without a sign of life is no longer
            waited for.
        check: is called several times a second while waiting; what it raises ends the waiting.

    Yields:
        The sign of life: the holder must call it more often than every `PATIENCE_S` seconds.

    Raises:
        RunDirectoryError: the lock file cannot be made.
    """
    path = runs_dir / LOCKS_DIR / f"{name}.lock"
    if os.path.exists(runs_dir) and not os.access(runs_dir, os.W_OK):
        yield lambda: None
        return
    with disk_errors(path.parent, "make"):
        path.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(path)
    _wait(lock, path, what, tell, check)

    def give_sign() -> None:
        with suppress(OSError):  # somebody has removed the folder of lock files
            os.utime(path)

    try:
        yield give_sign
    finally:
        lock.release()  # does nothing if it was not taken


def _wait(
    lock: filelock.BaseFileLock, path: Path, what: str, tell: Callable[[str], None], check: Callable[[], None]
) -> None:
    """Returns when the lock is taken, or when its holder has given no sign of life for `PATIENCE_S` seconds."""
    sign: int | None = None
    seen_s = time.monotonic()
    while True:
        newest = _take_or_look(lock, path)
        if newest is None:
            return
        now = time.monotonic()
        if sign is None:
            tell(f"waiting: another comparison {what}")
        elif newest == sign and now - seen_s > PATIENCE_S:
            tell(
                f"another comparison {what}, but has given no sign of life for {PATIENCE_S:g} s; going on without it"
            )
            return
        if newest != sign:
            sign = newest
            seen_s = now
        check()
        time.sleep(TRY_EVERY_S)


def _take_or_look(lock: filelock.BaseFileLock, path: Path) -> int | None:
    """Takes the lock and returns None. If another process has it: when that gave its last sign of life, in ns."""
    with disk_errors(path, "lock"):
        try:
            lock.acquire(blocking=False)
        except filelock.Timeout:
            return path.stat().st_mtime_ns
    return None
