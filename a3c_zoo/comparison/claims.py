"""The claims of a report: which there are, and which hold if all of them together may be wrong in 5 % of reports."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from a3c_zoo.comparison.improvement import MOST_ORDERS, RANDOM_ORDERS, Chance, EarlierChance
from a3c_zoo.comparison.statistics import MIN_SEEDS

#: The greatest probability that a report makes any wrong claim.
ERROR: Final = 0.05
#: What p over all claims may be with `MIN_SEEDS` seeds of a method. If methods differ only in spread, 0.05 would make a
#: false claim in 6.5 % of reports with so few, and 0.04 in 3.7 % (4,000 simulated, one method three times as wide).
ERROR_OF_FEW: Final = 0.04
#: With fewer seeds, the report says how many its claims need.
ENOUGH_SEEDS: Final = 10
TOO_MANY: Final = (
    ", as these are too many claims for any number of seeds: compare fewer methods or environments at once."
)


@dataclass(frozen=True, slots=True)
class Question:
    """Whether a run of one method is better than a run of another; planned before any run is seen.

    Attributes:
        env: None for all environments together.
        measure: the field of `Measures`. seeds: of both methods, in the environment where they are fewest.
    """

    env: str | None
    measure: str
    method: str
    other: str
    chance: Chance | EarlierChance
    seeds: tuple[int, int]

    @property
    def p(self) -> float:
        """The test's p, however the pairs of runs had ended whose order is unknown."""
        return self.chance.p_at_worst if isinstance(self.chance, EarlierChance) else self.chance.p

    @property
    def least_p(self) -> float:
        """The smallest p that so many seeds can have. Over all environments, orders are always random."""
        return 1 / RANDOM_ORDERS if self.env is None else least_p(*self.seeds)


@dataclass(frozen=True, slots=True)
class Claim:
    """A question with its p over all questions of the report, after Holm."""

    question: Question
    p_of_all: float

    @property
    def holds(self) -> bool:
        """Whether the report claims a difference."""
        return self.p_of_all <= self.limit

    @property
    def limit(self) -> float:
        """What p over all claims may be."""
        return allowed(min(self.question.seeds))


def least_p(seeds: int, others: int) -> float:
    """The smallest p of so many seeds against so many others, on one environment: of two orders among all."""
    count = math.comb(seeds + others, seeds)
    return 2 / count if count <= MOST_ORDERS else 1 / RANDOM_ORDERS


def allowed(seeds: int) -> float:
    """What p over all claims may be with so many seeds of each method."""
    return ERROR if seeds > MIN_SEEDS else ERROR_OF_FEW


def claims_of(questions: Sequence[Question]) -> tuple[Claim, ...]:
    """All questions of a report make one family."""
    found = holm([question.p for question in questions])
    return tuple(Claim(question, p) for question, p in zip(questions, found, strict=True))


def holm(p: Sequence[float]) -> list[float]:
    """What each p is worth if so many are looked at: with a limit of 5 %, any is wrong with a probability of 5 %.

    The k-th smallest of n counts n − k + 1 times, and no less than a smaller one. Holm 1979, "A simple sequentially
    rejective multiple test procedure".
    """
    found, worst = [1.0] * len(p), 0.0
    for rank, place in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        worst = max(worst, min(1.0, (len(p) - rank) * p[place]))
        found[place] = worst
    return found


def seeds_needed(questions: int) -> int | None:
    """The fewest seeds of each method with which one claim among so many questions can hold.

    None if no number is enough: an order among random ones has no smaller p than 1 / `RANDOM_ORDERS`.
    """
    return next((n for n in range(2, 100) if questions * least_p(n, n) <= allowed(n)), None)


def needs(claims: Sequence[Claim]) -> str:
    """What claims need, in words, if there are few seeds, or if none of them can hold; else ""."""
    if not claims:
        return ""
    count = len(claims)
    able = [claim for claim in claims if claim.question.least_p * count <= claim.limit]
    if not able:
        best = min(claims, key=lambda claim: claim.question.least_p / claim.limit)
        seeds = seeds_needed(count)
        cure = f"with these seeds. It takes {seeds} seeds of each method."
        return f"{_least(best, count)}none can be shown{f' {cure}' if seeds else TOO_MANY}"
    fewest = min(claims, key=lambda claim: (min(claim.question.seeds), -claim.question.least_p))
    if min(fewest.question.seeds) >= ENOUGH_SEEDS:
        return ""
    if fewest in able:
        return f"{_least(fewest, count)}only large differences can be shown; {ENOUGH_SEEDS} seeds show smaller ones."
    what = "such a claim can be shown only beside others with a smaller p"
    return f"{_least(fewest, count)}{what}; {ENOUGH_SEEDS} seeds show smaller differences."


def _least(claim: Claim, count: int) -> str:
    """The smallest p that a claim can have, and the one that it needs if it is the first of all, in words."""
    few, many = sorted(claim.question.seeds)
    seeds = f"{few} seeds" if few == many else f"{few} seeds against {many}"
    first = f"the first of {count} claims" if count > 1 else "the claim"
    return (
        f"With {seeds} the smallest p is {percent(claim.question.least_p)}, where all runs of one method are better "
        f"than all of the other, and {first} needs {percent(claim.limit / count)}: "
    )


def percent(p: float) -> str:
    """A probability in percent with two digits: 0.0079 → "0.79 %"."""
    return f"{100 * p:.2g} %" if p < 0.995 else "100 %"


def to_plain(claims: Iterable[Claim]) -> list[dict[str, Any]]:
    """For results.json."""
    return [
        {
            **{name: getattr(claim.question, name) for name in ("env", "measure", "method", "other", "p")},
            "p_of_all_claims": claim.p_of_all,
            "holds": claim.holds,
        }
        for claim in claims
    ]
