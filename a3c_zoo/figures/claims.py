"""The claims of a report. All claims together are wrong in at most about 5 % of reports."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from a3c_zoo.figures.improvement import RANDOM_ORDERS, Chance, EarlierChance
from a3c_zoo.figures.power import power_in_words

#: The greatest probability that a report makes any wrong claim. A claim holds if its p over all claims is at most this.
ERROR: Final = 0.05


@dataclass(frozen=True, slots=True)
class Question:
    """Whether a run of one method is better than a run of another; planned before any run is seen.

    Attributes:
        env: None for all environments together.
        measure: the field of `Measures`. seeds: of both methods, in the environment where they are fewest.
        tosses: how many pairs of different runs there are, in all environments: of the method with fewer runs.
    """

    env: str | None
    measure: str
    method: str
    other: str
    chance: Chance | EarlierChance
    seeds: tuple[int, int]
    tosses: int

    @property
    def p(self) -> float:
        """The test's p. If the order of some pairs of runs is unknown, the greatest p that these pairs allow."""
        if isinstance(self.chance, EarlierChance):
            return self.chance.p_at_worst
        return self.chance.p

    @property
    def least_p(self) -> float:
        """The smallest p that so many seeds can have."""
        return least_p(self.tosses)


@dataclass(frozen=True, slots=True)
class Claim:
    """A question with its p over all questions of the report.

    Attributes:
        level: what the question's own p may be if it is the first of all to hold. among: how many share the error.
        gate: the greatest p of the claims about the main question, if this claim comes after these; 0 if not.
    """

    question: Question
    p_of_all: float
    level: float = ERROR
    among: int = 1
    gate: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the report claims a difference."""
        return self.p_of_all <= ERROR

    @property
    def is_stopped(self) -> bool:
        """Whether the claims about the main question do not all hold, so that this one cannot, either."""
        return self.gate > ERROR

    @property
    def is_possible(self) -> bool:
        """Whether so many seeds could show this before any other claim."""
        return self.question.least_p <= self.level


def least_p(tosses: int) -> float:
    """The smallest p that a test can have: all runs of one method are better than all of the other.

    `improvement.sign_p` proves that it is 2 · 2⁻ⁿ for n pairs of different runs. The orders of many runs are random, so
    they have no smaller p than 1 / `RANDOM_ORDERS`.
    """
    return max(2.0 ** (1 - tosses), 1 / RANDOM_ORDERS)


def claims_of(questions: Sequence[Question], main: Collection[str] = ()) -> tuple[Claim, ...]:
    """All questions of a report make one family, which may be wrong in `ERROR` of reports.

    Args:
        main: the measures of the main question, which the user named before any run was seen. It alone has the whole
            error. The others are claimed only if all its claims hold, and then have the whole error, too: Westfall and
            Krishen 2001, "Optimally weighted, fixed sequence and gatekeeper multiple testing procedures".
    """
    first = [question for question in questions if question.measure in main]
    then = [question for question in questions if question.measure not in main]
    gate = 0.0
    can_hold = True
    claims: dict[int, Claim] = {}
    for family in filter(None, (first, then)):
        worth = [max(gate, p) for p in holm([question.p for question in family])]
        level = ERROR / len(family) if can_hold else 0.0
        for question, p in zip(family, worth, strict=True):
            claims[id(question)] = Claim(question, p, level, len(family), gate)
        gate = max(worth)
        can_hold = max(holm([question.least_p for question in family])) <= ERROR
    return tuple(claims[id(question)] for question in questions)


def holm(p: Sequence[float]) -> list[float]:
    """The p adjusted by Holm's method: if those up to 5 % are claimed, any of them is wrong with at most 5 %.

    The k-th smallest of n is multiplied by n − k + 1, and is no less than a smaller one. Holm 1979, "A simple
    sequentially rejective multiple test procedure".
    """
    adjusted = [1.0] * len(p)
    worst = 0.0
    for rank, place in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        worst = max(worst, min(1.0, (len(p) - rank) * p[place]))
        adjusted[place] = worst
    return adjusted


def seeds_needed(questions: int) -> int | None:
    """The fewest seeds of each method with which one claim among this number of questions can hold; None if none do."""
    return next((n for n in range(2, 100) if questions * least_p(n) <= ERROR), None)


def needs(claims: Sequence[Claim], has_main_question: bool) -> str:
    """What the seeds at hand could have shown, in words; "" if there is no claim.

    has_main_question: whether the user named one.
    """
    if not claims:
        return ""
    able = [claim for claim in claims if claim.is_possible]
    if not able:
        return _nothing_can_be_shown(claims, has_main_question)
    alone = [claim for claim in able if claim.question.env is not None]
    if not alone:
        fewest = min(able, key=lambda claim: claim.question.seeds)
        return f"With {_seeds(fewest.question.seeds)}, only all environments together can show a difference."
    claim = min(alone, key=lambda claim: sorted(claim.question.seeds))
    seeds = claim.question.seeds
    return (
        f"With {_seeds(seeds)}, a method whose run is better {power_in_words(seeds, claim.level)}: the p "
        f"{_first_of(claim)} must be at most {percent(claim.level)} (simulated, normal distributions of equal spread)."
    )


def _nothing_can_be_shown(claims: Sequence[Claim], has_main_question: bool) -> str:
    best = max(claims, key=lambda claim: claim.level / claim.question.least_p)
    text = (
        f"With {_seeds(best.question.seeds)}, nothing can be shown: the p {_first_of(best)} must be at most "
        f"{percent(best.level)}, and it is {percent(best.question.least_p)} where all runs of one method are better "
        "than all of the other. "
    )
    needed = seeds_needed(best.among)
    if needed is None:
        return f"{text}No number of seeds suffices: compare fewer methods or environments at once."
    text += f"It takes {needed} seeds of each method"
    if len({claim.question.measure for claim in claims}) > 1 and not has_main_question:
        text += ", or fewer with --question"
    return f"{text}."


def _first_of(claim: Claim) -> str:
    if claim.among == 1:
        return "of a claim"
    return f"of the first of {claim.among} claims"


def _seeds(seeds: tuple[int, int]) -> str:
    few, many = sorted(seeds)
    if few == many:
        return f"{few} seeds of each method"
    return f"{few} seeds against {many}"


def percent(p: float) -> str:
    """A probability in percent with two digits: 0.0079 → "0.79 %".

    Just above `ERROR` it has more: 0.0504 → "5.04 %".
    """
    if p >= 0.995:
        return "100 %"
    digits = 2
    while digits < 6 and p > ERROR and float(f"{p:.{digits}g}") <= ERROR:
        digits += 1
    return f"{100 * p:.{digits}g} %"


def to_plain(claims: Iterable[Claim]) -> list[dict[str, Any]]:
    """For results.json."""
    return [
        {
            **{name: getattr(claim.question, name) for name in ("env", "measure", "method", "other", "p")},
            "p_of_all_claims": claim.p_of_all,
            "limit": ERROR,
            "least_p": claim.question.least_p,
            "holds": claim.holds,
        }
        for claim in claims
    ]
