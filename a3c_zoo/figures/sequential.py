"""When the seeds decide: a group-sequential test of several pairs of methods.

Every look spends a part of the level, and tests the runs so far as any other claim is tested (`improvement`). The parts
of all looks together are the level, so the looks may depend on each other in any way (Bonferroni). They grow with the
square of the runs: Kim and DeMets 1987, "Design and analysis of group sequential tests based on the type I error
spending rate function". Within a look, Holm's rule holds for the pairs that are open.

Why no more than the level is spent: let m of all pairs have no difference. When the first of them is decided, all m are
still open, so its p is at most the look's part divided by m. For each of the m pairs and each look, the probability of
such a p is at most part / m. The sum over pairs and looks is the level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from a3c_zoo.figures.claims import ERROR, holm, least_p
from a3c_zoo.figures.improvement import Chance, improvement
from a3c_zoo.figures.statistics import Floats

Decision = Literal["higher", "lower"]


class Pair(NamedTuple):
    """Two methods on an environment."""

    env: str
    method: str
    other: str


@dataclass(frozen=True, slots=True)
class SequentialRule:
    """What is fixed before the first run.

    Attributes:
        pairs: all of them make one family. block: seeds of each method between two looks. looks: the most.
        level: the greatest probability that any pair without a difference is decided.
    """

    pairs: tuple[Pair, ...]
    block: int
    looks: int
    level: float = ERROR

    @property
    def parts(self) -> list[float]:
        """The part of the level that each look spends. A look that can decide nothing leaves its part to the next."""
        parts = []
        spent = 0.0
        for number in range(1, self.looks + 1):
            part = self.level * (number / self.looks) ** 2 - spent
            smallest = least_p(number * self.block) * max(1, len(self.pairs))  # after Holm
            parts.append(part if smallest <= part else 0.0)
            spent += parts[-1]
        return parts


@dataclass(frozen=True, slots=True)
class SequentialLook:
    """One look at the runs.

    Attributes:
        number: 1 for the first. part: of the level, which this look spends; 0 if it can decide nothing yet.
        chances: of each pair that was open: the probability that a run of `method` ends with a higher return.
        p: of each pair that was open, after Holm; a pair with at most `part` is decided.
        decided: pairs that this look decides: whether `method` is higher or lower than `other`.
    """

    number: int
    part: float
    chances: Mapping[Pair, Chance]
    p: Mapping[Pair, float]
    decided: Mapping[Pair, Decision]


@dataclass(slots=True)
class SequentialTest:
    """Looks at blocks of runs as they come.

    Attributes:
        open: the pairs that are not decided. looks: all looks so far.
    """

    rule: SequentialRule
    open: list[Pair] = field(init=False)
    looks: list[SequentialLook] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.open = list(self.rule.pairs)

    @property
    def is_over(self) -> bool:
        """Whether every pair is decided, or no look is left."""
        return not self.open or len(self.looks) == self.rule.looks

    def look(self, values: Mapping[tuple[str, str], Sequence[float] | Floats]) -> SequentialLook:
        """Decides what can be decided.

        Args:
            values: environment and method → the final returns of its runs, `[K · block]`, K the number of this look;
                of all methods in open pairs.
        """
        number = len(self.looks) + 1
        part = self.rule.parts[number - 1]
        chances = {pair: _chance(pair, values) for pair in self.open}
        p = dict(zip(chances, holm([chance.p for chance in chances.values()]), strict=True))
        decided: dict[Pair, Decision] = {
            pair: "higher" if chance.value > 0.5 else "lower"
            for pair, chance in chances.items()
            if part and p[pair] <= part
        }
        self.open = [pair for pair in self.open if pair not in decided]
        self.looks.append(SequentialLook(number, part, chances, p, decided))
        return self.looks[-1]


def _chance(pair: Pair, values: Mapping[tuple[str, str], Sequence[float] | Floats]) -> Chance:
    scores, others = (
        np.asarray(values[pair.env, name], np.float64)[:, np.newaxis] for name in (pair.method, pair.other)
    )
    return improvement(scores, others)
