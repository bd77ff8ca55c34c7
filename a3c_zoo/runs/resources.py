"""What a run costs: the seconds of its parts, and its CPU seconds and memory.

CPU seconds and memory are those of this process and all its descendants, the fork server and workers included. Linux
tells both for every process; elsewhere they are None. Runs in threads of one process count each other's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from a3c_zoo.store.checkpoints import ResourceState
from a3c_zoo.system import IS_LINUX

if TYPE_CHECKING:
    import psutil

SAMPLE_EVERY_S = 1.0
#: Share of one core that samples may take. Reading a process's page tables takes milliseconds: many are read seldom.
SAMPLE_SHARE = 0.004


#: The stretches in which Ctrl-Z had suspended this process: its moment (`time.monotonic()`), and the seconds since.
_suspensions: list[tuple[float, float]] = []


def add_suspension(since_s: float) -> None:
    """This process was suspended from a moment (`time.monotonic()`) until now."""
    _suspensions.append((since_s, time.monotonic() - since_s))


def awake_s(at_s: float | None = None) -> float:
    """A moment, by default now: `time.monotonic()` without the seconds of suspensions before it."""
    at_s = time.monotonic() if at_s is None else at_s
    return at_s - sum(min(seconds, max(0.0, at_s - since_s)) for since_s, seconds in _suspensions)


@dataclass(slots=True)
class Clock:
    """Adds up the seconds of each part, over all sessions of a run. Training seconds are without the other parts.

    It stands still while Ctrl-Z suspends the run (`add_suspension`).

    Attributes:
        seconds: part ("startup", "training", "evaluation", "checkpoint", "end") → seconds of its finished stretches.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    _part: str = "startup"
    _since_s: float = field(default_factory=awake_s)

    def switch(self, part: str) -> None:
        """Ends the current part and begins another."""
        now = awake_s()
        self.seconds[self._part] = self.seconds.get(self._part, 0.0) + now - self._since_s
        self._part = part
        self._since_s = now

    def go_on_from(self, seconds: Mapping[str, float]) -> None:
        """Adds the seconds of earlier sessions."""
        for part, earlier_s in seconds.items():
            self.seconds[part] = self.seconds.get(part, 0.0) + earlier_s

    @contextmanager
    def during(self, part: str) -> Iterator[None]:
        """Counts the body as `part`, then goes on with what was counted before."""
        before = self._part
        self.switch(part)
        try:
            yield
        finally:
            self.switch(before)

    def of(self, part: str, at_s: float | None = None) -> float:
        """Seconds of a part until `at_s` (`time.monotonic()`), by default until now."""
        if part == self._part:
            running = awake_s(at_s) - self._since_s
        else:
            running = 0.0
        return self.seconds.get(part, 0.0) + running

    def of_all(self) -> dict[str, float]:
        """Seconds of each part until now."""
        return {**self.seconds, self._part: self.of(self._part)}

    @property
    def total_s(self) -> float:
        """Seconds of all parts."""
        return sum(self.seconds.values()) + awake_s() - self._since_s


def family(root: psutil.Process) -> list[psutil.Process]:
    """A process and its descendants, as far as the system tells them: an emulated one may not know its own start."""
    import psutil

    with suppress(psutil.NoSuchProcess):
        return [root, *root.children(recursive=True)]
    return [root]


def cpu_seconds(root: psutil.Process) -> float:
    """User and system seconds of a process and its descendants. Those that have ended count in their parents."""
    import psutil

    seconds = 0.0
    for process in family(root):
        with suppress(psutil.Error):  # it has just ended
            times = process.cpu_times()
            seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


def memory_mib(processes: Sequence[psutil.Process]) -> float:
    """Proportional set size of processes: a page shared by k of them counts 1/k in each."""
    import psutil

    total = 0
    for process in processes:
        with suppress(psutil.Error, OSError):  # it has just ended, or is another user's
            total += process.memory_full_info().pss
    return total / 2**20


@dataclass(frozen=True, slots=True)
class Usage:
    """What the processes of a run use now.

    Attributes:
        cores: how many cores they have kept busy since the sample before; None at the first one.
        memory_mib: as the function of this name has it.
    """

    cores: float | None
    memory_mib: float


class Meter:
    """Measures a run from now on.

    Attributes:
        peak_memory_mib: the largest sample so far, in MiB, without what was forgotten; None before the first.
        usage: the newest sample; None before the first.
    """

    def __init__(self) -> None:
        self.peak_memory_mib: float | None = None
        self._earlier_peak_mib: float | None = None
        self.usage: Usage | None = None
        # The processes at the newest look at the memory: to find them takes milliseconds.
        self._family: list[psutil.Process] = []
        # A moment, and process → its CPU seconds then.
        self._cpu_at: tuple[float, dict[int, float]] | None = None
        self._before_s = 0.0
        self._lock = threading.Lock()
        if IS_LINUX:
            import psutil

            self._root = psutil.Process()
            self._before_s = -cpu_seconds(self._root)

    def go_on_from(self, earlier: ResourceState) -> None:
        """Adds what earlier sessions of the run used."""
        self._before_s += earlier.cpu_s or 0.0
        self._earlier_peak_mib = earlier.peak_memory_mib
        self._take(earlier.peak_memory_mib)

    def forget_start(self) -> None:
        """Training begins: the memory of what went before it, such as measurements, does not count."""
        with self._lock:
            self.peak_memory_mib = self._earlier_peak_mib

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """The CPU seconds of the body do not count, those of processes that have started and ended in it included."""
        before_s = self.cpu_s
        try:
            yield
        finally:
            after_s = self.cpu_s
            if before_s is not None and after_s is not None:
                self._before_s -= after_s - before_s

    def state(self) -> ResourceState:
        """For a checkpoint."""
        return ResourceState(self.cpu_s, self.peak_memory_mib)

    @property
    def cpu_s(self) -> float | None:
        """CPU seconds of the run until now, of all its processes."""
        if IS_LINUX:
            return self._before_s + cpu_seconds(self._root)
        return None

    def sample(self) -> None:
        """Looks at the memory now."""
        if IS_LINUX:
            self._family = family(self._root)
            memory = memory_mib(self._family)
            self._take(memory)
            self.usage = Usage(self.usage.cores if self.usage else None, memory)

    def _sample_cores(self) -> None:
        """Looks at the CPU seconds now, of the processes that the newest look at the memory has found."""
        import psutil

        now = awake_s()
        seconds = dict[int, float]()
        for process in self._family:
            with suppress(psutil.Error):  # it has ended
                times = process.cpu_times()
                seconds[process.pid] = times.user + times.system
        if self._cpu_at is not None and self.usage is not None:
            since_s, before = self._cpu_at
            busy_s = sum(after_s - before.get(pid, after_s) for pid, after_s in seconds.items())
            self.usage = Usage(busy_s / max(now - since_s, 1e-9), self.usage.memory_mib)
        self._cpu_at = now, seconds

    def _take(self, memory_mib: float | None) -> None:
        with self._lock:
            self.peak_memory_mib = max(self.peak_memory_mib or 0.0, memory_mib or 0.0) or None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While the body runs, a thread takes samples."""
        ended = threading.Event()

        def watch() -> None:
            next_memory_s = 0.0
            while not ended.wait(SAMPLE_EVERY_S):
                if time.monotonic() >= next_memory_s:
                    start_s = time.thread_time()
                    self.sample()
                    next_memory_s = time.monotonic() + (time.thread_time() - start_s) / SAMPLE_SHARE
                self._sample_cores()

        if IS_LINUX:
            threading.Thread(target=watch, name="a3c-zoo memory", daemon=True).start()
        try:
            yield
        finally:
            ended.set()
