"""The results of several runs together: the record behind results.json and behind the report."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from a3c_zoo.comparison import decisions, statistics
from a3c_zoo.comparison.decisions import Decisions
from a3c_zoo.comparison.measures import UNITS, MeasuredRun, SettingRow, machine_of, settings_side_by_side
from a3c_zoo.comparison.reading import threshold_of
from a3c_zoo.comparison.statistics import Durations, EarlierChance, Estimate, Floats, TimeToThreshold

#: Rises when the meaning of a key of results.json changes.
RESULTS_FORMAT: Final = 1
#: Fields of `Measures` of which every statistic is computed → their titles in tables, of one method and of two.
SCORES: Final[Mapping[str, tuple[str, str]]] = {
    "final_return": ("at the end, sampled actions", "higher final return"),
    "final_return_greedy": ("at the end, greedy actions", "higher final return, greedy"),
    "mean_return": ("mean of the curve", "higher mean of the curve"),
}
#: Fields of `Measures` of which the median and the range are computed → their titles in tables.
COSTS: Final[Mapping[str, str]] = {
    "steps_per_s": "steps/s",
    "training_s": "training",
    "total_s": "with start-up",
    "cpu_s": "CPU time",
    "peak_memory_mib": "peak memory, MiB",
}
#: Field of `Measures` with a time to the threshold → the field with the run's end in the same unit, and how an earlier
#: run reaches the threshold, in words.
DURATIONS: Final[Mapping[str, tuple[str, str]]] = {
    "seconds_to_threshold": ("training_s", "in less time"),
    "steps_to_threshold": ("steps", "in fewer steps"),
}
SCALE: Final = "0 and 1: the worst and the best final return of all runs on an environment"


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
    """The probabilities that a run of `method` is better than a run of `other`, by the names of the measures."""

    method: str
    other: str
    scores: Mapping[str, Estimate]
    times: Mapping[str, EarlierChance]


@dataclass(frozen=True, slots=True)
class EnvironmentResults:
    """An environment: its threshold, its methods by name, every pair of them, and their settings side by side."""

    threshold: float | None
    methods: Mapping[str, MethodResults]
    pairs: tuple[PairResults, ...]
    settings: tuple[SettingRow, ...]


@dataclass(frozen=True, slots=True)
class OverallResults:
    """Several environments on one scale, see `SCALE`.

    Attributes:
        scores: method → final returns `[seeds, environments]` from 0 to 1, NaN for a missing run; only methods that
            have runs on every environment.
        methods: method → every statistic of these scores.
    """

    scores: Mapping[str, Floats]
    methods: Mapping[str, Mapping[str, Estimate]]
    pairs: tuple[PairResults, ...]


@dataclass(frozen=True, slots=True)
class Results:
    """Everything that a comparison found.

    Attributes:
        runs: in the order in which they were read. left_out: run → reason.
        as_found: the runs were not made for this comparison.
        overall: None for a single environment.
        machine: what the runs were made with: name → its values, more than one if runs differ.
        calibration: seconds of the fixed loop before the runs; None if no run has such a time.
        decided: what a comparison with a rule has decided; None for one without.
    """

    runs: tuple[MeasuredRun, ...]
    left_out: Mapping[str, str]
    as_found: bool
    environments: Mapping[str, EnvironmentResults]
    overall: OverallResults | None
    machine: Mapping[str, Sequence[str]]
    calibration: Spread | None
    decided: Decisions | None = None

    @property
    def methods(self) -> list[str]:
        """All methods, in the order in which they are shown."""
        return _methods(self.environments)

    @property
    def caution(self) -> str | None:
        """The warning about few seeds; None if all methods have enough in every environment."""
        environments = [each.methods for each in self.environments.values()]
        counts = {name: [len(each[name].runs) if name in each else 0 for each in environments] for name in self.methods}
        return statistics.caution({name: min(each) for name, each in counts.items()})

    @property
    def shown_runs(self) -> list[MeasuredRun]:
        """All runs in the order in which they are shown: by environment, method and seed."""
        return [run for env in self.environments.values() for method in env.methods.values() for run in method.runs]

    @property
    def episodes(self) -> list[int]:
        """The numbers of episodes that evaluations of these runs had, rising."""
        return sorted({played.evaluation.episodes for run in self.runs for played in run.record.evaluations})


def results_of(
    runs: Sequence[MeasuredRun],
    left_out: Mapping[str, str],
    as_found: bool = False,
    decided: Decisions | None = None,
) -> Results:
    """Computes the results of runs. left_out: run → reason. as_found, decided: see `Results`."""
    records = [each.record for each in runs]
    names = list(dict.fromkeys(record.method for record in records))
    environments = {env: _environment(runs, env, names) for env in dict.fromkeys(record.env for record in records)}
    seconds = values_of(runs, "calibration_s")
    return Results(
        runs=tuple(runs),
        left_out=left_out,
        as_found=as_found,
        environments=environments,
        overall=_overall(environments) if len(environments) > 1 else None,
        machine=machine_of(records),
        calibration=_spread(seconds) if len(seconds) else None,
        decided=decided,
    )


def _environment(runs: Sequence[MeasuredRun], env: str, names: Sequence[str]) -> EnvironmentResults:
    here = [each for each in runs if each.measures.env == env]
    threshold = threshold_of(here[0].record)
    by_method = {name: [each for each in here if each.measures.method == name] for name in names}
    methods = {name: _method(found, threshold) for name, found in by_method.items() if found}
    return EnvironmentResults(
        threshold,
        methods,
        tuple(_pair(methods, *pair) for pair in itertools.combinations(methods, 2)),
        tuple(settings_side_by_side([each.record for each in here])),
    )


def _method(found: Iterable[MeasuredRun], threshold: float | None) -> MethodResults:
    runs = tuple(sorted(found, key=lambda run: run.measures.seed or 0))
    return MethodResults(
        runs,
        {name: statistics.estimates(values[:, None]) for name in SCORES if len(values := values_of(runs, name))},
        {name: _spread(values) for name in COSTS if len(values := values_of(runs, name))},
        {} if threshold is None else {name: statistics.time_to_threshold(_durations(runs, name)) for name in DURATIONS},
    )


def _spread(values: Floats) -> Spread:
    return Spread(float(np.median(values)), float(values.min()), float(values.max()))


def _pair(methods: Mapping[str, MethodResults], method: str, other: str) -> PairResults:
    """If both methods have five runs or more, a score that fewer than five runs of a method have is left out."""
    runs, others = methods[method].runs, methods[other].runs
    needed = min(statistics.MIN_SEEDS, len(runs), len(others))
    scores = {}
    for name in SCORES:
        mine, theirs = values_of(runs, name), values_of(others, name)
        if min(len(mine), len(theirs)) >= needed:
            scores[name] = statistics.probability_of_improvement(mine[:, None], theirs[:, None])
    times = {
        name: statistics.probability_of_earlier(_durations(runs, name), _durations(others, name))
        for name in methods[method].times
    }
    return PairResults(method, other, scores, times)


def _methods(environments: Mapping[str, EnvironmentResults]) -> list[str]:
    return list(dict.fromkeys(name for each in environments.values() for name in each.methods))


def _overall(environments: Mapping[str, EnvironmentResults]) -> OverallResults:
    found = ((method, _normalised(environments, method)) for method in _methods(environments))
    scores = {method: matrix for method, matrix in found if matrix is not None}
    pairs = (
        PairResults(a, b, {"final_return": statistics.probability_of_improvement(scores[a], scores[b])}, {})
        for a, b in itertools.combinations(scores, 2)
    )
    return OverallResults(
        scores, {method: statistics.estimates(matrix) for method, matrix in scores.items()}, tuple(pairs)
    )


def _normalised(environments: Mapping[str, EnvironmentResults], method: str) -> Floats | None:
    """A method's scores, see `OverallResults`; None if an environment has none."""
    columns = []
    for env in environments.values():
        returns = {name: values_of(each.runs, "final_return") for name, each in env.methods.items()}
        if not len(returns.get(method, ())):
            return None
        everything = np.concatenate(list(returns.values()))
        low, span = everything.min(), np.ptp(everything) or 1.0
        columns.append((returns[method] - low) / span)
    matrix = np.full((max(map(len, columns)), len(columns)), np.nan)
    for number, column in enumerate(columns):
        matrix[: len(column), number] = column
    return matrix


def values_of(runs: Iterable[MeasuredRun], name: str) -> Floats:
    """A field of `Measures` of all runs that have it, `[n]`."""
    values = (getattr(run.measures, name) for run in runs)
    return np.array([value for value in values if value is not None], np.float64)


def _durations(runs: Iterable[MeasuredRun], name: str) -> Durations:
    measures, (end, _) = [run.measures for run in runs], DURATIONS[name]
    return Durations.of([getattr(each, name) for each in measures], [float(getattr(each, end)) for each in measures])


def to_json(results: Results) -> dict[str, Any]:
    """The contents of results.json: every figure, with its unit, as plain data."""
    overall, noise = results.overall, results.calibration
    return {
        "format": RESULTS_FORMAT,
        "units": dict(UNITS),
        "interval": {"confidence": statistics.CONFIDENCE, "bootstrap_resamples": statistics.RESAMPLES, "unit": "seed"},
        "caution": results.caution,
        "environments": {
            name: {
                "threshold": env.threshold,
                "methods": {method: _method_to_json(each) for method, each in env.methods.items()},
                "against": [_pair_to_json(pair) for pair in env.pairs],
            }
            for name, env in results.environments.items()
        },
        "overall": overall
        and {
            "scale": SCALE,
            "methods": _plain(overall.methods),
            "against": [_pair_to_json(pair) for pair in overall.pairs],
        },
        "runs": [asdict(run.measures) for run in results.shown_runs],
        **({"until_decided": decisions.to_plain(results.decided)} if results.decided else {}),
        "evaluation_episodes": results.episodes,
        "left_out": dict(results.left_out),
        "machine_and_versions": dict(results.machine),
        "noise": noise
        and {
            "unit": "s",
            "runs": len(values_of(results.runs, "calibration_s")),
            **noise._asdict(),
            "max_over_min": noise.max / noise.min,
        },
        "settings": {
            name: {row.key: {"values": dict(row.values), "differs": row.differs} for row in env.settings}
            for name, env in results.environments.items()
        },
        "commands": {run.measures.run: run.record.command_line for run in results.runs},
    }


def _method_to_json(method: MethodResults) -> dict[str, Any]:
    seeds = [run.measures.seed for run in method.runs]
    return {"seeds": seeds, **_plain(method.scores), **_plain(method.costs), **_plain(method.times)}


def _pair_to_json(pair: PairResults) -> dict[str, Any]:
    return {"method": pair.method, "other": pair.other, **_plain(pair.scores), **_plain(pair.times)}


def _plain(found: Mapping[str, Any]) -> dict[str, Any]:
    """Named tuples as dictionaries, in a mapping or in a mapping of such mappings."""
    return {name: _plain(each) if isinstance(each, Mapping) else each._asdict() for name, each in found.items()}
