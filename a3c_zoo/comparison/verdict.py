"""The verdict of a report: its conclusions, one sentence each, which say no more than the figures do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from a3c_zoo.comparison import decisions
from a3c_zoo.comparison.claims import ERROR, Claim, needs, percent
from a3c_zoo.comparison.improvement import EarlierChance
from a3c_zoo.comparison.known_runs import counted, listed
from a3c_zoo.comparison.pages import number, ranged, seconds
from a3c_zoo.comparison.reading import RunRecord, hidden_threshold
from a3c_zoo.comparison.results import DURATIONS, FINAL, MethodResults, Results
from a3c_zoo.comparison.statistics import CONFIDENCE
from a3c_zoo.records import score

NO_DIFFERENCE = "; these runs show no difference"
#: Runs of other programs are as long as each other if the longest has at most so many times the steps of the shortest.
LENGTHS_ALIKE = 1.1
#: How sentences begin that are about all environments together.
EVERYWHERE = "All environments"
THEIR_EVALUATIONS = (
    "Runs of other programs: the evaluations that their evaluations.npz has, from training, on seeds of their own. The "
    "file does not say with which actions; they count as RL Zoo plays, sampled on Atari games and MiniGrid, greedy on "
    "all others."
)
TRAINING_ONLY = (
    "Runs of other programs without evaluations.npz: their curves are training returns, and nothing here sets these "
    "against evaluations."
)


def verdict(results: Results) -> list[str]:
    """The conclusions, one sentence each. The warning about few seeds comes first."""
    lines = [results.caution] if results.caution else []
    if results.left_out:
        lines.append(
            f"Left out: {', '.join(results.left_out)}. The reasons are below; all else is of the other runs alone."
        )
    lines += notes(results)
    lines += decisions.sentences(results.decided) if results.decided else []
    for env, found in results.environments.items():
        for name, method in found.methods.items():
            lines += _about_method(env, name, method, found.threshold, not results.no_seconds)
    lines += [_about_claim(claim, len(results.claims)) for claim in results.claims]
    return [*lines, *_about_claims(results)]


def notes(results: Results) -> list[str]:
    """Differences and gaps that make runs hard to compare, one sentence each."""
    unplayed = [
        run.measures.run
        for run in results.runs
        if run.measures.final_return is None and run.measures.final_return_greedy is None
    ]
    found = [_about_lost(results, env, name, lost) for (env, name), lost in results.lost.items()]
    if unplayed:
        found.append(f"Not evaluated, or not to the end: {', '.join(unplayed)}. Their returns are missing.")
    if any(run.record.evaluations and not run.record.is_ours for run in results.runs):
        found.append(THEIR_EVALUATIONS)
    if any(not (run.record.evaluations or run.record.is_ours) for run in results.runs):
        found.append(TRAINING_ONLY)
    found += filter(None, dict.fromkeys(hidden_threshold(run.record) for run in results.runs))
    found += [
        f"{env}: the runs of {name} do not have the same settings; see below."
        for env, each in results.environments.items()
        for name, method in each.methods.items()
        if any(_settings_of(run.record) != _settings_of(method.runs[0].record) for run in method.runs)
    ]
    found += _about_budgets(results) + _about_lengths(results)
    if len(results.machines) > 1:
        found.append(f"The runs were made on different machines: {listed(results.machines)}.")
    found += results.making.engine_notes if results.making else ()
    if results.no_seconds:
        found.append(f"Nothing is said here of seconds and speed, because {results.no_seconds}.")
    return found


def _settings_of(record: RunRecord) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """The settings of a run of a3c-zoo, and those of another program's that tells them, both without the seed."""
    return record.settings_but_seed, record.their_settings


def _about_lost(results: Results, env: str, name: str, lost: int) -> str:
    """What the runs that failed mean for the figures: the others are no sample of the method's runs."""
    each, there = results.environments.get(env), f"there{' and over all environments' * (results.overall is not None)}"
    method = each.methods.get(name) if each else None
    if each is None or method is None:
        failed = f"{counted(lost, 'runs')} of {name} failed, and none has figures"
        return f"{env}: {failed}, so nothing is claimed of {name} {there}."
    text = f"{env}: {lost} of {lost + len(method.runs)} runs of {name} failed; "
    if method.times:
        text += f"they count as runs that never reached {each.threshold:g}, the other figures are without them"
    else:
        text += "the figures are of the others alone"
    return f"{text}." if results.decided else f"{text}, so nothing is claimed of {name} {there}."


def _about_budgets(results: Results) -> list[str]:
    """A sentence for each environment whose methods had different budgets. Runs of other programs tell none."""
    found = []
    for env, each in results.environments.items():
        budgets: dict[str, dict[str, None]] = {}  # method → its budgets in words, in order
        for name, method in each.methods.items():
            for record in (run.record for run in method.runs if run.record.is_ours):
                budgets.setdefault(name, {})[_budget_of(record)] = None
        if len({frozenset(words) for words in budgets.values()}) > 1:
            told = "; ".join(f"{name}: {' or '.join(words)}" for name, words in budgets.items())
            found.append(f"{env}: methods had different budgets ({told}), which alone can make a difference.")
    return found


def _about_lengths(results: Results) -> list[str]:
    """A sentence for each environment with runs of other programs, whose budgets nobody tells, of different lengths."""
    found = []
    for env, each in results.environments.items():
        steps = {name: [run.measures.steps for run in method.runs] for name, method in each.methods.items()}
        of_all = [count for counts in steps.values() for count in counts]
        is_ours = all(run.record.is_ours for method in each.methods.values() for run in method.runs)
        if not is_ours and max(of_all) > LENGTHS_ALIKE * min(of_all):
            told = "; ".join(
                f"{name}: {min(counts):,}{f' to {max(counts):,}' * (min(counts) < max(counts))} steps"
                for name, counts in steps.items()
            )
            found.append(f"{env}: the runs have different lengths ({told}), which alone can make a difference.")
    return found


def common_budget(results: Results) -> str:
    """The budget of all runs, in words; "budget not known" if some are of other programs, which do not tell theirs."""
    budgets = {_budget_of(run.record) for run in results.runs if run.record.is_ours}
    if len(budgets) > 1:
        return "different budgets"
    return budgets.pop() if all(run.record.is_ours for run in results.runs) else "budget not known"


def _budget_of(record: RunRecord) -> str:
    """The budget of a run of a3c-zoo, in words."""
    steps, episodes, limit_s = (record.settings.get(f"run.{key}") for key in ("steps", "episodes", "time_limit_s"))
    words = [f"{steps:,} steps" if steps else "", f"{episodes:,} episodes" if episodes else ""]
    words.append(f"{limit_s:,g} s of training" if limit_s else "")
    return " and ".join(filter(None, words)) or "no budget"


def _about_method(env: str, name: str, method: MethodResults, threshold: float | None, in_seconds: bool) -> list[str]:
    parts = []
    if key := next(filter(method.scores.__contains__, FINAL), None):
        final = method.scores[key]["interquartile_mean"]
        parts.append(f"ended with an interquartile mean return of {ranged(*final, show=score)}{FINAL[key]}")
    if threshold is not None and method.times:
        time, steps = method.times["seconds_to_threshold"], method.times["steps_to_threshold"]
        text = f"reached {threshold:g} in training in {time.reached} of {time.runs} runs"
        if time.reached:
            text += f" (so, at {percent(CONFIDENCE)} confidence, with a chance of at least {percent(time.at_least)})"
        if in_seconds and time.median is not None:
            text += f", half of all runs within {seconds(time.median)}"
        elif steps.median is not None:
            text += f", half of all runs within {number(steps.median)} steps"
        parts.append(text)
    if in_seconds and "steps_per_s" in method.costs:
        parts.append(f"made {number(method.costs['steps_per_s'].median)} steps/s")
    return [f"{env}: {name} {listed(parts)}."] if parts else []


def _about_claim(claim: Claim, count: int) -> str:
    """One sentence on a question of the report: the figure, its interval, and what the report claims."""
    question = claim.question
    chance, env = question.chance, question.env or EVERYWHERE
    if isinstance(chance, EarlierChance):
        what = f"reaches the threshold {DURATIONS[question.measure][1]}"
        if chance.unknown == 1:
            return f"{env}: no pair of runs tells whether {question.method} or {question.other} {what}."
    else:
        what = f"ends with a higher {'return' if question.env else 'score'}{FINAL[question.measure]}"
    text = f"{env}: a run of {question.method} {what} than a run of {question.other} with probability "
    text += ranged(chance.value, chance.low, chance.high)
    if isinstance(chance, EarlierChance) and chance.unknown:
        text += f"; for {percent(chance.unknown)} of the pairs the order is unknown, and they count half"
    if claim.holds:
        return f"{text}; shown (p = {percent(claim.p_of_all)} over all claims)."
    if chance.p <= ERROR < question.p:
        return f"{text}{NO_DIFFERENCE}, because it depends on these pairs."
    if question.p <= claim.limit:
        text += f"; alone this would count (p = {percent(question.p)}), as one of {count} claims it does not"
    elif question.p <= ERROR:
        text += f"; with {min(question.seeds)} seeds p must be at most {percent(claim.limit)}"
    return f"{text}{NO_DIFFERENCE} (p = {percent(claim.p_of_all)} over all claims)."


def _about_claims(results: Results) -> list[str]:
    """How the claims hold their error, and what they need with few seeds."""
    if not results.claims:
        return []
    count, most = len(results.claims), percent(ERROR)
    rule = f"The probability that this claim is wrong is at most {most} (permutation test)."
    if count > 1:
        rule = f"The probability that any of these {count} claims is wrong is at most {most} (permutation tests, Holm)."
    return list(filter(None, [rule, needs(results.claims)]))
