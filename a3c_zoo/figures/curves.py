"""What the curve of a run tells: its running mean, when it reaches a threshold, and the area under it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from a3c_zoo.records import RETURN_WINDOW
from a3c_zoo.store.tables import Curve, Floats


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One line of a plot: `x` and `y`, both `[K]`, float64; `x` rises."""

    x: Floats
    y: Floats


class Moment(NamedTuple):
    """A point of a run: agent steps, and seconds of training."""

    steps: int
    seconds: float


def running_mean(values: Floats | NDArray[np.int64], window: int) -> Floats:
    """The mean of the last `window` values up to each value, of fewer at the beginning. `[K]` → `[K]`.

    With a window of 3, the values are cut into blocks of 3. A window's two parts are summed from the border in it:

        values    a b c | d e f | g h i
        window      b c | d          (b + c) + d

    The usual difference of two sums from the start would lose the digits of all values after a huge one.
    """
    count = len(values)
    window = max(1, min(window, count))
    # It has zeros before the first value, and after the last.
    padded = np.zeros(-(-(window - 1 + count) // window) * window)
    padded[window - 1 : window - 1 + count] = values
    blocks = padded.reshape(-1, window)
    at = np.arange(count)
    beginnings = np.cumsum(blocks, axis=1).ravel()[at + window - 1]
    ends = np.cumsum(blocks[:, ::-1], axis=1)[:, ::-1].ravel()[at]
    sums = ends + np.where(at % window, beginnings, 0.0)  # a whole block is its own end
    return np.asarray(sums / np.minimum(at + 1, window))


def reached(curve: Curve, threshold: float, window: int = RETURN_WINDOW) -> Moment | None:
    """When the mean return of the last `window` episodes first was at least `threshold`; None if it never was.

    Fewer episodes than `window` never reach a threshold.
    """
    means = running_mean(curve.returns, window)[window - 1 :]
    # Sums of long runs differ in the last digits: a mean of exactly the threshold reaches it.
    there = np.flatnonzero(means >= threshold - 1e-9 * max(1.0, abs(threshold)))
    if not len(there):
        return None
    index = there[0] + window - 1
    return Moment(int(curve.steps[index]), float(curve.seconds[index]))


def area_under_curve(steps: ArrayLike, values: ArrayLike) -> Floats:
    """The mean of a curve over steps, by the trapezoid rule, in the unit of the values.

    Args:
        steps: `[C]`, rising. values: `[..., C]`.

    Returns:
        `[...]`

    Raises:
        ValueError: there are fewer than two steps, or they do not rise.
    """
    x, y = np.asarray(steps, np.float64), np.asarray(values, np.float64)
    if len(x) < 2 or (np.diff(x) <= 0).any():
        raise ValueError("an area needs two or more rising steps")
    return np.asarray(((y[..., 1:] + y[..., :-1]) / 2 * np.diff(x)).sum(axis=-1) / (x[-1] - x[0]))
