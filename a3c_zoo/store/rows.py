"""Files that grow by whole rows. No row is ever torn, and none is lost while the disk is full."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.files import open_file, shown
from a3c_zoo.store.directory import disk_errors

#: How often rows that wait in memory are tried again, in seconds.
RETRY_S = 5.0
#: Most bytes of a file's rows that wait in memory. With more the run ends.
MOST_WAITING = 64 << 20


def open_rows(path: Path, end: int) -> IO[bytes]:
    """Opens a file to go on behind a row, which ends at this byte offset.

    Raises:
        RunDirectoryError: it cannot be opened, or no row ends there.
    """
    with disk_errors(path, "write"):
        if not path.is_file() or path.stat().st_size < end:
            raise RunDirectoryError(
                f"{shown(path)} is shorter than its checkpoint says; it cannot be continued"
            )
        file = open_file(path, "r+b")
        file.seek(end - 1)
        if file.read(1) != b"\n":
            file.close()
            raise RunDirectoryError(
                f"{shown(path)} has other rows than its checkpoint says; it cannot be continued"
            )
        return file


class RowFile:
    """A file that grows by whole rows. Rows that the disk refuses wait in memory, and are written before later ones.

    Args:
        path: the file. resume_at: byte offset to go on from. Rows after it are cut off: a resumed run trains again.

    Attributes:
        position: bytes of all rows, also of those that wait. fault: why rows wait; None if none does.

    Raises:
        RunDirectoryError: the file cannot be opened, exists already, or no row ends at `resume_at`.
    """

    def __init__(self, path: Path, resume_at: int | None = None) -> None:
        self._path = path
        self.position = self._size = resume_at or 0
        self.fault: RunDirectoryError | None = None
        self._waiting = bytearray()
        self._next_try_s = 0.0
        with disk_errors(path, "write"):
            if not resume_at:
                self._file = open_file(path, "xb" if resume_at is None else "wb")
            else:
                self._file = open_rows(path, resume_at)
                self._cut_back()

    def append(self, rows: bytes) -> None:
        """Adds whole rows: all of them are written, or all wait.

        Raises:
            RunDirectoryError: the disk refuses them, and more than `MOST_WAITING` bytes would wait.
        """
        self._waiting += rows
        self.position += len(rows)
        if self.fault is not None and time.monotonic() < self._next_try_s:
            return
        try:
            self.write_waiting()
        except RunDirectoryError as fault:
            if len(self._waiting) > MOST_WAITING:
                fault.add_note(f"({MOST_WAITING >> 20} MiB of rows wait in memory, and no more may)")
                raise

    def write_waiting(self) -> None:
        """Writes the rows that wait: all of them, or none. Raises RunDirectoryError if the disk refuses them."""
        try:
            with disk_errors(self._path, "write"):
                self._write(bytes(self._waiting))
        except RunDirectoryError as fault:
            self.fault = fault
            self._next_try_s = time.monotonic() + RETRY_S
            raise
        self.fault = None
        self._waiting.clear()

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            self._file.seek(self._size)  # of an earlier try there may be a part that the disk did not cut off
            while rest:  # a disk that fills up takes the first part, and refuses the next
                rest = rest[self._file.write(rest) :]
        except BaseException:
            self._cut_back()
            raise
        self._size += len(data)

    def _cut_back(self) -> None:
        """Removes what lies behind the whole rows."""
        self._file.truncate(self._size)
        self._file.seek(self._size)

    def sync(self) -> None:
        """Brings all rows to the disk itself. A checkpoint that names their position must not outlive them.

        Raises:
            RunDirectoryError: the disk refuses some.
        """
        self.write_waiting()
        with disk_errors(self._path, "write"):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Writes the rows that wait, and closes; an empty file is deleted, if the disk lets it.

        Raises:
            RunDirectoryError: the disk refuses rows, which are lost.
        """
        try:
            self.write_waiting()
        finally:
            self._file.close()
            if self._size == 0:
                with suppress(OSError):
                    self._path.unlink()
