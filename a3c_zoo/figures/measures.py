"""The figures of one run with their units, and the settings and the machine behind the figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from a3c_zoo.config.yaml import display
from a3c_zoo.errors import printable
from a3c_zoo.figures.curves import Line, area_under_curve, reached, running_mean
from a3c_zoo.figures.durations import Durations
from a3c_zoo.figures.figure_table import Figure
from a3c_zoo.records import RETURN_WINDOW
from a3c_zoo.store.run_records import RunRecord, threshold_of
from a3c_zoo.store.tables import Axis, Floats

#: Our keys → keys of stable-baselines3 with the same meaning.
SAME_MEANING: Final[Mapping[str, str]] = {
    "agent.entropy_coefficient": "agent.ent_coef",
    "agent.value_coefficient": "agent.vf_coef",
    "agent.normalize_advantages": "agent.normalize_advantage",
    "optimizer.learning_rate": "agent.learning_rate",
    "optimizer.schedule": "agent.learning_rate_schedule",
    "optimizer.max_grad_norm": "agent.max_grad_norm",
}


#: A run of another program counts as evaluated to its end if its last evaluation came after this part of its steps.
LAST_PART: Final = 0.9


@dataclass(frozen=True, slots=True)
class Measures:
    """The figures of one run, whose units are in `FIGURES`; None if there is no such figure.

    Attributes:
        run: the name of the run in the report.
        final_return, final_return_greedy: mean return of the last checkpoint's evaluation, sampled and greedy actions.
        mean_return: area under the curve of evaluations (sampled) over its length: over steps, or over seconds if the
            budget is in seconds.
        steps_to_threshold, seconds_to_threshold: when the mean return of the last 100 training episodes first reached
            the environment's threshold.
        cpu_s_to_threshold: an estimate, because CPU time is only known for whole runs: `cpu_s` times
            `seconds_to_threshold` / `training_s`. Start-up and checkpoints are in it.
        steps, training_s: at the end. total_s: with start-up and checkpoints.
        calibration_s: of the fixed loop that was timed before the run.
    """

    run: str
    env: str
    method: str
    seed: int | None
    final_return: float | None
    final_return_greedy: float | None
    mean_return: float | None
    steps_to_threshold: int | None
    seconds_to_threshold: float | None
    cpu_s_to_threshold: float | None
    steps: int
    training_s: float
    total_s: float | None
    steps_per_s: float
    cpu_s: float | None
    peak_memory_mib: float | None
    calibration_s: float | None


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredRun:
    """A run and its figures."""

    record: RunRecord
    measures: Measures


def values_of(runs: Iterable[MeasuredRun], name: str) -> Floats:
    """A field of `Measures` of all runs that have it, `[n]`."""
    values = (getattr(run.measures, name) for run in runs)
    return np.array([value for value in values if value is not None], np.float64)


def durations_of(runs: Iterable[MeasuredRun], time: Figure) -> Durations:
    """A time to the threshold, of all runs."""
    measures = [run.measures for run in runs]
    times = [getattr(of_run, time.name) for of_run in measures]
    ends = [float(getattr(of_run, time.end)) for of_run in measures]
    return Durations.of(times, ends)


def training_curve(record: RunRecord, by: Axis) -> Line:
    """Mean return of the last 100 training episodes."""
    window = 1 if record.is_smoothed else RETURN_WINDOW
    return Line(record.curve.axis(by), running_mean(record.curve.returns, window))


def evaluation_curve(record: RunRecord, by: Axis, deterministic: bool = False) -> Line:
    """Mean returns of a run's checkpoints, over their agent "steps" or training "seconds"."""
    evaluations = [each for each in record.evaluations if each.evaluation.deterministic == deterministic]
    x = [float(each.steps if by == "steps" else each.training_s) for each in evaluations]
    return Line(np.array(x), np.array([each.evaluation.mean_return for each in evaluations]))


def drawn_evaluations(record: RunRecord, by: Axis) -> Line:
    """The evaluations that a plot shows: with sampled actions, or greedy if a run of another program has no others."""
    is_greedy = not record.is_ours and all(each.evaluation.deterministic for each in record.evaluations)
    return evaluation_curve(record, by, is_greedy)


def measure(record: RunRecord, label: str) -> MeasuredRun:
    """Measures a run. label: its name in the report."""
    outcome = record.outcome
    curve = record.curve
    threshold = threshold_of(record)
    if threshold is None or record.is_smoothed:
        moment = None
    else:
        moment = reached(curve, threshold)
    sampled = evaluation_curve(record, "steps")
    greedy = evaluation_curve(record, "steps", deterministic=True)
    over = evaluation_curve(record, "seconds" if record.settings.get("run.time_limit_s") else "steps")
    if outcome:
        steps = outcome.steps
    else:
        steps = int(curve.steps[-1]) if len(curve) else 0
    needed = outcome.steps if outcome else LAST_PART * steps
    if max((each.steps for each in record.evaluations), default=0) < needed:
        sampled = greedy = over = Line(np.empty(0), np.empty(0))  # an earlier checkpoint is not the run's end
    if outcome:
        training_s = outcome.training_s
    else:
        training_s = float(curve.seconds[-1]) if len(curve) else 0.0
    cpu_s = outcome.cpu_s if outcome else None
    measures = Measures(
        run=label,
        env=record.env,
        method=record.method,
        seed=record.seed,
        final_return=_last(sampled.y),
        final_return_greedy=_last(greedy.y),
        mean_return=float(area_under_curve(over.x, over.y))
        if len(over.x) > 1 and np.isfinite(over.y).all()
        else None,
        steps_to_threshold=moment.steps if moment else None,
        seconds_to_threshold=moment.seconds if moment else None,
        cpu_s_to_threshold=_quotient(cpu_s * moment.seconds, training_s) if moment and cpu_s else None,
        steps=steps,
        training_s=training_s,
        total_s=outcome.total_s if outcome else None,
        steps_per_s=_quotient(steps, training_s) or 0.0,
        cpu_s=cpu_s,
        peak_memory_mib=outcome.peak_memory_mib if outcome else None,
        calibration_s=record.timing.calibration_s if record.timing else None,
    )
    return MeasuredRun(record, measures)


def _quotient(value: float, divisor: float) -> float | None:
    """`value / divisor`; None if there is none, or if it is not finite: files of strangers may name any numbers."""
    quotient = value / divisor if divisor > 0 else math.inf
    return quotient if math.isfinite(quotient) else None


def _last(values: Floats) -> float | None:
    """The last value; None if there is none, or if it is not finite: such a run has no figure."""
    if len(values) and np.isfinite(values[-1]):
        return float(values[-1])
    return None


def labels_of(paths: Sequence[Path]) -> dict[Path, str]:
    """The name of each run in the report: its directory's, or its whole path if two directories have the same name."""
    names = [printable(path.resolve().name) for path in paths]
    labels = (
        name if names.count(name) == 1 else printable(str(path))
        for path, name in zip(paths, names, strict=True)
    )
    return dict(zip(paths, labels, strict=True))


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting.

    Attributes:
        values: method → value as text; None: the method has no such key. If its runs differ, all of their values.
        differs: whether runs that have the key have different values for it.
    """

    key: str
    values: Mapping[str, str | None]
    differs: bool


def settings_side_by_side(records: Sequence[RunRecord]) -> list[SettingRow]:
    """Every setting of every method but the seed."""
    methods = list(dict.fromkeys(record.method for record in records))
    values_of_key: dict[str, dict[str, dict[str, None]]] = {}  # key → method → its values, in order
    ours = {theirs: own for own, theirs in SAME_MEANING.items()}
    for record in records:
        pairs = {key: display(value) for key, value in record.settings_but_seed.items()} | dict(
            record.their_settings
        )
        for key, value in pairs.items():
            values_of_key.setdefault(ours.get(key, key), {}).setdefault(record.method, {})[value] = None
    return [
        SettingRow(
            f"{key} ({SAME_MEANING[key]})" if key in SAME_MEANING else key,
            {method: " or ".join(values[method]) if method in values else None for method in methods},
            differs=len(set().union(*values.values())) > 1,
        )
        for key, values in values_of_key.items()
    ]


def machine_of(records: Iterable[RunRecord]) -> dict[str, list[str]]:
    """The machine and the packages that runs were made with: name → its values, more than one if runs differ."""
    pairs = dict.fromkeys(
        pair for record in records for pair in (*record.host.items(), *record.versions.items())
    )
    return {name: [value for other, value in pairs if other == name] for name, _ in pairs}
