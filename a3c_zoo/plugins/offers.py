"""Checks what a plugin offers, before anything is registered: the type, the entry revision, the names."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

from a3c_zoo.errors import PluginError
from a3c_zoo.plugins.entries import (
    ENTRY_REVISION,
    AgentEntry,
    CommandEntry,
    Entry,
    EnvEntry,
    EnvFamily,
    HyperparamEntry,
    NetworkEntry,
)

#: Offering hook → the entries that it may return.
OFFERED_BY: dict[str, tuple[type[Entry], ...]] = {
    "zoo_envs": (EnvEntry, EnvFamily),
    "zoo_agents": (AgentEntry,),
    "zoo_networks": (NetworkEntry,),
    "zoo_hyperparams": (HyperparamEntry,),
    "zoo_commands": (CommandEntry,),
}

#: Annotation of an entry's field → what a value must be, and whether it is. Another annotation has checks of its own.
_FIELD_TYPES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "str": ("a string", lambda value: isinstance(value, str)),
    "str | None": ("a string or None", lambda value: isinstance(value, str | None)),
    "bool": ("true or false", lambda value: isinstance(value, bool)),
    "int | None": (
        "a whole number or None",
        lambda value: value is None or (isinstance(value, int) and not isinstance(value, bool)),
    ),
    "float | None": ("a number or None", lambda value: isinstance(value, int | float | None)),
    "tuple[str, ...]": (
        "a tuple of strings",
        lambda value: isinstance(value, tuple) and all(isinstance(item, str) for item in value),
    ),
    "Mapping[str, Any]": ("a dictionary", lambda value: isinstance(value, Mapping)),
}

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")
_IMPORT_STRING = re.compile(r"[^:\s]+:[^:\s]+")


def as_list(hook: str, result: Any) -> list[Any]:
    """What one hook implementation returned, as a list.

    Raises:
        PluginError: it returned an entry, or something else that isn't a collection of them.
    """
    if isinstance(result, Entry | str) or not hasattr(result, "__iter__"):
        raise PluginError(f"{hook}() must return a list of {_expected(hook)}, not {_described(result)}")
    return list(result)


def check(hook: str, offer: Any) -> Entry:
    """Returns the entry that a hook offered.

    Raises:
        PluginError: it is no entry of that hook, is of another revision, or has an unusable name or import string.
    """
    if not isinstance(offer, OFFERED_BY[hook]):
        raise PluginError(f"{hook}() offers {_described(offer)} where {_expected(hook)} is expected")
    fault = _revision_fault(offer) or _type_fault(offer) or _fault(offer)
    if fault:
        raise PluginError(f"{hook}() offers {fault}")
    return offer


def name_of(entry: Entry) -> str:
    """The name under which an entry is registered."""
    match entry:
        case EnvFamily():
            return entry.prefix
        case HyperparamEntry():
            return entry.package
        case _:
            return entry.name


def check_resolved(family: EnvFamily, name: str, resolved: Any) -> EnvEntry:
    """Returns the entry that a family resolved a name to.

    Raises:
        PluginError: it can't be used.
    """
    fault: str | None
    if not isinstance(resolved, EnvEntry):
        fault = f"{_described(resolved)} where an EnvEntry is expected"
    elif not str(resolved.name).startswith(f"{family.prefix}:"):
        fault = f"the name '{resolved.name}', which does not begin with '{family.prefix}:'"
    else:
        fault = _revision_fault(resolved) or _type_fault(resolved) or _env_fault(resolved)
    if fault or not isinstance(resolved, EnvEntry):
        raise PluginError(f"environment '{name}' resolves to {fault}")
    return resolved


def _revision_fault(entry: Entry) -> str | None:
    """First of all checks: in another revision the other fields may mean something else."""
    if entry.revision == ENTRY_REVISION:
        return None
    age, cure = "another", "upgrade both"
    if isinstance(entry.revision, int):
        newer = entry.revision > ENTRY_REVISION
        age, cure = ("a newer", "upgrade a3c-zoo") if newer else ("an older", "upgrade the plugin")
    kind = type(entry).__name__
    return (
        f"{'an' if kind[0] in 'AE' else 'a'} {kind} of revision {entry.revision!r}, but this version of a3c-zoo "
        f"understands revision {ENTRY_REVISION}: the plugin was made for {age} version of a3c-zoo; {cure}"
    )


def _type_fault(entry: Entry) -> str | None:
    for field in dataclasses.fields(entry):
        expected, is_sound = _FIELD_TYPES.get(str(field.type), ("", lambda value: True))
        value = getattr(entry, field.name)
        if not is_sound(value):
            return (
                f"{type(entry).__name__} {name_of(entry)!r} with {field.name}={value!r:.60}, which must be {expected}"
            )
    return None


def _fault(entry: Entry) -> str | None:
    """What is wrong with the contents of an entry, None for nothing."""
    name = name_of(entry)
    if isinstance(entry, HyperparamEntry):
        sound = all(part.isidentifier() for part in name.split("."))
        return None if sound else f"{name!r} as a package, which is no dotted module name"
    if not _NAME.fullmatch(name):
        what = "prefix" if isinstance(entry, EnvFamily) else "name"
        return f"the {what} {name!r}; it may have a-z, 0-9, '_', '.', '-', and starts with a letter or digit"
    match entry:
        case EnvEntry():
            return _env_fault(entry)
        case EnvFamily():
            return _import_fault(name, resolve=entry.resolve)
        case AgentEntry():
            if entry.kind not in ("agent", "baseline"):
                return f"'{name}' of kind {entry.kind!r}, which is neither 'agent' nor 'baseline'"
            return _import_fault(name, run=entry.run, load=entry.load, config=entry.config)
        case NetworkEntry():
            return _import_fault(name, factory=entry.factory, config=entry.config)
        case CommandEntry():
            return _import_fault(name, command=entry.command)


def _env_fault(entry: EnvEntry) -> str | None:
    if (entry.factory is None) == (entry.env_id is None):
        given = "neither" if entry.factory is None else "both"
        return f"'{entry.name}' with {given} of factory and env_id; give exactly one"
    strings = {"config": entry.config} if entry.factory is None else {"factory": entry.factory, "config": entry.config}
    return _import_fault(entry.name, **strings)


def _import_fault(name: str, **strings: str) -> str | None:
    for field, value in strings.items():
        if not _IMPORT_STRING.fullmatch(value):
            return f"'{name}' with {field}={value!r}, which is no import string 'package.module:attribute'"
    return None


def _expected(hook: str) -> str:
    return " or ".join(kind.__name__ for kind in OFFERED_BY[hook])


def _described(value: Any) -> str:
    return f"a single {type(value).__name__}" if isinstance(value, Entry) else f"{value!r:.60}"
