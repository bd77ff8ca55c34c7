"""Opens files in folders that a stranger may have filled, or may write to.

A link is not followed, a FIFO or a device is not opened, and a file over its limit is not read.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
from pathlib import Path
from typing import IO, Any, Final

#: The largest files that are read, in bytes: JSON and YAML; tables with a row for each episode; checkpoints.
MAX_TEXT: Final = 1 << 20
MAX_TABLE: Final = 1 << 30
MAX_CHECKPOINT: Final = 4 << 30


def open_file(path: Path, mode: str = "rb", limit: int | None = None) -> IO[bytes]:
    """Opens a regular file. It never waits, as it would for the writer of a FIFO.

    Args:
        mode: "rb"; or "xb", "wb", "ab" or "r+b", without a buffer.
        limit: the most bytes that the file may have.

    Raises:
        OSError: it cannot be opened, is a link, a FIFO, a device or a directory, or is larger than `limit`.
    """
    file: IO[bytes] = open(path, mode, buffering=-1 if mode == "rb" else 0, opener=_opener)  # noqa: SIM115
    try:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        if limit is not None and status.st_size > limit:
            raise OSError(errno.EFBIG, f"it is larger than {limit / (1 << 20):,.0f} MiB", str(path))
    except BaseException:
        file.close()
        raise
    return file


def _opener(path: str, flags: int) -> int:
    try:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a link, and links are not followed", path) from None
        raise


def read_bytes(path: Path, limit: int) -> bytes:
    """The contents of a file. Raises OSError as `open_file`."""
    with open_file(path, limit=limit) as file:
        return file.read(limit)  # it may be growing


def read_json(path: Path) -> dict[str, Any]:
    """Reads one JSON object of at most `MAX_TEXT` bytes.

    Raises:
        OSError: as `open_file`.
        ValueError: it is no JSON object.
    """
    try:
        content = json.loads(read_bytes(path, MAX_TEXT))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(content, dict):
        raise ValueError("it is no JSON object")
    return content


def replace_file(path: Path, content: bytes | memoryview) -> None:
    """Writes a new file beside `path` and renames it, so that `path` is always whole. A link at `path` is replaced.

    Nobody can plant the new file: its name, `.NAME.RANDOM.tmp`, cannot be guessed, and it must not exist. If the
    process is killed, the file stays.

    Raises:
        OSError: it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open_file(temporary, "xb") as file:
            rest = memoryview(content)
            while rest:  # a disk that fills up takes the first part, and refuses the next
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
