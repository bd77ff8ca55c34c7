"""Opens files in folders that a stranger may have filled, or may write to.

A link is not followed, a FIFO or a device is not opened, and a file over its limit is not read.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from a3c_zoo.errors import RunDirectoryError, ZooError, text_argument
from a3c_zoo.hardware import available_memory
from a3c_zoo.system import NON_BLOCKING, lock, open_without_links

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

#: The largest files that are read, in bytes: JSON and YAML; tables with a row for each episode; checkpoints.
MAX_TEXT: Final = 1 << 20
MAX_TABLE: Final = 1 << 30
MAX_CHECKPOINT: Final = 4 << 30
#: The most characters of a line of a table.
MAX_LINE: Final = 1 << 16
#: The name of a file while it is being written (`replace_file`). It stays if the process is killed.
TEMPORARY: Final = re.compile(r"\.(.+)\.[0-9a-f]{16}\.tmp")
#: What is made of a table takes up to so many times the memory of its file: a row of six bytes becomes numbers of eight
#: bytes each, and these are sorted, averaged and drawn.
TABLE_COST: Final = 16


def absolute(path: Path) -> Path:
    """The path from the root, if the current folder still exists."""
    with suppress(OSError):
        return path.absolute()
    return path


def shown(path: Path) -> Path:
    """The path as messages have it: from the current folder, if it lies below it."""
    with suppress(OSError, ValueError):
        return path.relative_to(Path.cwd())
    return path


def other_format(number: object, known: int) -> str:
    """What a message says of the format of a file that another version wrote, after "has format"."""
    text = f"{ascii(number)[:20]}; this version reads {known}"
    if isinstance(number, int) and number > known:
        text += ". A newer a3c-zoo wrote it: upgrade this one"
    return text


@contextmanager
def same_folder() -> Iterator[None]:
    """An environment that lives within the context may change the current folder. Afterwards it is as before."""
    folder = absolute(Path())
    try:
        yield
    finally:
        with suppress(OSError):  # it has been deleted
            os.chdir(folder)


def open_file(path: Path, mode: str = "rb", limit: int | None = None, follow: bool = False) -> IO[bytes]:
    """Opens a regular file. It never waits, as it would for the writer of a FIFO.

    Args:
        mode: "rb"; or "xb", "x+b", "wb", "w+b", "ab" or "r+b", without a buffer.
        limit: the most bytes that the file may have.
        follow: whether it may be a link: the user has named it, and no stranger.

    Raises:
        OSError: it cannot be opened, is a link, a FIFO, a device or a directory, or is larger than `limit`; or it is
            to be written and has other names (hard links): each of them would change.
    """
    opener = _open_linked if follow else _open
    buffering = -1 if mode == "rb" else 0
    file: IO[bytes] = open(path, mode, buffering, opener=opener)  # noqa: SIM115 - the caller closes it
    try:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        if mode != "rb" and status.st_nlink > 1:
            raise OSError(
                errno.EMLINK, "it has other names (hard links), and would change under each", str(path)
            )
        if mode.startswith("w"):
            file.truncate(0)
        if limit is not None and status.st_size > limit:
            raise OSError(errno.EFBIG, f"it is larger than {limit / (1 << 20):,.0f} MiB", str(path))
    except BaseException:
        file.close()
        raise
    return file


def _open(path: str, flags: int) -> int:
    return open_without_links(path, flags & ~os.O_TRUNC)


def _open_linked(path: str, flags: int) -> int:
    return os.open(path, (flags | NON_BLOCKING) & ~os.O_TRUNC, 0o666)


def why_closed(folder: Path) -> str:
    """Why the user may not look into a folder; empty if they may, or if there is none."""
    try:
        os.scandir(folder).close()
        (folder / "meta.json").lstat()
    except PermissionError as error:
        return f"{shown(folder)} cannot be read: {error.strerror}"
    except (OSError, ValueError):  # a name that no folder can have
        pass
    return ""


def is_locked(path: Path, patience_s: float) -> bool:
    """Whether a process holds the lock of a file for `patience_s` or longer. Raises OSError.

    This process need not be allowed to write to the file.
    """
    file = open_without_links(str(path), os.O_RDONLY)
    end_s = time.monotonic() + patience_s
    try:
        while not lock(file, exclusive=False):
            if time.monotonic() >= end_s:
                return True
            time.sleep(patience_s / 10)
        return False
    finally:
        os.close(file)


def read_bytes(path: Path, limit: int) -> bytes:
    """The contents of a file. Raises OSError as `open_file`."""
    with open_file(path, limit=limit) as file:
        return file.read(limit)  # it may be growing


def read_lines(path: Path, errors: str = "strict") -> Iterator[str]:
    """The lines of a table of at most `MAX_TABLE` bytes, one after the other, each with its end as `\\n`.

    `\\r\\n` and `\\r` end a line, too. Only the last line may lack an end.

    Args:
        errors: what follows bytes that are no UTF-8, as for `bytes.decode`.

    Raises:
        OSError: as `open_file`; it has a line of more than `MAX_LINE` characters; or there is too little memory for
            what is made of the table.
        ValueError: it is no UTF-8.
    """
    with open_file(path, limit=MAX_TABLE) as file:
        size = os.fstat(file.fileno()).st_size
        if TABLE_COST * size > (free := available_memory()):
            raise OSError(
                errno.ENOMEM, f"it has {size:,} bytes, and {free:,} bytes of memory are free", str(path)
            )
        lines = io.TextIOWrapper(file, "utf-8", errors)
        while line := lines.readline(MAX_LINE):
            if len(line) == MAX_LINE and not line.endswith("\n"):
                raise OSError(errno.EFBIG, f"it has a line of more than {MAX_LINE:,} characters", str(path))
            yield line


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


#: Annotation of a field → the types that its value in JSON has.
_JSON_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "str": (str,),
    "Reason": (str,),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
}
#: A number beyond it is damaged. Sums of smaller ones do not overflow.
_GREATEST: Final = 1e100
#: The greatest whole number up to which a float64 holds all: files count steps, episodes and bytes.
_GREATEST_INT: Final = 2**53


def fields_of(record: type[DataclassInstance], content: Any) -> dict[str, Any]:
    """The values of a record's fields, from a JSON object. Only strings, truth values and numbers are checked.

    Raises:
        TypeError: the content is no object, or a value has another type than its field.
        ValueError: a number is not finite, or too great to compute with.
    """
    if not isinstance(content, dict):
        raise TypeError("it is no JSON object")
    for field in (field for field in fields(record) if field.name in content):
        annotation, optional, _ = str(field.type).partition(" | None")
        value: Any = content[field.name]
        if annotation not in _JSON_TYPES or (optional and value is None):
            continue
        if not isinstance(value, _JSON_TYPES[annotation]) or (
            isinstance(value, bool) and annotation != "bool"
        ):
            raise TypeError(f"{field.name} is no {annotation}")
        greatest = _GREATEST_INT if annotation == "int" else _GREATEST
        if isinstance(value, int | float) and not abs(value) <= greatest:
            raise ValueError(f"{field.name} is too great, or no number")
    return content


def write_all(file: IO[bytes], content: bytes | memoryview) -> None:
    """Writes to a file without a buffer. Raises OSError if it takes only a part: a disk fills up in the midst of it."""
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def write_new(path: Path, content: bytes | memoryview) -> None:
    """Writes a file that must not exist. Raises OSError if it cannot be written whole; then it is not there."""
    with open_file(path, "xb") as file:
        try:
            write_all(file, content)
            os.fsync(file.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def replace_file(path: Path, content: bytes | memoryview) -> None:
    """Writes a new file beside `path` and renames it, so that `path` is always whole. A link at `path` is replaced.

    Nobody can plant the new file: its name, `.NAME.RANDOM.tmp`, cannot be guessed, and it must not exist. If the
    process is killed, the file stays. A long NAME is cut: most disks take 255 bytes.

    Raises:
        OSError: it cannot be written.
    """
    name = os.fsencode(path.name)[:200].decode(errors="ignore")
    temporary = path.with_name(f".{name}.{secrets.token_hex(8)}.tmp")
    try:
        write_new(temporary, content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Brings the names of a folder's files to the disk itself, as far as its file system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def path_argument(name: str, value: str | Path) -> Path:
    """An argument of a function of Python that is a path. Raises ZooError for others."""
    try:
        return Path(value)
    except TypeError:
        raise ZooError(f"{name}={value!r:.80}: give a path") from None


def valid_name(name: str, option: str = "--name", most: int = 230) -> str:
    """Returns a name that `option` gives to a folder. Raises RunDirectoryError if no folder may have it.

    Args:
        most: bytes. Most disks take 255, with what is added to the name.
    """
    text_argument(option.lstrip("-"), name)
    if re.fullmatch(r"[\w.+=@-]+", name) and not name.startswith("."):
        if len(os.fsencode(name)) <= most:
            return name
        raise RunDirectoryError(f"{option} {name[:20]}...: is too long; at most {most} bytes")
    raise RunDirectoryError(
        f"{option} {name!r}: letters, digits and . _ - + = @ only, no blanks, no dot first"
    )


def refuse_place(out: Path, option: str = "--out") -> None:
    """Raises ZooError unless the folder of an option, and those above it that are missing, can be made."""
    there = next(path for path in (out, *out.absolute().parents) if os.path.exists(path))
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        raise ZooError(f"{option} {out}: {there} is no directory in which you may write; choose another")


def refuse_ending(out: Path, suffixes: Sequence[str]) -> None:
    """Raises ZooError if the file of `--out` has none of these endings."""
    if out.suffix.lower() not in suffixes:
        raise ZooError(f"--out {out}: must end in {' or '.join(suffixes)}")


def refuse_out(out: Path, suffixes: Sequence[str], force: bool) -> None:
    """Raises ZooError for a file that a command cannot or shall not write: of another ending, or one that exists."""
    refuse_ending(out, suffixes)
    if os.path.exists(out) and not force:
        raise ZooError(f"--out {out}: exists already; choose another name, or overwrite it with --force")
    if not (os.path.isdir(out.parent) and os.access(out.parent, os.W_OK | os.X_OK)):
        raise ZooError(f"--out {out}: {out.parent} is no directory in which you may write; choose another")


def write_out(out: Path, content: bytes, force: bool) -> None:
    """Writes the file of `--out`. Raises ZooError if it cannot be written."""
    try:
        (replace_file if force else write_new)(out, content)
    except OSError as error:
        raise ZooError(f"--out {out}: cannot be written: {error.strerror}") from error
