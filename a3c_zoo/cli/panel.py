"""The progress of a run: a live panel on a terminal, plain lines elsewhere, and a summary at the end.

rich is imported with the first figures, not before: until then the fork server and torch need the cores.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from a3c_zoo.cli.main import next_command
from a3c_zoo.errors import printable, printable_lines
from a3c_zoo.records import Outcome, Progress, score
from a3c_zoo.standard_streams import is_dumb
from a3c_zoo.store.checkpoints import BEST
from a3c_zoo.store.directory import run_argument

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live
    from rich.panel import Panel
    from rich.text import Text

    from a3c_zoo.config import RunConfig

#: Time between two updates of the panel, in seconds.
REFRESH_S = 0.25
#: Time between two lines without a terminal, in seconds.
LINE_EVERY_S = 5.0
BARS = "▁▂▃▄▅▆▇█"
#: The panel is as wide as this, in characters, whatever it shows; on a narrower terminal as wide as that.
WIDTH = 88


def duration(seconds: float) -> str:
    """Returns a duration in words: 3.2 s, 4 min 05 s, 2 h 10 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


class Trend:
    """The mean return over time in at most 24 points, and its change."""

    def __init__(self) -> None:
        self._points: list[float] = []
        self._every, self._seen = 1, 0
        self._recent: deque[float] = deque(maxlen=64)

    def add(self, value: float) -> None:
        """Adds a value. When the row is full, every second point is dropped."""
        self._recent.append(value)
        if self._seen % self._every == 0:
            self._points.append(value)
        self._seen += 1
        if len(self._points) > 24:
            self._points, self._every = self._points[::2], self._every * 2

    @property
    def change(self) -> float:
        """The newest value minus the oldest of the last 64 values."""
        return self._recent[-1] - self._recent[0] if self._recent else 0.0

    def text(self) -> Text:
        """An arrow and the change, in a place of constant width, and a bar for each point."""
        from rich.text import Text

        if not self._points:
            return Text()
        low, high = min(self._points), max(self._points)
        scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
        bars = "".join(BARS[round((point - low) * scale)] for point in self._points)
        arrow, colour = ("▲", "green") if self.change > 0 else ("▼", "red") if self.change < 0 else ("▶", "")
        return Text.assemble((f"{arrow} {score(self.change, '+'):<9}", colour), bars)


def share_done(run: RunConfig, progress: Progress) -> float | None:
    """Returns the largest spent share of the run's budgets, 0 to 1; None without a budget."""
    budgets = run.steps, run.episodes, run.time_limit_s
    pairs = zip((progress.steps, progress.episodes, progress.training_s), budgets, strict=True)
    shares = [done / budget for done, budget in pairs if budget]
    return min(1.0, max(shares)) if shares else None


def time_left(run: RunConfig, progress: Progress, target: float | None) -> str:
    """Returns the training time left, in words, at the mean speed so far."""
    share = share_done(run, progress)
    if share is None:
        return f"until solved ({target:,.10g})" if target is not None else "until Ctrl-C"
    if share <= 0:
        return "?"
    return f"at most {duration(progress.training_s * (1 - share) / share)} left"


def speed(steps: int, training_s: float) -> str:
    """The speed that is shown everywhere: steps of the run for each second of its training."""
    return f"{steps / training_s if training_s > 0 else 0.0:,.0f} steps/s"


#: Columns on the right that stay free for the `^C` that a terminal writes; it would begin a line that stays.
ECHO = 2


class LiveDisplay:
    """A table or panel below the printed lines.

    Args:
        to_stderr: write to stderr in place of stdout.
    """

    def __init__(self, to_stderr: bool = False) -> None:
        self._to_stderr = to_stderr
        self._stream = sys.stderr if to_stderr else sys.stdout
        self._live: Live | None = None

    @property
    def is_live(self) -> bool:
        """Whether the stream is a terminal, which may go away; without one, or on a dumb one, nothing is drawn."""
        return self._stream.isatty() and not is_dumb()

    def say(self, text: str) -> None:
        """Prints a line, above the table or panel."""
        text = printable_lines(text)
        if self._live is not None:
            self._live.console.print(text, highlight=False, markup=False, emoji=False)
        else:
            click.echo(text, err=self._to_stderr)

    def draw(self, shown: RenderableType) -> None:
        """Replaces the table or panel; call it only if `is_live`."""
        from rich.constrain import Constrain

        if self._live is None:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=self._to_stderr), auto_refresh=False)
            self._live.start()
        self._live.update(Constrain(shown, self._live.console.width - ECHO), refresh=True)

    def close(self) -> None:
        """Leaves the last table or panel on the screen."""
        if self._live is not None:
            self._live.stop()
            self._live = None


class RunPanel:
    """Shows the progress of one run on the command line; an `Observer` of the run.

    Args:
        quiet: print only the summary.
        to_stderr: write to stderr in place of stdout.
    """

    def __init__(self, quiet: bool, to_stderr: bool = False) -> None:
        self._quiet = quiet
        self.display = LiveDisplay(to_stderr)
        self.path: Path | None = None
        self._trend = Trend()
        self._next_s = 0.0
        self._title = ""
        self._target: float | None = None
        self.run: RunConfig | None = None
        self._last: Progress | None = None

    def starting(self, title: str, target: float | None, run: RunConfig, path: Path) -> None:
        self._title, self._target, self.run, self.path = title, target, run, path
        if not self._quiet:
            self.display.say(printable(f"{title} → {path}"))

    def progress(self, progress: Progress) -> None:
        """Shows new figures, at most every `REFRESH_S` on a terminal and every `LINE_EVERY_S` elsewhere."""
        now, self._last = time.monotonic(), progress
        if self._quiet or now < self._next_s:
            return
        if progress.mean_return_100 is not None:
            self._trend.add(progress.mean_return_100)
        if self.display.is_live and self.run:
            self._next_s = now + REFRESH_S
            self.display.draw(self._panel(progress, time_left(self.run, progress, self._target), "cyan"))
        else:
            self._next_s = now + LINE_EVERY_S
            self.display.say(self._line(progress))

    def message(self, text: str) -> None:
        if not self._quiet:
            self.display.say(text)

    def ended(self, outcome: Outcome) -> None:
        """Shows the figures of the end in the panel, and leaves it on the screen."""
        if self._last and self.display.is_live and not self._quiet:
            counts = {name: getattr(outcome, name) for name in ("steps", "episodes", "training_s", "mean_return_100")}
            end = "solved" if outcome.solved else f"not solved: {outcome.reason}"
            self.display.draw(self._panel(replace(self._last, **counts), end, colour_of(outcome)))
        self.display.close()

    def _line(self, progress: Progress) -> str:
        mean, result = progress.mean_return_100, progress.evaluator
        shown = "-" if mean is None else f"{score(mean)} ({score(self._trend.change, '+')})"
        evaluated = "" if result is None else f"  evaluated {score(result.sampled_return)}"
        if progress.first_rollout:
            return f"{progress.training_s:8,.1f} s  {progress.first_rollout:>12,} steps of the first rollout"
        done = f"{progress.steps:>12,} steps  {speed(progress.steps, progress.training_s):>17}"
        return f"{progress.training_s:8,.1f} s  {done}  {progress.episodes:>7,} episodes  return {shown}{evaluated}"

    def _panel(self, progress: Progress, state: str, colour: str) -> Panel:
        """The figures in a frame of constant width. state: how the training stands, in words."""
        from rich.panel import Panel
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        mean, length, target = progress.mean_return_100, progress.mean_length_100, self._target
        table = Table.grid(padding=(0, 2), expand=True)
        table.add_column(style="dim", width=16, no_wrap=True)
        table.add_column(justify="right", width=14, no_wrap=True)
        table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        first = f"first rollout, step {progress.first_rollout:,}" if progress.first_rollout else ""
        table.add_row("steps", f"{progress.steps:,}", first or speed(progress.steps, progress.training_s))
        table.add_row("episodes", f"{progress.episodes:,}", "" if length is None else f"mean length {length:,.1f}")
        style = "bold green" if mean is not None and target is not None and mean >= target else "bold"
        shown = Text("-" if mean is None else score(mean), style)
        table.add_row(f"return, last {progress.window or 100}", shown, self._trend.text())
        if (result := progress.evaluator) is not None:
            others = f"greedy {score(result.greedy_return)}, best {score(result.best_return)}"
            table.add_row("evaluation", score(result.sampled_return), f"{others} at step {result.best_step:,}")
        table.add_row("training time", duration(progress.training_s), Text(state, colour))
        if self.run and (share := share_done(self.run, progress)) is not None:
            bar = ProgressBar(total=1.0, completed=share, width=24, complete_style="cyan", finished_style="cyan")
            table.add_row("budget", f"{share:.0%}", bar)
        return Panel(table, title=Text(self._title), title_align="left", width=WIDTH)


def colour_of(outcome: Outcome) -> str:
    """The colour of a run's end."""
    return "green" if outcome.solved or outcome.reason == "stop-return" else "yellow"


def summary(outcome: Outcome, run: RunConfig | None = None) -> str:
    """Returns the result of a run, its figures, and the command to type next. run: has its limits."""
    verdict = {
        "solved": "Solved",
        "stop-return": "Reached the return asked for",
        "interrupted": f"Stopped by {outcome.detail}",
        "plugin": f"Stopped by a plugin: {outcome.detail}",
    }.get(outcome.reason, f"Ended{'' if outcome.solved else ', not solved'}: {outcome.detail}")
    if outcome.reason in ("solved", "stop-return"):
        verdict += f" after {duration(outcome.training_s)} of training, {duration(outcome.total_s)} in all"
    elif outcome.solved:
        verdict += f". Solved at step {outcome.solved_step:,}"
    counts, mean = f"{outcome.steps:,} steps, {outcome.episodes:,} episodes", outcome.mean_return_100
    number = min(100, outcome.episodes)
    of_last = f"mean of the last {number} training episodes" if number > 1 else "of the only training episode"
    lines = [f"{verdict}.", f"  training    {counts}, {speed(outcome.steps, outcome.training_s)}"]
    lines.append(f"  return      {'no episode has ended' if mean is None else f'{score(mean)}, {of_last}'}")
    if (evaluation := outcome.evaluation) is not None:
        spread = f"{score(evaluation.mean_return)} ± {score(evaluation.std_return)}"
        at = "" if outcome.last_evaluation else f", at step {outcome.evaluation_step:,}"
        lines.append(
            f"  evaluation  {spread} over {evaluation.episodes:,} episodes on fresh seeds, sampled actions{at}"
        )
    if outcome.recommended == BEST and outcome.best_return is not None and outcome.best_step is not None:
        kind = "training episodes" if outcome.best_by == "training" else "episodes on fresh seeds"
        what = f"{score(outcome.best_return)}, mean of {outcome.best_episodes} {kind}"
        lines.append(f"  best        {what}, at step {outcome.best_step:,}")
        lines.append(f"  watch it    {next_command(f'play {run_argument(outcome.run)} --checkpoint best')}")
    if outcome.evaluator_fault is not None:
        lines.append(f"  evaluator   failed: {outcome.evaluator_fault} (see {outcome.run / 'evaluator.log'})")
    if outcome.steps > 0:  # otherwise there is no checkpoint to go on from
        lines.append(f"  next        {_next_command(outcome, run)}")
    return printable_lines("\n".join(lines))


def _next_command(outcome: Outcome, limits: RunConfig | None) -> str:
    """Returns the next command. A limit counts from the run's start, so each spent one is replaced by twice its use."""
    run = run_argument(outcome.run)
    if outcome.solved or outcome.reason == "stop-return":
        return next_command(f"play {run}")
    budgets = (limits.steps, limits.episodes, limits.time_limit_s) if limits else (None, None, None)
    used = ("steps", outcome.steps, ""), ("episodes", outcome.episodes, ""), ("time-limit", outcome.training_s, "s")
    spent = [
        f" --{name} {_twice(amount)}{unit}"
        for (name, amount, unit), budget in zip(used, budgets, strict=True)
        if name == outcome.reason or (budget is not None and amount >= budget)
    ]
    return next_command(f"train --resume {run}{''.join(spent)}")


def _twice(amount: float) -> str:
    """Returns twice the amount, with two significant digits."""
    return f"{float(f'{2 * amount:.1e}'):.15g}"
