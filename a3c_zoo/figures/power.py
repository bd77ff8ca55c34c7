"""How often a number of runs shows a difference, by simulated comparisons whose p are computed at once."""

from __future__ import annotations

from functools import lru_cache
from statistics import NormalDist
from typing import Final

import numpy as np

from a3c_zoo.figures.improvement import extremes_of, orders, shares_of, sign_p_of_counts
from a3c_zoo.figures.statistics import MIN_SEEDS, SEED, Floats

#: The probabilities of improvement for which a report says how often its seeds would show them.
CHANCES: Final = (0.8, 0.95)
#: Simulated comparisons for one power: its standard error is at most 1.6 points.
COMPARISONS: Final = 1_000
#: The power of more runs is computed as if there were so many: a simulation takes memory with the square of the runs.
MOST_SEEDS: Final = 100


def p_values(scores: Floats, others: Floats) -> Floats:
    """The p of `improvement` in one environment, of many comparisons: `[C, S]` and `[C, S']` to `[C]`.

    No two runs of a comparison may have the same score. Then the orders of all comparisons have the same statistics,
    and these are computed once.
    """
    wins = (scores[:, :, None] > others[:, None, :]).astype(np.float64)
    size = wins.shape[1:]
    share = wins.mean(axis=(1, 2))
    won = wins.mean(axis=2)
    lost = 1 - wins.mean(axis=1)
    variances = np.array([shares.var(axis=1, ddof=1) / shares.shape[1] for shares in (won, lost)])
    statistics = extremes_of([(share, np.where(variances > 1e-12, variances, 0.0))], [size]).statistics
    every = _statistics(*size)
    p = (len(every) - np.searchsorted(every, statistics)) / len(every)
    ahead = np.where(share[:, None, None] > 0.5, wins, 1 - wins)
    signs = [_sign_p(ahead.max(axis=axis)) for axis in (1, 2)]
    return np.asarray(np.maximum.reduce([p, np.full_like(p, 1 / len(every)), *signs]))


def _sign_p(is_agreeing: Floats) -> Floats:
    """`[C, runs]` of 0 and 1 to `[C]`."""
    agree = is_agreeing.sum(axis=1)
    return sign_p_of_counts(agree, is_agreeing.shape[1] - agree)


@lru_cache(maxsize=32)
def _statistics(first: int, second: int) -> Floats:
    """The statistics of all orders of runs without a tie, rising."""
    ranks = np.arange(first + second)
    table = (ranks[:, None] > ranks) + (ranks[:, None] == ranks) / 2
    shares = shares_of(table, orders(first, second))
    return np.sort(extremes_of([shares], [(first, second)]).statistics)


@lru_cache(maxsize=256)
def power(seeds: tuple[int, int], chance: float, level: float) -> float:
    """How often p is at most `level` if a run of one method is better with probability `chance`.

    Final returns are normal with the same spread; other distributions have another power. 0 with too few seeds.
    """
    if min(seeds) < MIN_SEEDS:
        return 0.0
    if max(seeds) > MOST_SEEDS:
        return power((min(seeds[0], MOST_SEEDS), min(seeds[1], MOST_SEEDS)), chance, level)
    rng = np.random.default_rng(SEED)
    apart = NormalDist().inv_cdf(chance) * np.sqrt(2)
    scores, others = (
        rng.normal(centre, 1, (COMPARISONS, size)) for centre, size in zip((apart, 0), seeds, strict=True)
    )
    return float((p_values(scores, others) <= level + 1e-9).mean())


def power_in_words(seeds: tuple[int, int], level: float) -> str:
    """`with probability 0.8 is found in 39 % of comparisons, and one with 0.95 in 91 %`."""
    first, second = CHANCES
    often, oftener = (f"{100 * power(seeds, chance, level):.0f} %" for chance in CHANCES)
    return (
        f"with probability {first:g} is found in {often} of comparisons, and one with {second:g} in {oftener}"
    )
