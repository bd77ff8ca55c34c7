"""What is measured of one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from a3c_zoo.comparison import curves
from a3c_zoo.comparison.figures import Line
from a3c_zoo.comparison.statistics import area_under_curve
from a3c_zoo.comparison.timing import timing_of
from a3c_zoo.errors import ZooError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from a3c_zoo.comparison.reading import RunRecord
    from a3c_zoo.plugins.registry import Registry

#: Points of a training curve that a plot shows.
SHOWN_POINTS = 300
#: Field of `Measures` → its unit.
UNITS = {
    "final_return": "return",
    "final_return_greedy": "return",
    "mean_return": "return",
    "steps_to_threshold": "agent steps",
    "seconds_to_threshold": "s of training",
    "steps": "agent steps",
    "training_s": "s",
    "total_s": "s",
    "steps_per_s": "agent steps / s",
    "cpu_s": "CPU s",
    "peak_memory_mib": "MiB",
    "calibration_s": "s",
}


@dataclass(frozen=True, slots=True)
class Measures:
    """The figures of one run, in the units of `UNITS`; None where there is none.

    Attributes:
        run: by what name it is told of.
        final_return, final_return_greedy: mean return of the last checkpoint's evaluation, sampled and greedy actions.
        mean_return: area under the curve of evaluations (sampled) over its length: over steps, or over seconds where
            the budget is in seconds.
        steps_to_threshold, seconds_to_threshold: until the mean return of the last 100 training episodes first reached
            the environment's threshold.
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
    steps: int
    training_s: float
    total_s: float | None
    steps_per_s: float
    cpu_s: float | None
    peak_memory_mib: float | None
    calibration_s: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredRun:
    """A run, its figures, and its environment's threshold."""

    record: RunRecord
    measures: Measures
    threshold: float | None

    def training(self, by: str) -> Line:
        """Mean return of the last 100 training episodes over "steps" or "seconds", thinned out for a plot."""
        curve = self.record.curve
        means = curves.running_mean(curve.returns, curves.THRESHOLD_WINDOW)
        shown = np.unique(np.linspace(0, max(len(means) - 1, 0), SHOWN_POINTS).astype(np.int64))[: len(means)]
        x = curve.steps.astype(np.float64) if by == "steps" else curve.seconds
        return Line(x[shown], means[shown])

    def evaluated(self, by: str) -> Line:
        """Mean return of evaluations (sampled actions) over "steps" or "seconds"."""
        return evaluation_curve(self.record, by)


def evaluation_curve(record: RunRecord, by: str, deterministic: bool = False) -> Line:
    """A run's evaluations: checkpoints' agent steps or training seconds `[C]`, and mean returns `[C]`."""
    found = [each for each in record.evaluations if each.evaluation.deterministic == deterministic]
    x = [float(each.steps if by == "steps" else each.training_s) for each in found]
    return Line(np.array(x), np.array([each.evaluation.mean_return for each in found]))


NOTHING: Final = Line(np.empty(0), np.empty(0))


def measure(record: RunRecord, label: str, registry: Registry) -> MeasuredRun:
    """Measures a run that was read."""
    outcome, curve = record.outcome, record.curve
    threshold = _threshold(record, registry)
    moment = None if threshold is None else curves.reached(curve, threshold)
    sampled, greedy = evaluation_curve(record, "steps"), evaluation_curve(record, "steps", deterministic=True)
    over = evaluation_curve(record, "seconds" if record.settings.get("run.time_limit_s") else "steps")
    if outcome and max((each.steps for each in record.evaluations), default=0) < outcome.steps:
        sampled = greedy = over = NOTHING  # an earlier checkpoint's return is not the final one
    steps = outcome.steps if outcome else int(curve.steps[-1]) if len(curve) else 0
    training_s = outcome.training_s if outcome else float(curve.seconds[-1]) if len(curve) else 0.0
    measures = Measures(
        run=label,
        env=record.env,
        method=record.method,
        seed=record.seed,
        final_return=_last(sampled.y),
        final_return_greedy=_last(greedy.y),
        mean_return=float(area_under_curve(over.x, over.y)) if len(over.x) > 1 else None,
        steps_to_threshold=moment.steps if moment else None,
        seconds_to_threshold=moment.seconds if moment else None,
        steps=steps,
        training_s=training_s,
        total_s=outcome.total_s if outcome else None,
        steps_per_s=steps / training_s if training_s > 0 else 0.0,
        cpu_s=outcome.cpu_s if outcome else None,
        peak_memory_mib=outcome.peak_memory_mib if outcome else None,
        calibration_s=timing_of(record.path)[0],
    )
    return MeasuredRun(record, measures, threshold)


def _last(values: NDArray[np.float64]) -> float | None:
    return float(values[-1]) if len(values) else None


def _threshold(record: RunRecord, registry: Registry) -> float | None:
    try:
        return registry.env(record.env).threshold
    except ZooError:  # of a plugin that is not installed here
        return None


def labels_of(paths: Sequence[Path]) -> dict[Path, str]:
    """By what name each run is told of: its directory's, or its whole path where two directories have one name."""
    names = [path.resolve().name for path in paths]
    return {path: name if names.count(name) == 1 else str(path) for path, name in zip(paths, names, strict=True)}
