"""Statistics of how long runs take to reach a threshold. A run that did not reach it is right-censored, never left out.

Pure functions on arrays; the run is the unit.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3c_zoo.figures.statistics import CONFIDENCE, MIN_SEEDS, Band, Floats


@dataclass(frozen=True, slots=True)
class Durations:
    """How long each run took to reach a threshold: `[seeds]` both, in any unit.

    Attributes:
        values: when the run reached it, or when the run ended before; float64.
        reached: whether the run reached it; bool. A run that did not is right-censored: its time is longer than its
            value.
    """

    values: Floats
    reached: NDArray[np.bool_]

    @classmethod
    def of(cls, reached_at: Sequence[float | None], ended_at: Sequence[float]) -> Durations:
        """From the moment at which each run reached the threshold (None: never) and the moment at which it ended."""
        pairs = zip(reached_at, ended_at, strict=True)
        values = np.array([end if at is None else at for at, end in pairs], np.float64)
        return cls(values, np.array([at is not None for at in reached_at], np.bool_))


class TimeToThreshold(NamedTuple):
    """How long the runs of a method take to reach a threshold.

    Attributes:
        reached: how many runs reached it. runs: how many there are, with those that failed.
        at_least: the lower bound of the chance that a run reaches it, see `least_chance`.
        median: the first moment at which half of the runs or more have reached it; None if there is none.
        low, high: its interval; None for an end that these runs do not determine, and both with fewer than five runs.
    """

    reached: int
    runs: int
    at_least: float
    median: float | None
    low: float | None
    high: float | None


class MeanDifference(NamedTuple):
    """The difference of two methods' mean times to a threshold, each time cut off at `until`, and its interval.

    Negative: the first method is earlier.
    """

    value: float
    low: float | None
    high: float | None
    until: float


def least_chance(successes: int, runs: int) -> float:
    """The one-sided 95 % lower bound of the chance of success, if `successes` of `runs` have succeeded.

    Clopper and Pearson 1934, "The use of confidence or fiducial limits illustrated in the case of the binomial". If all
    n succeed, it is 0.05^(1/n): 55 % for 5 runs, 90 % for 29.
    """
    from scipy.special import betaincinv

    if successes:
        return float(betaincinv(successes, runs - successes + 1, 1 - CONFIDENCE))
    return 0.0


def time_to_threshold(durations: Durations, lost: int = 0) -> TimeToThreshold:
    """The median time to reach a threshold.

    lost: how many other runs failed. They count as runs that never reach it, however long the others take.

    Its interval ends where that of `survival` crosses one half (Brookmeyer and Crowley 1982, "A confidence interval for
    the median survival time").

    Raises:
        ValueError: there is no run.
    """
    if lost and len(durations.values):
        never = np.full(lost, durations.values.max())
        durations = Durations(np.append(durations.values, never), np.append(durations.reached, never < 0))
    times, share = survival(durations)
    halves = (np.flatnonzero(curve <= 0.5 + 1e-9) for curve in (share.value, share.low, share.high))
    median, low, high = (float(times[below[0]]) if len(below) else None for below in halves)
    reached = int(durations.reached.sum())
    runs = len(durations.values)
    ends = (low, high) if runs >= MIN_SEEDS else (None, None)
    return TimeToThreshold(reached, runs, least_chance(reached, runs), median, *ends)


def survival(durations: Durations) -> tuple[Floats, Band]:
    """The share of runs that have not reached a threshold, over time: Kaplan and Meier's estimate.

    The interval is Greenwood's on the scale of log(−log), as scipy computes it.

    Returns:
        The moments at which a run reached the threshold or ended, `[K]`, rising; and the share from each of them on.

    Raises:
        ValueError: there is no run.
    """
    from scipy import stats

    if not len(durations.values):
        raise ValueError("no runs")
    function = stats.ecdf(stats.CensoredData.right_censored(durations.values, ~durations.reached)).sf
    share = np.asarray(function.probabilities, np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # undefined at 0 and 1: see below
        ends = function.confidence_interval(CONFIDENCE, method="log-log")
    low = np.select([share == 0, share == 1], [0.0, 1.0], ends.low.probabilities)
    high = np.where(share == 1, 1.0, ends.high.probabilities)
    if share[-1] == 0:  # all runs have reached it
        high[-1] = _bound_before_last_run(durations, high)
    return np.asarray(function.quantiles, np.float64), Band(share, low, high)


def _bound_before_last_run(durations: Durations, high: Floats) -> float:
    """The upper bound that the last moment takes, where the share is 0: that of the share before its last run.

    If several runs reach the threshold then, they count as if all but one did so just before.
    """
    last = durations.values.max()
    tied = np.flatnonzero(durations.values == last)
    if len(tied) == 1:
        return float(high[-2]) if len(high) > 1 else 1.0
    values = durations.values.copy()
    values[tied[1:]] = np.nextafter(last, -np.inf)
    return float(survival(Durations(values, durations.reached))[1].high[-2])


def restricted_mean(durations: Durations, until: float) -> tuple[float, float]:
    """The mean of min(time to the threshold, `until`), and its standard error.

    The area below Kaplan and Meier's curve, and its variance Σ A(t)² d / (r (r − d)) over the moments t at which d
    of r runs reach the threshold, where A(t) is the area from t on. Klein and Moeschberger 2003, "Survival Analysis",
    equations 4.5.1 and 4.5.2. The variance is multiplied by n / (n − 1): without censoring it is that of a mean.
    """
    times = np.unique(durations.values[durations.reached & (durations.values < until)])
    risk = (durations.values >= times[:, None]).sum(axis=1)
    ends = (durations.reached & (durations.values == times[:, None])).sum(axis=1)
    share = np.concatenate([[1.0], np.cumprod(1 - ends / risk)])
    areas = share * np.diff(np.concatenate([[0.0], times, [until]]))
    rest = areas[::-1].cumsum()[::-1][1:]  # from each moment on
    left = np.where(risk > ends, risk - ends, 1)  # nothing is left where all reach it, and the rest is 0
    variance = float((rest**2 * ends / (risk * left)).sum())
    n = len(durations.values)
    return float(areas.sum()), math.sqrt(variance * n / (n - 1)) if n > 1 else math.nan


def mean_difference(durations: Durations, others: Durations) -> MeanDifference:
    """The difference of two methods' restricted mean times to a threshold.

    Both are restricted to the last moment up to which both are known. If a method's longest run reaches the threshold,
    its times are known for every moment, else up to the end of this run. Royston and Parmar 2013, "Restricted mean
    survival time: an alternative to the hazard ratio". The interval is Welch's.
    """
    from scipy.special import stdtrit

    both = (durations, others)
    last = [sample.values.max() for sample in both]
    known = [
        math.inf if sample.reached[sample.values == end].all() else end
        for sample, end in zip(both, last, strict=True)
    ]
    until = float(min(*known, max(last)))
    (mean, error), (other, other_error) = (restricted_mean(sample, until) for sample in both)
    sizes = [len(sample.values) for sample in both]
    variances = error**2, other_error**2
    if min(sizes) < MIN_SEEDS or not sum(variances) > 0:
        return MeanDifference(mean - other, None, None, until)
    free = sum(variances) ** 2 / sum(
        variance**2 / (size - 1) for variance, size in zip(variances, sizes, strict=True)
    )
    reach = float(stdtrit(free, (1 + CONFIDENCE) / 2)) * math.sqrt(sum(variances))
    return MeanDifference(mean - other, mean - other - reach, mean - other + reach, until)
