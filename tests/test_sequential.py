"""The group-sequential test: its parts of the level by hand, its order of decisions, and its error by simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from a3c_zoo.figures.claims import ERROR
from a3c_zoo.figures.power import p_values
from a3c_zoo.figures.sequential import Pair, SequentialRule, SequentialTest

ONE = Pair("e", "a", "b")


def test_the_parts_of_the_level_by_hand() -> None:
    """5 % times 1/16, 3/16, 5/16 and 7/16. Five seeds have no p below 2/32, so the second look has 4/16."""
    rule = SequentialRule((ONE,), block=5, looks=4)
    assert rule.parts == pytest.approx([0, 0.05 * 4 / 16, 0.05 * 5 / 16, 0.05 * 7 / 16])
    assert SequentialRule((ONE,), block=10, looks=2).parts == pytest.approx([0.0125, 0.0375])
    assert SequentialRule((ONE,), block=5, looks=1).parts == [0.0]
    for block, looks in ((5, 3), (6, 5), (8, 20), (20, 1)):
        assert sum(SequentialRule((ONE,), block, looks).parts) == pytest.approx(ERROR)


def test_the_first_look_that_can_decide_does() -> None:
    """1 against 42: five seeds have p = 6.25 %, and ten have 2 / 1024, which is less than 1.25 %."""
    test = SequentialTest(SequentialRule((ONE,), block=5, looks=4))
    first = test.look({("e", "a"): [1] * 5, ("e", "b"): [42] * 5})
    assert (first.part, first.decided, first.p[ONE]) == (0.0, {}, 2 / 32)
    second = test.look({("e", "a"): [1] * 10, ("e", "b"): [42] * 10})
    assert second.p[ONE] == pytest.approx(2 / 1024)
    assert second.decided == {ONE: "lower"}
    assert test.is_over


def test_equal_values_are_never_decided() -> None:
    test = SequentialTest(SequentialRule((ONE,), block=5, looks=4))
    for look in range(1, 5):
        assert test.look({("e", "a"): [500] * 5 * look, ("e", "b"): [500] * 5 * look}).decided == {}
    assert test.is_over
    assert test.open == [ONE]


def test_a_decided_pair_leaves_the_family() -> None:
    """One method stands out, the other two do not. Large returns of one environment do not hide another."""
    pairs = tuple(Pair(env, *two) for env in ("e", "f") for two in itertools.combinations("abc", 2))
    rng = np.random.default_rng(3)
    test = SequentialTest(SequentialRule(pairs, block=10, looks=2))
    values = {
        (env, name): scale * (rng.standard_normal(10) + (9 if name == "c" else 0))
        for env, scale in (("e", 1000.0), ("f", 0.01))
        for name in "abc"
    }
    look = test.look(values)
    # Holm: the smallest of six counts six times, 12 / 1024 = 1.17 %, and the limit is 1.25 %.
    assert look.p[Pair("e", "a", "c")] == pytest.approx(12 / 1024)
    assert look.decided == {pair: "lower" for pair in pairs if pair.other == "c"}
    assert test.open == [Pair("e", "a", "b"), Pair("f", "a", "b")]


def decided_by_chance(comparisons: int, wide: float, heavy: bool = False) -> float:
    """The share of simulated comparisons of two methods with P = 1/2 that are decided at any look, as `look` does."""
    rule, rng = SequentialRule((ONE,), block=5, looks=4), np.random.default_rng(1)
    draw = (lambda: rng.standard_t(2, (comparisons, 20))) if heavy else (lambda: rng.normal(0, 1, (comparisons, 20)))
    first, second = draw() * wide, draw()
    is_decided = np.zeros(comparisons, np.bool_)
    for number, part in enumerate(rule.parts, start=1):
        seen = number * rule.block
        is_decided |= (part > 0) & (p_values(first[:, :seen], second[:, :seen]) <= part)
    return float(is_decided.mean())


@pytest.mark.parametrize(("wide", "heavy"), [(1, False), (1, True), (3, False), (30, False), (10, True)])
def test_the_error_by_simulation(wide: float, heavy: bool) -> None:
    """2,000 comparisons without a difference: at most 5 % decide one, plus two standard errors (0.5 % each)."""
    assert 0 < decided_by_chance(2000, wide, heavy) <= 0.05 + 0.01
