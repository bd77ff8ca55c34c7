"""From the figures of single runs to what they say together: `results.json`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3c_zoo.comparison.measuring import UNITS, Measures
from a3c_zoo.comparison.statistics import (
    CONFIDENCE,
    MIN_SEEDS,
    RESAMPLES,
    STATISTICS,
    Durations,
    Estimate,
    caution,
    estimate,
    probability_of_earlier,
    probability_of_improvement,
    share_unknown,
    survival,
)

#: Rises when the meaning of a key of results.json changes.
RESULTS_FORMAT = 1
#: Of which every statistic is told.
SCORES = ("final_return", "final_return_greedy", "mean_return")
#: Of which the median is told.
COSTS = ("steps_per_s", "training_s", "total_s", "cpu_s", "peak_memory_mib")
#: How long a run takes to the threshold, and what its end is measured in.
DURATIONS = {"seconds_to_threshold": "training_s", "steps_to_threshold": "steps"}


@dataclass(frozen=True, slots=True)
class Table:
    """The runs of a comparison by environment and method, in the order in which they are shown."""

    runs: Mapping[str, Mapping[str, Sequence[Measures]]]
    thresholds: Mapping[str, float | None]

    @classmethod
    def of(cls, runs: Sequence[Measures], methods: Sequence[str], thresholds: Mapping[str, float | None]) -> Table:
        """Sorts runs by seed. Methods without a run are left out."""
        envs = list(dict.fromkeys(run.env for run in runs))
        by_env = {
            env: {
                method: sorted(of_both, key=lambda run: run.seed or 0)
                for method in methods
                if (of_both := [run for run in runs if (run.env, run.method) == (env, method)])
            }
            for env in envs
        }
        return cls(by_env, thresholds)

    @property
    def methods(self) -> list[str]:
        """The methods that have runs."""
        return list(dict.fromkeys(method for by_method in self.runs.values() for method in by_method))

    @property
    def fewest_seeds(self) -> dict[str, int]:
        """Method → its fewest runs on an environment."""
        return {m: min(len(by_method.get(m, ())) for by_method in self.runs.values()) for m in self.methods}


def results_of(table: Table) -> dict[str, Any]:
    """Every figure, with its unit; plain data."""
    return {
        "format": RESULTS_FORMAT,
        "units": UNITS,
        "interval": {"confidence": CONFIDENCE, "bootstrap_resamples": RESAMPLES, "unit": "seed"},
        "caution": caution(table.fewest_seeds),
        "environments": {env: _environment(table, env) for env in table.runs},
        "overall": _overall(table),
        "runs": [run.to_dict() for by_method in table.runs.values() for each in by_method.values() for run in each],
    }


def _environment(table: Table, env: str) -> dict[str, Any]:
    by_method = table.runs[env]
    pairs = [(first, other) for first, other in itertools.combinations(by_method, 2)]
    return {
        "threshold": table.thresholds[env],
        "methods": {method: _method(runs, table.thresholds[env]) for method, runs in by_method.items()},
        "against": [
            {"method": a, "other": b, **_against(by_method[a], by_method[b], table.thresholds[env])} for a, b in pairs
        ],
    }


def _method(runs: Sequence[Measures], threshold: float | None) -> dict[str, Any]:
    figures: dict[str, Any] = {"seeds": [run.seed for run in runs]}
    for name in SCORES:
        values = values_of(runs, name)
        if len(values):
            scores = values[:, None]
            figures[name] = {key: _plain(estimate(scores, statistic)) for key, statistic in STATISTICS.items()}
    for name in COSTS:
        values = values_of(runs, name)
        if len(values):
            figures[name] = {"median": float(np.median(values)), "min": float(values.min()), "max": float(values.max())}
    if threshold is not None:
        for name, end in DURATIONS.items():
            found = survival(durations_of(runs, name, end))
            figures[name] = {
                "reached": sum(getattr(run, name) is not None for run in runs),
                "runs": len(runs),
                "median": found.median,
                "low": found.median_low,
                "high": found.median_high,
            }
    return figures


def _against(runs: Sequence[Measures], others: Sequence[Measures], threshold: float | None) -> dict[str, Any]:
    """Probabilities that a run of the one is better than a run of the other, ties and unknown pairs counting half.

    Of scores that fewer than five runs have none, where there are five: the others' would be claimed of these alone.
    """
    found: dict[str, Any] = {}
    needed = min(MIN_SEEDS, len(runs), len(others))
    for name in SCORES:
        mine, theirs = values_of(runs, name), values_of(others, name)
        if min(len(mine), len(theirs)) >= needed:
            found[name] = _plain(probability_of_improvement(mine[:, None], theirs[:, None]))
    for name, end in DURATIONS.items():
        if threshold is not None:
            pair = durations_of(runs, name, end), durations_of(others, name, end)
            bounds = {
                "unknown": share_unknown(*pair),
                "low_if_lost": probability_of_earlier(*pair, unknown=0).low,
                "high_if_won": probability_of_earlier(*pair, unknown=1).high,
            }
            found[name] = _plain(probability_of_earlier(*pair)) | bounds
    return found


def _overall(table: Table) -> dict[str, Any] | None:
    """Over several environments; None for one. Scores run from 0 to 1, an environment's worst and best run."""
    if len(table.runs) < 2:
        return None
    matrices = {method: matrix for method in table.methods if (matrix := normalised(table, method)) is not None}
    return {
        "scale": "0 and 1: the worst and the best final return of all runs on an environment",
        "methods": {
            method: {name: _plain(estimate(matrix, statistic)) for name, statistic in STATISTICS.items()}
            for method, matrix in matrices.items()
        },
        "against": [
            {"method": a, "other": b, "final_return": _plain(probability_of_improvement(matrices[a], matrices[b]))}
            for a, b in itertools.combinations(matrices, 2)
        ],
    }


def normalised(table: Table, method: str) -> NDArray[np.float64] | None:
    """Final returns `[seeds, environments]` from 0 to 1; NaN: no such run. None where an environment has none."""
    columns = []
    for by_method in table.runs.values():
        everything = np.concatenate([values_of(runs, "final_return") for runs in by_method.values()])
        values = values_of(by_method.get(method, ()), "final_return")
        if not len(values):
            return None
        low, span = everything.min(), np.ptp(everything) or 1.0
        columns.append((values - low) / span)
    matrix = np.full((max(map(len, columns)), len(columns)), np.nan)
    for number, column in enumerate(columns):
        matrix[: len(column), number] = column
    return matrix


def values_of(runs: Sequence[Measures], name: str) -> NDArray[np.float64]:
    """A figure of all runs that have it, `[n]`."""
    return np.array([value for run in runs if (value := getattr(run, name)) is not None], np.float64)


def durations_of(runs: Sequence[Measures], name: str, end: str) -> Durations:
    """When each run reached the threshold, and when it ended."""
    return Durations.of([getattr(run, name) for run in runs], [float(getattr(run, end)) for run in runs])


def _plain(found: Estimate) -> dict[str, float]:
    return {"value": found.value, "low": found.low, "high": found.high}


def enough_seeds(table: Table) -> bool:
    """Whether anything may be claimed."""
    return min(table.fewest_seeds.values()) >= MIN_SEEDS
