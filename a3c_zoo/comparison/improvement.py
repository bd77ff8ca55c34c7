"""The probability that a run of one method is better than a run of another, with a test and an interval that agree.

The test is a permutation test: if two methods do not differ, every way to say which runs are the first one's is as
likely. The statistic is studentised (Brunner and Munzel 2000, "The nonparametric Behrens-Fisher problem: asymptotic
theory and a small-sample approximation"). So the test is exact for methods without any difference, and still holds its
error approximately where they differ in spread but neither is better: Neubert and Brunner 2007, "A studentized
permutation test for the non-parametric Behrens-Fisher problem"; Chung and Romano 2016, "Asymptotically valid and exact
permutation tests based on two-sample U-statistics". Probabilities are compared on the scale of arcsin √P, where their
variance depends little on P.

The interval is a score interval, method 5 of Newcombe 2006, "Confidence intervals for an effect size measure based on
the Mann-Whitney statistic. Part 2". It leaves out ½ if, and only if, the test's p is at most 0.05: where both disagree,
the end beside ½ is the test's own.

Over several environments, probabilities are averaged, and runs are exchanged within their environment only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from a3c_zoo.comparison.durations import Durations
from a3c_zoo.comparison.statistics import CONFIDENCE, MIN_SEEDS, SEED, Estimate, Floats, columns_of

#: All orders are tried if there are at most so many: 12,870 for 8 runs against 8. Else so many random ones are tried.
MOST_ORDERS: Final = 12_870
RANDOM_ORDERS: Final = 10_000


class Chance(NamedTuple):
    """The probability that a run of one method is better than a run of another.

    Attributes:
        low, high: its interval; None if these runs tell none.
        p: the probability of a statistic as extreme as this if the methods do not differ; 1 with too few runs.
    """

    value: float
    low: float | None
    high: float | None
    p: float


class EarlierChance(NamedTuple):
    """The probability that a run of one method reaches a threshold earlier than a run of another.

    Attributes:
        low, high, p: see `Chance`.
        unknown: the share of pairs of runs whose order is unknown; each counts half. It depends on the method: with a
            budget of steps, a fast method that fails ends before the other reaches anything.
        at_worst: the probability if all these pairs had ended against the method that is ahead. p_at_worst: its p; 1
            if the other method would then be ahead.
    """

    value: float
    low: float | None
    high: float | None
    p: float
    unknown: float
    at_worst: float
    p_at_worst: float


def improvement(scores: ArrayLike, others: ArrayLike) -> Chance:
    """P(X > Y) + ½ P(X = Y) for a run X of `scores` and a run Y of `others`, averaged over environments.

    In one environment this is Mann and Whitney's U divided by the number of pairs. `[S, E]` and `[S', E]`.
    """
    x, y = columns_of(scores), columns_of(others)
    if len(x) != len(y):
        raise ValueError(f"{len(x)} environments against {len(y)}")
    both = [np.concatenate(pair) for pair in zip(x, y, strict=True)]
    return _chance([(each[:, None] > each) + (each[:, None] == each) / 2 for each in both], [*map(len, x)])[0]


def earlier(durations: Durations, others: Durations) -> EarlierChance:
    """P(X < Y) + ½ P(the order is unknown) for the times that a run X and a run Y take to reach a threshold.

    A run that never reached it is later than every run that reached it before the first one's end. The order of two
    runs is unknown if neither reached the threshold, or if one ended before the other reached it. Gehan 1965, "A
    generalized Wilcoxon test for comparing arbitrarily singly-censored samples".
    """
    values, reached = (durations.values, others.values), (durations.reached, others.reached)
    wins, first = _wins(Durations(np.concatenate(values), np.concatenate(reached))), len(durations.values)
    unknown = float(np.isnan(wins[:first, first:]).mean())
    chance, extremes = _chance([np.nan_to_num(wins, nan=0.5)], [first])
    if not len(extremes):
        return EarlierChance(*chance, unknown, chance.value, 1.0)
    against = np.nan_to_num(wins, nan=float(chance.value < 0.5))
    share, variance = _shares(against, np.arange(len(wins))[None] < first)
    is_still_ahead = (share[0] - 0.5) * (chance.value - 0.5) > 0
    p = float((extremes >= _extremes(share, np.sqrt(variance))[0]).mean()) if is_still_ahead else 1.0
    return EarlierChance(*chance, unknown, float(share[0]), max(chance.p, p))


def cliffs_delta(chance: Chance | EarlierChance) -> Estimate:
    """The probability that a run is better, less the probability that it is worse: 2 P − 1, with its interval.

    Cliff 1993, "Dominance statistics: ordinal analyses to answer ordinal questions".
    """
    low, high = (None if end is None else 2 * end - 1 for end in (chance.low, chance.high))
    return Estimate(2 * chance.value - 1, low, high)


def _wins(durations: Durations) -> Floats:
    """`[runs, runs]`: 1 if the first is earlier, 0 if the other is, ½ for a tie, NaN if the order is unknown."""
    x, x_reached = durations.values[:, None], durations.reached[:, None]
    y, y_reached = durations.values, durations.reached
    # At the same moment, a run that reaches the threshold is earlier than a run that ends.
    wins = x_reached & np.where(y_reached, x < y, x <= y)
    losses = y_reached & np.where(x_reached, y < x, y <= x)
    return np.select([wins, losses, x_reached & y_reached], [1.0, 0.0, 0.5], np.nan)


def _chance(tables: Sequence[Floats], first: Sequence[int]) -> tuple[Chance, Floats]:
    """From each environment's table of wins of all runs over all, `[runs, runs]`; the `first` runs are one method's.

    Returns:
        The chance, and the statistic of all orders, `[orders]`; of no order if there are too few runs.
    """
    sizes = [(size, len(table) - size) for table, size in zip(tables, first, strict=True)]
    if min(itertools.chain(*sizes)) < MIN_SEEDS:
        won = [table[:size, size:].mean() for table, size in zip(tables, first, strict=True)]
        return Chance(float(np.mean(won)), None, None, 1.0), np.empty(0)
    chosen = [orders(*size, None if len(tables) == 1 else number) for number, size in enumerate(sizes)]
    found = [_shares(*pair) for pair in zip(tables, chosen, strict=True)]
    shares = np.mean([share for share, _ in found], axis=0)
    extremes, errors = _extremes(shares, np.sqrt(np.sum([each for _, each in found], axis=0)) / len(tables))
    ends = _interval(float(shares[0]), float(errors[0]), extremes, sizes)
    return Chance(float(shares[0]), *ends, float((extremes >= extremes[0]).mean())), extremes


def _extremes(shares: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """How many errors each share is away from ½, on the scale of arcsin √P; and its error on that scale.

    The derivative of arcsin √P is 1 / (2 √(P (1 − P))).
    """
    away = np.abs(np.arcsin(np.sqrt(np.clip(shares, 0, 1))) - np.pi / 4).round(12)
    is_known = errors > 1e-9
    scaled = np.divide(errors, 2 * np.sqrt(np.abs(shares * (1 - shares))), out=np.zeros_like(errors), where=is_known)
    return np.divide(away, scaled, out=np.where(away > 0, np.inf, 0.0), where=is_known).round(9), scaled


@lru_cache(maxsize=8)
def orders(first: int, second: int, number: int | None = None) -> NDArray[np.bool_]:
    """Ways to say which runs are the first method's, `[orders, runs]`: the true one comes first.

    number: of the environment among several, each with random orders of its own. None for a single environment: all
        orders there are, or random ones if there are more than `MOST_ORDERS`.
    """
    runs = first + second
    if number is None and math.comb(runs, first) <= MOST_ORDERS:
        chosen = np.array(list(itertools.combinations(range(runs), first)))
        found = np.zeros((len(chosen), runs), np.bool_)
        np.put_along_axis(found, chosen, True, axis=1)
        return found
    true, rng = np.arange(runs) < first, np.random.default_rng((SEED, number or 0))
    return np.concatenate([true[None], rng.permuted(np.tile(true, (RANDOM_ORDERS - 1, 1)), axis=1)])


def _shares(table: Floats, first: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """The share of pairs that the first method wins, and its variance, for each order: `[orders]` both.

    The variance is that of the runs' own shares, as Brunner and Munzel (2000) estimate it.
    """
    is_first = first.astype(np.float64)
    is_second = 1 - is_first
    m, n = is_first[0].sum(), is_second[0].sum()
    won = is_second @ table.T / n  # by each run, against the second method
    lost = is_first @ table / m  # by each run, against the first method
    share = np.einsum("or,or->o", is_first, won) / m
    squares = (np.einsum("or,or,or->o", *each) for each in ((is_first, won, won), (is_second, lost, lost)))
    variance = np.zeros_like(share)
    for square, size in zip(squares, (m, n), strict=True):
        variance += (square - size * share**2) / (size - 1) / size
    return share, np.where(variance > 1e-12, variance, 0.0)


def _interval(
    value: float, error: float, extremes: Floats, sizes: Sequence[tuple[int, int]]
) -> tuple[float | None, float | None]:
    """The interval of a share: without ½ if, and only if, at most 5 % of `extremes` are as great as the first.

    error: of the share, on the scale of `extremes`.
    """
    if error == 0 and value == 0.5:
        return None, None
    if value < 0.5:
        low, high = _interval(1 - value, error, extremes, sizes)
        return 1 - high, 1 - low  # type: ignore[operator]
    low, high = _score_end(value, 0.0, sizes), _score_end(value, 1.0, sizes)
    ordered, allowed = np.sort(extremes), int((1 - CONFIDENCE) * len(extremes) + 1e-9)
    critical = float(ordered[-1 - allowed])
    is_out = float(extremes[0]) > critical
    if is_out != (low > 0.5):
        scaled = math.asin(math.sqrt(value)) - (critical * error if error else 0.0)
        end = math.sin(max(0.0, scaled)) ** 2
        low = max(end, math.nextafter(0.5, 1)) if is_out else min(end, 0.5)
    return low, high


def _score_end(value: float, end: float, sizes: Sequence[tuple[int, int]]) -> float:
    """The share θ between `value` and `end` at which |`value` − θ| = z √V(θ); `end` if there is none.

    V is that of Newcombe's method 5, of the mean over environments.
    """
    z, inner, outer = NormalDist().inv_cdf((1 + CONFIDENCE) / 2), value, end
    for _ in range(50):
        share = (inner + outer) / 2
        spread = 0.0
        for m, n in sizes:
            shape = 1 + ((m + n) / 2 - 1) * ((1 - share) / (2 - share) + share / (1 + share))
            spread += share * (1 - share) * shape / (m * n)
        is_in = abs(value - share) <= z * math.sqrt(spread) / len(sizes)
        inner, outer = (share, outer) if is_in else (inner, share)
    return inner
