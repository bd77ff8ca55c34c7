"""The kinds of entries, and the checks on what a plugin offers: type, revision, field types, names, import strings."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from a3c_zoo.errors import PluginError
from a3c_zoo.plugins import entries
from a3c_zoo.plugins.entries import (
    COMMON_SECTIONS,
    ENTRY_REVISION,
    GIVEN_TO_FACTORY,
    SECTIONS,
    AgentEntry,
    Entry,
    EnvEntry,
    EnvFamily,
    HyperparamEntry,
)
from a3c_zoo.words import listed


@dataclass(frozen=True, slots=True)
class Kind:
    """How entries of one class are offered, named and checked.

    Attributes:
        hook: the hook that offers them.
        namespace: two entries of one namespace cannot have the same name.
        name_field: the field that holds the name.
    """

    hook: str
    namespace: str
    name_field: str = "name"


KINDS: dict[type[Entry], Kind] = {
    EnvEntry: Kind("zoo_envs", "environment"),
    EnvFamily: Kind("zoo_envs", "environment", name_field="prefix"),
    AgentEntry: Kind("zoo_agents", "agent"),
    entries.NetworkEntry: Kind("zoo_networks", "network"),
    entries.OptimizerEntry: Kind("zoo_optimizers", "optimizer"),
    HyperparamEntry: Kind("zoo_hyperparams", "hyperparameter package", name_field="package"),
    entries.HookEntry: Kind("zoo_hooks", "run hook"),
    entries.TrainedEntry: Kind("zoo_trained", "trained agent"),
    entries.EngineEntry: Kind("zoo_engines", "engine"),
    entries.CommandEntry: Kind("zoo_commands", "command"),
}

#: Offering hook → the classes of its entries.
OFFERED_BY: dict[str, tuple[type[Entry], ...]] = {
    kind.hook: tuple(entry_class for entry_class, other in KINDS.items() if other.hook == kind.hook)
    for kind in KINDS.values()
}

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")
#: What agents of a game may be called: monitor.csv and TensorBoard have their names.
_AGENT_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)
_IMPORT_STRING = re.compile(r"[^:\s]+:[^:\s]+")


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf


#: Annotation of a field, without `| None` → what its value must be, in words, and the check.
#: Written by hand because pydantic, which could do it, would make `a3c-zoo --help` 0.1 s slower.
_FIELD_TYPES: dict[str, tuple[str, Callable[[Any], object]]] = {
    "str": ("a string", lambda value: isinstance(value, str)),
    "ImportString": (
        "an import string 'package.module:attribute'",
        lambda value: isinstance(value, str) and _IMPORT_STRING.fullmatch(value),
    ),
    "bool": ("true or false", lambda value: isinstance(value, bool)),
    "int": ("a whole number", lambda value: type(value) is int),
    "float": ("a finite number", _is_finite),
    "tuple[float, float]": (
        "two rising finite numbers",
        lambda value: (
            isinstance(value, tuple | list)
            and len(value) == 2
            and all(map(_is_finite, value))
            and value[0] < value[1]
        ),
    ),
    "tuple[str, ...]": (
        "a tuple of strings",
        lambda value: isinstance(value, tuple) and all(isinstance(item, str) for item in value),
    ),
    "Mapping[str, Any]": ("a dictionary", lambda value: isinstance(value, Mapping)),
    "Literal['agent', 'baseline']": ("'agent' or 'baseline'", lambda value: value in ("agent", "baseline")),
}


def as_list(hook: str, result: Any) -> list[Any]:
    """Returns the result of one hook implementation as a list.

    Raises:
        PluginError: the result is a single entry, or is not iterable.
    """
    if isinstance(result, Entry | str) or not hasattr(result, "__iter__"):
        raise PluginError(f"{hook}() must return a list of {_expected(hook)}, not {_described(result)}")
    return list(result)


def check(hook: str, offer: Any) -> Entry:
    """Returns an offered entry if it can be registered.

    Raises:
        PluginError: it is no entry of this hook, has another revision, or has an unusable field.
    """
    if not isinstance(offer, OFFERED_BY[hook]):
        raise PluginError(f"{hook}() offers {_described(offer)} where {_expected(hook)} is expected")
    if fault := fault_of(offer):
        raise PluginError(f"{hook}() offers {fault}")
    return offer


def fault_of(entry: Entry) -> str | None:
    """Returns why an entry cannot be registered, None if it can."""
    return _revision_fault(entry) or _field_fault(entry) or _name_fault(entry)


def fault_of_resolved(family: EnvFamily, resolved: Any) -> str | None:
    """Returns why the entry that a family made for a name cannot be used, None if it can."""
    if not isinstance(resolved, EnvEntry):
        return f"{_described(resolved)} where an EnvEntry is expected"
    if not str(resolved.name).startswith(f"{family.prefix}:"):
        return f"the name '{resolved.name}', which does not begin with '{family.prefix}:'"
    return _revision_fault(resolved) or _field_fault(resolved)


def name_of(entry: Entry) -> str:
    """Returns the name under which an entry is registered."""
    name: str = getattr(entry, kind_of(entry).name_field)
    return name


def kind_of(entry: Entry) -> Kind:
    """Returns the kind of an entry, which may be an instance of a subclass."""
    return next(kind for entry_class, kind in KINDS.items() if isinstance(entry, entry_class))


def _revision_fault(entry: Entry) -> str | None:
    """This is checked first, because in another revision the fields may have another meaning."""
    if entry.revision == ENTRY_REVISION:
        return None
    age = "another"
    cure = "upgrade both"
    if isinstance(entry.revision, int):
        newer = entry.revision > ENTRY_REVISION
        if newer:
            age = "a newer"
            cure = "upgrade a3c-zoo"
        else:
            age = "an older"
            cure = "upgrade the plugin"
    kind = type(entry).__name__
    article = "an" if kind[0] in "AEO" else "a"
    return (
        f"{article} {kind} of revision {entry.revision!r}, but this version of a3c-zoo understands revision "
        f"{ENTRY_REVISION}: the plugin was made for {age} version of a3c-zoo; {cure}"
    )


def _field_fault(entry: Entry) -> str | None:
    for field in dataclasses.fields(entry):
        annotation, optional, _ = str(field.type).partition(" | None")
        # A plugin's subclass may have fields of other types.
        expected, is_sound = _FIELD_TYPES.get(annotation, ("", lambda value: True))
        value = getattr(entry, field.name)
        if not (is_sound(value) or (optional and value is None)):
            shown = f"{type(entry).__name__} {name_of(entry)!r} with {field.name}={value!r:.60}"
            or_none = " or None" if optional else ""
            return f"{shown}, which must be {expected}{or_none}"
    if isinstance(entry, AgentEntry):
        return _sections_fault(entry)
    if isinstance(entry, EnvEntry):
        return _env_fault(entry)
    return None


def _env_fault(entry: EnvEntry) -> str | None:
    if (entry.factory is None) == (entry.env_id is None):
        given = "neither" if entry.factory is None else "both"
        return f"'{entry.name}' with {given} of factory and env_id; give exactly one"
    if entry.factory is None and entry.agents:
        return f"'{entry.name}' with env_id and agents, which are for environments with a factory; leave them out"
    for name in GIVEN_TO_FACTORY:
        if entry.factory is not None and name in entry.kwargs:
            return f"'{entry.name}' with {name!r} in kwargs, which a3c-zoo gives the factory itself; leave it out"
    for name in entry.agents:
        if not _AGENT_NAME.fullmatch(name):
            return f"'{entry.name}' with the agent {name!r}, which must be called by letters, digits, '_', '-' and '.'"
    if len(set(entry.agents)) < len(entry.agents):
        return f"'{entry.name}' with two agents of the same name"
    return None


def _sections_fault(entry: AgentEntry) -> str | None:
    given = set(entry.sections)
    if given.issubset(SECTIONS) and given.issuperset(COMMON_SECTIONS):
        return None
    others = [name for name in SECTIONS if name not in COMMON_SECTIONS]
    return (
        f"AgentEntry {entry.name!r} with sections={entry.sections!r:.60}, which must have {listed(COMMON_SECTIONS)}, "
        f"and may have {listed(others)}"
    )


def _name_fault(entry: Entry) -> str | None:
    name = name_of(entry)
    if isinstance(entry, HyperparamEntry):
        is_dotted = all(part.isidentifier() for part in name.split("."))
        if is_dotted:
            return None
        return f"{name!r} as a package, which is no dotted module name"
    if _NAME.fullmatch(name):
        return None
    field = kind_of(entry).name_field
    return f"the {field} {name!r}; it may have a-z, 0-9, '_', '.', '-', and starts with a letter or digit"


def _expected(hook: str) -> str:
    return " or ".join(kind.__name__ for kind in OFFERED_BY[hook])


def _described(value: Any) -> str:
    if isinstance(value, Entry):
        return f"a single {type(value).__name__}"
    return f"{value!r:.60}"
