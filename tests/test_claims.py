"""Claims of a report: Holm's rule by hand, and what claims need."""

from __future__ import annotations

import numpy as np
import pytest

from a3c_zoo.figures.claims import Question, claims_of, holm, least_p, needs, percent, seeds_needed
from a3c_zoo.figures.figure_table import QUESTIONS
from a3c_zoo.figures.improvement import Chance, EarlierChance, improvement
from a3c_zoo.figures.power import p_values, power


def question(
    p: float,
    seeds: int = 5,
    others: int | None = None,
    env: str | None = "e",
    measure: str = "final_return",
    tosses: int | None = None,
) -> Question:
    others = others or seeds
    fewest = min(seeds, others)
    return Question(env, measure, "a", "b", Chance(0.9, 0.6, 1.0, p), (seeds, others), tosses or fewest)


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
    found = claims_of([question(0.01), question(0.03), question(0.03)])
    assert [claim.holds for claim in found] == [True, False, False]  # 3 · 0.01, and 2 · 0.03
    assert [claim.p_of_all for claim in found] == pytest.approx([0.03, 0.06, 0.06])
    assert [claim.level for claim in found] == pytest.approx([0.05 / 3] * 3)


def test_the_main_question_comes_first() -> None:
    """It alone has the whole error; if all its claims hold, the others have it, too, and if not, they have none."""
    others = [question(0.02, 6, measure=name) for name in ("steps_to_threshold", "seconds_to_threshold")]
    found = claims_of([*others, question(0.04, 6)], QUESTIONS["return"])
    assert [claim.question.measure for claim in found] == ["steps_to_threshold", "seconds_to_threshold", "final_return"]
    assert [claim.p_of_all for claim in found] == pytest.approx([0.04, 0.04, 0.04])  # 2 · 0.02, no less than the first
    assert [claim.level for claim in found] == [0.025, 0.025, 0.05]
    assert all(claim.holds for claim in found)
    closed = claims_of([*others, question(0.06, 6)], QUESTIONS["return"])
    assert [claim.p_of_all for claim in closed] == [0.06, 0.06, 0.06]
    assert not any(claim.holds for claim in claims_of([*others, question(0.04)]))  # 3 · 0.02 without a main one
    assert all(claim.holds for claim in claims_of(others, QUESTIONS["return"]))  # it was not asked
    # With five seeds the main question cannot hold, and so the others cannot, either.
    assert [claim.level for claim in claims_of([*others, question(0.07, 5)], QUESTIONS["return"])] == [0.0, 0.0, 0.05]


def test_a_difference_of_unknown_orders_is_none() -> None:
    chance = EarlierChance(0.9, 0.7, 1.0, p=0.001, unknown=0.5, at_worst=0.6, p_at_worst=0.4)
    assert Question("e", "steps_to_threshold", "a", "b", chance, (9, 9), 9).p == 0.4


def test_the_smallest_p_is_that_of_coins() -> None:
    assert [least_p(seeds) for seeds in (5, 6, 7, 10)] == [2 / 32, 2 / 64, 2 / 128, 2 / 1024]
    assert least_p(20) == 1 / 10_000  # of random orders
    # 2/64 is 3.1 %, 3 · 2/128 = 4.7 %, 6 · 2/256 = 4.7 %.
    assert [seeds_needed(count) for count in (1, 2, 3, 4, 6, 7)] == [6, 7, 7, 8, 8, 9]


def test_what_the_seeds_at_hand_could_have_shown() -> None:
    five, six, seven = (needs(claims_of([question(0.5, seeds)] * 3), False) for seeds in (5, 6, 7))
    nothing = (
        "With 6 seeds of each method, nothing can be shown: the p of the first of 3 claims must be at most 1.7 %, and "
        "it is 3.1 % where all runs of one method are better than all of the other. It takes 7 seeds of each method."
    )
    assert six == nothing
    assert five == nothing.replace("With 6", "With 5").replace("3.1 %", "6.2 %")
    assert seven.startswith(
        "With 7 seeds of each method, a method whose run is better with probability 0.8 is found in "
    )
    assert ": the p of the first of 3 claims must be at most 1.7 % (simulated" in seven
    assert ": the p of a claim must be at most 5 % (simulated" in needs(claims_of([question(0.5, 6)]), False)
    assert needs([], False) == ""
    several = [question(0.5, 6), *[question(0.5, 6, measure="steps_to_threshold")] * 2]
    assert needs(claims_of(several), False).endswith("It takes 7 seeds of each method, or fewer with --question.")
    named = needs(claims_of(several, QUESTIONS["return"]), True)
    assert named.startswith("With 6 seeds of each method, a method whose ")


def test_what_comes_after_a_main_question_of_methods_with_unequal_seeds() -> None:
    """The least p are 2/256 and 2/64: twice the first is 1.6 %, and the second alone 3.1 %. Both can hold."""
    main = [question(2 / 256, 8), question(2 / 64, 8, 6)]
    other = question(2 / 256, 8, measure="steps_to_threshold")
    found = claims_of([*main, other], QUESTIONS["return"])
    assert [claim.p_of_all for claim in found] == [4 / 256, 2 / 64, 2 / 64]
    assert [claim.level for claim in found] == [0.025, 0.025, 0.05]
    assert [claim.is_possible for claim in found] == [True, False, True]  # the second is not the first of all to hold


def test_no_main_question_is_advised_where_one_was_named() -> None:
    """Five seeds cannot show one claim: 2/32 is 6.2 %. There is one about the main question, and one more."""
    both = [question(0.5, 5), question(0.5, 5, measure="steps_to_threshold")]
    assert needs(claims_of(both, QUESTIONS["return"]), True).endswith(" It takes 6 seeds of each method.")


def test_what_only_all_environments_together_can_show() -> None:
    """Ten coins of two environments with five seeds each: 13 · 2 / 1024 is 2.5 %."""
    found = claims_of([question(1 / 512, env=None, tosses=10), *[question(0.5)] * 12])
    assert found[0].holds
    assert needs(found, False) == "With 5 seeds of each method, only all environments together can show a difference."


def test_the_power_is_that_of_the_claim_with_the_fewest_seeds() -> None:
    found = claims_of([question(0.5, seeds=10), *[question(0.5, seeds=10, others=8)] * 2])
    assert needs(found, False).startswith("With 8 seeds against 10, a method whose run is better ")


@pytest.mark.parametrize(
    ("chance", "seeds", "shown"), [(0.5, 6, 0.045), (0.8, 6, 0.42), (0.95, 6, 0.925), (0.8, 10, 0.68)]
)
def test_power(chance: float, seeds: int, shown: float) -> None:
    """30,000 comparisons gave these figures; 1,000 have a standard error of at most 1.6 points."""
    assert power((seeds, seeds), chance, 0.05) == pytest.approx(shown, abs=0.05)
    assert power((seeds, seeds), chance, 0.02) <= power((seeds, seeds), chance, 0.05)
    assert power((4, seeds), chance, 0.05) == 0


def test_the_p_of_many_comparisons_is_that_of_each() -> None:
    rng = np.random.default_rng(4)
    for sizes in ((5, 5), (6, 9), (8, 8)):
        scores, others = (rng.normal(0, spread, (20, size)) for spread, size in zip((1, 4), sizes, strict=True))
        each = [improvement(x[:, None], y[:, None]).p for x, y in zip(scores, others, strict=True)]
        assert p_values(scores, others) == pytest.approx(each, abs=1e-12)


def test_too_many_claims_for_any_number_of_seeds() -> None:
    """513 · 1/10,000 is 5.1 %. 500 claims are 5 %."""
    assert seeds_needed(513) is None
    assert seeds_needed(500) == 15
    text = needs(claims_of([question(1 / 10_000, seeds=20)] * 513), False)
    assert text.endswith("No number of seeds suffices: compare fewer methods or environments at once.")
    assert "It takes" not in text


def test_percents() -> None:
    assert [percent(p) for p in (2 / 252, 0.05, 1 / 10_000, 0.9999, 1.0)] == [
        "0.79 %",
        "5 %",
        "0.01 %",
        "100 %",
        "100 %",
    ]


def test_a_p_above_the_limit_does_not_look_like_it() -> None:
    """Else a sentence reads: not shown (p = 5 %; the limit is 5 %)."""
    assert [percent(p) for p in (0.0499, 0.0504, 0.05004, 0.051)] == ["5 %", "5.04 %", "5.004 %", "5.1 %"]
