"""The probability of improvement, its test and its interval: by hand, and against a published example."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from a3c_zoo.figures.durations import Durations
from a3c_zoo.figures.improvement import earlier, improvement, orders, shares_of, sign_p

NAN = float("nan")


def column(*values: float) -> Any:
    """Scores of seeds in one environment."""
    return np.array(values, np.float64)[:, None]


def durations(*reached_at: float | None, end: float = 100.0) -> Durations:
    return Durations.of(reached_at, [end] * len(reached_at))


# Probabilities


def test_improvement_by_hand() -> None:
    # 3 > 2, 3 > 1, 1 < 2, 1 = 1: 2.5 of 4. Two runs tell no interval, and have no p.
    assert improvement(column(3, 1), column(2, 1)) == (0.625, None, None, 1.0)
    # In the second environment 5 is behind both: (0.625 + 0) / 2. A run is missing there.
    x, y = np.array([[3.0, 5.0], [1.0, NAN]]), np.array([[2.0, 6.0], [1.0, 7.0]])
    assert improvement(x, y).value == 0.3125
    assert improvement(column(5, 6), column(1, 2)).value == 1.0
    with pytest.raises(ValueError, match="2 environments against 1"):
        improvement(x, column(1))


def test_improvement_is_mann_and_whitneys_u() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 6, 9), rng.integers(0, 5, 7)  # with ties
    from scipy import stats  # a second, which each of pytest's workers would spend

    u = stats.mannwhitneyu(x, y, alternative="greater").statistic
    assert improvement(column(*x), column(*y)).value == pytest.approx(u / 63, abs=1e-12)


# The test


def test_orders_are_all_that_there_are() -> None:
    found = orders(5, 5)
    assert len(np.unique(found, axis=0)) == len(found) == 252  # 10! / (5! 5!)
    assert found[0].tolist() == [True] * 5 + [False] * 5
    assert (found.sum(axis=1) == 5).all()
    assert len(orders(8, 8)) == 12_870
    many = orders(9, 9)
    assert many.shape == (10_000, 18)
    assert many[0].tolist() == [True] * 9 + [False] * 9
    assert (many.sum(axis=1) == 9).all()
    assert many.mean(axis=0) == pytest.approx(0.5, abs=4 * 0.5 / 100)
    assert not (orders(5, 5, 0) == orders(5, 5, 1)).all()  # environments are exchanged each for itself


def test_p_by_hand() -> None:
    # All runs of one method lie above: five coins agree with probability 2 / 32. Of 252 orders, 2 are as extreme.
    above = improvement(column(6, 7, 8, 9, 10), column(1, 2, 3, 4, 5))
    assert (above.value, above.p) == (1.0, 2 / 32)
    # One pair of 25 is lost, and still no run lies beyond all runs of the other method.
    one = improvement(column(5, 7, 8, 9, 10), column(1, 2, 3, 4, 6))
    assert (one.value, one.p) == (24 / 25, 2 / 32)
    assert improvement(column(1, 2, 3, 4, 6), column(5, 7, 8, 9, 10)).p == one.p
    # No run differs: nothing is known but that there is no difference.
    assert improvement(column(*[500] * 5), column(*[500] * 6)) == (0.5, None, None, 1.0)


def test_p_as_another_program_would_compute_it() -> None:
    """All 924 orders one by one: the tail of Student's distribution beyond the studentised share, on our scale."""
    from scipy import stats  # a second, which each of pytest's workers would spend

    x, y = [3.0, 6, 7, 9, 11, 12], [1.0, 2, 4, 5, 8, 10]
    tails = []
    for chosen in itertools.combinations([*x, *y], 6):
        others = sorted({*x, *y} - {*chosen})
        won = [sum(a > b for b in others) / 6 for a in chosen]
        lost = [sum(a > b for a in chosen) / 6 for b in others]
        share = float(np.mean(won))
        parts = [float(np.var(each, ddof=1)) / 6 for each in (won, lost)]
        away = abs(math.asin(math.sqrt(share)) - math.pi / 4)
        if sum(parts) == 0:
            tails.append(0.0)
            continue
        t = away * 2 * math.sqrt(share * (1 - share)) / math.sqrt(sum(parts))
        tails.append(float(stats.t.sf(t, sum(parts) ** 2 / sum(each**2 / 5 for each in parts))))
    p = sum(tail <= tails[0] + 1e-9 for tail in tails) / 924
    assert 2 / 64 < p < 1  # the sign test says less
    assert improvement(column(*x), column(*y)).p == pytest.approx(p)


def test_an_error_by_hand() -> None:
    # Shares of pairs that each run of (5 7 8 9 10) wins against (1 2 3 4 6): 4/5 1 1 1 1, their variance is 0.008.
    # Each of the others is beaten by 1 1 1 1 4/5 of them. The variance of 24/25 is 0.008 / 5 + 0.008 / 5.
    values = np.array([5.0, 7, 8, 9, 10, 1, 2, 3, 4, 6])
    share, variances = shares_of((values[:, None] > values).astype(float), orders(5, 5)[:1])
    assert (share[0], *variances[:, 0]) == (pytest.approx(0.96), pytest.approx(0.0016), pytest.approx(0.0016))


def test_the_example_of_brunner_and_munzel() -> None:
    """Pain scores after an operation, Brunner and Munzel 2000, table 1: W = 3.1375, and the share is 0.789.

    The permutation test of W gives p = 0.008 (R: brunnermunzel.permutation.test); on our scale it is 0.012.
    """
    y, n = [1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 1, 1], [3, 3, 4, 3, 1, 2, 3, 1, 1, 5, 4]
    both = np.array([*n, *y], np.float64)
    wins = (both[:, None] > both) + (both[:, None] == both) / 2
    share, variances = shares_of(wins, np.array([[True] * 11 + [False] * 14]))
    assert share[0] == pytest.approx(0.788961, abs=1e-6)
    assert (share[0] - 0.5) / math.sqrt(variances[:, 0].sum()) == pytest.approx(3.1375, abs=5e-5)
    shares, variances = shares_of(wins, orders(11, 14))
    extremes = np.abs(shares - 0.5) / np.sqrt(variances.sum(axis=0))
    assert (extremes >= extremes[0] - 1e-9).mean() == pytest.approx(0.008, abs=0.003)  # three standard errors
    assert improvement(column(*n), column(*y)).p == pytest.approx(0.012, abs=0.003)


# The sign test


def test_no_p_is_smaller_than_that_of_coins() -> None:
    """One method always scores 0, the other 1 or -1. R: binom.test(7, 7)$p.value is 0.015625."""
    steady = column(*[0.0] * 7)
    for above, p in ((7, 2 / 128), (6, 2 * 8 / 128), (5, 2 * (1 + 7 + 21) / 128)):
        halves = column(*[1.0] * above, *[-1.0] * (7 - above))
        assert improvement(halves, steady).p >= p - 1e-12
        assert improvement(steady, halves).p >= p - 1e-12
    assert improvement(column(*[1.0] * 7), steady).p == pytest.approx(2 / 128)


def table_of(first: list[float], second: list[float]) -> Any:
    both = np.array([*first, *second])
    return (both[:, None] > both) + (both[:, None] == both) / 2


def test_a_sign_test_by_hand() -> None:
    # The first method is ahead. 9 of the second beats all of the first: five coins show one loss and four wins.
    p = 2 * (1 + 5) / 32
    assert sign_p([table_of([4, 5, 6, 7, 8], [1, 2, 3, 3.5, 9])], [5]) == pytest.approx(p)
    assert sign_p([table_of([1, 2, 3, 3.5, 9], [4, 5, 6, 7, 8])], [5]) == pytest.approx(p)  # the same, the other way
    # 8 equals the best run of the first method: this coin is not tossed, and four are.
    assert sign_p([table_of([4, 5, 6, 7, 8], [1, 2, 3, 3.5, 8])], [5]) == pytest.approx(2 / 16)
    assert sign_p([table_of([1, 1], [1, 1])], [2]) == 1.0
    # Two environments: ten coins, one loss.
    two = [table_of([4, 5, 6, 7, 8], [1, 2, 3, 3.5, 9]), table_of([5, 6, 7, 8, 9], [0, 1, 2, 3, 4])]
    assert sign_p(two, [5, 5]) == pytest.approx(2 * (1 + 10) / 1024)


def test_all_runs_on_one_side_are_as_rare_as_coins_at_the_most() -> None:
    """P(all X > all Y) + P(all X < all Y) <= 2 / 2^n for laws with P = 1/2; equal where one law has two points."""
    rng = np.random.default_rng(2)
    laws = {
        "two points": (rng.choice([-1.0, 1.0], (20_000, 6)), np.zeros((20_000, 6))),
        "spread": (rng.normal(0, 10, (20_000, 6)), rng.normal(0, 1, (20_000, 6))),
        "equal": (rng.normal(0, 1, (20_000, 6)), rng.normal(0, 1, (20_000, 6))),
    }
    shares = {}
    for name, (x, y) in laws.items():
        is_apart = (x.min(axis=1) > y.max(axis=1)) | (x.max(axis=1) < y.min(axis=1))
        shares[name] = is_apart.mean()
    assert shares["two points"] == pytest.approx(2 / 64, abs=0.004)
    assert shares["equal"] < shares["spread"] <= 2 / 64 + 0.004


def test_several_environments_are_exchanged_each_for_itself() -> None:
    """Returns of one environment are far above the other's, and each method wins all pairs in one of them."""
    x = np.array([[1.0, 1006], [2, 1007], [3, 1008], [4, 1009], [5, 1010]])
    apart = improvement(x, x[:, ::-1] - [1000 - 5, 5 - 1000])
    assert apart.value == pytest.approx(0.5)
    assert apart.p == 1.0
    both = improvement(x + 5, x)
    # 5 of 10 runs of each environment come first in 1 of 252 orders; all are random here.
    assert both.value == 1.0
    assert both.p == 2 / 2**10  # ten coins, five of each environment


# The interval


@pytest.mark.parametrize("runs", [6, 8, 12])
def test_the_interval_leaves_out_a_half_when_the_test_does(runs: int) -> None:
    rng, seen = np.random.default_rng(runs), set()
    for _ in range(60):
        found = improvement(
            rng.normal(rng.uniform(-1.5, 1.5), rng.uniform(0.3, 3), (runs, 1)), rng.normal(size=(runs, 1))
        )
        assert found.low is not None
        assert found.high is not None
        assert 0 <= found.low <= found.value <= found.high <= 1
        assert (found.p <= 0.05) == (not found.low <= 0.5 <= found.high)
        seen.add(found.p <= 0.05)
    assert seen == {True, False}


def test_an_interval_by_hand() -> None:
    # For a share of 1, the end θ has 1 − θ = 1.959964 √V(θ), V(θ) = θ (1 − θ) (1 + 5 (…)) / 36.
    found = improvement(column(7, 8, 9, 10, 11, 12), column(1, 2, 3, 4, 5, 6))
    assert found.low is not None
    t = found.low
    variance = t * (1 - t) * (1 + 5 * ((1 - t) / (2 - t) + t / (1 + t))) / 36
    assert 1 - t == pytest.approx(1.959964 * math.sqrt(variance), abs=1e-6)
    assert found.high == 1.0
    low = improvement(column(1, 2, 3, 4, 5, 6), column(7, 8, 9, 10, 11, 12))
    assert low.low == 0
    assert low.high == pytest.approx(1 - t)
    # Five runs can show nothing (p is 6.25 %), so the interval ends at a half.
    assert improvement(column(6, 7, 8, 9, 10), column(1, 2, 3, 4, 5))[:3] == (1.0, 0.5, 1.0)


# Which is earlier


def test_who_is_earlier_by_hand() -> None:
    ours = Durations.of([1.0, 5.0, None, 2.0], [9.0, 9.0, 4.0, 9.0])
    theirs = Durations.of([3.0, None], [9.0, 3.0])
    # 1 and 2 are earlier than 3, and earlier than the run that ended at 3. 5 is later than 3; the run that ended at 3
    # may have reached the threshold before or after 5, so the order is unknown. Our run that ended at 4 is later than
    # 3; its order with the run that ended at 3 is unknown.
    assert earlier(ours, theirs).value == (2 + 2 + 0.5 + 0.5) / 8
    assert earlier(theirs, ours).value == (0 + 0 + 1 + 1 + 0 + 0 + 0.5 + 0.5) / 8
    assert earlier(ours, theirs).unknown == earlier(theirs, ours).unknown == 2 / 8
    # At the same moment, a run that reaches the threshold is earlier than a run that ends.
    assert earlier(durations(3.0), durations(None, end=3.0)).value == 1.0
    assert earlier(durations(None, end=3.0), durations(3.0)).value == 0.0
    assert earlier(durations(3.0), durations(3.0)).value == 0.5


def test_a_fast_method_that_fails_is_not_known_to_be_later() -> None:
    """Five of ten runs reach it after 10 s and five end after 30 s; every run of the other does after 100 s."""
    fast, slow = Durations.of([10.0] * 5 + [None] * 5, [30.0] * 10), durations(*[100.0] * 10)
    chance = earlier(fast, slow)
    assert (chance.value, chance.unknown) == (0.75, 0.5)  # between 0.5 and 1
    assert chance.p == 2 / 32  # five coins; the runs that ended after 30 s are not tossed
    assert (chance.at_worst, chance.p_at_worst) == (0.5, 1.0)
    assert earlier(slow, slow).unknown == 0


def test_without_censoring_earlier_is_an_improvement() -> None:
    rng = np.random.default_rng(5)
    x, y = rng.integers(0, 9, 6).astype(float), rng.integers(0, 9, 8).astype(float)
    found = earlier(durations(*x), durations(*y))
    assert found[:4] == improvement(column(*-x), column(*-y))
    assert (found.unknown, found.at_worst, found.p_at_worst) == (0, found.value, found.p)
