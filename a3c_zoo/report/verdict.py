"""The verdict of a report: its conclusions, one sentence each, which say no more than the figures do."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from a3c_zoo.cures import DISTRIBUTION
from a3c_zoo.figures import decisions
from a3c_zoo.figures.budgets import are_alike_long, budget_of, is_time_of_other_machines
from a3c_zoo.figures.claims import ERROR, Claim, needs, percent
from a3c_zoo.figures.figure_table import FIGURES, QUESTIONS
from a3c_zoo.figures.improvement import EarlierChance
from a3c_zoo.figures.measures import values_of
from a3c_zoo.figures.results import MethodResults, Results, final_return_in
from a3c_zoo.report.pages import number, ranged, seconds
from a3c_zoo.store.run_records import RunRecord, hidden_threshold
from a3c_zoo.words import counted, listed, return_text

#: How sentences begin that are about all environments together.
EVERYWHERE = "All environments"
#: What follows from different budgets.
NOT_THERE = ", which alone can make a difference, so nothing is claimed there"
UNLIKE = f"{NOT_THERE} about methods that differ in this."
#: Settings of environments that change neither what an agent sees nor what its actions do.
ARRANGEMENT = ("env.num_envs", "env.stack")
THEIR_EVALUATIONS = (
    "Runs of other programs: their evaluations are those of evaluations.npz, made during training on seeds of their "
    "own. The file does not say whether actions were sampled or greedy. They count as RL Zoo plays: sampled on Atari "
    "games and MiniGrid, greedy on all others."
)
TRAINING_ONLY = (
    "Runs of other programs without evaluations.npz: their curves are training returns, which this report does not "
    "compare with evaluations."
)


def verdict(results: Results) -> list[str]:
    """The conclusions, one sentence each. The answer comes first: what is shown, what is not, and why nothing is."""
    lines = [*answers(results)]
    lines += [second_look(*pair, report) for pair, report in results.seen.items()]
    lines += [results.caution] if results.caution else []
    lines += [*_why_nothing_is_claimed(results), *results.unasked]
    lines += _about_claims(results)
    for env, in_env in results.environments.items():
        for name, method in in_env.methods.items():
            lines += _about_method(env, name, method, in_env.threshold, not results.no_seconds)
        if not results.no_seconds:
            lines += _about_cost(env, in_env.methods)
    if results.left_out:
        runs = ", ".join(results.left_out)
        lines.append(f'Left out: {runs}. The report says why under "Left out"; the figures are without them.')
    return [*lines, *_other_notes(results)]


def answers(results: Results) -> dict[str, bool]:
    """The first sentences of the verdict, which answer its questions → whether a difference is shown."""
    if results.decided:
        sentences = decisions.sentences(results.decided)
    else:
        sentences = {}
    ordered = sorted(results.claims, key=lambda claim: not claim.holds)
    return sentences | {_about_claim(claim): claim.holds for claim in ordered}


def notes(results: Results) -> list[str]:
    """Differences and gaps that make runs hard to compare, one sentence each."""
    return [*_why_nothing_is_claimed(results), *_other_notes(results)]


def _why_nothing_is_claimed(results: Results) -> list[str]:
    lost = [_about_lost(results, env, name, lost) for (env, name), lost in results.lost.items()]
    return [*lost, *_about_budgets(results), *_about_lengths(results)]


def _other_notes(results: Results) -> list[str]:
    unplayed = [
        run.measures.run
        for run in results.runs
        if run.measures.final_return is None and run.measures.final_return_greedy is None
    ]
    notes = []
    if unplayed:
        notes.append(f"Not evaluated, or not to the end: {', '.join(unplayed)}. Their returns are missing.")
    if any(run.record.evaluations and not run.record.is_ours for run in results.runs):
        notes.append(THEIR_EVALUATIONS)
    if any(not (run.record.evaluations or run.record.is_ours) for run in results.runs):
        notes.append(TRAINING_ONLY)
    notes += filter(None, dict.fromkeys(hidden_threshold(run.record) for run in results.runs))
    notes += [
        f"{env}: the runs of {name} do not have the same settings; see below."
        for env, in_env in results.environments.items()
        for name, method in in_env.methods.items()
        if any(_settings_of(run.record) != _settings_of(method.runs[0].record) for run in method.runs)
    ]
    notes += _about_environments(results)
    notes += _about_versions(results)
    if len(results.machines) > 1:
        notes.append(f"The runs were made on different machines: {listed(results.machines)}.")
    notes += results.making.engine_notes if results.making else ()
    if results.no_seconds:
        notes.append(f"Nothing is said here of seconds and speed, because {results.no_seconds}.")
    return notes


def _about_environments(results: Results) -> list[str]:
    """A sentence for each environment whose runs differ in its own settings: they may not do the same task."""
    sentences = []
    for env, in_env in results.environments.items():
        values: dict[str, set[str]] = {}
        for run in chain.from_iterable(method.runs for method in in_env.methods.values()):
            for key, value in run.record.settings.items():
                if key.startswith("env.") and key not in ARRANGEMENT:
                    values.setdefault(key, set()).add(repr(value))
        differ = [key for key, found in values.items() if len(found) > 1]
        if differ:
            sentences.append(
                f"{env}: the runs differ in {listed(differ)}, so a difference may come from their environments."
            )
    return sentences


def _about_versions(results: Results) -> list[str]:
    """A sentence for each environment whose runs are of different versions: the same settings may learn otherwise."""
    sentences = []
    for env, in_env in results.environments.items():
        versions: dict[str, dict[str, None]] = {}  # method → the versions of its runs, in order
        for name, method in in_env.methods.items():
            for record in (run.record for run in method.runs if run.record.is_ours):
                version = record.versions.get(DISTRIBUTION, "an unknown version")
                versions.setdefault(name, {})[version] = None
        if len(set(chain.from_iterable(versions.values()))) > 1:
            told = "; ".join(f"{name}: {listed(found)}" for name, found in versions.items())
            made = f"different versions of {DISTRIBUTION} made the runs ({told})"
            sentences.append(f"{env}: {made}, so a difference may come from these.")
    return sentences


def _settings_of(record: RunRecord) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """The settings of a run, without the seed; of another program's run, those that it has."""
    return record.settings_but_seed, record.their_settings


def _about_lost(results: Results, env: str, name: str, lost: int) -> str:
    """What the runs without figures mean for the others: these are no sample of the method's runs."""
    in_env = results.environments.get(env)
    there = "there" if results.overall is None else "there and over all environments"
    method = in_env.methods.get(name) if in_env else None
    if in_env is None or method is None:
        failed = f"{counted(lost, 'runs')} of {name} failed or cannot be read, and none has figures"
        return f"{env}: {failed}, so nothing is claimed about {name} {there}."
    text = f"{env}: {lost} of {lost + len(method.runs)} runs of {name} failed or cannot be read; "
    if method.times:
        text += f"they count as runs that never reached {in_env.threshold:g}, and the other figures are without them"
    else:
        text += "the figures are of the others alone"
    if results.decided:
        return f"{text}."
    return f"{text}, so nothing is claimed about {name} {there}."


def _about_budgets(results: Results) -> list[str]:
    """A sentence for each environment whose runs had different budgets. Runs of other programs have none."""
    sentences = []
    for env, in_env in results.environments.items():
        budgets: dict[str, dict[str, None]] = {}  # method → its budgets in words, in order
        for name, method in in_env.methods.items():
            for record in (run.record for run in method.runs if run.record.is_ours):
                budgets.setdefault(name, {})[budget_of(record)] = None
        records = [run.record for method in in_env.methods.values() for run in method.runs]
        told = "; ".join(f"{name}: {' or '.join(words)}" for name, words in budgets.items())
        if len({frozenset(words) for words in budgets.values()}) > 1:
            sentences.append(f"{env}: methods had different budgets ({told}){UNLIKE}")
        elif len(in_env.methods) > 1 and len(set(chain.from_iterable(budgets.values()))) > 1:
            sentences.append(f"{env}: the runs of each method had different budgets ({told}){NOT_THERE}.")
        elif is_time_of_other_machines(records):
            sentences.append(
                f"{env}: the budget is a time, and the runs were made on different machines{UNLIKE}"
            )
    return sentences


def _about_lengths(results: Results) -> list[str]:
    """A sentence for each environment where runs of other programs, whose budgets are not known, differ in length."""
    sentences = []
    for env, in_env in results.environments.items():
        steps = {name: [run.measures.steps for run in method.runs] for name, method in in_env.methods.items()}
        runs = [run for method in in_env.methods.values() for run in method.runs]
        if not all(run.record.is_ours for run in runs) and not are_alike_long(runs):
            told = "; ".join(
                f"{name}: {min(counts):,}{f' to {max(counts):,}' * (min(counts) < max(counts))} steps"
                for name, counts in steps.items()
            )
            sentences.append(f"{env}: the runs have different lengths ({told}){UNLIKE}")
    return sentences


def common_budget(results: Results) -> str:
    """The budget of all runs, in words; "budget not known" if some are of other programs."""
    budgets = {budget_of(run.record) for run in results.runs if run.record.is_ours}
    if len(budgets) > 1:
        return "different budgets"
    if all(run.record.is_ours for run in results.runs):
        return budgets.pop()
    return "budget not known"


def _about_method(
    env: str, name: str, method: MethodResults, threshold: float | None, in_seconds: bool
) -> list[str]:
    parts = []
    if (figure := final_return_in(method.scores)) is not None:
        final = method.scores[figure.name]["interquartile_mean"]
        parts.append(
            f"ended with an interquartile mean return of {ranged(*final, show=return_text)}{figure.actions}"
        )
    if threshold is not None and method.times:
        time = method.times["seconds_to_threshold"]
        steps = method.times["steps_to_threshold"]
        text = f"reached {threshold:g} in training in {time.reached} of {time.runs} runs"
        if in_seconds and time.median is not None:
            text += _half_within(method, "seconds_to_threshold", seconds(time.median))
        elif steps.median is not None:
            text += _half_within(method, "steps_to_threshold", f"{number(steps.median)} steps")
        parts.append(text)
    if in_seconds and "steps_per_s" in method.costs:
        parts.append(f"made {number(method.costs['steps_per_s'].median)} steps/s")
    if parts:
        return [f"{env}: {name} {listed(parts)}."]
    return []


def _half_within(method: MethodResults, measure: str, told: str) -> str:
    """The words on a median time. It is estimated if fewer than half were seen there by then: others ended before."""
    time = method.times[measure]
    there = sum(time.median is not None and value <= time.median for value in values_of(method.runs, measure))
    return f", half of all runs within {'an estimated ' if 2 * there < time.runs else ''}{told}"


def _about_cost(env: str, methods: Mapping[str, MethodResults]) -> list[str]:
    """The CPU time of a run of each method. It depends less on other load than seconds do, but on the machine."""
    known = {
        name: method.costs["cpu_s"].median for name, method in methods.items() if "cpu_s" in method.costs
    }
    if len(known) < 2:
        return []
    texts = [f"{seconds(cpu_s)} with {name}" for name, cpu_s in known.items()]
    return [f"{env}: the CPU time of a run was {listed(texts)} (medians)."]


def second_look(env: str, method: str, other: str, report: str, claimed: str = "is claimed") -> str:
    """The sentence about a pair whose runs an earlier report has looked at."""
    return (
        f"{env}: nothing {claimed} about {method} and {other}, because an earlier report looked at some of these "
        f"runs: {report}. A claim needs seeds that no report has used (--seeds), or --until-decided from the start."
    )


def _about_claim(claim: Claim) -> str:
    """One sentence on a question of the report: the figure, its interval, and what the report claims.

    The method that is ahead comes first, and the limit of p stands in the sentence.
    """
    question = claim.question
    chance = question.chance
    env = question.env or EVERYWHERE
    value = chance.value
    low = chance.low
    high = chance.high
    winner = question.method
    loser = question.other
    if value < 0.5:
        winner, loser, value = loser, winner, 1 - value
        low, high = (None if end is None else 1 - end for end in (high, low))
    if isinstance(chance, EarlierChance):
        predicate = f"reaches the threshold {FIGURES[question.measure].better}"
        if chance.unknown == 1:
            return f"{env}: not shown: no pair of runs tells whether {winner} or {loser} {predicate}."
    else:
        predicate = (
            f"ends with a higher {'return' if question.env else 'score'}{FIGURES[question.measure].actions}"
        )
    text = f"{env}: a run of {winner} {predicate} than a run of {loser} with probability {ranged(value, low, high)}; "
    if isinstance(chance, EarlierChance) and chance.unknown:
        unknown = f"for {percent(chance.unknown)} of the pairs of runs the order is unknown"
        text += f"{unknown}, and each such pair counts half; "
    worth = f"p = {percent(claim.p_of_all)}"
    if claim.is_stopped:
        worth += " with the main question"
    elif claim.among > 1:
        worth += f" over all {claim.among} claims"
    if claim.holds:
        return f"{text}shown ({worth}; the limit is {percent(ERROR)})."
    if chance.p <= ERROR < question.p:
        alone, worst = percent(chance.p), percent(question.p)
        text += f"p = {alone} alone, but {worst} if {winner} loses all these pairs; not shown "
    elif question.p <= ERROR and claim.is_stopped:
        reason = "because the claims about the main question do not all hold"
        text += f"p = {percent(question.p)} alone, but not shown, {reason} "
    elif question.p <= ERROR:
        text += f"p = {percent(question.p)} alone, but not shown after correction for {claim.among} claims "
    else:
        text += "not shown "
    return f"{text}({worth}; the limit is {percent(ERROR)})."


def _about_claims(results: Results) -> list[str]:
    """How the claims hold their error, and what the seeds at hand could have shown."""
    if not results.claims:
        return []
    lines = []
    count = len(results.claims)
    if any(claim.holds for claim in results.claims):
        wrong = "The probability that this claim is wrong"
        tests = "permutation test"
        if count > 1:
            wrong = f"The probability that any of these {count} claims is wrong"
            tests = "permutation tests, Holm"
        lines.append(f"{wrong} is at most about {percent(ERROR)} ({tests}).")
    main = QUESTIONS.get(results.question, ())
    if main and not any(claim.question.measure in main for claim in results.claims):
        lines.append(f"Nothing could be asked about the main question ({results.question}).")
    elif main and count > 1:
        lines.append(
            f"The main question ({results.question}) came first; others are claimed only if all its claims hold."
        )
    return [*lines, needs(results.claims, bool(main))]
