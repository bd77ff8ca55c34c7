"""What a display shows of episodes that are played with a trained agent."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from a3c_zoo.display.displays import Display
from a3c_zoo.display.pieces import bar, duration

if TYPE_CHECKING:
    from rich.text import Text

#: The bar is as long as this, in characters, if its words leave room for it.
BAR = 24
#: Seconds until the first line; each further one comes after twice as long.
FIRST_LINE_S = 2.0


class PlayingView:
    """Shows how many episodes of how many have been played. name: what plays; may be ""."""

    def __init__(self, display: Display, name: str, episodes: int) -> None:
        self._display = display
        self._name = name
        self._episodes = episodes
        self._played = 0
        self._began_s = time.monotonic()
        self._passed_s = 0.0
        self._line_s = FIRST_LINE_S

    def played(self, episodes: int) -> None:
        """So many episodes have been played. Called after each step."""
        self._played = episodes
        self._passed_s = time.monotonic() - self._began_s
        if self._display.is_live:
            is_due = self._display.is_due
        else:
            is_due = self._passed_s >= self._line_s
        if is_due or episodes == self._episodes:
            self._display.show(self)

    def line(self) -> str:
        """A line, but fewer and fewer of them."""
        if self._passed_s < self._line_s:
            return ""
        self._line_s = 2 * self._passed_s
        return f"{self._words()} after {self._passed_s:,.0f} s"

    def block(self, width: int) -> Text:
        """A bar, and the time left at the mean speed so far."""
        from rich.text import Text

        share = self._played / self._episodes
        if 0 < share < 1:
            left = f", about {duration(self._passed_s * (1 - share) / share)} left"
        else:
            left = ""
        words = f"{share:.0%}, {self._words()}{left}"
        room = max(0, min(BAR, width - len(words) - 1))
        return Text.assemble((bar(share, room), "cyan"), f" {words}", no_wrap=True, overflow="ellipsis")

    def _words(self) -> str:
        name = f"{self._name}: " if self._name else ""
        return f"{name}{self._played:,} of {self._episodes:,} episodes"
