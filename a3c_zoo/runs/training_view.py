"""What a display shows of a training: a panel where it can change in place, lines elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from a3c_zoo.config import RunConfig
from a3c_zoo.display.displays import Display
from a3c_zoo.display.pieces import Trend, bar, duration, speed
from a3c_zoo.errors import printable
from a3c_zoo.records import RETURN_WINDOW, Outcome, Progress
from a3c_zoo.runs.setup import Observer
from a3c_zoo.words import return_text

if TYPE_CHECKING:
    from rich.panel import Panel
    from rich.text import Text

#: The panel is as wide as this, in characters, whatever it shows; on a narrower terminal as wide as that. A terminal
#: that is made narrower, but not below 80 columns, need not wrap its lines.
WIDTH: Final = 78
#: The characters of a row that the frame takes, the label, and the value.
FRAME: Final = 4
LABEL: Final = 16
VALUE: Final = 14
#: The longest bars: of the budget, and on the way to the threshold.
BAR: Final = 24
SHORT_BAR: Final = 10
#: In a panel that is narrower, there is no bar beside an estimate.
NARROW: Final = 70
#: Label → name of the metric.
METRICS: Final = {
    "policy loss": "loss_policy",
    "value loss": "loss_value",
    "entropy": "entropy",
    "explained variance": "explained_variance",
}
#: Part of a step's time → a shorter name.
PARTS: Final = {"environment": "env"}
#: An estimate of more than so many times the training so far says nothing.
FARTHEST: Final = 50.0


class TrainingView(Observer):
    """Shows the progress of one run.

    Attributes:
        path: the run directory; None before the run starts. run: has its limits.
    """

    def __init__(self, display: Display) -> None:
        self._display = display
        self.path: Path | None = None
        self.run: RunConfig | None = None
        self._title = ""
        self._target: float | None = None
        self._trend = Trend()
        self._last: Progress | None = None
        self._end: tuple[str, str] | None = None  # how the run ended, in words, and their colour

    @property
    def has_target(self) -> bool:
        """Whether there is a return at which the run is solved."""
        return self._target is not None

    def starting(self, title: str, target: float | None, run: RunConfig, path: Path) -> None:
        self._title = title
        self._target = target
        self.run = run
        self.path = path
        self._display.say(printable(f"{title} → {path}"))
        self._display.wait("starting")

    def progress(self, progress: Progress) -> None:
        """Shows new figures, if it is time."""
        if progress.workers_ready is not None:
            self._display.wait(f"{progress.workers_ready:,} of {progress.workers:,} workers are ready")
            return
        self._last = progress
        if not self._display.is_due:
            return
        if progress.mean_return_100 is not None:
            self._trend.add(progress.training_s, progress.mean_return_100)
        self._display.show(self)

    def message(self, text: str) -> None:
        self._display.say(text)

    def ended(self, outcome: Outcome) -> None:
        """Shows the figures of the end, and leaves them."""
        if self._last is None or not self._display.is_live:
            return
        end = f"not solved: {outcome.reason}" if self.has_target else f"ended: {outcome.reason}"
        self._end = "solved" if outcome.solved else end, colour_of(outcome)
        self._last = replace(
            self._last,
            steps=outcome.steps,
            episodes=outcome.episodes,
            training_s=outcome.training_s,
            mean_return_100=outcome.mean_return_100,
        )
        self._display.show(self)

    def line(self) -> str:
        """The figures in a line, with the time of training at its begin."""
        progress = self._last
        assert progress is not None
        time_s = f"{progress.training_s:8,.1f} s"
        if progress.first_rollout:
            return f"{time_s}  at least {progress.first_rollout:,} steps, in the first rollout"
        mean = "-"
        if progress.mean_return_100 is not None:
            mean = f"{return_text(progress.mean_return_100)} ({return_text(self._trend.change, '+')})"
        done = f"{progress.steps:>12,} steps  {speed(progress.steps, progress.training_s):>17}"
        line = f"{time_s}  {done}  {progress.episodes:>7,} episodes  return {mean}"
        if progress.evaluator is not None:
            line += f"  evaluated {return_text(progress.evaluator.sampled_return)}"
        return line

    def block(self, width: int) -> Panel:
        """The figures in a frame. It keeps its width, and never wraps a line."""
        from rich.console import Group
        from rich.panel import Panel
        from rich.text import Text

        assert self._last is not None
        width = min(width, WIDTH)
        rows = [*self._counts(self._last, width), *self._times(self._last, width), *_inside(self._last)]
        return Panel(Group(*rows), title=Text(self._title), title_align="left", width=width)

    def _counts(self, progress: Progress, width: int) -> list[Text]:
        """How far the run is, and what it has learned."""
        from rich.text import Text

        mean = progress.mean_return_100
        length = progress.mean_length_100
        pace = speed(progress.steps, progress.training_s)
        if progress.first_rollout:
            pace = f"at least {progress.first_rollout:,} more in the first rollout"
        is_reached = mean is not None and self._target is not None and mean >= self._target
        arrow, colour = arrow_of(self._trend.change)
        if mean is None:
            change = Text()
        else:
            change = Text(f"{arrow} {return_text(self._trend.change, '+'):<9}", colour)
        rows = [
            row("steps", f"{progress.steps:,}", pace),
            row("episodes", f"{progress.episodes:,}", "" if length is None else f"mean length {length:,.1f}"),
            row(
                f"return, last {progress.window or RETURN_WINDOW}",
                "-" if mean is None else return_text(mean),
                change.append(self._trend.bars, "default"),
                "bold green" if is_reached else "bold",
            ),
        ]
        if self._target is not None:
            rows.append(
                row("threshold", return_text(self._target), self._to_threshold(progress, self._target, width))
            )
        if progress.best_return is not None:
            ago_s = progress.training_s - progress.best_training_s
            when = "now" if ago_s < 1 else f"{duration(ago_s)} ago"
            rows.append(row("best", return_text(progress.best_return), when))
        if (result := progress.evaluator) is not None:
            others = f"greedy {return_text(result.greedy_return)}, best {return_text(result.best_return)}"
            rows.append(
                row(
                    "evaluation", return_text(result.sampled_return), f"{others} at step {result.best_step:,}"
                )
            )
        return rows

    def _to_threshold(self, progress: Progress, target: float, width: int) -> str:
        """How far the mean return is from its first value to the threshold, and how long the rest takes."""
        mean = progress.mean_return_100
        first = self._trend.first
        if mean is None or first is None:
            return ""
        if target > first:
            share = (mean - first) / (target - first)
        else:
            share = 1.0
        share = max(0.0, min(1.0, share))
        text = f"{share:.0%}"
        if self._end:
            left_s = None
        else:
            left_s = self._rise_left_s(progress, mean, target)
        if left_s is not None:
            text += f", about {duration(left_s)}"
        if width < NARROW:
            return text
        return f"{bar(share, SHORT_BAR)} {text}{' away' if left_s is not None else ''}"

    def _rise_left_s(self, progress: Progress, mean: float, target: float) -> float | None:
        """How many seconds the mean return still has to rise as it does now; None if it does not rise."""
        slope = self._trend.slope()
        if slope is None or slope <= 0 or mean >= target:
            return None
        left_s = (target - mean) / slope
        if left_s < FARTHEST * progress.training_s:
            return left_s
        return None

    def _times(self, progress: Progress, width: int) -> list[Text]:
        """The time of the training, and the share of its budget."""
        from rich.text import Text

        assert self.run is not None
        state, colour = self._end or (time_left(self.run, progress, self._target), "cyan")
        rows = [row("training time", duration(progress.training_s), Text(state, colour))]
        if (share := share_done(self.run, progress)) is not None:
            rows.append(row("budget", f"{share:.0%}", Text(bar(share, min(BAR, rest_of(width))), "cyan")))
        return rows


def _inside(progress: Progress) -> list[Text]:
    """What the updates tell, where the time of a step goes, and what the run takes of the machine."""
    numbers = {name: f"{value:.3g}" for name, value in progress.metrics.items()}
    shares = {part: f"{share:.0%}" for part, share in progress.time_shares.items()}
    if progress.cores is None:
        usage = []
    else:
        usage = [f"{progress.cores:.1f} cores"]
    if progress.memory_mib is not None:
        usage.append(f"{progress.memory_mib:,.0f} MiB")
    parts = ", ".join(f"{PARTS.get(part, part)} {share}" for part, share in shares.items())
    rows = [
        *_pair(numbers, "policy loss", "value loss"),
        *_pair(numbers, "entropy", "explained variance"),
        *([wide_row("time of a step", parts)] if parts else []),
        *([wide_row("machine", ", ".join(usage))] if usage else []),
    ]
    return rows


def _pair(numbers: Mapping[str, str], *labels: str) -> list[Text]:
    """A row with those of the metrics that there are; the first one's label is that of the row."""
    known = [(label, numbers[METRICS[label]]) for label in labels if METRICS[label] in numbers]
    if not known:
        return []
    (label, number), *others = known
    return [wide_row(label, ", ".join([number, *(f"{name} {other}" for name, other in others)]))]


def row(label: str, value: str, rest: str | Text = "", style: str = "") -> Text:
    """A label, a value on the right of its place, and more behind it."""
    from rich.text import Text

    text = Text.assemble((f"{label:<{LABEL}}  ", "dim"), (f"{value:>{VALUE}}", style), "  ", rest)
    text.no_wrap = True
    text.overflow = "ellipsis"
    return text


def wide_row(label: str, content: str) -> Text:
    """A label, and a text that begins in the place of values."""
    from rich.text import Text

    return Text.assemble((f"{label:<{LABEL}}  ", "dim"), content, no_wrap=True, overflow="ellipsis")


def rest_of(width: int) -> int:
    """How many characters there are behind a value, in a panel of this width."""
    return max(0, width - FRAME - LABEL - VALUE - 4)


def arrow_of(change: float) -> tuple[str, str]:
    """An arrow for a change, and its colour."""
    if change > 0:
        return "▲", "green"
    return ("▼", "red") if change < 0 else ("▶", "")


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
        if target is not None:
            return f"until solved ({target:,.10g})"
        return "until Ctrl-C"
    if share <= 0:
        return "?"
    return f"at most {duration(progress.training_s * (1 - share) / share)} left"


def colour_of(outcome: Outcome) -> str:
    """The colour of a run's end."""
    if outcome.solved or outcome.reason == "stop-return":
        return "green"
    return "yellow"
