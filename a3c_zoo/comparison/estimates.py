"""How long a comparison will train, and which shorter comparisons are possible, in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from a3c_zoo.comparison.plan import Plan, PlannedRun, side_by_side_s
from a3c_zoo.comparison.rehearsal import Rehearsal, Rehearsals
from a3c_zoo.words import counted, listed

#: Above this estimate, shorter comparisons are proposed, in seconds.
LONG_S: Final = 3600.0
#: The seeds of a proposal, unless the comparison has more: this is how many three questions about a pair need.
SEEDS: Final = 7
#: A proposal's share of the steps, and its time limits in seconds, the longest first.
SHARE: Final = 10
TIME_LIMITS: Final = {"1h": 3600.0, "10m": 600.0, "1m": 60.0}


def estimate(plan: Plan, rehearsals: Rehearsals, slots: int = 1, is_most: bool = False) -> str:
    """How long the missing runs train, `slots` of them at once, and options with which they would take less.

    Args:
        rehearsals: the rehearsal of each method.
        is_most: whether fewer runs may do, as with `--until-decided`.
    """
    missing = plan.missing
    guess_s = plan.guess_s(slots)
    about = "more than" if plan.unknown else "about"
    at_most = " at most" if is_most else ""
    text = f"{counted(len(missing), 'runs')}{at_most}, {about} {rough_duration(guess_s)} of training"
    if plan.unknown:
        text += f" (the speed of {listed(plan.unknown)} is not known)"
    elif guess_s > LONG_S and all((run.env, run.method) in rehearsals for run in plan.runs):
        text = "; ".join([text, *_proposals(plan, rehearsals, slots, guess_s)])
    return text


def evaluations_estimate(plan: Plan, rehearsals: Rehearsals, episodes: int, is_most: bool = False) -> str:
    """How long the evaluations of the missing runs take; "" if no method among them was rehearsed.

    is_most: see `estimate`.
    """
    methods = ((run.env, run.method) for run in plan.missing)
    rehearsed = [rehearsals[method] for method in methods if method in rehearsals]
    if not rehearsed:
        return ""
    whole_s = sum(rehearsal.evaluation_s(episodes) for rehearsal in rehearsed)
    about = "at most" if is_most else "about"
    return f"evaluations come on top: {about} {rough_duration(whole_s)}, {if_episodes_last(rehearsed)}"


def if_episodes_last(rehearsals: Iterable[Rehearsal]) -> str:
    """The condition of an estimate: `if an episode lasts 1,000 steps`."""
    lengths = sorted({rehearsal.episode_steps for rehearsal in rehearsals})
    if len(lengths) == 1:
        return f"if an episode lasts {counted(lengths[0], 'steps')}"
    return f"if episodes last {lengths[0]:,} to {lengths[-1]:,} steps"


def rough_duration(seconds: float) -> str:
    """A duration with as many digits as an estimate has: `40 s`, `12 min`, `2 h 50 min`, `27 h`."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    tens = round(seconds / 600)
    if tens >= 60:
        return f"{round(seconds / 3600):,} h"
    hours, rest = divmod(tens, 6)
    if rest:
        return f"{hours} h {rest * 10} min"
    return f"{hours} h"


def _proposals(plan: Plan, rehearsals: Rehearsals, slots: int, guess_s: float) -> list[str]:
    """Shorter comparisons of the same methods, with their estimates: fewer steps, and a limit of time."""
    seeds = len({run.seed for run in plan.runs})
    methods = list({(run.env, run.method): run for run in plan.runs}.values())
    proposals: dict[str, float] = {}
    if steps := _fewer_steps(methods):
        more = max(seeds, SEEDS)
        options = f"--steps {steps}" + (f" --seeds {more}" if more != seeds else "")
        proposals[f"`{options}`"] = _total_s(methods, rehearsals, steps, None, more, slots)
    for text, limit_s in TIME_LIMITS.items():
        total_s = _total_s(methods, rehearsals, None, limit_s, seeds, slots)
        if total_s < guess_s / 2:
            instead = " in place of `--steps`" if plan.has_steps else ""
            proposals[f"`--time-limit {text}`{instead}"] = total_s
            break
    return [f"{options}: {rough_duration(total)}" for options, total in proposals.items() if total < guess_s]


def _fewer_steps(methods: list[PlannedRun]) -> int | None:
    """A tenth of the smallest budget, with one digit; None if a budget is in seconds, or a method needs more."""
    budgets = [run.budget.steps for run in methods]
    if None in budgets:
        return None
    steps = int(float(f"{min(each for each in budgets if each) / SHARE:.1g}"))
    if steps >= SHARE * max(run.config.rollout_steps for run in methods):
        return steps
    return None


def _total_s(
    methods: list[PlannedRun],
    rehearsals: Rehearsals,
    steps: int | None,
    limit_s: float | None,
    seeds: int,
    slots: int,
) -> float:
    """How long the runs of the rehearsed methods would take with another budget."""
    rehearsed = [rehearsals[run.env, run.method] for run in methods if (run.env, run.method) in rehearsals]
    times_s = [rehearsal.guess_s(steps, limit_s) for rehearsal in rehearsed]
    known_s = [time_s for time_s in times_s if time_s is not None]
    return side_by_side_s(known_s * seeds, slots)
