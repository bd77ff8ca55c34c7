"""The group-sequential test: worked numbers, its order of decisions, and its error by simulation."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from a3c_zoo.comparison import sequential
from a3c_zoo.comparison.sequential import Pair, SequentialRule, SequentialTest, permuted_signs, welch_p

ONE = Pair("e", "a", "b")


def test_the_true_order_comes_first_and_the_others_are_as_often() -> None:
    signs = permuted_signs(looks=3, block=2, permutations=6000)
    assert signs.shape == (3, 6000, 4)
    assert (signs[:, 0] == [1, 1, -1, -1]).all()
    kinds, counts = np.unique(signs[1], axis=0, return_counts=True)
    assert len(kinds) == 6  # 4! / (2! 2!)
    assert counts == pytest.approx(1000, abs=4 * (1000 * 5 / 6) ** 0.5)


# a: 2, 3 and b: 0, 1. The six sums of differences are 4, 2, 0, 0, -2, -4: their sizes exceed 2 with probability 1/3,
# and 0 with probability 2/3. The spread of 0, 1, 2, 3 is sqrt(5/4) = 1.118; 4 / 1.118 = 3.578 and 2 / 1.118 = 1.789.
@pytest.mark.parametrize(
    ("spends", "boundary", "decided"),
    [(0.5, 1.788854, {ONE: "higher"}), (0.3, 3.577709, {}), (0.9, 0.0, {ONE: "higher"})],
)
def test_one_look_by_hand(spends: float, boundary: float, decided: dict[Pair, str]) -> None:
    test = SequentialTest(SequentialRule((ONE,), block=2, looks=1, spends=spends))
    look = test.look({("e", "a"): [2, 3], ("e", "b"): [0, 1]})
    assert look.statistics[ONE] == pytest.approx(3.577709, abs=1e-6)
    assert look.boundary == pytest.approx(boundary, abs=1e-6)
    assert look.decided == decided
    assert test.is_over


def test_the_second_look_has_what_the_first_one_left() -> None:
    """0.4 in two looks. The sums of the first are divided by √(5/4), those of the second by √(5/4 + 5/4).

    First look: 1/3 of the orders exceed 2, and 0.2 is allowed. So the boundary is 4, and nothing is spent.
    Second look: 6 of the 36 orders exceed 4, and 16 exceed 2; 14.4 are allowed. So the boundary is 4 again.
    """
    test = SequentialTest(SequentialRule((ONE,), block=2, looks=2, spends=0.4))
    first = test.look({("e", "a"): [2, 3], ("e", "b"): [0, 1]})
    assert first.boundary == pytest.approx(4 / 1.118034, abs=1e-5)
    assert first.decided == {}
    second = test.look({("e", "a"): [2, 3, 1, 3], ("e", "b"): [0, 1, 0, 2]})
    sums = [abs(x + y) for x, y in itertools.product((4, 2, 0, 0, -2, -4), repeat=2)]
    assert [sum(each > limit for each in sums) for limit in (4, 2)] == [6, 16]
    assert second.boundary == pytest.approx(4 / 1.581139, abs=1e-5)
    assert second.statistics[ONE] == pytest.approx(6 / 1.581139, abs=1e-5)
    assert second.decided == {ONE: "higher"}


def test_returns_that_were_all_the_same_once_hide_no_other_pair() -> None:
    """Five times 500, or nearly: then one seed fails, which is a huge number of such spreads."""
    other = Pair("f", "a", "b")
    for nearly in (500.0, 499.95):
        test = SequentialTest(SequentialRule((ONE, other), block=5, looks=4))
        same = {("e", "a"): [nearly, *[500.0] * 4, 430.0, *[500.0] * 4], ("e", "b"): [500.0] * 10}
        apart = {("f", "a"): [3.0, 0, 1, 2, 1, 3, 2, 3, 2, 3], ("f", "b"): [0.0, 1, 0, 2, 1, 0, 1, 0, 0, 1]}
        for seeds in (5, 10):
            look = test.look({name: values[:seeds] for name, values in (same | apart).items()})
        assert look.decided == {other: "higher"}
        assert look.boundary < 10


def test_plain_differences_are_decided_at_once_and_none_never() -> None:
    """The example of AdaStop's documentation: 1 against 42. Five seeds suffice in four looks: 2/252 < 0.035/4."""
    rule = SequentialRule((ONE,), block=5, looks=4)
    assert SequentialTest(rule).look({("e", "a"): [1] * 5, ("e", "b"): [42] * 5}).decided == {ONE: "lower"}
    test = SequentialTest(rule)
    for look in range(1, 5):
        assert test.look({("e", "a"): [500] * 5 * look, ("e", "b"): [500] * 5 * look}).decided == {}
    assert test.is_over
    assert test.open == [ONE]


def test_three_seeds_a_block_cannot_decide_at_the_first_look() -> None:
    """2 of 20 orders are as extreme: 0.1 > 0.05."""
    test = SequentialTest(SequentialRule((ONE,), block=3, looks=1))
    assert test.look({("e", "a"): [1, 2, 3], ("e", "b"): [7, 8, 9]}).decided == {}


def test_a_decided_pair_leaves_the_family() -> None:
    """One method stands out, the other two do not. Large returns of one environment do not hide another."""
    pairs = tuple(Pair(env, *two) for env in ("e", "f") for two in itertools.combinations("abc", 2))
    rng = np.random.default_rng(3)
    test = SequentialTest(SequentialRule(pairs, block=5, looks=4))
    values = {
        (env, name): scale * (rng.standard_normal(5) + (9 if name == "c" else 0))
        for env, scale in (("e", 1000.0), ("f", 0.01))
        for name in "abc"
    }
    look = test.look(values)
    assert look.decided == {pair: "lower" for pair in pairs if pair.other == "c"}
    assert test.open == [Pair("e", "a", "b"), Pair("f", "a", "b")]


# a: 2, 3, 1, 3 and b: 0, 1, 0, 2: means 2.25 and 0.75, variances 11/12 both. t = 1.5 / sqrt(11/12 / 2) = 2.2156, with 6
# degrees of freedom: p = 0.0686 (tables: 0.10 at 1.943, 0.05 at 2.447). 1, 2, 3 and 2, 2.1, 1.9: the same means.
@pytest.mark.parametrize(
    ("first", "second", "p"),
    [
        ([2, 3, 1, 3], [0, 1, 0, 2], 0.0686),
        ([1, 2, 3], [2, 2.1, 1.9], 1.0),
        ([0.5] * 5, [0.5] * 5, 1.0),
        ([1, 1], [2, 2], 0.0),
    ],
)
def test_welchs_p_by_hand(first: list[float], second: list[float], p: float) -> None:
    assert welch_p(first, second) == pytest.approx(p, abs=5e-5)


def test_a_wide_method_on_one_side_of_a_narrow_one_is_not_decided() -> None:
    """All five values of the wide one are greater, as they are in 1 of 16 blocks. Permutations alone would decide."""
    wide, narrow = [3.0, 40, 9, 71, 22], [0.1, -0.2, 0.0, 0.3, -0.1]
    assert welch_p(wide, narrow) == pytest.approx(0.0775, abs=1e-4)  # t = 28.98 / sqrt(752.5 / 5) = 2.362, 4 degrees
    for values, decided in ((wide, {}), ([50.0, 60, 55, 71, 52], {ONE: "higher"})):
        look = SequentialTest(SequentialRule((ONE,), block=5, looks=4)).look({("e", "a"): values, ("e", "b"): narrow})
        assert look.statistics[ONE] > look.boundary
        assert look.decided == decided


def test_methods_that_differ_in_spread_only_hold_the_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """30 times as wide, 300 comparisons: 5 % and two standard errors (2.5 %). Without `SPENT` and Welch it is 10 %."""
    assert decided_by_chance(monkeypatch, 300, (1.0, 30.0), heavy=False) <= 0.05 + 0.025


@pytest.mark.parametrize("methods", ["ab", "abc"])
def test_the_error_by_simulation(methods: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 comparisons without a difference: at most 5 % decide one, plus three standard errors of 300 draws (3.8 %)."""
    assert 0 < decided_by_chance(monkeypatch, 300, [1.0] * len(methods), heavy=True) <= 0.05 + 0.038


def decided_by_chance(
    monkeypatch: pytest.MonkeyPatch, comparisons: int, spreads: Sequence[float], heavy: bool
) -> float:
    """The share of simulated comparisons of methods with equal means in which any pair is decided."""
    monkeypatch.setattr(sequential, "PERMUTATIONS", 1000)
    monkeypatch.setattr(sequential.permuted_signs, "__defaults__", (1000,))
    methods = [f"m{number}" for number in range(len(spreads))]
    pairs = tuple(Pair("e", *two) for two in itertools.combinations(methods, 2))
    rule, rng, wrong = SequentialRule(pairs, block=5, looks=4), np.random.default_rng(1), 0
    for _ in range(comparisons):
        drawn = [rng.exponential(size=20) if heavy else rng.normal(0, spread, 20) for spread in spreads]
        values = {("e", name): each for name, each in zip(methods, drawn, strict=True)}
        test = SequentialTest(rule)
        while not test.is_over:
            seen = 5 * (len(test.looks) + 1)
            if test.look({key: each[:seen] for key, each in values.items()}).decided:
                wrong += 1
                break
    return wrong / comparisons
