"""Seconds of each part of a run. Training seconds do not run while a run evaluates or writes a checkpoint."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Clock:
    """Adds up the seconds of each part, over all sessions of a run.

    Attributes:
        seconds: part ("startup", "training", "evaluation", "checkpoint") → seconds of its finished stretches.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    _part: str = "startup"
    _since_s: float = field(default_factory=time.monotonic)

    def switch(self, part: str) -> None:
        """Ends the current part and begins another."""
        now = time.monotonic()
        self.seconds[self._part] = self.seconds.get(self._part, 0.0) + now - self._since_s
        self._part, self._since_s = part, now

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
        running = (time.monotonic() if at_s is None else at_s) - self._since_s if part == self._part else 0.0
        return self.seconds.get(part, 0.0) + running

    @property
    def total_s(self) -> float:
        """Seconds of all parts."""
        return sum(self.seconds.values()) + time.monotonic() - self._since_s
