"""When the seeds decide: a group-sequential permutation test of several pairs, after AdaStop.

Source: Mathieu et al. 2023, "AdaStop: adaptive statistical testing for sound comparisons of Deep RL agents",
arXiv:2306.10882, algorithm 1 with its step-down. Two things differ. Each pair's sum of differences is divided by the
spread of its blocks so far, so that environments with large returns do not hide the others. And methods that differ
only in spread hold the level, too: if one is much wider, all of its five values lie on one side of the other's in 1 of
16 blocks, and not in 2 of 252 as permutations expect. So these spend `SPENT` of the level, and Welch's test must agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3c_zoo.comparison.statistics import Floats

#: Random permutations, the observed order among them. Their number limits how fine a level can be.
PERMUTATIONS: Final = 10_000
#: The part of the level that permutations spend: so methods that differ only in spread hold the level.
SPENT: Final = 0.7
#: The permutations of all comparisons: the same runs give the same decisions.
SEED: Final = 0

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
        level: the greatest probability that any pair without a difference is decided. spends: by permutations.
    """

    pairs: tuple[Pair, ...]
    block: int
    looks: int
    level: float = 0.05
    spends: float = SPENT * 0.05


@dataclass(frozen=True, slots=True)
class SequentialLook:
    """One look at the runs.

    Attributes:
        number: 1 for the first. boundary: what a statistic must exceed; inf if no value can decide yet.
        statistics: of each pair that was open, |sum of differences| / √(sum of the variances of its blocks).
        decided: pairs that this look decides: whether `method` is higher or lower than `other`.
    """

    number: int
    boundary: float
    statistics: Mapping[Pair, float]
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
    _paths: NDArray[np.float64] = field(init=False)
    _spent: float = field(init=False, default=0.0)
    _boundaries: list[float] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.open = list(self.rule.pairs)
        self._paths = permuted_signs(self.rule.looks, self.rule.block)

    @property
    def is_over(self) -> bool:
        """Whether every pair is decided, or no look is left."""
        return not self.open or len(self.looks) == self.rule.looks

    def look(self, values: Mapping[tuple[str, str], Sequence[float] | Floats]) -> SequentialLook:
        """Decides what can be decided.

        Args:
            values: environment and method → the values of its runs `[K · block]`, block by block, K the number of this
                look; of all methods in open pairs.
        """
        number, size = len(self.looks) + 1, self.rule.block
        paths = {pair: self._sums(pair, values, number, size) for pair in self.open}
        observed = {pair: float(sums[-1, 0]) for pair, sums in paths.items()}
        decided: dict[Pair, Decision] = {}
        while True:
            still = [pair for pair in self.open if pair not in decided]
            if not still:
                break
            boundary, spent = self._boundary(np.max([paths[pair] for pair in still], axis=0))
            beyond = [pair for pair in still if observed[pair] > boundary and self._agrees(pair, values, number)]
            if not beyond:
                break
            greatest = max(beyond, key=lambda pair: observed[pair])
            first, second = (np.sum(values[greatest.env, name]) for name in (greatest.method, greatest.other))
            decided[greatest] = "higher" if first > second else "lower"
        self._spent, self.open = spent, still
        self._boundaries.append(boundary)
        self.looks.append(SequentialLook(number, boundary, observed, decided))
        return self.looks[-1]

    def _sums(
        self, pair: Pair, values: Mapping[tuple[str, str], Sequence[float] | Floats], number: int, size: int
    ) -> Floats:
        """The statistic of a pair, `[looks, permutations]`; the first permutation is the observed order."""
        both = (np.asarray(values[pair.env, name], np.float64) for name in (pair.method, pair.other))
        blocks = np.concatenate([each.reshape(number, size) for each in both], axis=1)
        spread = np.sqrt(np.cumsum(blocks.var(axis=1)))[:, np.newaxis]  # no permutation, and no later look, changes it
        sums: Floats = np.cumsum(np.einsum("lpv,lv->lp", self._paths[:number], blocks), axis=0)
        scaled = np.abs(sums) / np.where(spread, spread, 1.0)
        return scaled.round(9).astype(np.float64)  # equal sums in another order differ in the last digits

    def _agrees(self, pair: Pair, values: Mapping[tuple[str, str], Sequence[float] | Floats], number: int) -> bool:
        """Whether Welch's test of all values has a p of at most what permutations may have spent by this look."""
        first, second = (values[pair.env, name] for name in (pair.method, pair.other))
        return welch_p(first, second) <= self.rule.spends * number / self.rule.looks

    def _boundary(self, greatest: Floats) -> tuple[float, float]:
        """The boundary of this look, and the level that is spent with it.

        greatest: of all open pairs, `[looks, permutations]`.
        """
        looks, permutations = greatest.shape
        earlier = np.array(self._boundaries).reshape(-1, 1)
        is_alive = (greatest[:-1] <= earlier).all(axis=0)
        values = np.sort(greatest[-1][is_alive])
        beyond = len(values) - np.searchsorted(values, values, side="right")  # how many are greater
        allowed = self.rule.spends * looks / self.rule.looks - self._spent
        found = np.flatnonzero(beyond / permutations <= allowed + 1e-12)
        if not len(found):
            return np.inf, self._spent
        return float(values[found[0]]), self._spent + float(beyond[found[0]]) / permutations


def welch_p(first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> float:
    """The p of Welch's t-test that two means are equal; it needs no equal spreads. Welch 1947, "The generalization of
    'Student's' problem when several different population variances are involved".
    """
    from scipy.special import stdtr

    errors = np.array([np.var(each, ddof=1) / len(each) for each in (first, second)])
    difference = abs(float(np.mean(first) - np.mean(second)))
    if not errors.any():
        return 0.0 if difference else 1.0
    freedom = errors.sum() ** 2 / (errors**2 / [len(first) - 1, len(second) - 1]).sum()
    return 2 * float(stdtr(freedom, -difference / np.sqrt(errors.sum())))


def permuted_signs(looks: int, block: int, permutations: int = PERMUTATIONS) -> Floats:
    """Random ways to say which values of a block are the first method's: 1, and −1 for the other's.

    Returns:
        `[looks, permutations, 2 · block]`; the first permutation is the true one.
    """
    signs = np.tile(np.repeat([1.0, -1.0], block), (looks, permutations, 1))
    return np.concatenate(
        [signs[:, :1], np.random.default_rng(SEED).permuted(signs[:, 1:], axis=2)], axis=1, dtype=np.float64
    )
