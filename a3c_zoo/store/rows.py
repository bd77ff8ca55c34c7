"""Files that grow by whole rows. No row is ever torn, and none is lost while the disk is full.

Somebody else may replace such a file while its run lives, as editors and rsync do, or cut it short. The writer notices,
sets that file aside, and goes on in a new one that has all rows which are still known.
"""

from __future__ import annotations

import itertools
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, ClassVar, NamedTuple

from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.files import MAX_TABLE, open_file, shown, write_all
from a3c_zoo.store.directory import disk_errors
from a3c_zoo.store.run_files import EVALUATIONS_CSV, MONITOR_CSV

#: How often rows that wait in memory are tried again, in seconds.
ROWS_RETRY_S = 5.0
#: Most bytes of a file's rows that wait in memory. With more the run ends.
MOST_WAITING = 64 << 20
#: A number of steps with more digits is damaged.
MOST_DIGITS = 18
#: So many bytes of a file are copied at a time.
CHUNK = 1 << 20


class Table(NamedTuple):
    """A table of a run. step_column: which value of a row is its step. head_lines: how many lines precede its rows."""

    name: str
    step_column: int
    head_lines: int


MONITOR = Table(MONITOR_CSV, 3, 2)
EVALUATIONS = Table(EVALUATIONS_CSV, 0, 1)


def end_of_rows(folder: Path, table: Table, step: int) -> int:
    """The bytes of a run's table up to its last whole row of at most so many steps; 0 if there is none.

    Raises:
        RunDirectoryError: the table cannot be read.
    """
    path = folder / table.name
    end = size = 0
    with disk_errors(path, "read"), suppress(FileNotFoundError), open_file(path, limit=MAX_TABLE) as file:
        for number, row in enumerate(file):
            size += len(row)
            if number < table.head_lines or not row.strip():
                continue
            values = row.split(b",")
            steps = b"".join(values[table.step_column : table.step_column + 1])
            is_row = row.endswith(b"\n") and steps.isdigit() and len(steps) <= MOST_DIGITS
            if not is_row or int(steps) > step:
                break
            end = size
    return end


class NoRowEndsHereError(RunDirectoryError):
    """No row of a file ends where a checkpoint says that one does."""


def open_rows(path: Path, end: int) -> IO[bytes]:
    """Opens a file to go on behind a row, which ends at this byte offset.

    Raises:
        RunDirectoryError: it cannot be opened.
        NoRowEndsHereError: no row ends there.
    """
    with disk_errors(path, "write"):
        file = open_file(path, "r+b")
        file.seek(end - 1)
        if file.read(1) != b"\n":
            file.close()
            raise NoRowEndsHereError(f"no row of {shown(path)} ends where its checkpoint says")
        return file


def set_file_aside(path: Path) -> Path | None:
    """Gives a file that others have written another name, `NAME.replaced-N`; returns it, None if there is no file.

    Raises:
        OSError: it cannot be renamed, or it is a folder.
    """
    if not os.path.lexists(path):
        return None
    if stat.S_ISDIR(path.lstat().st_mode):
        raise IsADirectoryError(None, "a folder stands in its place", str(path))
    free = free_name(path)
    path.rename(free)
    return free


def free_name(path: Path) -> Path:
    """The first `NAME.replaced-N` that no file has."""
    # TensorBoard reads all files with this word in their names.
    stem = path.name.replace("tfevents", "events")
    names = (path.with_name(f"{stem}.replaced-{number}") for number in itertools.count(1))
    return next(name for name in names if not os.path.lexists(name))


class RowFile:
    """A file that grows by whole rows. Rows that the disk refuses wait in memory, and are written before later ones.

    Args:
        path: the file. resume_at: byte offset to go on from. Rows after it are cut off: a resumed run trains again.

    Attributes:
        position: bytes of all rows, also of those that wait. fault: why rows wait; None if none does.
        head: its first lines, taken from the first rows that are appended. A new file begins with them, even if all
            rows are lost.
        tell: told in a sentence that the file was replaced or cut short by others.

    Raises:
        RunDirectoryError: the file cannot be opened, exists already, or no row ends at `resume_at`.
    """

    #: How many lines its head has; None: its rows are no lines, and all that is appended first is its head.
    head_lines: ClassVar[int | None] = 0

    def __init__(self, path: Path, resume_at: int | None = None) -> None:
        self._path = path
        self.position = self._size = resume_at or 0
        self.fault: RunDirectoryError | None = None
        self.head = b""
        self.tell: Callable[[str], None] = lambda text: None
        self._news = ""
        self._aside: Path | None = None  # what others had put in its place, until that is told
        self._waiting = bytearray()
        self._next_try_s = 0.0
        with disk_errors(path, "write"):
            if not resume_at:
                self._file = open_file(path, "x+b" if resume_at is None else "w+b")
            else:
                self._file = open_rows(path, resume_at)
                self._cut_back()
                self._file.seek(0)
                self.head = self._head_of(self._file.read(CHUNK))

    def append(self, rows: bytes) -> None:
        """Adds whole rows: all of them are written, or all wait.

        Raises:
            RunDirectoryError: the disk refuses them, and more than `MOST_WAITING` bytes would wait.
        """
        if not self.position:
            self.head = self._head_of(rows)
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
            self._next_try_s = time.monotonic() + ROWS_RETRY_S
            raise
        self.fault = None
        self._waiting.clear()
        if news := self._news:
            self._news = ""
            self.tell(news)  # it may append rows itself

    def _head_of(self, begin: bytes) -> bytes:
        if self.head_lines is None:
            return begin
        return b"".join(begin.splitlines(keepends=True)[: self.head_lines])

    def _is_ours(self) -> bool:
        """Whether the file at the path is the one that is open, and has the rows that were written."""
        opened = os.fstat(self._file.fileno())
        try:
            there = os.lstat(self._path)
        except FileNotFoundError:
            return False
        has_rest = self.fault is not None and opened.st_size > self._size  # of a row that the disk refused
        return os.path.samestat(opened, there) and (has_rest or opened.st_size == self._size)

    def _begin_anew(self) -> None:
        """Goes on in a new file that has the known rows. What stands in its place is set aside."""
        known = self._known_bytes()
        self._aside = set_file_aside(self._path) or self._aside
        new_file = open_file(self._path, "x+b")
        try:
            if known:
                _copy(self._file, new_file, known)
            elif self._size:
                write_all(new_file, self.head)
        except BaseException:
            new_file.close()
            self._path.unlink()
            raise
        self._file.close()
        self._file = new_file
        lost = self._size - new_file.tell()
        self._size -= lost
        self.position -= lost
        if self._aside:
            happened = f"others have written to it; what they left is {self._aside.name}"
        else:
            happened = "it was removed"
        rest = f"rows of {lost:,} bytes are lost" if lost else "no row is lost"
        self._news = f"{shown(self._path)} is written anew: {happened}; {rest}"
        self._aside = None

    def _known_bytes(self) -> int:
        """How many bytes of whole rows the open file still has; 0 if it has another head."""
        size = os.fstat(self._file.fileno()).st_size
        self._file.seek(0)
        if self._file.read(len(self.head)) != self.head:
            return 0
        if self.head_lines is None:
            return self._size if size >= self._size else 0
        return _end_of_last_row(
            self._file, min(size, self._size)
        )  # rows may have been moved, and end elsewhere

    def _write(self, data: bytes) -> None:
        if not self._size and not data:
            return
        if not self._is_ours():
            self._begin_anew()
        try:
            self._file.seek(self._size)  # of an earlier try there may be a part that the disk did not cut off
            write_all(self._file, data)
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
            is_empty = self._size == 0 and self._is_ours()
            self._file.close()
            if is_empty:
                with suppress(OSError):
                    self._path.unlink()


def _end_of_last_row(file: IO[bytes], size: int) -> int:
    """The end of the last whole row within the first `size` bytes, as a byte offset."""
    while size > 0:
        start = max(size - CHUNK, 0)
        file.seek(start)
        newline = file.read(size - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        size = start
    return 0


def _copy(source: IO[bytes], target: IO[bytes], size: int) -> None:
    """Copies the first `size` bytes."""
    source.seek(0)
    while size > 0 and (chunk := source.read(min(size, CHUNK))):
        write_all(target, chunk)
        size -= len(chunk)
