"""Comparison statistics of the scores of several runs, with intervals: pure functions on arrays. The seed is the unit.

Scores of a method are `[seeds, environments]`, float64; curves are `[seeds, environments, checkpoints]`. NaN marks a
missing run, at every checkpoint. The order of the rows does not matter.

Intervals are 95 % percentile bootstraps, stratified by environment: runs are drawn with replacement among the runs of
their environment, each with all of its checkpoints. Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of
the Statistical Precipice", https://arxiv.org/abs/2108.13264, sections 4.1 to 4.3.

A new statistic of a method's scores is one function, and one line in `STATISTICS`: results.json and the report's tables
show every entry of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
#: Reduces `[..., seeds, environments]` to `[...]`.
Statistic = Callable[[Floats], Floats]

CONFIDENCE: Final = 0.95
#: Fewer seeds support no claim, see `caution`.
MIN_SEEDS: Final = 5
RESAMPLES: Final = 10_000
#: Resamples at each point of a curve.
CURVE_RESAMPLES: Final = 2_000
#: Every interval begins its draws with this seed: the same scores have the same interval.
SEED: Final = 0
#: How many numbers are resampled at a time: 8 MiB.
_CHUNK: Final = 2**20


class Estimate(NamedTuple):
    """A figure and its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Band:
    """A figure and its interval at each point of a curve: three arrays `[points]`, float64."""

    value: Floats
    low: Floats
    high: Floats


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
        reached: how many runs reached it. runs: how many there are.
        median: the first moment at which half of the runs or more have reached it; None if there is none.
        low, high: its interval; None for an end that these runs do not determine.
    """

    reached: int
    runs: int
    median: float | None
    low: float | None
    high: float | None


class EarlierChance(NamedTuple):
    """The probability that a run of one method reaches a threshold earlier than a run of another.

    Attributes:
        low, high: its interval.
        unknown: the share of pairs of runs whose order is unknown; each counts half. It depends on the method: with a
            budget of steps, a fast method that fails ends before the other reaches anything.
        low_if_lost, high_if_won: the bounds of the interval if these pairs were all lost, or all won.
    """

    value: float
    low: float
    high: float
    unknown: float
    low_if_lost: float
    high_if_won: float


# Statistics of all runs of a method, over all environments. Missing runs are left out.


def mean(scores: Floats) -> Floats:
    """The mean of all runs. `[..., S, E]` → `[...]`."""
    return np.asarray(np.nanmean(scores, axis=(-2, -1)))


def median(scores: Floats) -> Floats:
    """The median of all runs. `[..., S, E]` → `[...]`."""
    runs = _sorted_runs(scores)
    n = runs.shape[-1]
    return np.asarray((runs[..., (n - 1) // 2] + runs[..., n // 2]) / 2)


def interquartile_mean(scores: Floats) -> Floats:
    """The mean of all runs without the best and the worst ⌊n / 4⌋. `[..., S, E]` → `[...]`."""
    runs = _sorted_runs(scores)
    n = runs.shape[-1]
    return np.asarray(runs[..., n // 4 : n - n // 4].mean(axis=-1))


def median_of_means(scores: Floats) -> Floats:
    """The median over environments of the mean over seeds. `[..., S, E]` → `[...]`.

    Many papers call it the median. With one environment it equals the mean.
    """
    return np.asarray(np.median(np.nanmean(scores, axis=-2), axis=-1))


#: Name → statistic, in the order of the report's columns.
STATISTICS: Final[Mapping[str, Statistic]] = {
    "interquartile_mean": interquartile_mean,
    "median": median,
    "mean": mean,
    "median_of_means": median_of_means,
}
#: Statistics that say something only over several environments. Tables of one environment leave them out.
OVER_ENVIRONMENTS: Final = frozenset({"median_of_means"})


def _sorted_runs(scores: Floats) -> Floats:
    """`[..., S, E]` → `[..., n]`, rising, without missing runs. Every matrix misses the same number of runs."""
    runs = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)  # NaN come last
    missing = int(np.isnan(runs[(0,) * (runs.ndim - 1)]).sum())
    return runs[..., : runs.shape[-1] - missing]


def estimates(scores: ArrayLike) -> dict[str, Estimate]:
    """Every statistic in `STATISTICS` of `[S, E]` scores, by name. Raises what `estimate` does."""
    return {name: estimate(scores, statistic) for name, statistic in STATISTICS.items()}


def estimate(scores: ArrayLike, statistic: Statistic = interquartile_mean) -> Estimate:
    """A statistic of `[S, E]` scores, with its interval.

    Raises:
        ValueError: an environment has no run, or the shape is wrong.
    """
    found = band(np.asarray(scores, np.float64)[..., None], statistic, resamples=RESAMPLES)
    return Estimate(float(found.value[0]), float(found.low[0]), float(found.high[0]))


def band(curves: ArrayLike, statistic: Statistic = interquartile_mean, *, resamples: int = CURVE_RESAMPLES) -> Band:
    """A statistic of `[S, E, C]` scores at each of C checkpoints, with its interval.

    Raises:
        ValueError: an environment has no run, a run misses some checkpoints, or the shape is wrong.
    """
    by_point = np.moveaxis(_checked(curves, 3), 2, 0)  # [C, S, E]
    _, S, E = by_point.shape
    drawn = _draw(~np.isnan(by_point[0]), resamples, np.random.default_rng(SEED))
    columns, low, high = np.arange(E), [], []
    chunk = max(1, _CHUNK // (resamples * S * E))
    for start in range(0, len(by_point), chunk):
        samples = by_point[start : start + chunk][:, drawn, columns]  # [chunk, B, S, E]
        below, above = _percentiles(statistic(samples), axis=1)
        low.append(below)
        high.append(above)
    return Band(statistic(by_point), np.concatenate(low), np.concatenate(high))


def _checked(scores: ArrayLike, dimensions: int) -> Floats:
    array = np.asarray(scores, np.float64)
    if array.ndim != dimensions or 0 in array.shape:
        raise ValueError(f"scores of shape {array.shape}; they need {dimensions} dimensions, none of them empty")
    missing = np.isnan(array.reshape(*array.shape[:2], -1))
    if (missing.any(axis=2) != missing.all(axis=2)).any():
        raise ValueError("a run has scores at some checkpoints only")
    if missing.all(axis=(0, 2)).any():
        raise ValueError("an environment has no run")
    return array


def _draw(present: NDArray[np.bool_], resamples: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Row numbers `[B, S, E]`, drawn in each environment among its runs. A missing run stays missing."""
    drawn = np.empty((resamples, *present.shape), np.intp)
    for column, has in enumerate(present.T):
        rows = np.flatnonzero(has)
        drawn[:, : len(rows), column] = rows[rng.integers(len(rows), size=(resamples, len(rows)))]
        drawn[:, len(rows) :, column] = np.flatnonzero(~has)
    return drawn


def _percentiles(values: Floats, axis: int) -> Any:
    tail = (1 - CONFIDENCE) / 2
    return np.quantile(values, (tail, 1 - tail), axis=axis)


def _draw_counts(runs: int, resamples: int, rng: np.random.Generator) -> Floats:
    """How often each run is drawn, `[B, runs]`, in as many draws as there are runs."""
    drawn = rng.integers(runs, size=(resamples, runs)) + runs * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=resamples * runs).reshape(resamples, runs).astype(np.float64)


def probability_of_improvement(scores: ArrayLike, others: ArrayLike) -> Estimate:
    """P(X > Y) + ½ P(X = Y) for a run X of `scores` and a run Y of `others`, averaged over environments.

    In one environment this is Mann and Whitney's U divided by the number of pairs. `[S, E]` and `[S', E]`.
    """
    x, y = _checked(scores, 2), _checked(others, 2)
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"{x.shape[1]} environments against {y.shape[1]}")
    columns = [(a[~np.isnan(a)][:, None], b[~np.isnan(b)]) for a, b in zip(x.T, y.T, strict=True)]
    return _mean_win([(a > b) + (a == b) / 2 for a, b in columns])


def probability_of_earlier(durations: Durations, others: Durations) -> EarlierChance:
    """P(X < Y) + ½ P(the order is unknown) for the times that a run X and a run Y take to reach a threshold.

    A run that never reached it is later than every run that reached it before the first one's end. The order of two
    runs is unknown if neither reached the threshold, or if one ended before the other reached it. Gehan 1965, "A
    generalized Wilcoxon test for comparing arbitrarily singly-censored samples".
    """
    wins = _wins(durations, others)
    is_unknown = np.isnan(wins)
    lost, half, won = (_mean_win([np.where(is_unknown, value, wins)]) for value in (0.0, 0.5, 1.0))
    return EarlierChance(*half, float(is_unknown.mean()), lost.low, won.high)


def _wins(durations: Durations, others: Durations) -> Floats:
    """`[runs, other runs]`: 1 if the first is earlier, 0 if the other is, ½ for a tie, NaN if the order is unknown."""
    x, x_reached = durations.values[:, None], durations.reached[:, None]
    y, y_reached = others.values, others.reached
    # At the same moment, a run that reaches the threshold is earlier than a run that ends.
    wins = x_reached & np.where(y_reached, x < y, x <= y)
    losses = y_reached & np.where(x_reached, y < x, y <= x)
    return np.select([wins, losses, x_reached & y_reached], [1.0, 0.0, 0.5], np.nan)


def _mean_win(tables: Sequence[Floats]) -> Estimate:
    """The mean over environments of the means of tables `[runs, other runs]` of 1 (won), ½ and 0; and its interval."""
    rng, drawn = np.random.default_rng(SEED), np.zeros(RESAMPLES)
    for table in tables:
        rows, columns = (_draw_counts(size, RESAMPLES, rng) for size in table.shape)
        drawn += ((rows @ table) * columns).sum(axis=1) / table.size
    low, high = _percentiles(drawn / len(tables), axis=0)
    return Estimate(float(np.mean([table.mean() for table in tables])), float(low), float(high))


def performance_profile(scores: ArrayLike, thresholds: ArrayLike) -> Band:
    """The share of all runs whose score is greater than τ, for each τ in `thresholds` `[points]`."""
    runs, rng = _checked(scores, 2), np.random.default_rng(SEED)
    columns = [column[~np.isnan(column)] for column in runs.T]
    counts = np.concatenate([_draw_counts(len(column), CURVE_RESAMPLES, rng) for column in columns], axis=1)
    above = (np.concatenate(columns)[:, None] > np.asarray(thresholds, np.float64)).astype(np.float64)
    low, high = _percentiles(counts @ above / len(above), axis=0)
    return Band(above.mean(axis=0), low, high)


def time_to_threshold(durations: Durations) -> TimeToThreshold:
    """The median time to reach a threshold.

    Its interval ends where that of `survival` crosses one half (Brookmeyer and Crowley 1982, "A confidence interval for
    the median survival time").

    Raises:
        ValueError: there is no run.
    """
    times, share = survival(durations)
    halves = (np.flatnonzero(curve <= 0.5) for curve in (share.value, share.low, share.high))
    ends = (float(times[below[0]]) if len(below) else None for below in halves)
    return TimeToThreshold(int(durations.reached.sum()), len(durations.values), *ends)


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
    found = stats.ecdf(stats.CensoredData.right_censored(durations.values, ~durations.reached)).sf
    share = np.asarray(found.probabilities, np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # undefined at 0 and 1: see below
        ends = found.confidence_interval(CONFIDENCE, method="log-log")
    low = np.select([share == 0, share == 1], [0.0, 1.0], ends.low.probabilities)
    high = np.where(share == 1, 1.0, ends.high.probabilities)
    if share[-1] == 0:  # all runs have reached it; the last moment takes the bound of the one before it
        high[-1] = high[-2] if len(high) > 1 else 1.0
    return np.asarray(found.quantiles, np.float64), Band(share, low, high)


def caution(seeds: Mapping[str, int]) -> str | None:
    """The warning about methods with too few seeds; None if all have enough.

    seeds: method → the fewest seeds that it has in an environment.
    """
    few = {method: count for method, count in seeds.items() if count < MIN_SEEDS}
    if not few:
        return None
    counts = ", ".join(f"{method}: {count}" for method, count in few.items())
    return (
        f"Fewer than {MIN_SEEDS} seeds ({counts}): no claim can be made that one method is better than another. "
        "Look at the single runs."
    )
