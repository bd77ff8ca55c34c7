"""A time limit for what may stand still: it counts only while its owner looks."""

from __future__ import annotations

import time

#: The longest time that can count between two looks, in seconds. If more has passed, the process and what it
#: looks at stood still: they were suspended, or the machine slept.
LONGEST_LOOK_S = 1.0


class WatchedTime:
    """Adds up the seconds between looks, at most `LONGEST_LOOK_S` each."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begins again, at 0 seconds."""
        self._passed_s = 0.0
        self._looked_s = time.monotonic()

    def look(self) -> float:
        """The seconds since the start. Called often."""
        now_s = time.monotonic()
        self._passed_s += min(now_s - self._looked_s, LONGEST_LOOK_S)
        self._looked_s = now_s
        return self._passed_s
