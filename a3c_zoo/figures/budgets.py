"""The budgets of runs in words, and whether two methods had the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from a3c_zoo.figures.measures import MeasuredRun
from a3c_zoo.store.run_records import RunRecord
from a3c_zoo.words import counted

#: Runs of other programs are as long as each other if the longest has at most so many times the steps of the shortest.
LENGTHS_ALIKE: Final = 1.1


def budget_of(record: RunRecord) -> str:
    """The budget of a run of a3c-zoo, in words. The budgets of other programs' runs are not known."""
    steps, episodes, limit_s = (
        record.settings.get(f"run.{key}") for key in ("steps", "episodes", "time_limit_s")
    )
    words = [counted(steps, "steps") if steps else "", counted(episodes, "episodes") if episodes else ""]
    words.append(f"{limit_s:,g} s of training" if limit_s else "")
    text = " and ".join(filter(None, words)) or "no budget"
    if record.settings.get("run.stop_when_solved"):
        return f"{text}, or until solved"
    return text


def processors_of(records: Iterable[RunRecord]) -> list[str]:
    """The processors that runs were made on, each once."""
    hosts = (record.host for record in records)
    return sorted(
        {f"{host['cpu']}, {host['cores']} cores" for host in hosts if {"cpu", "cores"} <= host.keys()}
    )


def is_time_of_other_machines(records: Sequence[RunRecord]) -> bool:
    """Whether a budget is a time, and machines differ: then the machine decides which method learns more."""
    is_time = any(_may_end_by_time(record) for record in records)
    return is_time and len(processors_of(records)) > 1


def _may_end_by_time(record: RunRecord) -> bool:
    """Whether a limit of time decides how many steps a run has: not if it ended by another limit."""
    if not record.settings.get("run.time_limit_s"):
        return False
    has_another = record.settings.get("run.steps") or record.settings.get("run.episodes")
    return not has_another or record.outcome is None or record.outcome.reason == "time-limit"


def have_one_budget(runs: Sequence[MeasuredRun]) -> bool:
    """Whether all runs had the same budget. Those of other programs have none: whether all runs are about equally long.

    A time on different machines is no budget. Only with one budget may the report claim a difference between
    methods.
    """
    if is_time_of_other_machines([run.record for run in runs]):
        return False
    budgets = {budget_of(run.record) for run in runs if run.record.is_ours}
    return len(budgets) <= 1 and (all(run.record.is_ours for run in runs) or are_alike_long(runs))


def are_alike_long(runs: Sequence[MeasuredRun]) -> bool:
    """Whether the steps of the longest run are at most `LENGTHS_ALIKE` times those of the shortest."""
    steps = [run.measures.steps for run in runs]
    return max(steps) <= LENGTHS_ALIKE * min(steps)
