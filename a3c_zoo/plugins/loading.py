"""Loads plugins one at a time; a faulty one is reported by name, distribution and version, and left out whole.

A plugin is an entry point of the group `a3c_zoo`, or a file that the user names. Each plugin is first
registered with a plugin manager of its own, where its hooks are checked and its entries gathered. So each
fault has one culprit, and nothing is half registered.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module, metadata
from typing import Literal, NoReturn

import pluggy

from a3c_zoo.cures import DISTRIBUTION, upgrade
from a3c_zoo.errors import PluginError, did_you_mean, one_line
from a3c_zoo.library_settings import kept_settings
from a3c_zoo.plugins import hookspecs
from a3c_zoo.plugins.entries import Entry
from a3c_zoo.plugins.module_files import MODULE_FILES
from a3c_zoo.plugins.offers import KINDS, OFFERED_BY, as_list, check
from a3c_zoo.version import __version__

GROUP = "a3c_zoo"
#: The variable with the paths of plugin files, joined as those of PATH.
PLUGIN_FILES = "A3C_ZOO_PLUGIN_FILES"

HOOKS = tuple(name for name in vars(hookspecs) if name.startswith("zoo_"))

#: A plugin that is imported for longer is slow, in seconds: every command waits for it.
SLOW_IMPORT_S = 2.0
#: After so long a line names the plugin whose import goes on, in seconds. A busy machine takes some for torch.
TOLD_IMPORT_S = 10.0

# A requirement of a3c-zoo itself, with a version.
_NEEDS_A3C_ZOO = re.compile(r"a3c[-_.]zoo\s*(\[[^]]*\])?\s*\(?[<>=!~]", re.IGNORECASE)

# Python's messages when a plugin gives an entry arguments that this version does not have.
_UNKNOWN_FIELD = re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")
_MISSING_FIELDS = re.compile(r"(\w+)\.__init__\(\) missing \d+ required positional arguments?: (.+)")


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """One plugin, for listings and error messages.

    Attributes:
        name: the entry point's name; of a plugin file the name of its module.
        module: what the entry point names: `module` or `module:object`.
        distribution, version: the package that declares the entry point; of a plugin file its name, and "".
        first_party: whether it comes with a3c-zoo.
        hooks: the names of the hooks that it implements.
        import_s: duration of its import, in seconds.
        fault: why it is left out, in one line; None if it is not faulty. trace: the traceback of the fault,
            or "".
        status: "loaded", "faulty", or "blocked" by an environment variable. A blocked plugin is not imported.
        file: path of a plugin file; "" for an installed plugin.
    """

    name: str
    module: str
    distribution: str
    version: str
    first_party: bool
    hooks: tuple[str, ...] = ()
    import_s: float = field(default=0.0, compare=False)
    fault: str | None = None
    status: Literal["loaded", "blocked", "faulty"] = "loaded"
    trace: str = ""
    file: str = ""

    def __str__(self) -> str:
        return f"plugin '{self.name}' ({f'{self.distribution} {self.version}'.strip()})"

    def as_faulty(self, fault: str, error: BaseException | None = None) -> PluginInfo:
        """Returns the same plugin with this fault, and with the traceback of the error that showed it."""
        if error is None:
            trace = ""
        else:
            trace = "".join(traceback.format_exception(error))
        return replace(self, fault=fault, status="faulty", trace=trace)


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin that was found: `implementation` is None and `offers` is empty unless its status is "loaded"."""

    info: PluginInfo
    implementation: object | None = None
    offers: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """Which plugins may load, by entry point name.

    Attributes:
        disabled: plugins that may not load, first-party ones included (`A3C_ZOO_DISABLE_PLUGINS`).
        allowed: the only third-party plugins that may load; None: all (`A3C_ZOO_PLUGINS`).
        files: paths of plugin files, which load in any case (`A3C_ZOO_PLUGIN_FILES`, `--plugin`).
    """

    disabled: frozenset[str] = frozenset()
    allowed: frozenset[str] | None = None
    files: tuple[str, ...] = ()

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] = os.environ) -> Selection:
        """Reads the variables; an empty one disables, allows or names nothing."""
        allowed = environ.get("A3C_ZOO_PLUGINS")
        return cls(
            disabled=_names(environ.get("A3C_ZOO_DISABLE_PLUGINS", "")),
            allowed=None if allowed is None else _names(allowed),
            files=tuple(filter(None, environ.get(PLUGIN_FILES, "").split(os.pathsep))),
        )

    def blocked_by(self, info: PluginInfo) -> str:
        """Returns the environment variable that blocks a plugin; "" if it may load."""
        if info.name in self.disabled:
            return "A3C_ZOO_DISABLE_PLUGINS"
        is_allowed = info.first_party or self.allowed is None or info.name in self.allowed
        return "" if is_allowed else "A3C_ZOO_PLUGINS"

    def unknown(self, plugins: Iterable[PluginInfo]) -> list[str]:
        """Returns the names in `allowed` that no installed plugin has, sorted. They allow nothing."""
        return sorted((self.allowed or frozenset()) - {info.name for info in plugins})


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def new_manager() -> pluggy.PluginManager:
    """Makes a plugin manager that knows the hooks and has no plugin."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


def load_plugins(selection: Selection) -> Iterator[Plugin]:
    """Yields every plugin: first-party ones first, other installed ones by distribution and name, then plugin files."""
    points = [(_describe(point), point) for point in metadata.entry_points(group=GROUP)]
    points.sort(key=lambda each: (not each[0].first_party, each[0].distribution, each[0].name))
    seen: dict[str, PluginInfo] = {}
    for info, point in points:
        if selection.blocked_by(info):
            yield Plugin(replace(info, status="blocked"))
        elif (first := seen.setdefault(info.name, info)) is not info:
            yield Plugin(info.as_faulty(f"has the same name as {first}"))
        elif fault := _unmet_need(info, point):
            yield Plugin(info.as_faulty(fault))
        else:
            yield _load(info, point.load)
    for file in dict.fromkeys(map(os.path.abspath, selection.files)):
        yield _load_file(file, seen)


def _load_file(file: str, seen: dict[str, PluginInfo]) -> Plugin:
    """Loads a plugin file, and adds it to the plugins that were seen."""
    name = os.path.basename(file)
    info = PluginInfo(os.path.splitext(name)[0], "", name, "", first_party=False, file=file)
    first = seen.setdefault(info.name, info)
    if first is not info:
        other = f"{first.file}; rename one" if first.file else first
        return Plugin(info.as_faulty(f"has the same name as {other}"))
    try:
        module = MODULE_FILES.add_plugin(file)
    except PluginError as error:
        return Plugin(info.as_faulty(str(error)))
    plugin = _load(replace(info, module=module), partial(import_module, module))
    if plugin.info.status == "loaded" and not plugin.info.hooks:
        return Plugin(
            plugin.info.as_faulty("it defines nothing: it has no function that is marked with @hookimpl")
        )
    return plugin


def _describe(point: metadata.EntryPoint) -> PluginInfo:
    distribution = (point.dist and point.dist.name) or "unknown"
    version = (point.dist and point.dist.version) or "unknown"
    first_party = distribution.replace("_", "-").lower() == DISTRIBUTION
    return PluginInfo(point.name, point.value, distribution, version, first_party)


def _unmet_need(info: PluginInfo, point: metadata.EntryPoint) -> str:
    """Says which version of a3c-zoo the plugin's distribution requires; empty if it is this one.

    An installation without dependencies, or an upgrade of a3c-zoo alone, leads to it.
    """
    needs = [each for each in (point.dist and point.dist.requires) or () if _NEEDS_A3C_ZOO.match(each)]
    if info.first_party or not needs:
        return ""
    from packaging.requirements import InvalidRequirement, Requirement

    for text in needs:
        try:
            need = Requirement(text)
        except InvalidRequirement:  # old build tools wrote some that nobody can read
            continue
        is_meant = need.marker is None or need.marker.evaluate({"extra": ""})
        if is_meant and not need.specifier.contains(__version__, prereleases=True):
            cure = f"install versions that fit together ({upgrade(info.distribution)})"
            return f"it requires a3c-zoo{need.specifier}, and this is {__version__}: {cure}"
    return ""


@contextlib.contextmanager
def _watched_import(info: PluginInfo) -> Iterator[None]:
    """While a plugin is imported: names it if that takes long, and if it ends the process.

    Nobody could tell otherwise which of the plugins does it.
    """
    without = "" if info.file else f"; to do without it: A3C_ZOO_DISABLE_PLUGINS={info.name}"
    line = f"Note: importing {info} takes more than {TOLD_IMPORT_S:g} s{without}\n"
    timer = threading.Timer(TOLD_IMPORT_S, lambda: sys.stderr.write(line))
    timer.daemon = True
    before = os._exit
    pid = os.getpid()

    def leave(status: int) -> NoReturn:
        if os.getpid() != pid or os._exit is not leave:  # in a fork of the plugin's, or kept for later
            before(status)
        raise SystemExit(status)

    timer.start()
    os._exit = leave
    try:
        yield
    finally:
        os._exit = before
        timer.cancel()
        timer.join()  # a thread that lives would keep others from forking


def _load(info: PluginInfo, load: Callable[[], object]) -> Plugin:
    """Loads and checks a plugin. What it prints goes to stderr, because it would damage the output of `--json`."""
    with contextlib.redirect_stdout(sys.stderr), kept_settings():
        return _load_quietly(info, load)


def _load_quietly(info: PluginInfo, load: Callable[[], object]) -> Plugin:
    started = time.perf_counter()
    try:
        with _watched_import(info):
            implementation = load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of a module in Rust is no Exception
        seconds = time.perf_counter() - started
        if isinstance(error, SystemExit):
            failed = f"its import ends the process: {one_line(error)}"
        else:
            failed = f"its import failed: {one_line(error)}"
        fault = _version_fault(info, error) or failed
        return Plugin(replace(info.as_faulty(fault, error), import_s=seconds))
    info = replace(info, import_s=time.perf_counter() - started)
    manager = new_manager()
    try:
        info = replace(info, hooks=check_hooks(manager, implementation))
        offers = tuple(
            entry for hook in info.hooks if hook in OFFERED_BY for entry in _gather(manager, hook, info)
        )
    except PluginError as error:
        return Plugin(info.as_faulty(str(error), error.__cause__))
    except Exception as error:  # for example, an attribute that raises when it is read
        return Plugin(info.as_faulty(f"it cannot be examined: {one_line(error)}", error))
    return Plugin(info, implementation, offers)


def check_hooks(manager: pluggy.PluginManager, implementation: object) -> tuple[str, ...]:
    """Registers the plugin with its own manager; returns the hooks that it implements, in order."""
    for name in (name for name in dir(implementation) if name.startswith("zoo_")):
        options = manager.parse_hookimpl_opts(implementation, name)
        if options is None and callable(getattr(implementation, name, None)):
            raise PluginError(f"function '{name}' is not marked with @a3c_zoo.hookimpl")
    try:
        manager.register(implementation)
    except pluggy.PluginValidationError as error:
        # The last line says what is wrong; the lines before it repeat the function and the file.
        raise PluginError(f"a hook has a wrong signature: {str(error).splitlines()[-1].strip()}") from error
    hooks = {caller.name: caller.get_hookimpls() for caller in manager.get_hookcallers(implementation) or ()}
    for name, functions in hooks.items():
        if name not in HOOKS and not all(function.optionalhook for function in functions):
            cure = f"Or a newer a3c-zoo has it: {upgrade()}"
            raise PluginError(
                f"a3c-zoo {__version__} has no hook '{name}'.{did_you_mean(name, HOOKS)} {cure}"
            )
    return tuple(hook for hook in HOOKS if hook in hooks)


def _gather(manager: pluggy.PluginManager, hook: str, info: PluginInfo) -> list[Entry]:
    """Calls an offering hook of the one plugin that `manager` has; returns the checked entries."""
    caller: pluggy.HookCaller = getattr(manager.hook, hook)
    try:
        # One by one, because pluggy's own call leaves out those that return None.
        results = [implementation.function() for implementation in caller.get_hookimpls()]
        offered = [offer for result in results for offer in as_list(hook, result)]
    except (PluginError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise PluginError(_version_fault(info, error) or f"{hook}() failed: {one_line(error)}") from error
    return [check(hook, offer) for offer in offered]


def _version_fault(info: PluginInfo, error: BaseException) -> str | None:
    """Returns one line if the error shows that the plugin expects another version of a3c-zoo, else None."""
    kinds = {kind.__name__: kind for kind in KINDS}
    message = str(error)
    near = ""
    unknown = _UNKNOWN_FIELD.match(message)
    missing = _MISSING_FIELDS.match(message)
    if isinstance(error, TypeError) and unknown and unknown[1] in kinds:
        fault = f"it gives {unknown[1]} a field '{unknown[2]}' that is unknown"
        near = did_you_mean(unknown[2], [field.name for field in dataclasses.fields(kinds[unknown[1]])])
    elif isinstance(error, TypeError) and missing and missing[1] in kinds:
        fault = f"it gives {missing[1]} no {missing[2]}"
    elif isinstance(error, ImportError) and (error.name or "").partition(".")[0] == GROUP:
        fault = f"its import failed: {message.partition(' (')[0]}"
    else:
        return None
    if info.file:
        return f"{fault}.{near}"
    cure = f"upgrade both ({upgrade(info.distribution)})"
    return f"{fault}: the plugin was made for another version of a3c-zoo than {__version__}; {cure}.{near}"
