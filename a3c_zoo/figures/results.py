"""The results of several runs together: the record behind results.json and behind the report."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from a3c_zoo.figures import claims, statistics
from a3c_zoo.figures.budgets import have_one_budget, processors_of
from a3c_zoo.figures.claims import Claim, Question
from a3c_zoo.figures.decisions import Decisions
from a3c_zoo.figures.durations import MeanDifference, TimeToThreshold, mean_difference, time_to_threshold
from a3c_zoo.figures.figure_table import COSTS, FIGURES, FINAL_RETURNS, QUESTIONS, SCORES, TIMES, Figure
from a3c_zoo.figures.improvement import Chance, EarlierChance, earlier, improvement
from a3c_zoo.figures.measures import (
    MeasuredRun,
    SettingRow,
    durations_of,
    machine_of,
    settings_side_by_side,
    values_of,
)
from a3c_zoo.figures.sequential import Pair
from a3c_zoo.figures.statistics import Estimate, Floats
from a3c_zoo.store.run_records import score_range_of, threshold_of
from a3c_zoo.words import return_text

#: If the fixed loop's longest time is more than this many times its shortest, a report claims nothing about seconds.
NOISE_LIMIT: Final = 1.5
#: What scores over several environments are, if an environment has no range of its own.
RUNS_SCALE: Final = "0 and 1: the worst and the best final return of all runs on an environment"


class Spread(NamedTuple):
    """Median and range of a figure over runs."""

    median: float
    min: float
    max: float


@dataclass(frozen=True, slots=True)
class MethodResults:
    """The runs of a method on an environment, by seed, and their figures by the names of the measures."""

    runs: tuple[MeasuredRun, ...]
    scores: Mapping[str, Mapping[str, Estimate]]
    costs: Mapping[str, Spread]
    times: Mapping[str, TimeToThreshold]


@dataclass(frozen=True, slots=True)
class PairResults:
    """Two methods, by the names of the measures.

    Attributes:
        scores, times: the probabilities that a run of `method` is better than a run of `other`.
        differences: of the interquartile means of scores, and of the restricted means of times.
    """

    method: str
    other: str
    scores: Mapping[str, Chance]
    times: Mapping[str, EarlierChance]
    differences: Mapping[str, Estimate | MeanDifference]

    @property
    def chances(self) -> dict[str, Chance | EarlierChance]:
        """All probabilities."""
        return {**self.times, **self.scores}

    @property
    def asked(self) -> dict[str, Chance | EarlierChance]:
        """What a verdict asks about: which method reaches the threshold earlier, and which ends with more."""
        final = final_return_in(self.scores)
        return {
            name: chance
            for name, chance in self.chances.items()
            if name in self.times or (final is not None and name == final.name)
        }


@dataclass(frozen=True, slots=True)
class EnvironmentResults:
    """An environment: its threshold, its methods by name, every pair of them, and their settings side by side.

    Attributes:
        score_range: the returns that count as 0 and as 1 over several environments; None if it has none of its own.
    """

    threshold: float | None
    score_range: tuple[float, float] | None
    methods: Mapping[str, MethodResults]
    pairs: tuple[PairResults, ...]
    settings: tuple[SettingRow, ...]


@dataclass(frozen=True, slots=True)
class OverallResults:
    """Several environments on one scale.

    Attributes:
        scale: what 0 and 1 are, in words.
        scores: method → final returns `[seeds, environments]` on this scale, NaN for a missing run; only methods that
            have runs on every environment.
        methods: method → every statistic of these scores.
    """

    scale: str
    scores: Mapping[str, Floats]
    methods: Mapping[str, Mapping[str, Estimate]]
    pairs: tuple[PairResults, ...]


@dataclass(frozen=True, slots=True)
class Making:
    """How the runs of a comparison were made.

    Attributes:
        schedules: the rule for the lengths of schedules, in words. slots: how many trained at once, at most.
        tuning: environment → method → the cost of finding its set, if the set has it; a text if it was not counted.
        engine_notes: see `Engine.notes`.
        missing: environment → method → how many of its runs are still to come; empty for a finished comparison.
        plan: a digest of all planned runs.
    """

    schedules: str = ""
    slots: int = 1
    tuning: Mapping[str, Mapping[str, Mapping[str, int] | str]] = field(default_factory=dict)
    engine_notes: tuple[str, ...] = ()
    missing: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    plan: str = ""


@dataclass(frozen=True, slots=True)
class Results:
    """Everything that a comparison found.

    Attributes:
        runs: in the order in which they were read. left_out: run → reason.
        making: None for runs that were not made for this comparison.
        overall: None for a single environment.
        machine: what the runs were made with: name → its values, more than one if runs differ.
        calibration: seconds of the fixed loop before the runs; None if no run has such a time.
        decided: what a comparison with a rule has decided; None without a rule.
        claims: of all questions that were asked, see `unasked`; none if a rule has decided.
        lost: (environment, method) → how many of its runs have no figures; they are in no other figure than `times`.
        question: the main question, which the user named: a key of `QUESTIONS`; "" for none.
        unasked: pairs and measures about which nothing is asked, and why, one sentence each.
        seen: (environment, method, other) → the report that looked at runs of both before; they make no claims.
        chosen_by: the options that chose runs by how they ended; "" if none did. Such runs are no sample.
    """

    runs: tuple[MeasuredRun, ...]
    left_out: Mapping[str, str]
    making: Making | None
    environments: Mapping[str, EnvironmentResults]
    overall: OverallResults | None
    machine: Mapping[str, Sequence[str]]
    calibration: Spread | None
    decided: Decisions | None = None
    claims: tuple[Claim, ...] = ()
    lost: Mapping[tuple[str, str], int] = field(default_factory=dict)
    question: str = ""
    unasked: tuple[str, ...] = ()
    seen: Mapping[Pair, str] = field(default_factory=dict)
    chosen_by: str = ""

    @property
    def methods(self) -> list[str]:
        """All methods, in the order in which they are shown."""
        return _methods(self.environments)

    @property
    def caution(self) -> str | None:
        """The warning about few seeds; None if all methods have enough in every environment that has them."""
        return statistics.caution(
            {
                env: {name: len(method.runs) for name, method in in_env.methods.items()}
                for env, in_env in self.environments.items()
            }
        )

    @property
    def machines(self) -> list[str]:
        """The processors that the runs were made on."""
        return processors_of(run.record for run in self.runs)

    @property
    def no_seconds(self) -> str:
        """Why the report claims nothing about seconds; "" if it may."""
        if len(self.machines) > 1:
            return "the runs were made on different machines"
        loop = self.calibration
        if loop is not None and loop.max > NOISE_LIMIT * loop.min:
            times = loop.max / loop.min
            limit = f"the limit is {NOISE_LIMIT:g} times"
            return f"the fixed loop took up to {times:.2f} times its shortest time, and {limit}"
        if not all(run.record.is_ours for run in self.runs):
            return "the machine of the other programs' runs is not known"
        untimed = sum(run.measures.calibration_s is None for run in self.runs)
        if untimed:
            if untimed < len(self.runs):
                before = f"{untimed} of the {len(self.runs)} runs"
            else:
                before = "these runs"
            return f"no fixed loop was timed before {before}: `a3c-zoo compare` times one before each run that it makes"
        return ""

    @property
    def shown_runs(self) -> list[MeasuredRun]:
        """All runs in the order in which they are shown: by environment, method and seed."""
        return [
            run
            for env in self.environments.values()
            for method in env.methods.values()
            for run in method.runs
        ]

    @property
    def episodes(self) -> list[int]:
        """The numbers of episodes that evaluations of these runs had, rising."""
        return sorted({played.evaluation.episodes for run in self.runs for played in run.record.evaluations})


def results_of(
    runs: Sequence[MeasuredRun],
    left_out: Mapping[str, str],
    making: Making | None = None,
    decided: Decisions | None = None,
    lost: Mapping[tuple[str, str], int] = MappingProxyType({}),
    question: str = "",
    chosen_by: str = "",
) -> Results:
    """Computes the results of runs. left_out: run → reason. The others: see `Results`."""
    records = [run.record for run in runs]
    names = list(dict.fromkeys(record.method for record in records))
    envs = dict.fromkeys(record.env for record in records)
    environments = {env: _environment(runs, env, names, lost) for env in envs}
    seconds = values_of(runs, "calibration_s")
    results = Results(
        runs=tuple(runs),
        left_out=left_out,
        making=making,
        environments=environments,
        overall=_overall(environments) if len(environments) > 1 else None,
        machine=machine_of(records),
        calibration=_spread(seconds) if len(seconds) else None,
        decided=decided,
        lost=lost,
        question=question,
        chosen_by=chosen_by,
    )
    return with_claims(results)


def with_claims(results: Results) -> Results:
    """The same results with the claims that they allow; without any if a rule has decided, or if runs are to come."""
    if results.decided is not None or (results.making is not None and results.making.missing):
        return results
    asked, unasked = _questions(results)
    main = QUESTIONS[results.question] if results.question else ()
    return replace(results, claims=claims.claims_of(asked, main), unasked=tuple(unasked))


def _questions(results: Results) -> tuple[list[Question], list[str]]:
    """Everything that the verdict asks, of each pair in each environment, and over all environments.

    Returns:
        The questions; and why others are not asked, one sentence each.
    """
    if results.chosen_by:
        return [], [_why_no_sample(results.chosen_by)]
    questions = list[Question]()
    unasked = dict[str, None]()
    # Methods whose runs are no sample, each with its environment.
    silent = {(env, name) for env, name in results.lost}
    # Pairs of methods of which nothing is asked in some environment.
    barred = set[tuple[str, str]]()
    for env, in_env in results.environments.items():
        for name, method in in_env.methods.items():
            if lacking := _without_final_return(method.runs):
                silent.add((env, name))
                runs = f"{lacking} of {len(method.runs)} runs of {name}"
                unasked[f"{env}: {runs} have no final return, so nothing is claimed about {name} there."] = (
                    None
                )
        for pair in in_env.pairs:
            names = pair.method, pair.other
            both = [in_env.methods[name].runs for name in names]
            sizes = len(both[0]), len(both[1])
            is_seen = Pair(env, *names) in results.seen  # a report looked at it before
            if min(sizes) < statistics.MIN_SEEDS or is_seen or not have_one_budget([*both[0], *both[1]]):
                barred.add(names)
                continue
            if silent & {(env, name) for name in names}:
                continue
            for measure, chance in pair.asked.items():
                if measure == "seconds_to_threshold" and results.no_seconds:
                    continue
                if why := _why_unasked(measure, *both):
                    unasked[f"{env}: {why.format(*names)}."] = None
                    continue
                questions.append(Question(env, measure, *names, chance, sizes, min(sizes)))
    if results.overall is not None:
        for pair in results.overall.pairs:
            names = pair.method, pair.other
            if names not in barred and not any(name in names for _, name in silent):
                questions.append(_question_over_all(results.overall, pair))
    return questions, list(unasked)


def _why_no_sample(options: str) -> str:
    return (
        f"Nothing is claimed, because {options} chose the runs by how they ended: they are no sample of the runs of "
        f"their methods. Leave out {options} for a report with claims."
    )


def _question_over_all(overall: OverallResults, pair: PairResults) -> Question:
    counts = [(~np.isnan(overall.scores[name])).sum(axis=0) for name in (pair.method, pair.other)]
    fewest = int(counts[0].min()), int(counts[1].min())
    tosses = int(min(counted_runs.sum() for counted_runs in counts))
    return Question(
        None, "final_return", pair.method, pair.other, pair.scores["final_return"], fewest, tosses
    )


def _without_final_return(runs: Sequence[MeasuredRun]) -> int:
    """How many runs of a method have no final return though others have one: those that have are no sample."""
    counts = [len(values_of(runs, figure.name)) for figure in FINAL_RETURNS]
    has = max(counts)
    return len(runs) - has if has else 0


def _why_unasked(measure: str, runs: Sequence[MeasuredRun], others: Sequence[MeasuredRun]) -> str:
    """Why no seed could answer a question, as words with two places for the methods; "" if it is asked.

    A question that is not asked costs the others nothing. The reasons are about all runs of both methods together, so
    they do not depend on which method is better: Tarone 1990, "A modified Bonferroni method for discrete data".
    """
    both = [*runs, *others]
    values = values_of(both, measure)
    if FIGURES[measure].kind == "time":
        if not len(values):
            return "no run of {} or {} reached the threshold, so nothing is asked about it"
        if len(values) == len(both) and not np.ptp(values):
            return f"all runs of {{}} and {{}} reached the threshold after {values[0]:,.10g} {FIGURES[measure].unit}"
        return ""
    if np.ptp(values):
        return ""
    return f"all runs of {{}} and {{}} ended with a return of {return_text(values[0])}"


def _environment(
    runs: Sequence[MeasuredRun], env: str, names: Sequence[str], lost: Mapping[tuple[str, str], int]
) -> EnvironmentResults:
    here = [run for run in runs if run.measures.env == env]
    threshold = threshold_of(here[0].record)
    by_method = {name: [run for run in here if run.measures.method == name] for name in names}
    methods = {
        name: _method(its_runs, threshold, lost.get((env, name), 0))
        for name, its_runs in by_method.items()
        if its_runs
    }
    return EnvironmentResults(
        threshold,
        score_range_of(here[0].record),
        methods,
        tuple(_pair(methods, *pair) for pair in itertools.combinations(methods, 2)),
        tuple(settings_side_by_side([run.record for run in here])),
    )


def _method(its_runs: Iterable[MeasuredRun], threshold: float | None, lost: int) -> MethodResults:
    runs = tuple(sorted(its_runs, key=lambda run: run.measures.seed or 0))
    scores = {figure.name: values_of(runs, figure.name) for figure in SCORES}
    costs = {figure.name: values_of(runs, figure.name) for figure in COSTS}
    has_times = threshold is not None and not any(run.record.is_smoothed for run in runs)
    return MethodResults(
        runs,
        {name: statistics.estimates(values[:, None]) for name, values in scores.items() if len(values)},
        {name: _spread(values) for name, values in costs.items() if len(values)},
        _times(runs, lost) if has_times else {},
    )


def _times(runs: Sequence[MeasuredRun], lost: int) -> dict[str, TimeToThreshold]:
    known = [time for time in TIMES if all(getattr(run.measures, time.end) is not None for run in runs)]
    return {time.name: time_to_threshold(durations_of(runs, time), lost) for time in known}


def _spread(values: Floats) -> Spread:
    return Spread(float(np.median(values)), float(values.min()), float(values.max()))


def _pair(methods: Mapping[str, MethodResults], method: str, other: str) -> PairResults:
    runs, others = methods[method].runs, methods[other].runs
    scores = {}
    times = {}
    differences: dict[str, Estimate | MeanDifference] = {}
    for name in (figure.name for figure in SCORES):
        if _is_comparable(name, runs, others):
            mine, theirs = values_of(runs, name)[:, None], values_of(others, name)[:, None]
            scores[name] = improvement(mine, theirs)
            differences[name] = statistics.difference(mine, theirs)
    if methods[method].times and methods[other].times:
        for time in (figure for figure in TIMES if figure.question):
            both = durations_of(runs, time), durations_of(others, time)
            times[time.name] = earlier(*both)
            differences[time.name] = mean_difference(*both)
    return PairResults(method, other, scores, times, differences)


def _is_comparable(name: str, runs: Sequence[MeasuredRun], others: Sequence[MeasuredRun]) -> bool:
    """If both methods have five runs or more, a score that fewer than five runs of a method have is left out."""
    needed = min(statistics.MIN_SEEDS, len(runs), len(others))
    return min(len(values_of(of_method, name)) for of_method in (runs, others)) >= needed


def final_return_in(figures: Container[str]) -> Figure | None:
    """The best final return among figures by name; None if there is none."""
    return next((figure for figure in FINAL_RETURNS if figure.name in figures), None)


def _methods(environments: Mapping[str, EnvironmentResults]) -> list[str]:
    return list(dict.fromkeys(name for in_env in environments.values() for name in in_env.methods))


def _overall(environments: Mapping[str, EnvironmentResults]) -> OverallResults:
    name = "final_return"
    returns = {
        env: {method: values_of(results.runs, name) for method, results in in_env.methods.items()}
        for env, in_env in environments.items()
    }
    own = {env: in_env.score_range for env, in_env in environments.items() if in_env.score_range is not None}
    has_own_scale = len(own) == len(environments)
    if has_own_scale:
        ranges = own
    else:
        ranges = {env: statistics.range_of(by_method.values()) for env, by_method in returns.items()}
    scores: dict[str, Floats] = {}
    for method in _methods(environments):
        of_method = [by_method.get(method, np.empty(0)) for by_method in returns.values()]
        matrix = statistics.on_one_scale(of_method, list(ranges.values()))
        if matrix is not None:
            scores[method] = matrix
    pairs = []
    for one, other in itertools.combinations(scores, 2):
        of_environments = (in_env.methods for in_env in environments.values())
        if not all(
            _is_comparable(name, methods[one].runs, methods[other].runs) for methods in of_environments
        ):
            continue
        both = scores[one], scores[other]
        chance = improvement(*both)
        gap = statistics.difference(*both)
        pairs.append(PairResults(one, other, {name: chance}, {}, {name: gap}))
    more = statistics.SCALED_STATISTICS if has_own_scale else {}
    return OverallResults(
        _scale_in_words(own) if has_own_scale else RUNS_SCALE,
        scores,
        {method: statistics.estimates(matrix, more) for method, matrix in scores.items()},
        tuple(pairs),
    )


def _scale_in_words(ranges: Mapping[str, tuple[float, float]]) -> str:
    texts = (f"{return_text(low)} and {return_text(high)} on {env}" for env, (low, high) in ranges.items())
    told = f"0 and 1: returns of {', '.join(texts)}, as the environments name them"
    return f"{told}; those of Atari games are of random actions and of a human"
