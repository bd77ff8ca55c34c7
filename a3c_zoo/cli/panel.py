"""What a person sees of a run: a live panel on a terminal, plain lines elsewhere, and a summary at the end.

rich is imported when the first figures arrive, not before: until then the fork server and torch need the cores.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import click

from a3c_zoo.records import score

if TYPE_CHECKING:
    from rich.live import Live
    from rich.panel import Panel

    from a3c_zoo.records import Outcome, Progress

REFRESH_S = 0.25
LINE_EVERY_S = 5.0
BARS = "▁▂▃▄▅▆▇█"


def duration(seconds: float) -> str:
    """3.2 s, 4 min 05 s, 2 h 10 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def sparkline(values: list[float], width: int = 24) -> str:
    """A row of bars for the last `width` values, from their least to their greatest."""
    shown = values[-width:]
    low, high = min(shown), max(shown)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((value - low) * scale)] for value in shown)


class Trend:
    """The mean return over time, at most 24 points for the whole run, and which way it goes."""

    POINTS = 24

    def __init__(self) -> None:
        self._points: list[float] = []
        self._every, self._seen = 1, 0
        self._recent: deque[tuple[float, float]] = deque(maxlen=64)

    def add(self, at_s: float, value: float) -> None:
        """Takes in a value; when the row is full, every second point goes."""
        self._recent.append((at_s, value))
        if self._seen % self._every == 0:
            self._points.append(value)
        self._seen += 1
        if len(self._points) > self.POINTS:
            self._points, self._every = self._points[::2], self._every * 2

    @property
    def change(self) -> float:
        """Newest value minus the oldest of the last 64."""
        return self._recent[-1][1] - self._recent[0][1] if self._recent else 0.0

    def __str__(self) -> str:
        if not self._points:
            return ""
        arrow = "▲" if self.change > 0 else "▼" if self.change < 0 else "▶"
        return f"{arrow} {self.change:+.3g}  {sparkline(self._points, self.POINTS)}"


class Budgets:
    """How much of the run's budgets is left."""

    def __init__(self, run: Any) -> None:
        self._run = run

    def share_done(self, progress: Progress) -> float | None:
        """Of the budget that is nearest to its end, 0 to 1; None without a budget."""
        run = self._run
        pairs = (
            (progress.steps, run.steps),
            (progress.episodes, run.episodes),
            (progress.training_s, run.time_limit_s),
        )
        shares = [done / budget for done, budget in pairs if budget]
        return min(1.0, max(shares)) if shares else None

    def left(self, progress: Progress, target: float | None) -> str:
        """In words, at the mean speed so far."""
        share = self.share_done(progress)
        if share is None:
            return f"until solved ({target:g})" if target is not None else "until Ctrl-C"
        if share <= 0:
            return "?"
        return f"at most {duration(progress.training_s * (1 - share) / share)} left"


class Watcher:
    """Observes one run for the command line.

    Args:
        quiet: say nothing but messages and the summary.
    """

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._is_live = not quiet and sys.stdout.isatty()
        self._live: Live | None = None
        self._trend = Trend()
        self._next_s = 0.0
        self._title = ""
        self._target: float | None = None
        self._budgets: Budgets | None = None

    def starting(self, title: str, target: float | None, run: Any, path: Any) -> None:
        """Before the workers start."""
        self._title, self._target, self._budgets = title, target, Budgets(run)
        if not self._quiet:
            click.echo(f"{title} → {path}")

    def progress(self, progress: Progress) -> None:
        """New figures; shown a few times a second on a terminal, every few seconds elsewhere."""
        now = time.monotonic()
        if self._quiet or now < self._next_s:
            return
        if progress.mean_return_100 is not None:
            self._trend.add(progress.training_s, progress.mean_return_100)
        if self._is_live:
            self._next_s = now + REFRESH_S
            self._show(progress)
        else:
            self._next_s = now + LINE_EVERY_S
            click.echo(self._line(progress))

    def message(self, text: str) -> None:
        """A line above the panel."""
        if self._quiet:
            return
        if self._live is not None:
            self._live.console.print(text, highlight=False, markup=False)
        else:
            click.echo(text)

    def close(self) -> None:
        """Leaves the last panel on the screen."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _line(self, progress: Progress) -> str:
        mean = (
            "-"
            if progress.mean_return_100 is None
            else f"{score(progress.mean_return_100)} ({self._trend.change:+.3g})"
        )
        result = progress.evaluator
        evaluated = "" if result is None else f"  evaluated {score(result.sampled_return)}"
        return (
            f"{progress.training_s:8.1f} s  {progress.steps:>12,} steps  {progress.steps_per_s:>9,.0f} steps/s  "
            f"{progress.episodes:>7,} episodes  return {mean}{evaluated}"
        )

    def _show(self, progress: Progress) -> None:
        if self._live is None:
            from rich.live import Live

            self._live = Live(auto_refresh=False)
            self._live.start()
        self._live.update(self._panel(progress), refresh=True)

    def _panel(self, progress: Progress) -> Panel:
        from rich.panel import Panel
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        assert self._budgets is not None
        mean, length = progress.mean_return_100, progress.mean_length_100
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim")
        table.add_column(justify="right", min_width=12)
        table.add_column()
        table.add_row("steps", f"{progress.steps:,}", f"{progress.steps_per_s:,.0f} steps/s")
        table.add_row("episodes", f"{progress.episodes:,}", f"mean length {length:.1f}" if length is not None else "")
        of_window = "" if progress.window == 100 else f"[dim](of {progress.window})[/dim]"
        table.add_row(
            "return, last 100", "-" if mean is None else f"[bold]{score(mean)}[/bold]", f"{self._trend} {of_window}"
        )
        if (result := progress.evaluator) is not None:
            others = f"greedy {score(result.greedy_return)}, best {score(result.best_return)}"
            table.add_row("evaluation", score(result.sampled_return), f"{others} at step {result.best_step:,}")
        table.add_row("training time", duration(progress.training_s), self._budgets.left(progress, self._target))
        share = self._budgets.share_done(progress)
        if share is not None:
            table.add_row("budget", f"{share:.0%}", ProgressBar(total=1.0, completed=share, width=24))
        return Panel(table, title=self._title, title_align="left", expand=False)


def summary(outcome: Outcome) -> str:
    """The verdict, the figures, and what to type next."""
    verdict = {
        "solved": "Solved",
        "stop-return": "Reached the return asked for",
        "interrupted": f"Stopped by {outcome.detail}",
        "plugin": f"Stopped by a plugin: {outcome.detail}",
    }.get(outcome.reason, f"Ended, not solved: {outcome.detail}")
    if outcome.reason in ("solved", "stop-return"):
        verdict += f" after {duration(outcome.training_s)} of training, {duration(outcome.total_s)} in all"
    mean = "no episode has ended" if outcome.mean_return_100 is None else score(outcome.mean_return_100)
    lines = [
        f"{verdict}.",
        f"  training    {outcome.steps:,} steps, {outcome.episodes:,} episodes, {outcome.steps_per_s:,.0f} steps/s",
        f"  return      {mean}, mean of the last 100 training episodes",
    ]
    if (evaluation := outcome.evaluation) is not None:
        mean_and_spread = f"{score(evaluation.mean_return)} ± {score(evaluation.std_return)}"
        lines.append(
            f"  evaluation  {mean_and_spread} over {evaluation.episodes} episodes on fresh seeds, sampled actions"
        )
    if outcome.evaluator_fault is not None:
        lines.append(f"  evaluator   failed: {outcome.evaluator_fault} (see {outcome.run / 'evaluator.log'})")
    if outcome.steps == 0:
        return "\n".join(lines)  # there is no checkpoint to go on from
    return "\n".join([*lines, f"  next        {_next_command(outcome)}"])


def _next_command(outcome: Outcome) -> str:
    """Limits count from the run's start, so a run that has spent one goes on with a larger one: twice what was done."""
    if outcome.reason in ("solved", "stop-return"):
        return f"a3c-zoo evaluate {outcome.run}"
    limit = {
        "steps": f" --steps {_twice(outcome.steps)}",
        "episodes": f" --episodes {_twice(outcome.episodes)}",
        "time-limit": f" --time-limit {_twice(outcome.training_s)}s",
    }.get(outcome.reason, "")
    return f"a3c-zoo train --resume {outcome.run}{limit}"


def _twice(amount: float) -> str:
    """Of two significant digits."""
    return f"{float(f'{2 * amount:.1e}'):.15g}"
