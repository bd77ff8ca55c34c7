"""The tables of an environment's figures, and how figures are written for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from a3c_zoo.comparison.pages import Table
from a3c_zoo.records import score

#: Where there is no figure.
NONE = "–"


def seconds(value: float) -> str:
    """A time of any length, for people."""
    return f"{value:.3g} s" if value < 600 else f"{value / 60:.1f} min"


def number(value: float) -> str:
    """A figure with three digits that matter; whole where it is large."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def estimate_text(found: Mapping[str, float], show: Any = number) -> str:
    """A figure and its interval."""
    return f"{show(found['value'])} ({show(found['low'])} to {show(found['high'])})"


def scores(found: Mapping[str, Any]) -> Table:
    """What the methods' evaluations returned."""
    names = {
        "final_return": "at the end, sampled actions",
        "final_return_greedy": "at the end, greedy actions",
        "mean_return": "mean of the curve",
    }
    rows = [
        [
            method,
            text,
            *(estimate_text(figures[key][name], score) for name in ("interquartile_mean", "median", "mean")),
        ]
        for key, text in names.items()
        for method, figures in found["methods"].items()
        if key in figures
    ]
    columns = ("method", "evaluation return", "interquartile mean", "median", "mean")
    return Table(columns, rows, "Evaluation returns over seeds, with 95 % intervals", words=2)


def times(found: Mapping[str, Any]) -> list[Table]:
    """How long they took to the threshold, where there is one."""
    if found["threshold"] is None:
        return []
    shows = {"seconds_to_threshold": seconds, "steps_to_threshold": number}
    rows = []
    for method, figures in found["methods"].items():
        row = [method, f"{figures['seconds_to_threshold']['reached']} of {figures['seconds_to_threshold']['runs']}"]
        for key, show in shows.items():
            each = figures[key]
            texts = [NONE if each[name] is None else show(each[name]) for name in ("median", "low", "high")]
            row.append(NONE if set(texts) == {NONE} else f"{texts[0]} ({texts[1]} to {texts[2]})")
        rows.append(row)
    caption = (
        f"To a mean return of {found['threshold']:g} over 100 training episodes: medians with 95 % intervals. Runs "
        f"that never got there count as censored at their end; {NONE} stands for an end that was not reached."
    )
    return [Table(("method", "reached by", "seconds of training", "agent steps"), rows, caption)]


def costs(found: Mapping[str, Any]) -> Table:
    """Speed, time and memory."""
    keys = {
        "steps_per_s": ("steps/s", number),
        "training_s": ("training", seconds),
        "total_s": ("with start-up", seconds),
        "cpu_s": ("CPU time", seconds),
        "peak_memory_mib": ("peak memory, MiB", number),
    }
    rows = []
    for method, figures in found["methods"].items():
        row = [method]
        for key, (_, show) in keys.items():
            each = figures.get(key)
            row.append(NONE if each is None else f"{show(each['median'])} ({show(each['min'])} to {show(each['max'])})")
        rows.append(row)
    columns = ("method", *(title for title, _ in keys.values()))
    return Table(columns, rows, "Speed and cost of a run: medians, and the range of all runs")


def chances(pairs: Sequence[Mapping[str, Any]]) -> list[Table]:
    """Probabilities of improvement, of each pair of methods."""
    names = {
        "seconds_to_threshold": "to the threshold in less time",
        "steps_to_threshold": "to the threshold in fewer steps",
        "final_return": "higher final return",
        "final_return_greedy": "higher final return, greedy",
        "mean_return": "higher mean of the curve",
    }
    rows = [
        [
            f"{pair['method']} over {pair['other']}",
            text,
            estimate_text(pair[key]),
            f"{pair[key]['unknown']:.0%}" if "unknown" in pair[key] else NONE,
        ]
        for pair in pairs
        for key, text in names.items()
        if key in pair
    ]
    caption = "Probability of improvement: that a run of the one is better than a run of the other; ties count half, "
    caption += "and so does a pair of which it isn't known, because a run ended before"
    columns = ("", "in what", "probability, 95 % interval", "not known")
    return [Table(columns, rows, caption, words=4)] if rows else []
