"""`compare --until-decided`: the rule of a plan, its blocks of seeds, and what was decided, in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from a3c_zoo.figures.claims import percent
from a3c_zoo.figures.measures import MeasuredRun
from a3c_zoo.figures.sequential import Pair, SequentialLook, SequentialRule, SequentialTest

#: The most seeds by default.
DEFAULT_MAX_SEEDS: Final = 20


@dataclass(frozen=True, slots=True)
class Decisions:
    """What a comparison with a rule has decided.

    Attributes:
        looks: all looks. open: the pairs that none has decided.
        stopped: why there was no further look though some pairs are open; "" if the rule allowed none.
        seen: pairs that an earlier report looked at, so that no decision about them counts.
    """

    rule: SequentialRule
    looks: tuple[SequentialLook, ...]
    open: tuple[Pair, ...]
    stopped: str = ""
    seen: frozenset[Pair] = frozenset()


def methods_of(pairs: Iterable[Pair]) -> set[tuple[str, str]]:
    """The environments and methods of pairs."""
    return {(pair.env, name) for pair in pairs for name in (pair.method, pair.other)}


def final_returns(
    test: SequentialTest, measured: Iterable[MeasuredRun]
) -> dict[tuple[str, str], list[float]] | None:
    """The final returns of all methods in open pairs, in the order of the blocks; None if a run has none."""
    values: dict[tuple[str, str], list[float]] = {key: [] for key in methods_of(test.open)}
    for run in (each.measures for each in measured):
        if run.final_return is not None and (run.env, run.method) in values:
            values[run.env, run.method].append(run.final_return)
    needed = (len(test.looks) + 1) * test.rule.block
    if all(len(returns) == needed for returns in values.values()):
        return values
    return None


def look_in_words(look: SequentialLook, test: SequentialTest) -> str:
    """One line on a look that was just made."""
    decided = "; ".join(_decided(pair, look) for pair in look.decided) or "nothing decided"
    seeds = look.number * test.rule.block
    return f"after {seeds} seeds: {decided}; {len(test.open)} of {len(test.rule.pairs)} pairs open"


def _decided(pair: Pair, look: SequentialLook) -> str:
    """The method that is ahead comes first."""
    if look.decided[pair] == "higher":
        winner = pair.method
        loser = pair.other
    else:
        winner = pair.other
        loser = pair.method
    value = look.chances[pair].value
    return (
        f"{pair.env}: a run of {winner} ends with a higher return than a run of {loser} with probability "
        f"{max(value, 1 - value):.3g} (p = {percent(look.p[pair])}; the limit of this look is {percent(look.part)})"
    )


def sentences(decisions: Decisions) -> dict[str, bool]:
    """The verdict, one sentence for each pair → whether a difference is shown."""
    rule = decisions.rule
    decided = [
        f"{_decided(pair, look)}; decided after {look.number * rule.block} seeds."
        for look in decisions.looks
        for pair in look.decided
        if pair not in decisions.seen
    ]
    seeds = len(decisions.looks) * rule.block
    why = f" ({decisions.stopped})" if decisions.stopped else ""
    undecided = [
        f"{pair.env}: no difference between {pair.method} and {pair.other} is shown after {seeds} seeds{why}."
        for pair in decisions.open
        if pair not in decisions.seen
    ]
    return dict.fromkeys(decided, True) | dict.fromkeys(undecided, False)


def to_plain(decisions: Decisions) -> dict[str, Any]:
    """For results.json."""
    rule = decisions.rule
    return {
        "rule": {
            **{name: getattr(rule, name) for name in ("block", "looks", "level", "parts")},
            "pairs": [*map(list, rule.pairs)],
        },
        "looks": [
            {
                "seeds": look.number * rule.block,
                "part": look.part,
                "pairs": [
                    {
                        **pair._asdict(),
                        "probability": chance.value,
                        "p": look.p[pair],
                        "decision": look.decided.get(pair),
                    }
                    for pair, chance in look.chances.items()
                ],
            }
            for look in decisions.looks
        ],
        "open": [pair._asdict() for pair in decisions.open],
        "stopped": decisions.stopped or None,
    }
