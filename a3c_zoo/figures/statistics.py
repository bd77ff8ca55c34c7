"""Comparison statistics of the scores of several runs, with intervals: pure functions on arrays. The seed is the unit.

Scores of a method are `[seeds, environments]`, float64; curves are `[seeds, environments, checkpoints]`. NaN marks a
missing run, at every checkpoint. The order of the rows does not matter.

Intervals are 95 % percentile bootstraps, stratified by environment: runs are drawn with replacement among the runs of
their environment, each with all of its checkpoints. Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of
the Statistical Precipice", https://arxiv.org/abs/2108.13264, sections 4.1 to 4.3. Their ends lie further out than the
usual percentiles, see `tail`: the usual ones are too narrow for few runs.

A new statistic of a method's scores is one function, and one line in `STATISTICS`: results.json and the report's tables
show every entry of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from a3c_zoo.words import listed

Floats = NDArray[np.float64]
#: Reduces `[..., seeds, environments]` to `[...]`.
Statistic = Callable[[Floats], Floats]

CONFIDENCE: Final = 0.95
#: Fewer seeds support no claim and have no interval, see `caution`. What more seeds can show: `claims.needs`.
MIN_SEEDS: Final = 5
RESAMPLES: Final = 10_000
#: Resamples at each point of a curve.
CURVE_RESAMPLES: Final = 2_000
#: Every interval begins its draws with this seed: the same scores have the same interval.
SEED: Final = 0
#: How many numbers are resampled at a time: 8 MiB.
_CHUNK: Final = 2**20


class Estimate(NamedTuple):
    """A figure and its interval; None if these runs tell none: there are too few of them, or all have one value."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Band:
    """A figure and its interval at each point of a curve: three arrays `[points]`, float64."""

    value: Floats
    low: Floats
    high: Floats


def range_of(returns: Iterable[Floats]) -> tuple[float, float]:
    """The worst and the best of all methods' returns in an environment.

    They differ, also if all returns are equal. Without any return they are 0 and 1.
    """
    everything = np.concatenate(list(returns))
    if not everything.size:
        return 0.0, 1.0
    low = float(everything.min())
    high = float(everything.max())
    if high == low:
        high = max(low + 1.0, math.nextafter(low, math.inf))  # from 2**53 on, low + 1.0 is low
    return low, high


def on_one_scale(returns: Sequence[Floats], ranges: Sequence[tuple[float, float]]) -> Floats | None:
    """A method's scores `[seeds, environments]`. None if it has no return on one of the environments.

    Args:
        returns: for each environment. ranges: the returns that count as 0 and as 1 there.
    """
    if not all(len(sample) for sample in returns):
        return None
    matrix = np.full((max(map(len, returns)), len(returns)), np.nan)
    for number, (column, (low, high)) in enumerate(zip(returns, ranges, strict=True)):
        matrix[: len(column), number] = (column - low) / (high - low)
    return matrix


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


def optimality_gap(scores: Floats) -> Floats:
    """How much the mean of all runs lacks to 1, if more than 1 counts as 1. `[..., S, E]` → `[...]`.

    Agarwal et al. 2021, section 4.3. It is 0 if all runs reach 1, whatever more they reach.
    """
    return np.asarray(1 - np.nanmean(np.minimum(scores, 1.0), axis=(-2, -1)))


#: Name → statistic, in the order of the report's columns.
STATISTICS: Final[Mapping[str, Statistic]] = {
    "interquartile_mean": interquartile_mean,
    "median": median,
    "mean": mean,
    "median_of_means": median_of_means,
}
#: More of them, of scores on a scale that the environments themselves have.
SCALED_STATISTICS: Final[Mapping[str, Statistic]] = {"optimality_gap": optimality_gap}
#: Statistics that say something only over several environments. Tables of one environment leave them out.
OVER_ENVIRONMENTS: Final = frozenset({"median_of_means"})


def _sorted_runs(scores: Floats) -> Floats:
    """`[..., S, E]` → `[..., n]`, rising, without missing runs. Every matrix misses the same number of runs."""
    runs = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)  # NaN come last
    missing = int(np.isnan(runs[(0,) * (runs.ndim - 1)]).sum())
    return runs[..., : runs.shape[-1] - missing]


def tail(runs: int, strata: int) -> float:
    """The share of draws below the lower end of an interval, and above its upper end: Φ(−t), for 0.025 = Φ(−1.96).

    t is the quantile of Student's distribution with `runs` − `strata` degrees of freedom, as in Hesterberg 2015, "What
    Teachers Should Know About the Bootstrap", The American Statistician 69, on expanded percentile intervals. His
    further factor √(n / (n − 1)) is left out: intervals of the interquartile mean would cover 97 %
    (benchmarks/false_claims.py).

    Args:
        runs: of all strata, which are drawn from separately. It must be greater than `strata`.
    """
    from scipy.special import stdtrit

    return NormalDist().cdf(-float(stdtrit(runs - strata, (1 + CONFIDENCE) / 2)))


def estimates(scores: ArrayLike, more: Mapping[str, Statistic] = MappingProxyType({})) -> dict[str, Estimate]:
    """Every statistic in `STATISTICS`, and `more`, of `[S, E]` scores, by name. Raises what `estimate` does."""
    return _estimates([scores], {**STATISTICS, **more})


def estimate(scores: ArrayLike, statistic: Statistic = interquartile_mean) -> Estimate:
    """A statistic of `[S, E]` scores, with its interval.

    Raises:
        ValueError: an environment has no run, or the shape is wrong.
    """
    return _estimates([scores], {"": statistic})[""]


def difference(scores: ArrayLike, others: ArrayLike, statistic: Statistic = interquartile_mean) -> Estimate:
    """A statistic of `scores` `[S, E]` less that of `others` `[S', E]`, with its interval. Raises what `estimate` does.

    The runs of each method are drawn on their own.
    """
    return _estimates([scores, others], {"": lambda x, y: np.asarray(statistic(x) - statistic(y))})[""]


def _estimates(
    methods: Sequence[ArrayLike], figures: Mapping[str, Callable[..., Floats]]
) -> dict[str, Estimate]:
    """Figures of the scores `[S, E]` of one or two methods, all of the same draws."""
    matrices = [_checked(scores, 2) for scores in methods]
    estimates = {name: Estimate(float(figure(*matrices)), None, None) for name, figure in figures.items()}
    counts = np.concatenate([(~np.isnan(matrix)).sum(axis=0) for matrix in matrices])
    if counts.min() < MIN_SEEDS:
        return estimates
    rng = np.random.default_rng(SEED)
    columns = np.arange(matrices[0].shape[1])
    drawn = [matrix[_draw(~np.isnan(matrix), RESAMPLES, rng), columns] for matrix in matrices]
    share = tail(int(counts.sum()), len(counts))
    for name, figure in figures.items():
        low, high = np.quantile(figure(*drawn), (share, 1 - share))
        if high > low:
            estimates[name] = Estimate(estimates[name].value, float(low), float(high))
    return estimates


def band(
    curves: ArrayLike, statistic: Statistic = interquartile_mean, *, resamples: int = CURVE_RESAMPLES
) -> Band:
    """A statistic of `[S, E, C]` scores at each of C checkpoints, with its interval.

    Raises:
        ValueError: an environment has no run, a run misses some checkpoints, or the shape is wrong.
    """
    by_point = np.moveaxis(_checked(curves, 3), 2, 0)  # [C, S, E]
    _, S, E = by_point.shape
    present = ~np.isnan(by_point[0])
    drawn = _draw(present, resamples, np.random.default_rng(SEED))
    ends = _ends(present)
    columns = np.arange(E)
    low = []
    high = []
    chunk = max(1, _CHUNK // (resamples * S * E))
    for start in range(0, len(by_point), chunk):
        samples = by_point[start : start + chunk][:, drawn, columns]  # [chunk, B, S, E]
        below, above = np.quantile(statistic(samples), ends, axis=1)
        low.append(below)
        high.append(above)
    return Band(statistic(by_point), np.concatenate(low), np.concatenate(high))


def _ends(present: NDArray[np.bool_]) -> tuple[float, float]:
    """The percentiles at which an interval begins and ends; of all draws if there is one run for each environment."""
    runs = int(present.sum())
    environments = present.shape[1]
    if runs > environments:
        share = tail(runs, environments)
    else:
        share = 0.0
    return share, 1 - share


def _checked(scores: ArrayLike, dimensions: int) -> Floats:
    array = np.asarray(scores, np.float64)
    if array.ndim != dimensions or 0 in array.shape:
        raise ValueError(
            f"scores of shape {array.shape}; they need {dimensions} dimensions, none of them empty"
        )
    missing = np.isnan(array.reshape(*array.shape[:2], -1))
    if (missing.any(axis=2) != missing.all(axis=2)).any():
        raise ValueError("a run has scores at some checkpoints only")
    if missing.all(axis=(0, 2)).any():
        raise ValueError("an environment has no run")
    return array


def columns_of(scores: ArrayLike) -> list[Floats]:
    """The scores of each environment, `[runs]` each, from `[S, E]`. Raises what `estimate` does."""
    return [column[~np.isnan(column)] for column in _checked(scores, 2).T]


def _draw(present: NDArray[np.bool_], resamples: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Row numbers `[B, S, E]`, drawn in each environment among its runs. A missing run stays missing."""
    drawn = np.empty((resamples, *present.shape), np.intp)
    for column, has in enumerate(present.T):
        rows = np.flatnonzero(has)
        drawn[:, : len(rows), column] = rows[rng.integers(len(rows), size=(resamples, len(rows)))]
        drawn[:, len(rows) :, column] = np.flatnonzero(~has)
    return drawn


def _draw_counts(runs: int, resamples: int, rng: np.random.Generator) -> Floats:
    """How often each run is drawn, `[B, runs]`, in as many draws as there are runs."""
    drawn = rng.integers(runs, size=(resamples, runs)) + runs * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=resamples * runs).reshape(resamples, runs).astype(np.float64)


def performance_profile(scores: ArrayLike, thresholds: ArrayLike) -> Band:
    """The share of all runs whose score is greater than τ, for each τ in `thresholds` `[points]`.

    Without an interval if an environment has fewer than five runs: its ends are the share.
    """
    columns = columns_of(scores)
    rng = np.random.default_rng(SEED)
    above = (np.concatenate(columns)[:, None] > np.asarray(thresholds, np.float64)).astype(np.float64)
    share = above.mean(axis=0)
    if min(map(len, columns)) < MIN_SEEDS:
        return Band(share, share, share)
    counts = np.concatenate([_draw_counts(len(column), CURVE_RESAMPLES, rng) for column in columns], axis=1)
    low, high = np.quantile(
        counts @ above / len(above), _ends(~np.isnan(np.asarray(scores, np.float64))), axis=0
    )
    return Band(share, low, high)


def caution(seeds: Mapping[str, Mapping[str, int]]) -> str | None:
    """The warning about methods with too few seeds; None if all have enough in every environment that has them.

    seeds: environment → method → how many seeds it has.
    """
    fewest: dict[str, int] = {}
    for methods in seeds.values():
        for method, count in methods.items():
            fewest[method] = min(count, fewest.get(method, count))
    few = {method: count for method, count in fewest.items() if count < MIN_SEEDS}
    if not few:
        return None
    counts = ", ".join(f"{method}: {count}" for method, count in few.items())
    with_enough = [sum(count >= MIN_SEEDS for count in methods.values()) for methods in seeds.values()]
    if max(with_enough) < 2:
        what = "no claim can be made that one method is better than another"
    elif len(seeds) == 1:
        what = f"nothing is claimed about {listed(few)}"
    else:
        what = f"nothing is claimed about {listed(few)} where there are so few, nor over all environments"
    return f"Fewer than {MIN_SEEDS} seeds ({counts}): {what}. Look at the single runs."
