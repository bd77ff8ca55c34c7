"""What a display shows of a tuning: a table of the best trials where it can change, a line for each score elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from a3c_zoo.comparison.comparison_view import ComparisonView
from a3c_zoo.comparison.plan import Plan
from a3c_zoo.display.displays import Display
from a3c_zoo.display.pieces import duration
from a3c_zoo.engines import JobProgress
from a3c_zoo.tuning.contenders import ranked, sound
from a3c_zoo.tuning.racing import Advance, TuningWatcher
from a3c_zoo.words import return_text

if TYPE_CHECKING:
    from rich.table import Table

    from a3c_zoo.tuning.contenders import Contender

#: Trials in the table.
SHOWN = 8


class TuningView(ComparisonView, TuningWatcher):
    """Shows a race to so many trials and steps, and then its comparisons. slots: see `ComparisonView`."""

    def __init__(self, trials: int, steps: int, display: Display, slots: int = 1) -> None:
        super().__init__(display, slots)
        self._trials = trials
        self._steps = steps
        self._began_s = time.monotonic()
        self._contenders: Sequence[Contender] = ()
        self._said: dict[int, tuple[int, float]] = {}
        self._now = ""
        self._is_racing = True

    def raced(self, contenders: Sequence[Contender]) -> None:
        """Shows the best trials; without a terminal, a line for each trial with a new score."""
        self._contenders = contenders
        for each in contenders if not self._display.is_live else ():
            if each.scores and self._said.get(each.number) != each.rank:
                self._said[each.number] = each.rank
                figures = f"{each.rank[0]:,} steps: return {return_text(each.rank[1])}"
                self._display.say(f"trial {each.number}, {figures}, {_values(each)}")
        self._show("", at_once=self._display.is_live)

    def training(self, advance: Advance, seed: int, progress: JobProgress | None) -> None:
        self._now = f"trial {advance.number} to {advance.rung:,} steps, seed {seed}"
        if progress is not None:
            self._now += (
                f": {min(progress.steps / advance.rung, 1.0):.0%}, return {return_text(progress.mean_return)}"
            )
        self._show("")

    def planned(self, plan: Plan) -> None:
        self._is_racing = False
        self._rows.clear()
        super().planned(plan)

    def evaluating(self, done: int, total: int) -> None:
        if not self._is_racing:
            super().evaluating(done, total)

    def block(self, width: int) -> Table:
        """The best trial with all its values, and a line for each of the next ones, whose values may be cut off."""
        from rich.table import Table
        from rich.text import Text

        if not self._is_racing:
            return super().block(width)
        table = Table(box=None, padding=(0, 2, 0, 0), width=width, caption_justify="left")
        scored = ranked(sound(self._contenders))
        text = f"{len(scored)} of {self._trials} trials, {duration(time.monotonic() - self._began_s)}; {self._now}"
        table.caption = Text(text, "not dim not italic cyan")
        for name in ("trial", "steps", "return"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("values", ratio=1)
        for each in scored[:SHOWN]:
            steps, value = each.rank
            style = "green" if steps == self._steps else ""
            values = Text(_values(each), no_wrap=each is not scored[0], overflow="ellipsis")
            table.add_row(str(each.number), Text(f"{steps:,}", style), return_text(value), values)
        return table


def _values(contender: Contender) -> str:
    return "  ".join(f"{key.partition('.')[2]}={text}" for key, text in contender.texts.items())
