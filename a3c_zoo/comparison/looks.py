"""Which reports have looked at runs: a second look at the same methods claims nothing.

A report whose seeds could have shown something writes a line to `looks.jsonl` in the directory of each of its runs, if
a3c-zoo made the run and the directory can be written. Whoever adds seeds until a claim holds is wrong more often than
a claim says: of 100 comparisons without a difference, about 4 are claimed at ten seeds, and 8 at ten or at twenty.
Nobody knows what a file that cannot be read says: its run counts as looked at.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from a3c_zoo.comparison.plan import Plan, PlannedRun
from a3c_zoo.errors import printable
from a3c_zoo.figures.measures import MeasuredRun, measure
from a3c_zoo.figures.results import Results, with_claims
from a3c_zoo.figures.sequential import Pair, SequentialLook, SequentialRule
from a3c_zoo.files import MAX_TEXT, open_file, read_bytes, shown, write_all
from a3c_zoo.store.run_files import LOOKS_JSONL
from a3c_zoo.store.run_records import read_runs

#: What a look at a pair of methods depends on, of each run.
FIGURES: Final = ("seed", "final_return", "final_return_greedy", "steps_to_threshold", "seconds_to_threshold")

Runs = Sequence[MeasuredRun]


@dataclass(frozen=True, slots=True)
class _Look:
    """A report's look at two methods on an environment.

    Attributes:
        asked: the main question, or the rule.
        may_go_on: whether there is a rule, which looks again at the same runs with more beside them.
    """

    pair: Pair
    runs: Runs
    others: Runs
    asked: str
    may_go_on: bool

    @property
    def key(self) -> str:
        """The same for the same runs, and the same question or rule."""
        return _key(self.runs, self.others, self.asked)


def looked_at(results: Results) -> Results:
    """The same results, without claims and decisions about pairs of methods that another report has looked at."""
    claims = _number_of_claims(results)
    reports = ((look.pair, _earlier_report(look, claims)) for look in _looks(results))
    seen = {pair: report for pair, report in reports if report}
    if not seen:
        return results
    if results.decided is not None:
        decided = replace(results.decided, seen=frozenset(seen))
        return replace(results, seen=seen, decided=decided)
    return with_claims(replace(results, seen=seen))


def planned_looks(plan: Plan, rule: SequentialRule | None) -> dict[Pair, str]:
    """The pairs about which the report of a plan will claim nothing → the report that has looked at runs of both.

    A pair without missing runs is left out: its report may be a look at the same runs, which is no second one.
    """
    methods: dict[tuple[str, str], list[PlannedRun]] = {}
    for run in plan.runs:
        methods.setdefault((run.env, run.method), []).append(run)
    reports: dict[Pair, str] = {}
    for (env, method), (other_env, other) in itertools.combinations(methods, 2):
        if env == other_env:
            runs, others = methods[env, method], methods[env, other]
            is_trained = any(run.done is None for run in (*runs, *others))
            if is_trained:
                report = _report_of_done(Pair(env, method, other), _done(runs), _done(others), rule)
            else:
                report = ""
            if report:
                reports[Pair(env, method, other)] = report
    return reports


def _done(runs: Iterable[PlannedRun]) -> list[Path]:
    return [run.done for run in runs if run.done is not None]


def _report_of_done(
    pair: Pair, runs: Sequence[Path], others: Sequence[Path], rule: SequentialRule | None
) -> str:
    """The report that looked at finished runs of both methods; "" if none did.

    The same command with the same rule is no second look: it takes the looks that are left.
    """
    report = _report_of_both(runs, others, lambda key, count: False)
    if not report or rule is None:
        return report
    look = _look_of_rule(pair, _measured(runs), _measured(others), rule)
    return _earlier_report(look, len(rule.pairs))


def _measured(runs: Sequence[Path]) -> Runs:
    records, _ = read_runs(runs, trust=True)  # the runs of a plan
    return [measure(record, record.path.name) for record in records]


def keep_looks(results: Results, report: Path) -> None:
    """Writes down that a report has looked at its runs, if its seeds could have shown something."""
    if results.decided is not None or any(claim.is_possible for claim in results.claims):
        _keep([*_looks(results)], _number_of_claims(results), report)


def keep_look_of_rule(look: SequentialLook, rule: SequentialRule, measured: Runs, report: Path) -> None:
    """Writes down a look that a rule has taken, if it could decide something.

    Else whoever stops a comparison after it could take a run away, and let the rule look again.
    """
    if look.part:
        sides: dict[tuple[str, str], list[MeasuredRun]] = {}
        for run in measured:
            sides.setdefault((run.measures.env, run.measures.method), []).append(run)
        looks = [
            _look_of_rule(pair, sides[pair.env, pair.method], sides[pair.env, pair.other], rule)
            for pair in look.chances
        ]
        _keep(looks, len(rule.pairs), report)


def _keep(looks: Sequence[_Look], claims: int, report: Path) -> None:
    """Adds a line to the file of each run of these looks, unless its lines say the same already."""
    keys: dict[Path, list[str]] = {}
    for look in looks:
        for folder in _ours([*look.runs, *look.others]):
            keys.setdefault(folder, []).append(look.key)
    line: dict[str, Any] = {
        "at": datetime.now().astimezone().isoformat(timespec="seconds"),
        "report": os.path.abspath(report),
        "claims": claims,
    }
    for folder, pairs in keys.items():
        with suppress(OSError):
            known = _known_looks([folder])
            if any(key not in known or known[key][0] < claims for key in pairs):
                _add_line(folder, json.dumps(line | {"pairs": pairs}))


def _add_line(folder: Path, line: str) -> None:
    """Adds a line to the file of a run. If the last line there broke off, as on a full disk, it begins a new one.

    Raises:
        OSError: the file cannot be read, or not be written.
    """
    content = _content(folder)
    if content and not content.endswith(b"\n"):
        line = f"\n{line}"
    with open_file(folder / LOOKS_JSONL, "ab") as file:
        write_all(file, f"{line}\n".encode())


def _looks(results: Results) -> Iterator[_Look]:
    """The pairs of methods about which the report claims or decides something."""
    rule = results.decided.rule if results.decided else None
    asked = [claim.question for claim in results.claims]
    claimed = {Pair(each.env, each.method, each.other) for each in asked if each.env is not None}
    for env, in_env in results.environments.items():
        for each in in_env.pairs:
            pair = Pair(env, each.method, each.other)
            sides = in_env.methods[pair.method].runs, in_env.methods[pair.other].runs
            if rule is not None and pair in rule.pairs:
                yield _look_of_rule(pair, *sides, rule)
            elif pair in claimed:
                yield _Look(pair, *sides, results.question, may_go_on=False)


def _look_of_rule(pair: Pair, runs: Runs, others: Runs, rule: SequentialRule) -> _Look:
    """A look of a rule: only at runs with a final return, because it tests nothing else."""
    played, others_played = (
        [run for run in side if run.measures.final_return is not None] for side in (runs, others)
    )
    return _Look(pair, played, others_played, _name_of(rule), may_go_on=True)


def _name_of(rule: SequentialRule) -> str:
    return f"{rule.looks} looks of {rule.block} seeds"


def _number_of_claims(results: Results) -> int:
    if results.decided:
        return len(results.decided.rule.pairs)
    return len(results.claims)


def _key(runs: Runs, others: Runs, asked: str) -> str:
    """A digest of the figures of all runs, and of what was asked. The sides and their runs may be in any order."""
    sides = sorted([_figures(runs), _figures(others)])
    return hashlib.sha256(json.dumps([sides, asked]).encode()).hexdigest()[:32]


def _figures(runs: Runs) -> list[str]:
    return sorted(json.dumps([getattr(run.measures, name) for name in FIGURES]) for run in runs)


def _earlier_report(look: _Look, claims: int) -> str:
    """The report that looked at runs of both methods before, as text; "" if none did.

    A look at the same runs with the same question or rule is no second one: it has the same results. With fewer claims
    than it had it is one, because each of them would need less. If a rule goes on, its earlier looks are no second
    ones, either.
    """
    now = look.key
    return _report_of_both(
        _ours(look.runs),
        _ours(look.others),
        lambda key, count: (key == now or _goes_on(look, key)) and count <= claims,
    )


def _goes_on(look: _Look, key: str) -> bool:
    """Whether the rule of a look goes on after an earlier look of its own, which has this key.

    So it is if all runs of the earlier look are still there, with the same figures: nobody took one away that had been
    looked at. A run that had no figures may be trained again, because it was in no test.
    """
    if not look.may_go_on:
        return False
    runs, others = (
        [run for run in side if run.record.is_ours and key in _known_looks([run.record.path])]
        for side in (look.runs, look.others)
    )
    return _key(runs, others, look.asked) == key


def _ours(runs: Runs) -> list[Path]:
    """The directories of the runs that a3c-zoo made."""
    return [run.record.path for run in runs if run.record.is_ours]


def _report_of_both(runs: Sequence[Path], others: Sequence[Path], is_same: Callable[[str, int], bool]) -> str:
    """The report that looked at runs of both methods; "" if none did. Of a file that cannot be read, it says so.

    is_same: whether a look with this key and number of claims is the one that is being taken now.
    """
    try:
        ours = _known_looks(runs)
        theirs = _known_looks(others)
    except OSError as error:
        return f"one of those in {error.filename}, which cannot be read ({error.strerror})"
    for key, (count, report) in ours.items():
        if key in theirs and not is_same(key, count):
            return report
    return ""


def _known_looks(runs: Sequence[Path]) -> dict[str, tuple[int, str]]:
    """Key → the greatest number of claims, and the first report, of all looks at any of these runs.

    Damaged lines are left out.

    Raises:
        OSError: a file cannot be read.
    """
    looks: dict[str, tuple[int, str]] = {}
    for folder in runs:
        for line in _content(folder).splitlines():
            with suppress(ValueError, KeyError, TypeError, RecursionError):
                look: Mapping[str, Any] = json.loads(line)
                count = int(look["claims"])
                report = printable(str(look["report"]))
                for key in map(str, look["pairs"]):
                    before, first = looks.get(key, (count, report))
                    looks[key] = (max(before, count), first)
    return looks


def _content(folder: Path) -> bytes:
    """The contents of the file of a run; empty if there is none: no report has written a link or a folder.

    Raises:
        OSError: it cannot be read. The error has its path.
    """
    path = folder / LOOKS_JSONL
    if path.is_symlink() or not path.is_file():
        return b""
    try:
        return read_bytes(path, MAX_TEXT)
    except OSError as error:
        raise OSError(error.errno, error.strerror, printable(str(shown(path)))) from error
