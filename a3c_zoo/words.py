"""Lists, numbers of things, and returns in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

#: So many agents are named one by one; of more, the least and the greatest return.
MOST_AGENTS: Final = 4


def listed(names: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def counted(number: int, things: str) -> str:
    """`1 trial`, `1,000 trials`. things: their plural, with an s."""
    return f"{number:,} {things if number != 1 else things.removesuffix('s')}"


def return_text(value: float, sign: str = "") -> str:
    """A return for people to read: one decimal; three digits if it is small or huge. sign: "+" shows a plus, too."""
    return f"{value:{sign},.1f}" if 10 <= abs(value) < 1e9 else f"{value:{sign}.3g}"


def agents_text(returns: Mapping[str, float]) -> str:
    """The mean returns of the agents of a game in a line: `ann 3, bob 9`; of many, the least and the greatest."""
    texts = [f"{name} {return_text(value)}" for name, value in returns.items()]
    if len(texts) <= MOST_AGENTS:
        return ", ".join(texts)
    different = {return_text(value) for value in returns.values()}
    if len(different) == 1:
        return f"{len(texts)} agents, {different.pop()} each"
    least, greatest = min(returns, key=returns.__getitem__), max(returns, key=returns.__getitem__)
    return (
        f"{len(texts)} agents, from {return_text(returns[least])} ({least}) to {return_text(returns[greatest])} "
        f"({greatest})"
    )
