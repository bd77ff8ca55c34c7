"""stdout and stderr of a process whose work does not depend on them.

A pipe can lose its reader, a terminal can go away, a disk can be full. Text that cannot be written is then dropped, and
the process goes on. Without this, every `print` of an environment could end a training of many hours.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from a3c_zoo.errors import ZooError, is_full

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

#: File descriptors of the standard streams, and how Python opens them.
_STREAMS = {"stdin": (0, "r"), "stdout": (1, "w"), "stderr": (2, "w")}


class _LosableFile(io.FileIO):
    """A file whose writes never fail."""

    def write(self, data: ReadableBuffer) -> int:
        """Returns the number of bytes, also if they were dropped."""
        written: int | None = None  # also what FileIO returns for a pipe that does not wait and is full
        with suppress(OSError):
            written = super().write(data)
        return memoryview(data).nbytes if written is None else written


class _NamedFile(io.FileIO):
    """A standard stream; what cannot be written is an error of the user. Afterwards it drops what it gets."""

    def write(self, data: ReadableBuffer) -> int:
        """Returns the number of bytes that were written; ZooError if the disk or the terminal refuses them."""
        try:
            return super().write(data)
        except BrokenPipeError:  # nobody wants to read more
            raise
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())  # Python flushes it once more at its end
            reason, cure = error.strerror or str(error), "Free space, or send" if is_full(error) else "Send"
            raise ZooError(f"stdout cannot be written: {reason}. {cure} it to another place") from error


def is_dumb() -> bool:
    """Whether `TERM` names a terminal on which rich draws nothing."""
    return os.environ.get("TERM", "").lower() in ("dumb", "unknown")


def open_closed_streams() -> None:
    """Opens the null device for each standard stream that the parent has closed (`>&-`).

    Otherwise the next file that is opened gets its descriptor: what a library prints would go into monitor.csv.
    """
    for name, (descriptor, mode) in _STREAMS.items():
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest free descriptor, which is this one
            os.set_inheritable(opened, True)
        if getattr(sys, name) is None:
            stream = open(descriptor, mode, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


def drop_lost_output(*names: str) -> None:
    """From now on `sys.stdout` or `sys.stderr` drop what cannot be written; a stream that a program has set stays.

    Args:
        names: "stdout", "stderr".
    """
    for name in names:
        _replace(name, _LosableFile)


def refuse_lost_output() -> None:
    """From now on `sys.stdout` raises ZooError for what cannot be written; a stream that a program has set stays."""
    _replace("stdout", _NamedFile)


def take_stdout() -> None:
    """From now on `sys.stdout` alone writes to stdout. What else writes there, such as C code, writes to stderr."""
    if sys.stdout is not None and _descriptor_of(sys.stdout) == 1:
        _replace("stdout", _NamedFile, os.dup(1))
        os.dup2(2, 1)


def _replace(name: str, kind: type[io.FileIO], target: int | None = None) -> None:
    """Replaces a standard stream by one that writes to `target`, by default where it wrote before."""
    stream, descriptor = getattr(sys, name), _STREAMS[name][0]
    if not isinstance(stream, io.TextIOWrapper) or _descriptor_of(stream) != descriptor:
        return
    with suppress(OSError):
        stream.flush()
    replaced = io.TextIOWrapper(
        io.BufferedWriter(kind(descriptor if target is None else target, "w", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering or stream.write_through,
    )
    setattr(sys, name, replaced)
    setattr(sys, f"__{name}__", replaced)


def _descriptor_of(stream: TextIO) -> int | None:
    """Its file descriptor; None for one in memory, or that is closed."""
    try:
        return stream.fileno()
    except (OSError, ValueError):
        return None
