"""Loads plugins one at a time; a broken one is reported by name, distribution and version, and left out whole.

A plugin is an entry point of the group `a3c_zoo`. Each is first loaded into a plugin manager of its own: there its
hooks are checked and its entries gathered, so that every fault has one culprit and nothing half-registered is left.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Literal

import pluggy

from a3c_zoo.errors import PluginError, did_you_mean, one_line
from a3c_zoo.plugins import entries, hookspecs, offers
from a3c_zoo.version import __version__

GROUP = "a3c_zoo"
FIRST_PARTY_DISTRIBUTION = "a3c-zoo"

HOOKS = tuple(name for name in vars(hookspecs) if name.startswith("zoo_"))

Status = Literal["loaded", "blocked", "faulty"]

_ENTRY_KINDS = {kind.__name__: kind for kinds in offers.OFFERED_BY.values() for kind in kinds}
# How Python words what a dataclass of another version makes of a plugin's arguments.
_UNKNOWN_FIELD = re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")
_MISSING_FIELDS = re.compile(r"(\w+)\.__init__\(\) missing \d+ required positional arguments?: (.+)")


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """One plugin, for listings and error messages.

    Attributes:
        name: the entry point's name. module: what it points to.
        distribution, version: of the package that declares it.
        first_party: it comes with a3c-zoo itself.
        hooks: the names of the hooks that it implements.
        import_s: seconds that its import took.
        fault: one line on why it is left out, None where it isn't.
        status: "loaded"; "blocked" by an environment variable, then it was not even imported; or "faulty".
    """

    name: str
    module: str
    distribution: str
    version: str
    first_party: bool
    hooks: tuple[str, ...] = ()
    import_s: float = 0.0
    fault: str | None = None
    status: Status = "loaded"

    def __str__(self) -> str:
        return f"plugin '{self.name}' ({self.distribution} {self.version})"

    def as_faulty(self, fault: str) -> PluginInfo:
        """The same plugin, left out for this reason."""
        return replace(self, fault=fault, status="faulty")


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin as found: `implementation` is None and `offers` empty unless its status is "loaded"."""

    info: PluginInfo
    implementation: object | None = None
    offers: tuple[entries.Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """Which plugins may load, by entry point name; names that no plugin has are ignored.

    Attributes:
        disabled: these may not, first-party or not (`A3C_ZOO_DISABLE_PLUGINS`).
        allowed: of the third-party ones only these may; None: all (`A3C_ZOO_PLUGINS`).
    """

    disabled: frozenset[str] = frozenset()
    allowed: frozenset[str] | None = None

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] = os.environ) -> Selection:
        """Reads both variables; a variable that is set but empty allows, or disables, nothing."""
        allowed = environ.get("A3C_ZOO_PLUGINS")
        return cls(
            disabled=_names(environ.get("A3C_ZOO_DISABLE_PLUGINS", "")),
            allowed=None if allowed is None else _names(allowed),
        )

    def allows(self, info: PluginInfo) -> bool:
        """May this plugin load?"""
        if info.name in self.disabled:
            return False
        return info.first_party or self.allowed is None or info.name in self.allowed


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def new_manager() -> pluggy.PluginManager:
    """A plugin manager that knows the hooks and has no plugin."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


def load_plugins(selection: Selection) -> Iterator[Plugin]:
    """Yields every installed plugin, first-party ones first and the rest in order of distribution and name."""
    seen: dict[str, PluginInfo] = {}
    for info, point in sorted(map(_describe, metadata.entry_points(group=GROUP)), key=_load_order):
        first = seen.setdefault(info.name, info)
        if not selection.allows(info):
            yield Plugin(replace(info, status="blocked"))
        elif first is not info:
            yield Plugin(info.as_faulty(f"has the same name as {first}"))
        else:
            yield _load(info, point)


def _describe(point: metadata.EntryPoint) -> tuple[PluginInfo, metadata.EntryPoint]:
    distribution = (point.dist and point.dist.name) or "unknown"
    version = (point.dist and point.dist.version) or "unknown"
    first_party = distribution.replace("_", "-").lower() == FIRST_PARTY_DISTRIBUTION
    return PluginInfo(point.name, point.value, distribution, version, first_party), point


def _load_order(found: tuple[PluginInfo, metadata.EntryPoint]) -> tuple[bool, str, str]:
    info = found[0]
    return not info.first_party, info.distribution, info.name


def _load(info: PluginInfo, point: metadata.EntryPoint) -> Plugin:
    started = time.perf_counter()
    try:
        # What a plugin prints while it is imported must not end up in the middle of `--json`.
        with contextlib.redirect_stdout(sys.stderr):
            implementation: object = point.load()
    except (Exception, SystemExit) as error:
        seconds = time.perf_counter() - started
        fault = _version_fault(info, error) or f"its import failed: {one_line(error)}"
        return Plugin(replace(info.as_faulty(fault), import_s=seconds))
    info = replace(info, import_s=time.perf_counter() - started)
    manager = new_manager()
    try:
        info = replace(info, hooks=_check_hooks(manager, implementation))
        return Plugin(info, implementation, _gather_offers(manager, info))
    except PluginError as error:
        return Plugin(info.as_faulty(str(error)))
    except Exception as error:  # an attribute that raises when it is looked at, for one
        return Plugin(info.as_faulty(f"it cannot be examined: {one_line(error)}"))


def _check_hooks(manager: pluggy.PluginManager, implementation: object) -> tuple[str, ...]:
    """Registers the plugin with a manager of its own and returns the hooks that it implements."""
    implemented = []
    for name in dir(implementation):
        options = manager.parse_hookimpl_opts(implementation, name)
        hook = (options and options.get("specname")) or name
        if options is None and name.startswith("zoo_") and callable(getattr(implementation, name, None)):
            raise PluginError(f"function '{name}' is not marked with @a3c_zoo.hookimpl")
        if options is not None and hook not in HOOKS and not options.get("optionalhook"):
            raise PluginError(f"there is no hook '{hook}'.{did_you_mean(hook, HOOKS)}")
        if options is not None and hook in HOOKS:
            implemented.append(hook)
    try:
        manager.register(implementation)
    except pluggy.PluginValidationError as error:
        # The last line says what is wrong; those before it repeat which function of which file.
        raise PluginError(f"a hook has a wrong signature: {str(error).splitlines()[-1].strip()}") from error
    return tuple(sorted(implemented, key=HOOKS.index))


def _gather_offers(manager: pluggy.PluginManager, info: PluginInfo) -> tuple[entries.Entry, ...]:
    gathered: list[entries.Entry] = []
    for hook in info.hooks:
        if hook not in offers.OFFERED_BY:
            continue
        try:
            with contextlib.redirect_stdout(sys.stderr):
                offered = [offer for result in getattr(manager.hook, hook)() for offer in offers.as_list(hook, result)]
        except PluginError:
            raise
        except (Exception, SystemExit) as error:
            raise PluginError(_version_fault(info, error) or f"{hook}() failed: {one_line(error)}") from error
        gathered.extend(offers.check(hook, offer) for offer in offered)
    return tuple(gathered)


def _version_fault(info: PluginInfo, error: BaseException) -> str | None:
    """One line where the error says that the plugin expects another a3c-zoo than this one, else None."""
    message, near = str(error), ""
    unknown, missing = _UNKNOWN_FIELD.match(message), _MISSING_FIELDS.match(message)
    if isinstance(error, TypeError) and unknown and unknown[1] in _ENTRY_KINDS:
        what = f"it gives {unknown[1]} a field '{unknown[2]}' that is unknown"
        near = did_you_mean(unknown[2], [field.name for field in dataclasses.fields(_ENTRY_KINDS[unknown[1]])])
    elif isinstance(error, TypeError) and missing and missing[1] in _ENTRY_KINDS:
        what = f"it gives {missing[1]} no {missing[2]}"
    elif isinstance(error, ImportError) and (error.name or "").partition(".")[0] == GROUP:
        what = f"its import failed: {message.partition(' (')[0]}"
    else:
        return None
    cure = f"upgrade both (pip install --upgrade {FIRST_PARTY_DISTRIBUTION} {info.distribution})"
    return f"{what}: the plugin was made for another version of a3c-zoo than {__version__}; {cure}.{near}"
