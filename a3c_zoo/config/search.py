"""Search spaces: a set's block `search:`, such as `agent.gamma: {uniform: [0.9, 0.999]}`, see docs/how-to/tune.md.

A set without the block has the default one of its agent: `_search/AGENT.yml` in a package of sets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

from pydantic import ValidationError

from a3c_zoo.config.models import Config, validated
from a3c_zoo.config.sets import documents_of, search_file
from a3c_zoo.config.settings import SEARCH, Settings, cite, explain, faulty
from a3c_zoo.config.yaml import Document, display, read_document
from a3c_zoo.errors import ConfigError, ZooError
from a3c_zoo.plugins.entries import AgentEntry, EnvEntry
from a3c_zoo.plugins.registry import Registry

Kind = Literal["choice", "uniform", "log"]
#: Keys of `env` and `run` that may be searched.
OTHERS = ("env.num_envs", "run.workers")
#: Keys of other sections that may not: `name` chooses a model with other keys, and the study decides the steps.
FIXED = ("name", "schedule_steps")


@dataclass(frozen=True, slots=True)
class SearchedKey:
    """The values of a key: a list to choose from, or low and high. is_whole: whether the numbers are whole."""

    key: str
    kind: Kind
    values: tuple[Any, ...]
    is_whole: bool = False

    def text_of(self, number: float) -> str:
        """A number from the range as `-o` takes it, with few digits."""
        low, high = self.values
        if self.is_whole:
            return display(int(number), 0)
        return display(min(max(float(f"{number:.4g}"), low), high), 0)


def search_space(
    registry: Registry, env: EnvEntry, agent: AgentEntry, hyperparams: str | None, overrides: Sequence[str]
) -> tuple[SearchedKey, ...]:
    """Reads the search space of a set; arguments as in `resolve_config`. Keys that `overrides` give are not searched.

    Raises ConfigError with a line for each fault, and ZooError if there is no space, or no key is left.
    """
    settings = Settings(registry, env, agent)
    for document in documents_of(registry, env, agent, hyperparams, overrides):
        settings.add_document(document)
    settings.add_overrides(overrides)
    if (space := settings.search) is None:
        if (default := search_file(registry, agent.name)) is None:
            raise ZooError(
                f"agent '{agent.name}' has no default search space; give a file with `search:`: --hyperparams"
            )
        space = read_document(default.file, default.source)
    config = settings.config()
    given = {label for label, source in config.sources.items() if source == "-o"}
    keys = list(_keys(settings, space))
    faults = [
        *(cite(space, fault) for fault in space.faults),
        *(key for key in keys if isinstance(key, str)),
    ]
    if faults:
        raise faulty(faults)
    searched = tuple(key for key in keys if isinstance(key, SearchedKey) and key.key not in given)
    if settings.search is None:
        searched = tuple(fitting for key in searched for fitting in _fitting(config, key))
    if not searched:
        raise ZooError(f"{space.source} leaves nothing to search: name keys below `search:`")
    return searched


def _fitting(config: Config, key: SearchedKey) -> list[SearchedKey]:
    """A key of a default space with the choices that fit a set; none if these leave nothing to choose."""
    section, _, name = key.key.partition(".")
    if section != "agent" or key.kind != "choice":
        return [key]
    values = []
    for value in key.values:
        with suppress(ConfigError):
            config.agent.model_copy(update={name: value}).check(config.env.num_envs)
            values.append(value)
    return [replace(key, values=tuple(values))] * (len(values) > 1)


def _keys(settings: Settings, space: Document) -> Iterator[SearchedKey | str]:
    """Each key of a space, or its fault in one line."""
    block = space.data.get(SEARCH)
    if block is not None and not isinstance(block, dict):
        yield f"{space.source}:{space.lines[SEARCH,]} {SEARCH}: must have keys below it"
        return
    for key, given in (block or {}).items():
        fault = _fixed(settings, key) or _fault(settings, key, given)
        if fault:
            yield f"{space.source}:{space.lines[SEARCH, key]} {SEARCH} {key}: {fault}"
        else:
            ((kind, values),) = given.items()
            yield SearchedKey(
                key, cast(Kind, kind), tuple(values), kind != "choice" and _is_whole(settings, key)
            )


def _fixed(settings: Settings, key: str) -> str:
    """Why a key may not be searched; "" if it may."""
    section, dot, name = key.partition(".")
    agent = settings.agent
    if not dot:
        return "must be a section and a key, such as optimizer.learning_rate"
    if section not in settings.settings:
        return f"agent '{agent.name}' has no section '{section}'"
    if name in FIXED or (section in ("run", "env") and key not in OTHERS):
        return f"is fixed; a search may have keys of agent, network and optimizer, and {' and '.join(OTHERS)}"
    num_envs, workers = OTHERS
    if (key == num_envs and agent.one_environment) or (key == workers and agent.one_process):
        return f"is 1 for agent '{agent.name}'"
    return ""


def _fault(settings: Settings, key: str, given: Any) -> str:
    """What is wrong with the values of a key; "" if nothing is."""
    if not (isinstance(given, dict) and len(given) == 1 and next(iter(given)) in get_args(Kind)):
        return (
            f"{display(given)} — must be {{choice: [a, b]}}, {{uniform: [low, high]}} or {{log: [low, high]}}"
        )
    ((kind, values),) = given.items()
    if not isinstance(values, list) or not values:
        return f"{kind} must have a list of values"
    if fault := next(filter(None, (_refusal(settings, key, value) for value in values)), ""):
        return fault
    if kind == "choice":
        return ""
    if not _types(settings, key) & {int, float}:
        return f"takes no numbers; give {{choice: [a, b]}} in place of {kind}"
    if len(values) != 2 or not all(
        type(number) in (int, float) and math.isfinite(number) for number in values
    ):
        return f"{kind} must have two numbers, [low, high]"
    if values[0] >= values[1]:
        return f"{display(values)} — an empty range; low must be below high"
    is_bad = kind == "log" and values[0] <= 0
    if is_bad:
        return f"{display(values)} — a logarithmic range begins above 0"
    return ""


def _refusal(settings: Settings, label: str, value: Any) -> str:
    """Why a key may not have a value, beside the other settings as they are; "" if it may.

    If a combination of several keys is refused, this is found when a trial has it.
    """
    section, _, key = label.partition(".")
    given = {name: setting.value for name, setting in settings.settings[section].items()}
    try:
        validated(settings.models[section], given | {key: value})
    except ValidationError as error:
        faults = (detail for detail in error.errors(include_url=False) if detail["loc"][:1] == (key,))
        return next((explain(detail, section, settings.models) for detail in faults), "")
    return ""


def _is_whole(settings: Settings, label: str) -> bool:
    types = _types(settings, label)
    return int in types and float not in types


def _types(settings: Settings, label: str) -> set[Any]:
    """What a key may be: its type, or the parts of its union."""
    section, _, key = label.partition(".")
    annotation = settings.models[section].model_fields[key].annotation
    parts = annotation, *get_args(annotation)
    return {getattr(part, "__origin__", part) for part in parts}  # the type within an Annotated
