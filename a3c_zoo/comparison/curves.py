"""What a run's training episodes say over steps, seconds and episodes. Arrays and no files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: Episodes of the running mean that decides when a threshold is reached; as in a run itself.
THRESHOLD_WINDOW: Final = 100


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Every finished training episode of a run, in the order in which they ended: arrays `[K]`.

    Attributes:
        steps: agent steps of the whole run when the episode ended; never falling, int64.
        seconds: of training, or since the monitor's start in a run that is not ours; never falling, float64.
        returns: undiscounted and raw, float64.
        lengths: agent steps of the episode, int64.
    """

    steps: NDArray[np.int64]
    seconds: Floats
    returns: Floats
    lengths: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.steps)

    @classmethod
    def ordered(cls, steps: Floats, seconds: Floats, returns: Floats, lengths: Floats) -> Curve:
        """From rows in any order. Workers report side by side: a step may be told a little after a later one."""
        order = np.lexsort((steps, seconds))
        return cls(
            np.maximum.accumulate(steps[order]).astype(np.int64),
            seconds[order],
            returns[order],
            lengths[order].astype(np.int64),
        )


class Moment(NamedTuple):
    """A point of a run: agent steps, and seconds of training."""

    steps: int
    seconds: float


def running_mean(values: Floats | NDArray[np.int64], window: int) -> Floats:
    """The mean of the last `window` values up to each, of fewer at the beginning. `[K]` → `[K]`."""
    sums = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    last = np.arange(1, len(values) + 1)
    first = np.maximum(last - window, 0)
    return np.asarray((sums[last] - sums[first]) / (last - first))


def reached(curve: Curve, threshold: float, window: int = THRESHOLD_WINDOW) -> Moment | None:
    """The end of the first episode at which the mean return of the last `window` episodes, not fewer, was at least
    `threshold`; None if it never was."""
    means = running_mean(curve.returns, window)[window - 1 :]
    # Sums of long runs differ in the last digits: a mean of exactly the threshold reaches it.
    there = np.flatnonzero(means >= threshold - 1e-9 * max(1.0, abs(threshold)))
    if not len(there):
        return None
    index = there[0] + window - 1
    return Moment(int(curve.steps[index]), float(curve.seconds[index]))


def at(x: Floats | NDArray[np.int64], y: Floats, points: Floats) -> Floats:
    """A curve at each of `points`, on straight lines between its own: `[K]`, rising, `[K]` and `[P]` → `[P]`.

    NaN before the first and after the last.
    """
    return np.interp(points, x, y, left=np.nan, right=np.nan)
