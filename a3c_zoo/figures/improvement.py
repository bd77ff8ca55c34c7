"""The probability that a run of one method is better than a run of another, with a test and an interval that agree.

The test asks whether this probability P is ½. It has to hold its level for any two distributions with P = ½, whatever
their spread and shape, so its p is the greater one of two.

- A permutation test. If two methods do not differ, every way to say which runs are the first one's is as likely. The
  statistic is the p of Brunner and Munzel 2000, "The nonparametric Behrens-Fisher problem: asymptotic theory and a
  small-sample approximation": the distance of P from ½ over its error, on the scale of arcsin √P, in Student's
  distribution with the degrees of freedom that these runs have. So the test is exact for methods without any
  difference. Where methods differ in spread, a studentised statistic holds the level approximately: Neubert and Brunner
  2007, "A studentized permutation test for the non-parametric Behrens-Fisher problem"; Chung and Romano 2016,
  "Asymptotically valid and exact permutation tests based on two-sample U-statistics". The p of an approximation is a
  better statistic than its quantile: Beran 1988, "Prepivoting test statistics: a bootstrap view of asymptotic
  refinements".
- A sign test, see `sign_p`, which says what no test may go below.

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

from a3c_zoo.figures.durations import Durations
from a3c_zoo.figures.statistics import CONFIDENCE, MIN_SEEDS, SEED, Floats, columns_of

#: All orders are tried if there are at most so many: 12,870 for 8 runs against 8. Else so many random ones are tried.
MOST_ORDERS: Final = 12_870
RANDOM_ORDERS: Final = 10_000


class Chance(NamedTuple):
    """The probability that a run of one method is better than a run of another.

    Attributes:
        low, high: its interval; None if these runs tell none.
        p: of the test that P is ½; 1 with too few runs.
    """

    value: float
    low: float | None
    high: float | None
    p: float


class EarlierChance(NamedTuple):
    """The probability that a run of one method reaches a threshold earlier than a run of another.

    Attributes:
        low, high, p: see `Chance`.
        unknown: the share of pairs of runs with an unknown order; each such pair counts half. With a budget in steps,
            a fast method that fails ends before the other method reaches anything, and many orders are unknown.
        at_worst: the probability if the method that is ahead had lost all pairs whose order is unknown. p_at_worst: the
            greater of p and the p of this worst case; 1 if the other method would then be ahead.
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
    return _chance(
        [(scores[:, None] > scores) + (scores[:, None] == scores) / 2 for scores in both], [*map(len, x)]
    )[0]


def earlier(durations: Durations, others: Durations) -> EarlierChance:
    """P(X < Y) + ½ P(the order is unknown) for the times that a run X and a run Y take to reach a threshold.

    A run that never reached it is later than every run that reached it before the first one's end. The order of two
    runs is unknown if neither reached the threshold, or if one ended before the other reached it. Gehan 1965, "A
    generalized Wilcoxon test for comparing arbitrarily singly-censored samples".
    """
    values = (durations.values, others.values)
    reached = (durations.reached, others.reached)
    wins = _wins(Durations(np.concatenate(values), np.concatenate(reached)))
    first = len(durations.values)
    unknown = float(np.isnan(wins[:first, first:]).mean())
    chance, extremes = _chance([np.nan_to_num(wins, nan=0.5)], [first])
    if not len(extremes):
        return EarlierChance(*chance, unknown, chance.value, 1.0)
    against = np.nan_to_num(wins, nan=float(chance.value < 0.5))
    worst = extremes_of(
        [shares_of(against, np.arange(len(wins))[None] < first)], [(first, len(wins) - first)]
    )
    is_still_ahead = (worst.shares[0] - 0.5) * (chance.value - 0.5) > 0
    p = 1.0
    if is_still_ahead:
        p = max(float((extremes >= worst.statistics[0]).mean()), sign_p([against], [first]))
    return EarlierChance(*chance, unknown, float(worst.shares[0]), max(chance.p, p))


def _wins(durations: Durations) -> Floats:
    """`[runs, runs]`: 1 if the first is earlier, 0 if the other is, ½ for a tie, NaN if the order is unknown."""
    x = durations.values[:, None]
    x_reached = durations.reached[:, None]
    y = durations.values
    y_reached = durations.reached
    # At the same moment, a run that reaches the threshold is earlier than a run that ends.
    wins = x_reached & np.where(y_reached, x < y, x <= y)
    losses = y_reached & np.where(x_reached, y < x, y <= x)
    return np.select([wins, losses, x_reached & y_reached], [1.0, 0.0, 0.5], np.nan)


def sign_p(tables: Sequence[Floats], first: Sequence[int]) -> float:
    """The p below which no test of P = ½ may go: that of a sign test. Tables and `first` are those of `_chance`.

    A run of the method that is behind is a loss of its method if it is worse than a run of the other, and a win if it
    is better than all of them; so are, the other way round, the runs of the method that is ahead. For each method, p is
    the probability that as many coins show as many losses or more, or as many wins; ties with the worst or the best run
    are not tossed. The greater p of both methods counts.

    Why no test may go below: let one method always score 0, and the other one 1 or −1, each with probability ½. Then
    P = ½, and the number of runs above 0 is that of a coin's heads. A test that calls k heads of n a difference calls
    more heads one, too, and is wrong with the probability that k coins of n or more agree. If all runs of one method
    are better than all of the other, p is 2 · 2⁻ⁿ for n runs of the method with fewer runs, and this is valid for any
    two distributions: n pairs of different runs all end alike with probability P(X > Y)ⁿ + P(X < Y)ⁿ, of which each
    part is at most 2⁻ⁿ if P = ½.
    """
    won = [table[:size, size:] for table, size in zip(tables, first, strict=True)]
    is_ahead = np.mean([table.mean() for table in won]) > 0.5
    won = [table if is_ahead else 1 - table for table in won]
    p_values = []
    for axis in (0, 1):
        agree = sum(int((table.max(axis=axis) == 1).sum()) for table in won)
        against = sum(int((table.max(axis=axis) == 0).sum()) for table in won)
        p_values.append(float(sign_p_of_counts(agree, against)))
    return max(p_values)


def sign_p_of_counts(agree: ArrayLike, against: ArrayLike) -> Floats:
    """The two-sided p of a sign test: twice the probability that coins agree so often, or more often."""
    from scipy.special import bdtrc

    heads = np.asarray(agree, np.float64)
    tosses = np.add(agree, against).astype(np.int64)
    return np.asarray(np.minimum(1.0, 2 * bdtrc(heads - 1, tosses, 0.5)))


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
    extremes = extremes_of([shares_of(*pair) for pair in zip(tables, chosen, strict=True)], sizes)
    share = float(extremes.shares[0])
    statistics = extremes.statistics
    p = max(float((statistics >= statistics[0]).mean()), sign_p(tables, first))
    return Chance(share, *_interval(share, p, _reach(extremes), sizes), p), statistics


class Extremes(NamedTuple):
    """How far the shares of all orders are from ½: `[orders]` each.

    Attributes:
        errors: of the shares, on the scale of arcsin √P; 0 where these runs tell none. freedom: degrees of freedom.
        statistics: greater is more extreme; inf for a share without an error that is not ½.
    """

    shares: Floats
    errors: Floats
    freedom: Floats
    statistics: Floats


def extremes_of(
    shares_and_variances: Sequence[tuple[Floats, Floats]], sizes: Sequence[tuple[int, int]]
) -> Extremes:
    """The mean share of all environments, and its test statistic. The first argument: what `shares_of` gives of each.

    The statistic is the quantile of the normal distribution beyond which as much lies as beyond the studentised share
    in Student's distribution. Its degrees of freedom are Satterthwaite's, of the variances of all methods and
    environments. The derivative of arcsin √P is 1 / (2 √(P (1 − P))).
    """
    from scipy.special import ndtri, stdtr

    shares = np.mean([share for share, _ in shares_and_variances], axis=0)
    # [methods · environments, orders]
    variances = (
        np.concatenate([variance for _, variance in shares_and_variances]) / len(shares_and_variances) ** 2
    )
    free = np.concatenate(sizes)[:, None] - 1
    whole = variances.sum(axis=0)
    parts = (variances**2 / free).sum(axis=0)
    away = np.abs(np.arcsin(np.sqrt(np.clip(shares, 0, 1))) - np.pi / 4).round(12)
    is_known = whole > 1e-12
    freedom = np.divide(whole**2, parts, out=np.ones_like(whole), where=is_known)
    scale = 2 * np.sqrt(np.abs(shares * (1 - shares)))
    errors = np.divide(np.sqrt(whole), scale, out=np.zeros_like(whole), where=is_known)
    beyond = stdtr(freedom, -np.divide(away, errors, out=np.zeros_like(away), where=is_known))
    statistics = np.where(is_known, -ndtri(beyond), np.where(away > 0, np.inf, 0.0))
    return Extremes(shares, errors, freedom, statistics.round(7))


def _reach(extremes: Extremes) -> float:
    """How far from ½ the share may be, on the scale of arcsin √P, without being among the 5 % most extreme orders."""
    from scipy.special import ndtr, stdtrit

    if extremes.errors[0] == 0:
        return 0.0
    allowed = int((1 - CONFIDENCE) * len(extremes.statistics) + 1e-9)
    critical = np.sort(extremes.statistics)[-1 - allowed]
    return -float(stdtrit(extremes.freedom[0], ndtr(-critical))) * float(extremes.errors[0])


@lru_cache(maxsize=8)
def orders(first: int, second: int, number: int | None = None) -> NDArray[np.bool_]:
    """Ways to say which runs are the first method's, `[orders, runs]`: the true one comes first.

    number: of the environment among several, each with random orders of its own. None for a single environment: all
        orders there are, or random ones if there are more than `MOST_ORDERS`.
    """
    runs = first + second
    if number is None and math.comb(runs, first) <= MOST_ORDERS:
        chosen = np.array(list(itertools.combinations(range(runs), first)))
        is_first = np.zeros((len(chosen), runs), np.bool_)
        np.put_along_axis(is_first, chosen, True, axis=1)
        return is_first
    true = np.arange(runs) < first
    rng = np.random.default_rng((SEED, number or 0))
    return np.concatenate([true[None], rng.permuted(np.tile(true, (RANDOM_ORDERS - 1, 1)), axis=1)])


def shares_of(table: Floats, first: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """The share of pairs that the first method wins, `[orders]`, and the variances that the runs of each method give
    it, `[2, orders]`.

    The variances are those of the runs' own shares, as Brunner and Munzel (2000) estimate them.
    """
    is_first = first.astype(np.float64)
    is_second = 1 - is_first
    m = is_first[0].sum()
    n = is_second[0].sum()
    won = is_second @ table.T / n  # by each run, against the second method
    lost = is_first @ table / m  # by each run, against the first method
    share = np.einsum("or,or->o", is_first, won) / m
    squares = (
        np.einsum("or,or,or->o", *operands) for operands in ((is_first, won, won), (is_second, lost, lost))
    )
    pairs = zip(squares, (m, n), strict=True)
    variances = np.array([(square - size * share**2) / (size - 1) / size for square, size in pairs])
    return share, np.where(variances > 1e-12, variances, 0.0)


def _interval(
    value: float, p: float, reach: float, sizes: Sequence[tuple[int, int]]
) -> tuple[float | None, float | None]:
    """The interval of a share: without ½ if, and only if, p is at most 5 %. reach: see `_reach`."""
    if reach == 0 and value == 0.5:
        return None, None
    if value < 0.5:
        low, high = _interval(1 - value, p, reach, sizes)
        return 1 - high, 1 - low  # type: ignore[operator]
    low, high = _score_end(value, 0.0, sizes), _score_end(value, 1.0, sizes)
    is_out = p <= 1 - CONFIDENCE + 1e-9
    if is_out != (low > 0.5):
        end = math.sin(max(0.0, math.asin(math.sqrt(value)) - reach)) ** 2
        if is_out:
            low = max(end, math.nextafter(0.5, 1))
        else:
            low = min(end, 0.5)
    return low, high


def _score_end(value: float, end: float, sizes: Sequence[tuple[int, int]]) -> float:
    """The share θ between `value` and `end` at which |`value` − θ| = z √V(θ); `end` if there is none.

    V is that of Newcombe's method 5, of the mean over environments.
    """
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    inner = value
    outer = end
    for _ in range(50):
        share = (inner + outer) / 2
        spread = 0.0
        for m, n in sizes:
            shape = 1 + ((m + n) / 2 - 1) * ((1 - share) / (2 - share) + share / (1 + share))
            spread += share * (1 - share) * shape / (m * n)
        is_in = abs(value - share) <= z * math.sqrt(spread) / len(sizes)
        inner, outer = (share, outer) if is_in else (inner, share)
    return inner
