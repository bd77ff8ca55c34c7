"""What a notebook shows of a run that has ended: its figures in a line, and its curve as a picture.

The picture is SVG in the colour of the text, so it serves light and dark notebooks. It is drawn here, because the first
import of matplotlib takes longer than a short training.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.records import RETURN_WINDOW, Outcome
from a3c_zoo.words import return_text

if TYPE_CHECKING:
    from a3c_zoo.store.run_records import RunRecord
    from a3c_zoo.store.tables import Floats

#: The most points of the curve.
POINTS: Final = 200
#: The picture in pixels: its whole size, and what its numbers take on the left and below.
WIDTH = 480
HEIGHT = 180
LEFT = 64
BELOW = 22
COLOUR: Final = "#0072B2"


class RunOutcome(Outcome):
    """An outcome as `a3c_zoo.train` returns it: notebooks show the curve of its run, too."""

    __slots__ = ()

    @classmethod
    def of(cls, outcome: Outcome) -> RunOutcome:
        """The same outcome."""
        return cls(**{field.name: getattr(outcome, field.name) for field in fields(outcome)})

    def __eq__(self, other: object) -> bool:
        """Whether all figures are the same, also of an outcome that was read from a run directory."""
        if not isinstance(other, Outcome):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in fields(self))

    __hash__ = Outcome.__hash__

    def _repr_html_(self) -> str:
        """In notebooks: the figures, and the curve."""
        return run_html(repr(self), self.run)


def run_html(line: str, run: Path) -> str:
    """A line about a run, and the curve of the run below it. A run whose episodes cannot be read has no curve."""
    from a3c_zoo.store.run_records import read_run, threshold_of

    picture = ""
    with suppress(RunDirectoryError):
        record = read_run(run, strict=False)
        if len(record.curve):
            picture = curve_svg(*_mean_returns(record), threshold_of(record))
    return f'<pre style="white-space: pre-wrap">{escape(line)}</pre>{picture}'


def _mean_returns(record: RunRecord) -> tuple[Floats, Floats]:
    """Agent steps and the mean return of the last 100 episodes, `[K]` each, at the ends of at most 200 episodes."""
    import numpy as np

    last = len(record.curve) - 1
    at = np.unique(np.linspace(0, last, min(last + 1, POINTS)).round().astype(np.int64))
    returns = record.curve.returns
    means = [returns[max(0, episode - RETURN_WINDOW + 1) : episode + 1].mean() for episode in at]
    return record.curve.axis("steps")[at], np.array(means)


def curve_svg(steps: Floats, means: Floats, threshold: float | None) -> str:
    """A picture of mean returns over agent steps, `[K]` each, with a dashed line at the threshold.

    The numbers at its edges are the least and the greatest return, and the last step.
    """
    low = float(means.min())
    high = float(means.max())
    if threshold is not None:
        low = min(low, threshold)
        high = max(high, threshold)
    margin = 6
    width = WIDTH - LEFT - margin
    height = HEIGHT - BELOW - 2 * margin
    bottom = margin + height

    def x_of(step: float) -> float:
        return LEFT + width * step / max(float(steps[-1]), 1.0)

    def y_of(value: float) -> float:
        return bottom - height * (value - low) / ((high - low) or 1.0)

    points = " ".join(f"{x_of(step):.1f},{y_of(value):.1f}" for step, value in zip(steps, means, strict=True))
    parts = [
        f'<path d="M{LEFT} {margin}V{bottom}H{WIDTH - margin}" fill="none" stroke="currentColor" opacity="0.5"/>',
        f'<polyline points="{points}" fill="none" stroke="{COLOUR}" stroke-width="2"/>',
        _text(LEFT - 6, margin + 8, "end", return_text(high)),
        _text(LEFT - 6, bottom, "end", return_text(low)),
        _text(LEFT, HEIGHT - 6, "start", f"return, mean of {RETURN_WINDOW} episodes"),
        _text(WIDTH - margin, HEIGHT - 6, "end", f"{int(steps[-1]):,} steps"),
    ]
    if threshold is not None:
        y = y_of(threshold)
        parts.append(
            f'<path d="M{LEFT} {y:.1f}H{WIDTH - margin}" fill="none" stroke="#808080" stroke-dasharray="2 3"/>'
        )
        is_high = y < HEIGHT / 2
        parts.append(
            _text(LEFT + 4, y + 12 if is_high else y - 4, "start", f"threshold {return_text(threshold)}")
        )
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">{"".join(parts)}</svg>'


def _text(x: float, y: float, anchor: str, text: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="11" font-family="sans-serif" fill="currentColor">{escape(text)}</text>'
