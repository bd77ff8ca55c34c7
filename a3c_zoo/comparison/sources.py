"""Where figures come from: settings side by side, machine and versions, exact commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from a3c_zoo.config.yaml import display

if TYPE_CHECKING:
    from a3c_zoo.comparison.reading import RunRecord

#: Our keys → keys of stable-baselines3 with the same meaning.
SAME_MEANING: Final[Mapping[str, str]] = {
    "agent.entropy_coefficient": "agent.ent_coef",
    "agent.value_coefficient": "agent.vf_coef",
    "agent.normalize_advantages": "agent.normalize_advantage",
    "optimizer.learning_rate": "agent.learning_rate",
    "optimizer.schedule": "agent.learning_rate_schedule",
    "optimizer.max_grad_norm": "agent.max_grad_norm",
}


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting: its key, and method → value as text; None: the method has no such key."""

    key: str
    values: Mapping[str, str | None]

    @property
    def differs(self) -> bool:
        """Whether methods that have the key have different values for it."""
        return len({value for value in self.values.values() if value is not None}) > 1


def settings_side_by_side(records: Iterable[RunRecord]) -> list[SettingRow]:
    """Every setting of every method but the seed. If the runs of a method differ, all of their values."""
    records = list(records)
    methods = list(dict.fromkeys(record.method for record in records))
    found: dict[str, dict[str, list[str]]] = {}
    ours = {theirs: own for own, theirs in SAME_MEANING.items()}
    for record in records:
        for key, value in record.settings.items():
            texts = found.setdefault(ours.get(key, key), {}).setdefault(record.method, [])
            if (text := display(value)) not in texts:
                texts.append(text)
    return [
        SettingRow(
            f"{key} ({SAME_MEANING[key]})" if key in SAME_MEANING else key,
            {method: " or ".join(values[method]) if method in values else None for method in methods},
        )
        for key, values in found.items()
        if key != "run.seed"
    ]


def machine_of(records: Iterable[RunRecord]) -> dict[str, list[str]]:
    """The machine and the packages that runs were made with: name → its values, more than one if runs differ."""
    found: dict[str, list[str]] = {}
    for record in records:
        for name, value in (*record.host.items(), *record.versions.items()):
            values = found.setdefault(name, [])
            if value not in values:
                values.append(value)
    return found


def command_of(record: RunRecord) -> str:
    """The command line that trained a run; "" if it is not known."""
    if not record.command:
        return ""
    variables = record.timing.variables if record.timing else {}
    words = [*(f"{name}={shlex.quote(value)}" for name, value in variables.items()), "a3c-zoo"]
    return " ".join([*words, shlex.join(record.command[1:])])
