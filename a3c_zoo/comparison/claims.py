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
        """The smallest p that so many seeds can have: of two orders among all."""
        count = math.comb(sum(self.seeds), self.seeds[0])
        return 2 / count if count <= MOST_ORDERS else 1 / RANDOM_ORDERS


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


def seeds_needed(questions: int) -> int:
    """The fewest seeds of each method with which one claim among so many questions can hold."""
    return next(n for n in range(2, 100) if questions * 2 / math.comb(2 * n, n) <= allowed(n))


def needs(claims: Sequence[Claim]) -> str:
    """What claims need, in words, if there are few seeds; "" with enough of them."""
    fewest = min((min(claim.question.seeds) for claim in claims), default=ENOUGH_SEEDS)
    if fewest >= ENOUGH_SEEDS:
        return ""
    least, count = max(claim.question.least_p for claim in claims), len(claims)
    text = (
        f"With {fewest} seeds the smallest p is {percent(least)}, where all runs of one method are better than all of "
    )
    limit = allowed(fewest)
    first = f"the first of {count} claims" if count > 1 else "the claim"
    text += f"the other, and {first} needs {percent(limit / count)}: "
    if least * count <= limit:
        return f"{text}only large differences can be shown; {ENOUGH_SEEDS} seeds show smaller ones."
    return f"{text}none can be shown with these seeds. It takes {seeds_needed(count)} seeds of each method."


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
