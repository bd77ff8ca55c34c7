"""Lists, numbers of things, and returns in sentences."""

from __future__ import annotations

from collections.abc import Iterable


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
