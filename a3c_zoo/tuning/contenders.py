"""The trials of a search in a race: who is ahead. Imports no Optuna."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

#: About one trial in `REDUCTION` goes on to the next rung, which has `REDUCTION` times the steps.
REDUCTION: Final = 3


@dataclass(frozen=True, slots=True)
class Contender:
    """A trial: its values as `-o` takes them, and rung → mean return over seeds.

    Attributes:
        state: RUNNING while it may go on, COMPLETE after the last rung, PRUNED if it ended before,
            FAIL if it could not be trained.
        is_here: whether its runs lie in this folder of runs.
    """

    number: int
    texts: Mapping[str, str]
    scores: Mapping[int, float]
    state: str
    is_here: bool

    @property
    def may_go_on_here(self) -> bool:
        """Whether a process with this folder of runs may train it further."""
        return self.state == "RUNNING" and self.is_here

    @property
    def rank(self) -> tuple[int, float]:
        """The rung that it reached and its score there; the greater, the better."""
        return max(self.scores.items(), default=(0, 0.0))


def ranked(contenders: Iterable[Contender]) -> list[Contender]:
    """Those with a score: who got furthest comes first, and of these who has the greatest score there."""
    return sorted((each for each in contenders if each.scores), key=lambda each: each.rank, reverse=True)


def sound(contenders: Iterable[Contender]) -> list[Contender]:
    """Those with a score that have not failed; if there are none, those with a score."""
    scored = [each for each in contenders if each.scores]
    return [each for each in scored if each.state != "FAIL"] or scored


def next_rung(contender: Contender, rungs: Sequence[int]) -> int:
    """The first rung without a score of the trial. The last one if its process was killed before the trial ended."""
    return next((rung for rung in rungs if rung not in contender.scores), rungs[-1])
