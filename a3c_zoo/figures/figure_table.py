"""Every figure of a run: its unit, how tables call it, and what a report claims by it, in the order of results.json."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

#: score: more is better, and every statistic is computed. time: to the threshold; earlier is better, and a run that
#: ends before has none. cost: median and range are computed.
Kind = Literal["score", "time", "cost", "other"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a run.

    Attributes:
        name: the field of `Measures`, and the key in results.json.
        title: of its row or column in tables of single methods.
        better: what a method is better in, in tables of two methods.
        actions: of a final return: what the verdict says of the actions.
        end: of a time to the threshold: the figure with the run's end in the same unit.
        question: the name of the question that the report claims something about; "" if it claims nothing.
    """

    name: str
    unit: str
    kind: Kind = "other"
    title: str = ""
    better: str = ""
    actions: str = ""
    end: str = ""
    question: str = ""


_ALL = (
    Figure(
        "final_return",
        unit="return",
        kind="score",
        title="at the end, sampled actions",
        better="higher final return",
        question="return",
    ),
    Figure(
        "final_return_greedy",
        unit="return",
        kind="score",
        title="at the end, greedy actions",
        better="higher final return, greedy",
        actions=" with greedy actions",
        question="return",
    ),
    Figure(
        "mean_return",
        unit="return",
        kind="score",
        title="mean of the curve",
        better="higher mean of the curve",
    ),
    Figure(
        "steps_to_threshold",
        unit="agent steps",
        kind="time",
        better="in fewer steps",
        end="steps",
        question="steps",
    ),
    Figure(
        "seconds_to_threshold",
        unit="s of training",
        kind="time",
        better="in less time",
        end="training_s",
        question="time",
    ),
    # An estimate: it is shown and not claimed.
    Figure("cpu_s_to_threshold", unit="CPU s, estimated", kind="time", end="cpu_s"),
    Figure("steps", unit="agent steps"),
    Figure("training_s", unit="s", kind="cost", title="training"),
    Figure("total_s", unit="s", kind="cost", title="with start-up"),
    Figure("steps_per_s", unit="agent steps / s", kind="cost", title="steps/s"),
    Figure("cpu_s", unit="CPU s", kind="cost", title="CPU time"),
    Figure("peak_memory_mib", unit="MiB", kind="cost", title="peak memory, MiB"),
    Figure("calibration_s", unit="s"),
)
#: Name → figure.
FIGURES: Final = {figure.name: figure for figure in _ALL}
SCORES: Final = tuple(figure for figure in _ALL if figure.kind == "score")
#: In the order of reports.
TIMES: Final = tuple(
    FIGURES[name] for name in ("seconds_to_threshold", "steps_to_threshold", "cpu_s_to_threshold")
)
#: In the order of tables.
COSTS: Final = tuple(
    FIGURES[name] for name in ("steps_per_s", "training_s", "total_s", "cpu_s", "peak_memory_mib")
)
#: The final returns that the verdict speaks of, best first.
FINAL_RETURNS: Final = tuple(figure for figure in SCORES if figure.question)
#: The questions that a user may name as the main one → the figures that they are about.
QUESTIONS: Final[dict[str, tuple[str, ...]]] = {
    question: tuple(figure.name for figure in _ALL if figure.question == question)
    for question in dict.fromkeys(figure.question for figure in _ALL if figure.question)
}
