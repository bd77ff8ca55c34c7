"""Claims of a report: Holm's rule by hand, and what claims need."""

from __future__ import annotations

import pytest

from a3c_zoo.comparison.claims import Question, claims_of, holm, needs, percent, seeds_needed
from a3c_zoo.comparison.improvement import Chance, EarlierChance


def question(p: float, seeds: int = 5, others: int | None = None, env: str | None = "e") -> Question:
    return Question(env, "final_return", "a", "b", Chance(0.9, 0.6, 1.0, p), (seeds, others or seeds))


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


def test_what_is_shown_over_all_environments_can_be_shown() -> None:
    """Its test has 10,000 random orders with five seeds, too: 13 · 0.01 % is 0.13 %."""
    found = claims_of([question(1 / 10_000, env=None), *[question(0.5)] * 12])
    assert found[0].holds
    text = needs(found)
    assert text.startswith("With 5 seeds the smallest p is 0.79 %")
    assert "the first of 13 claims needs 0.31 %: such a claim can be shown only beside others with a smaller p" in text
    assert "none" not in text
    assert found[0].question.least_p == question(0.5, seeds=9).least_p == 1 / 10_000


def test_seeds_and_the_smallest_p_are_of_the_same_claim() -> None:
    """Ten, ten and five seeds of three methods: 10 against 5 have 3,003 orders, and 2/3003 is 0.067 %."""
    found = claims_of([question(0.5, seeds=10), *[question(0.5, seeds=10, others=5)] * 2])
    assert needs(found).startswith("With 5 seeds against 10 the smallest p is 0.067 %, where all runs of one method")
    assert "the first of 3 claims needs 1.3 %: only large differences can be shown" in needs(found)


@pytest.mark.parametrize("seeds", [9, 20])
def test_too_many_claims_for_any_number_of_seeds(seeds: int) -> None:
    """513 · 1/10,000 is 5.1 %. 500 claims are 5 %."""
    assert seeds_needed(513) is None
    assert seeds_needed(500) == 9
    text = needs(claims_of([question(1 / 10_000, seeds=seeds)] * 513))
    assert text.startswith(f"With {seeds} seeds the smallest p is 0.01 %")
    assert "none can be shown, as these are too many claims for any number of seeds" in text
    assert "It takes" not in text
    assert needs(claims_of([question(0.5, seeds=20)] * 500)) == ""


def test_percents() -> None:
    assert [percent(p) for p in (2 / 252, 0.05, 1 / 10_000, 0.9999, 1.0)] == [
        "0.79 %",
        "5 %",
        "0.01 %",
        "100 %",
        "100 %",
    ]
