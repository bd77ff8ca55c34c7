"""Runs one command in this process, and watches what it does.

Exit status, output, time, memory, writes, reads through planted links, imports, programs that it starts.
"""

from __future__ import annotations

import ctypes
import io
import os
import re
import resource
import signal
import stat
import struct
import sys
import threading
import time
import traceback
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from a3c_zoo.cli.main import cli

#: A case that takes longer is a finding, in seconds.
LIMIT_S = 10.0
STATUSES = (0, 1, 2, 130)
#: Modules and packages with this beginning lie where Python finds them; only a file or a line of a case names them.
EVIL = "evil_"
#: Memory that a case may take: more is a finding.
MEMORY = 1 << 30
#: Address space that a case may take, and the largest file that it may write, in bytes. The system refuses more.
ADDRESSES, LARGEST_FILE = 6 << 30, 1 << 28
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: Audit event → the positions of the paths that it changes.
_CHANGES = {"os.remove": (0,), "os.rmdir": (0,), "os.mkdir": (0,), "os.truncate": (0,), "os.chmod": (0,)} | {
    "os.rename": (0, 1),
    "os.link": (1,),
    "os.symlink": (1,),
}
_PROGRAMS = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect")


class Finding(AssertionError):  # noqa: N818 - it is what a fuzzer finds
    """A property that does not hold."""


class _TooSlowError(BaseException):
    """The time of a case is over; no `except Exception` catches it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str


class _Audit:
    """Notes writes outside `writable`, programs that are started, and imports of evil modules, while it is on."""

    def __init__(self) -> None:
        self.is_on = self.is_added = False
        self.writable: tuple[str, ...] = ()
        self.noted: list[str] = []

    @contextmanager
    def watching(self, writable: Sequence[Path]) -> Iterator[list[str]]:
        if not self.is_added:
            sys.addaudithook(self._hook)  # stays until the process ends, and slows it
            self.is_added = True
        self.noted, self.writable = [], tuple(os.path.realpath(path) for path in writable)
        self.is_on = True
        try:
            yield self.noted
        finally:
            self.is_on = False

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.is_on:
            return
        if event == "open":
            path, mode, flags = args
            if isinstance(flags, int) and flags & _WRITES:
                # An opener may add O_NOFOLLOW to the flags of `open`. What is written through links, victims show.
                self._check(event, path, follow=mode is None and not flags & os.O_NOFOLLOW)
        elif event in _CHANGES:
            for position in _CHANGES[event] if event != "os.mkdir" or not os.path.lexists(args[0]) else ():
                self._check(event, args[position], follow=False)
        elif event == "import":
            if args[0].partition(".")[0].startswith(EVIL):
                self.noted.append(f"imports {args[0]}")
        elif event in _PROGRAMS and "ffmpeg" not in str(args[0]):
            self.noted.append(f"{event} {args[0]!r:.80}")

    def _check(self, event: str, path: Any, follow: bool = True) -> None:
        if not isinstance(path, str | bytes):
            return
        text = os.fsdecode(path)
        folder, name = os.path.split(os.path.abspath(text))
        real = os.path.realpath(text) if follow else os.path.join(os.path.realpath(folder), name)
        if real != os.devnull and not any(Path(real).is_relative_to(root) for root in self.writable):
            self.noted.append(f"{event} {real}")


_AUDIT = _Audit()


class _Reads:
    """Notes which files of a folder are read, by whatever library: the kernel tells it (inotify)."""

    _IN_ACCESS = 1

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._file = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._file < 0 or libc.inotify_add_watch(self._file, os.fsencode(folder), self._IN_ACCESS) < 0:
            raise OSError(ctypes.get_errno(), "inotify", str(folder))

    def __enter__(self) -> _Reads:
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._file)

    def names(self) -> list[str]:
        """The names of the files that were read since the last call."""
        found = []
        with suppress(BlockingIOError):
            events = os.read(self._file, 1 << 16)
            while events:
                length = struct.unpack_from("I", events, 12)[0]
                found.append(events[16 : 16 + length].rstrip(b"\0").decode())
                events = events[16 + length :]
        return [name for name in found if name]


def _forget_peak() -> int:
    """Begins to measure the peak of this process's memory anew. Returns what it takes now, in bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def _memory(name: str) -> int:
    """A line of /proc/self/status in bytes: VmRSS, or VmHWM, which is the peak."""
    status = Path("/proc/self/status").read_text()
    return int(re.findall(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)[0]) << 10


def run_case(
    arguments: Sequence[object],
    writable: Sequence[Path],
    victims: Callable[[], object],
    limit_s: float = LIMIT_S,
    unread: Path | None = None,
    disk: AbstractContextManager[object] | None = None,
) -> Ended:
    """Runs `a3c-zoo ARGUMENTS`.

    Args:
        writable: files and folders that the command may change.
        victims: what must be the same before and after.
        unread: a folder whose files the command must not read; links lead there.
        disk: what the files lie on while the command runs (`BrokenDisk.mounted`).

    Raises:
        Finding: a property does not hold.
    """
    words = [str(each) for each in arguments]
    before, memory_before, stopwatch = victims(), _forget_peak(), _Stopwatch()
    with _Reads(unread) if unread else nullcontext() as reads, _AUDIT.watching(writable) as noted:
        ended = _call(words, limit_s, disk or nullcontext())
        names = reads.names() if reads else []
    seconds = stopwatch.seconds
    taken = _memory("VmHWM") - memory_before
    shown = f"\n$ a3c-zoo {' '.join(map(repr, words))}\n{ended.out[-500:]}{ended.err[-1500:]}"
    if noted:
        raise Finding(f"{noted[0]}{shown}")
    if victims() != before:
        raise Finding(f"changed a file that is not its own{shown}")
    if names:
        raise Finding(f"read {names[0]} through a link{shown}")
    if seconds > limit_s:
        raise Finding(f"took {seconds:.0f} s{shown}")
    if taken > MEMORY:
        raise Finding(f"took {taken >> 20:,} MiB of memory{shown}")
    if problem := _problem(ended):
        raise Finding(f"{problem}{shown}")
    return ended


def _call(words: list[str], limit_s: float, disk: AbstractContextManager[object]) -> Ended:
    out, err = io.StringIO(), io.StringIO()
    status: object = None
    try:
        with redirect_stdout(out), redirect_stderr(err), _limits(), _limited_time(limit_s), disk:
            cli.main(words, prog_name="a3c-zoo")
    except SystemExit as end:
        status = end.code
    except _TooSlowError as error:
        where = "".join(traceback.format_tb(error.__traceback__)[-6:])
        raise Finding(f"over {limit_s:g} s: a3c-zoo {words!r}\n{where}") from error
    except BaseException as error:
        raise Finding(f"a traceback: a3c-zoo {words!r}\n{err.getvalue()[-500:]}") from error
    if not isinstance(status, int):
        raise Finding(f"exit status {status!r}: a3c-zoo {words!r}")
    return Ended(status, out.getvalue(), err.getvalue())


def _problem(ended: Ended) -> str:
    """What is wrong with what a command printed; "" if nothing is."""
    for stream in (ended.out, ended.err):
        for line in stream.split("\n"):
            if not all(_is_shown(character) for character in line):
                return f"a terminal would obey {line!r:.200}"
    if ended.status not in STATUSES:
        return f"exit status {ended.status}"
    if "Traceback (most" in ended.err + ended.out:
        return "a traceback is shown"
    if ended.status in (0, 130):
        return ""
    errors = [line for line in ended.err.splitlines() if not line.startswith("Warning: ")]
    if ended.status == 1 and not errors:
        return ""  # `compare` with failed runs
    if not errors or not errors[0].startswith("Error: "):
        return "" if ended.err.startswith("Usage: ") else "no line with the error"
    several = re.fullmatch(r"Error: \d+ faults in the configuration:", errors[0])
    if len(errors) > 1 and not (several and all(line.startswith("  ") for line in errors[1:])):
        return f"{len(errors)} lines for one error"
    return ""


def _is_shown(character: str) -> bool:
    """Whether a terminal shows a character, and does not obey it. The category Zs has the blanks of all languages."""
    return character.isprintable() or unicodedata.category(character) == "Zs"


class _Stopwatch:
    """Seconds since its beginning: of this process's CPU, or a sixth of the clock's. A busy machine is no finding."""

    def __init__(self) -> None:
        self._cpu_s, self._clock_s = time.process_time(), time.monotonic()

    @property
    def seconds(self) -> float:
        return max(time.process_time() - self._cpu_s, (time.monotonic() - self._clock_s) / 6)


@contextmanager
def _limited_time(limit_s: float) -> Iterator[None]:
    """Raises _TooSlowError in the main thread after a time. SIGALRM belongs to pytest-timeout."""

    def stop(number: int, frame: object) -> None:
        raise _TooSlowError

    def watch() -> None:
        while not ended.wait(0.1):
            if watch_of_case.seconds > limit_s:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR2)
                return

    ended, watch_of_case = threading.Event(), _Stopwatch()
    before = signal.signal(signal.SIGUSR2, stop)
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        signal.signal(signal.SIGUSR2, before)


@contextmanager
def _limits() -> Iterator[None]:
    """Limits what a case may take: without them, a size from a file could fill the machine's memory, or its disk."""
    limits = {resource.RLIMIT_AS: psutil.Process().memory_info().vms + ADDRESSES, resource.RLIMIT_FSIZE: LARGEST_FILE}
    before = {kind: resource.getrlimit(kind) for kind in limits}
    for kind, limit in limits.items():
        resource.setrlimit(kind, (limit, before[kind][1]))
    try:
        yield
    finally:
        for kind, limit_before in before.items():
            resource.setrlimit(kind, limit_before)


def snapshot(*roots: Path) -> dict[str, tuple[object, ...]]:
    """Path → type, size, time of change and target of every file and folder at or below these places."""
    found: dict[str, tuple[object, ...]] = {}
    for root in roots:
        for folder, folders, files in os.walk(root):
            for name in (".", *folders, *files):
                path = os.path.join(folder, name)
                status = os.lstat(path)
                target = os.readlink(path) if stat.S_ISLNK(status.st_mode) else ""
                found[path] = (status.st_mode, status.st_size, status.st_mtime_ns, target)
    return found
