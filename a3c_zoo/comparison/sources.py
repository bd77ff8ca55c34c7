"""Where a comparison's figures come from: settings side by side, the machine, how noisy it was, exact commands."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from a3c_zoo.comparison.measuring import Measures
from a3c_zoo.comparison.reading import RunRecord
from a3c_zoo.comparison.timing import timing_of
from a3c_zoo.config.yaml import display

#: Keys of stable-baselines3 that mean what a key of ours means.
SAME_MEANING = {
    "agent.entropy_coefficient": "agent.ent_coef",
    "agent.value_coefficient": "agent.vf_coef",
    "agent.normalize_advantages": "agent.normalize_advantage",
    "optimizer.learning_rate": "agent.learning_rate",
    "optimizer.schedule": "agent.learning_rate_schedule",
    "optimizer.max_grad_norm": "agent.max_grad_norm",
}
#: What differs between the runs of one method anyway.
PER_RUN = {"run.seed"}
#: Where the fixed loop's slowest time is this much above its fastest, the machine was noisy.
NOISY = 1.25


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting: its key (or two of the same meaning), and method → value as text; None where it has no such key."""

    key: str
    values: Mapping[str, str | None]

    @property
    def differs(self) -> bool:
        """Whether methods that have the key have different values for it."""
        return len({value for value in self.values.values() if value is not None}) > 1


def settings_side_by_side(records: Sequence[RunRecord], env: str) -> list[SettingRow]:
    """Every setting of every method on an environment; where a method's own runs differ, all of its values."""
    methods = list(dict.fromkeys(record.method for record in records if record.env == env))
    found: dict[str, dict[str, list[str]]] = {}
    ours = {theirs: own for own, theirs in SAME_MEANING.items()}
    for record in records:
        if record.env != env:
            continue
        for key, value in record.settings.items():
            label = ours.get(key, key)
            texts = found.setdefault(label, {}).setdefault(record.method, [])
            if (text := display(value)) not in texts:
                texts.append(text)
    return [
        SettingRow(_label(key), {m: " or ".join(values[m]) if m in values else None for m in methods})
        for key, values in found.items()
        if key not in PER_RUN
    ]


def _label(key: str) -> str:
    return f"{key} ({SAME_MEANING[key]})" if key in SAME_MEANING else key


def versions_and_hosts(records: Sequence[RunRecord]) -> dict[str, list[str]]:
    """What the runs were made with: name → its values; more than one where runs differ."""
    found: dict[str, list[str]] = {}
    for record in records:
        for group in ("host", "versions"):
            for name, value in dict(record.meta.get(group, {})).items():
                values = found.setdefault(str(name), [])
                if str(value) not in values:
                    values.append(str(value))
    return found


def machines(records: Sequence[RunRecord]) -> list[str]:
    """The processors on which the runs were made, as far as they are known, each with its number of cores."""
    hosts = [dict(record.meta.get("host", {})) for record in records]
    return sorted({f"{host['cpu']}, {host['cores']} cores" for host in hosts if {"cpu", "cores"} <= host.keys()})


def noise(runs: Sequence[Measures]) -> dict[str, Any] | None:
    """How long the fixed loop took before the runs; None where it was not timed."""
    seconds = np.array([run.calibration_s for run in runs if run.calibration_s is not None])
    if not len(seconds):
        return None
    low, middle, high = float(seconds.min()), float(np.median(seconds)), float(seconds.max())
    return {"unit": "s", "runs": len(seconds), "median": middle, "min": low, "max": high, "max_over_min": high / low}


def commands(records: Sequence[RunRecord]) -> list[str]:
    """The command of the first run of each method on each environment."""
    first: dict[tuple[str, str], str] = {}
    for record in records:
        if record.is_ours:
            first.setdefault((record.env, record.method), command(record))
    return list(first.values())


def command(record: RunRecord) -> str:
    """The command line that trained a run; "" where that is not known."""
    arguments = record.meta.get("command", ())
    if not arguments:
        return ""
    variables = [f"{name}={shlex.quote(value)}" for name, value in (timing_of(record.path)[1] or {}).items()]
    return " ".join([*variables, "a3c-zoo", shlex.join(map(str, arguments[1:]))])
