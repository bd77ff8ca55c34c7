"""Pieces of what is shown: durations, speeds, bars, and a mean return over time."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

#: Bars of a trend, from its lowest to its highest point.
LEVELS: Final = "▁▂▃▄▅▆▇█"
#: A trend keeps at most so many points of its whole time.
MOST_POINTS: Final = 24
#: No rise is told from fewer points.
FEWEST_POINTS: Final = 4


def duration(seconds: float) -> str:
    """Returns a duration in words: 3.2 s, 4 min 05 s, 2 h 10 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def speed(steps: int, training_s: float) -> str:
    """The speed that is shown everywhere: steps of the run for each second of its training."""
    return f"{steps / training_s if training_s > 0 else 0.0:,.0f} steps/s"


def bar(share: float, width: int) -> str:
    """A line of `width` characters, of which a share is drawn; the rest is blank. share: 0 to 1."""
    halves = round(max(0.0, min(1.0, share)) * 2 * width)
    return ("━" * (halves // 2) + "╸" * (halves % 2)).ljust(width)


class Point(NamedTuple):
    """A value at a time in seconds."""

    time_s: float
    value: float


class Trend:
    """A value over time: at most 24 points of its whole time, and its latest change."""

    def __init__(self) -> None:
        self._points: list[Point] = []
        self._every = 1
        self._seen = 0
        self._recent: deque[float] = deque(maxlen=64)

    def add(self, time_s: float, value: float) -> None:
        """Adds a value. When there are too many points, every second one is dropped."""
        self._recent.append(value)
        if self._seen % self._every == 0:
            self._points.append(Point(time_s, value))
        self._seen += 1
        if len(self._points) > MOST_POINTS:
            self._points = self._points[::2]
            self._every *= 2

    @property
    def first(self) -> float | None:
        """The first value; None before it."""
        if self._points:
            return self._points[0].value
        return None

    @property
    def change(self) -> float:
        """The newest value minus the oldest of the last 64 values."""
        if self._recent:
            return self._recent[-1] - self._recent[0]
        return 0.0

    @property
    def bars(self) -> str:
        """A bar for each point."""
        if not self._points:
            return ""
        low = min(point.value for point in self._points)
        high = max(point.value for point in self._points)
        if high > low:
            scale = (len(LEVELS) - 1) / (high - low)
        else:
            scale = 0.0
        return "".join(LEVELS[round((point.value - low) * scale)] for point in self._points)

    def slope(self) -> float | None:
        """The rise for each second, by least squares over the later half of the time; None if that is too short."""
        if len(self._points) < FEWEST_POINTS:
            return None
        middle_s = (self._points[0].time_s + self._points[-1].time_s) / 2
        later = [point for point in self._points if point.time_s >= middle_s]
        mean_s = sum(point.time_s for point in later) / len(later)
        mean = sum(point.value for point in later) / len(later)
        spread = sum((point.time_s - mean_s) ** 2 for point in later)
        if spread == 0:
            return None
        return sum((point.time_s - mean_s) * (point.value - mean) for point in later) / spread
