"""Which reports have looked at runs: a second look at the same methods claims nothing.

A report whose seeds could have shown something writes a line to `looks.jsonl` in the directory of each of its runs, if
a3c-zoo made the run and the directory can be written. Whoever adds seeds until a claim holds is wrong more often than
a claim says: of 100 comparisons without a difference, about 4 are claimed at ten seeds, and 8 at ten or at twenty.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from a3c_zoo.comparison.measures import MeasuredRun
from a3c_zoo.comparison.results import Results, with_claims
from a3c_zoo.comparison.sequential import Pair
from a3c_zoo.errors import printable
from a3c_zoo.files import MAX_TEXT, open_file, read_bytes

LOOKS_FILE: Final = "looks.jsonl"
#: What a look at a pair of methods depends on, of each run.
FIGURES: Final = ("seed", "final_return", "final_return_greedy", "steps_to_threshold", "seconds_to_threshold")

Runs = Sequence[MeasuredRun]


@dataclass(frozen=True, slots=True)
class _Look:
    """A report's look at two methods on an environment.

    Attributes:
        pair: environment, method, other. key: the same for the same runs, looked at by the same rule.
    """

    pair: tuple[str, str, str]
    runs: Runs
    others: Runs
    key: str


def looked_at(results: Results) -> Results:
    """The same results, without claims and decisions about pairs of methods that another report has looked at."""
    claims = _number_of_claims(results)
    found = ((look.pair, _earlier_report(look, claims)) for look in _looks(results))
    seen = {pair: report for pair, report in found if report}
    if not seen:
        return results
    if results.decided is not None:
        decided = replace(results.decided, seen=frozenset(Pair(*pair) for pair in seen))
        return replace(results, seen=seen, decided=decided)
    return with_claims(replace(results, seen=seen))


def keep_looks(results: Results, report: Path) -> None:
    """Writes down that a report has looked at its runs, if its seeds could have shown something."""
    if results.decided is None and not any(claim.is_possible for claim in results.claims):
        return
    keys: dict[Path, list[str]] = {}
    for look in _looks(results):
        for run in (each.record for each in (*look.runs, *look.others) if each.record.is_ours):
            keys.setdefault(run.path, []).append(look.key)
    line: dict[str, Any] = {
        "at": datetime.now().astimezone().isoformat(timespec="seconds"),
        "report": os.path.abspath(report),
    }
    line["claims"] = _number_of_claims(results)
    for folder, found in keys.items():
        with suppress(OSError), open_file(folder / LOOKS_FILE, "ab") as file:
            file.write((json.dumps(line | {"pairs": found}) + "\n").encode())


def _looks(results: Results) -> Iterator[_Look]:
    """The pairs of methods about which the report claims or decides something."""
    rule = results.decided.rule if results.decided else None
    pairs = {(each.question.env, each.question.method, each.question.other) for each in results.claims}
    name = results.question if rule is None else f"{rule.looks} looks of {rule.block} seeds"
    for env, each in results.environments.items():
        for pair in each.pairs:
            found = (env, pair.method, pair.other)
            if found in pairs or (rule is not None and found in rule.pairs):
                sides = each.methods[pair.method].runs, each.methods[pair.other].runs
                yield _Look(found, *sides, _key(*sides, name))


def _number_of_claims(results: Results) -> int:
    return len(results.decided.rule.pairs) if results.decided else len(results.claims)


def _key(runs: Runs, others: Runs, rule: str) -> str:
    """A digest of the figures of all runs, and of the rule."""
    sides = [sorted(json.dumps([getattr(run.measures, name) for name in FIGURES]) for run in each)
             for each in (runs, others)]  # fmt: skip
    return hashlib.sha256(json.dumps([sorted(sides), rule]).encode()).hexdigest()[:32]


def _earlier_report(look: _Look, claims: int) -> str:
    """The report that looked at runs of both methods before, as text; "" if none did.

    A look at the same runs by the same rule is no second one: it has the same results. With fewer claims than it had it
    is one, because each of them would need less.
    """
    others = _known_looks(look.others)
    for key, (count, report) in _known_looks(look.runs).items():
        if key in others and (key != look.key or count > claims):
            return report
    return ""


def _known_looks(runs: Runs) -> dict[str, tuple[int, str]]:
    """Key → the greatest number of claims, and the first report, of all looks at any of these runs.

    Damaged lines are left out.
    """
    found: dict[str, tuple[int, str]] = {}
    for run in (each.record for each in runs if each.record.is_ours):
        with suppress(OSError):
            for line in read_bytes(run.path / LOOKS_FILE, MAX_TEXT).splitlines():
                with suppress(ValueError, KeyError, TypeError, RecursionError):
                    look: Mapping[str, Any] = json.loads(line)
                    count, report = int(look["claims"]), printable(str(look["report"]))
                    for key in map(str, look["pairs"]):
                        before, first = found.get(key, (count, report))
                        found[key] = (max(before, count), first)
    return found
