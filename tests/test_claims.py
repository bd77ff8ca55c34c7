"""Claims of a report: Holm's rule by hand, and what claims need."""

from __future__ import annotations

import pytest

from a3c_zoo.comparison.claims import Question, claims_of, holm, needs, percent, seeds_needed
from a3c_zoo.comparison.improvement import Chance, EarlierChance


def question(p: float, seeds: int = 5) -> Question:
    return Question("e", "final_return", "a", "b", Chance(0.9, 0.6, 1.0, p), (seeds, seeds))


def test_holm_by_hand() -> None:
    # In rising order: 4 · 0.01, 3 · 0.015 = 0.045, 2 · 0.02 = 0.04 but no less than 0.045, and 0.5.
    assert holm([0.02, 0.01, 0.5, 0.015]) == pytest.approx([0.045, 0.04, 0.5, 0.045])
    assert holm([0.3, 0.7]) == pytest.approx([0.6, 0.7])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_holm_as_r_computes_it() -> None:
    """R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") is 0.03 0.06 0.06 0.02."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_what_holds() -> None:
    found = claims_of([question(2 / 252), question(0.03), question(0.03)])
    assert [claim.holds for claim in found] == [True, False, False]  # 0.024, and 2 · 0.03
    assert [claim.p_of_all for claim in found] == pytest.approx([6 / 252, 0.06, 0.06])


def test_five_seeds_need_more() -> None:
    """3 · 4/252 is 4.8 %: with five seeds the limit is 4 %, with six it is 5 %."""
    others = [question(0.9), question(0.9)]
    assert not claims_of([question(4 / 252), *others])[0].holds
    assert claims_of([question(4 / 252, seeds=6), *others])[0].holds
    assert claims_of([question(2 / 252), *others])[0].holds


def test_a_difference_of_unknown_orders_is_none() -> None:
    chance = EarlierChance(0.9, 0.7, 1.0, p=0.001, unknown=0.5, at_worst=0.6, p_at_worst=0.4)
    assert Question("e", "steps_to_threshold", "a", "b", chance, (9, 9)).p == 0.4


def test_what_claims_need() -> None:
    # 2 of 252 orders are 0.79 %: five claims of 5 seeds can hold (3.97 %), six cannot (4.8 %); 6 seeds have 924 orders.
    five, six = ([question(0.5)] * count for count in (5, 6))
    assert "the smallest p is 0.79 %" in needs(claims_of(five))
    assert "the first of 5 claims needs 0.8 %" in needs(claims_of(five))
    assert "and the claim needs 4 %: only large differences" in needs(claims_of(five[:1]))
    assert "only large differences can be shown" in needs(claims_of(five))
    assert needs(claims_of(six)).endswith("none can be shown with these seeds. It takes 6 seeds of each method.")
    assert needs(claims_of([question(0.5, seeds=10)])) == needs([]) == ""
    # 70, 252, 924 and 3,432 orders: 2/70 is 2.9 %, 23 · 2/924 is 4.98 %.
    assert [seeds_needed(count) for count in (1, 5, 6, 23, 24)] == [4, 5, 6, 6, 7]


def test_percents() -> None:
    assert [percent(p) for p in (2 / 252, 0.05, 1 / 10_000, 0.9999, 1.0)] == [
        "0.79 %",
        "5 %",
        "0.01 %",
        "100 %",
        "100 %",
    ]
