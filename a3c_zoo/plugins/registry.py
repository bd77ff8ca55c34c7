"""Everything that has a name: name → entry, and the plugin that offers it.

A plugin that offers a name that is taken, or a reserved prefix, is left out whole. First-party plugins are
registered first, so no other plugin can take their names.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from a3c_zoo.cures import install_extra, install_plugin
from a3c_zoo.errors import (
    PluginError,
    UnknownNameError,
    ZooError,
    one_line,
    text_argument,
    type_and_message,
    unknown_name,
)
from a3c_zoo.plugins import entries
from a3c_zoo.plugins.entries import (
    AgentEntry,
    Entry,
    EnvEntry,
    EnvFamily,
    HookEntry,
    NetworkEntry,
    OptimizerEntry,
)
from a3c_zoo.plugins.loading import Plugin, PluginInfo, Selection, check_hooks, load_plugins, new_manager
from a3c_zoo.plugins.module_files import cure_in_current_folder
from a3c_zoo.plugins.offers import OFFERED_BY, fault_of, fault_of_resolved, kind_of, name_of
from a3c_zoo.plugins.run_hooks import RunHooks
from a3c_zoo.synonyms import agent_cure

#: The prefix of classes and functions that make environments.
PYTHON = "python"
#: Only first-party plugins may offer these prefixes, even while the plugin that offers them is not loaded.
RESERVED_PREFIXES = frozenset({"atari", "gym", PYTHON})

#: Stands for the plugin of an environment that a program gives.
GIVEN = PluginInfo("python", "", "a3c_zoo.train", "", first_party=False)

_E = TypeVar("_E", bound=Entry)


class Registry:
    """The entries of all usable plugins, in loading order: first-party plugins first.

    Attributes:
        envs, families: environments by name, without those of families; families by prefix.
        agents: agents and baselines by name; `entry.kind` tells them apart.
        networks, optimizers, commands: entries by name.
        hyperparams: packages of hyperparameter sets by package name.
        hooks: run hooks that a run chooses, by name. trained: trained agents by their own name. engines: by
            name.
        plugins: every plugin that was found, with its final status.
        told: what the user has been told about packages of sets, once.
    """

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        self._entries: dict[tuple[str, str], tuple[Entry, PluginInfo]] = {}
        self._loaded: list[Plugin] = []
        infos: list[PluginInfo] = []
        for plugin in plugins:
            clash = self._clash(plugin)
            infos.append(plugin.info.as_faulty(clash) if clash else plugin.info)
            if plugin.implementation is not None and not clash:
                self._entries |= {_key(entry): (entry, plugin.info) for entry in plugin.offers}
                self._loaded.append(plugin)
        self.envs = self._by_name(EnvEntry)
        self.families = self._by_name(EnvFamily)
        self.agents = self._by_name(AgentEntry)
        self.networks = self._by_name(NetworkEntry)
        self.optimizers = self._by_name(OptimizerEntry)
        self.hyperparams = self._by_name(entries.HyperparamEntry)
        self.hooks = self._by_name(entries.HookEntry)
        self.trained = self._by_name(entries.TrainedEntry)
        self.engines = self._by_name(entries.EngineEntry)
        self.commands = self._by_name(entries.CommandEntry)
        self.plugins: tuple[PluginInfo, ...] = tuple(infos)
        self.told: set[str] = set()
        # A run and the name of its environment → what a program gave to it, see `give_for_run`.
        self._of_runs: dict[tuple[Path, str], tuple[EnvEntry, PluginInfo]] = {}

    @property
    def faults(self) -> tuple[PluginInfo, ...]:
        """The plugins that are left out because of a fault."""
        return tuple(info for info in self.plugins if info.status == "faulty")

    def env(self, name: str, *, is_trusted: bool = True, doubt: str = "") -> EnvEntry:
        """Returns the environment `name`, which may be `prefix:rest`.

        Args:
            is_trusted: whether the name may choose a module to import, as `gym:my_package:Maze-v0` does. A
                name that a stranger's file holds may not. Modules that are imported already may be named.
            doubt: why it is not trusted, for the message.

        Raises:
            UnknownNameError: there is none.
            PluginError: the plugin of the family fails to resolve the name.
            ZooError: it names a module, and is not trusted.
        """
        prefix, colon, rest = name.partition(":")
        if not is_trusted and (module := imported_by(name)):
            raise ZooError(
                f"environment '{name}' would import '{module}', and the run that names it is not your own"
                f"{doubt and f': {doubt}'}. If you trust whoever made it: --trust"
            )
        if colon and prefix in self.families:
            return self._resolve(self.families[prefix], name, rest)
        near = [example for family in self.families.values() for example in whole_examples(family)]
        near += [f"{prefix}:{rest}" for prefix in self.families if colon]
        try:
            return self._find("environment", name, self.envs, near)
        except UnknownNameError as error:
            if cure := cure_in_current_folder(name, has_hint="Did you mean" in str(error)):
                raise UnknownNameError(f"unknown environment '{name}'. {cure}") from None
            if (
                colon
                or "Did you mean" in str(error)
                or not re.search(r"-v\d+$", name)
                or "gym" not in self.families
            ):
                raise
        # If Gymnasium does not know it either, this raises the error of its family.
        as_id = self.env(f"gym:{name}").name
        raise UnknownNameError(
            f"unknown environment '{name}'. Did you mean '{as_id}'? See: a3c-zoo list envs"
        )

    def with_arguments(self, env: EnvEntry, kwargs: Mapping[str, object]) -> EnvEntry:
        """Returns an environment with the variant and the agents that it has if it is made with these arguments.

        Args:
            kwargs: the arguments (`env.kwargs`).

        Raises:
            PluginError: the plugin of its family fails.
        """
        prefix, _, rest = env.name.partition(":")
        family = self.families.get(prefix)
        if family is None or not kwargs:
            return env
        told = {"variant": family.variant, "agents": family.agents}
        changed: dict[str, Any] = {}
        for field, path in told.items():
            if path is None:
                continue
            try:
                changed[field] = entries.load_object(path)(rest, kwargs)
            except ZooError:
                raise
            except Exception as error:
                why = type_and_message(error)
                raise PluginError(
                    f"{self.owner(family)} failed to tell the {field} of '{env.name}': {why}"
                ) from error
        made = replace(env, **changed)
        if fault := fault_of_resolved(family, made):
            raise PluginError(
                f"env.kwargs: environment '{env.name}' of {self.owner(family)} resolves to {fault}"
            )
        return made

    def agent(self, name: str) -> AgentEntry:
        """Returns the agent or baseline `name`. Raises UnknownNameError if there is none."""
        return self._find("agent", name, self.agents)

    def network(self, name: str) -> NetworkEntry:
        """Returns the network `name`. Raises UnknownNameError if there is none."""
        return self._find("network", name, self.networks)

    def optimizer(self, name: str) -> OptimizerEntry:
        """Returns the optimizer `name`. Raises UnknownNameError if there is none."""
        return self._find("optimizer", name, self.optimizers)

    def engine(self, name: str) -> entries.EngineEntry:
        """Returns the engine `name`. Raises UnknownNameError if there is none."""
        return self._find("engine", name, self.engines)

    def give(self, env: EnvEntry, module: str) -> None:
        """Adds an environment that a program gives, or replaces one that it gave before.

        Args:
            module: where its code lies.

        Raises:
            PluginError: the entry has a fault, or its name is taken.
        """
        if fault := fault_of(env):
            raise PluginError(f"a3c_zoo.train was given {fault}")
        _, owner = self._entries.get(_key(env), (env, GIVEN))
        if owner.distribution != GIVEN.distribution:
            raise PluginError(
                f"{owner} has another environment '{env.name}' than a3c_zoo.train was given; rename one"
            )
        self.envs[env.name] = env
        self._entries[_key(env)] = env, replace(GIVEN, module=module)

    def given_to_run(self, run: Path, name: str) -> None:
        """Keeps in mind that the environment of this name is that of a run, if a program has given it."""
        entry = self.envs.get(name)
        if entry is not None and self.owner(entry).distribution == GIVEN.distribution:
            self._of_runs[run.resolve(), name] = entry, self.owner(entry)

    def give_for_run(self, run: Path, name: str, path: str) -> bool:
        """Gives again what a program gave to a run, in place of what else it gave by this name.

        Args:
            run: its directory. name: the environment's.
            path: its import string; "" if no other program can import it, or this one may not.

        Returns:
            Whether the run's environment is known. It is if a plugin offers one of this name.

        Raises:
            ZooError: it cannot be imported.
        """
        known = self.envs.get(name)
        if known is not None and self.owner(known).distribution != GIVEN.distribution:
            return True
        if (run.resolve(), name) not in self._of_runs:
            if not path:
                return False
            self.give(replace(self.env(f"{PYTHON}:{path}"), name=name), path)
            self.given_to_run(run, name)
        entry, owner = self._of_runs[run.resolve(), name]
        self.envs[name] = entry
        self._entries[_key(entry)] = entry, owner
        return True

    def run_hooks(self, chosen: Mapping[str, object]) -> RunHooks:
        """Returns the run hooks of all plugins, and makes those that a run has chosen.

        Args:
            chosen: name of a `HookEntry` → its settings, an instance of the model that the entry names.

        Raises:
            PluginError: hooks cannot be made; the message names them and their plugin.
        """
        manager = new_manager()
        loggers = []
        for plugin in self._loaded:
            manager.register(plugin.implementation, name=str(plugin.info))
        for name, settings in chosen.items():
            entry = self.hooks[name]
            title = f"run hook '{name}' of {self.owner(entry)}"
            hooks = _make_hooks(entry, settings, title)
            if not entry.fatal:
                loggers.append(new_manager())
            try:
                own_manager = manager if entry.fatal else loggers[-1]
                own_manager.register(hooks, name=title)
            except ValueError as error:  # of pluggy
                raise PluginError(
                    f"{title} cannot be used: another run hook is the same object, or equal"
                ) from error
        return RunHooks(manager, loggers)

    def owner(self, entry: Entry) -> PluginInfo:
        """Returns the plugin that offers an entry, or the family that an environment was resolved by."""
        namespace, name = _key(entry)
        return self._entries[namespace, name.partition(":")[0]][1]

    def offers(self, plugin: PluginInfo) -> list[Entry]:
        """Returns what a plugin offers; nothing if it is not loaded."""
        return [entry for entry, owner in self._entries.values() if owner == plugin]

    def _by_name(self, kind: type[_E]) -> dict[str, _E]:
        return {name: entry for (_, name), (entry, _) in self._entries.items() if isinstance(entry, kind)}

    def _find(self, namespace: str, name: str, known: Mapping[str, _E], near: Iterable[str] = ()) -> _E:
        """Returns an entry by its name. The error of an unknown name suggests one of `known` or `near`."""
        if text_argument(namespace, name) in known:
            return known[name]
        listing = f"a3c-zoo list {namespace.replace('environment', 'env')}s"
        error = unknown_entry(namespace, name, [*known, *near], listing=listing)
        faulty = ", ".join(map(str, self.faults))
        # A faulty plugin may be the one that offers the name.
        if faulty:
            raise UnknownNameError(f"{error} (left out as faulty: {faulty}: a3c-zoo list plugins)")
        raise error

    def _clash(self, plugin: Plugin) -> str | None:
        """Returns why the plugin cannot be registered, None if it can."""
        for other in self._loaded:
            if plugin.implementation is other.implementation:
                return f"is the same module as {other.info}"
        own = set()
        for entry in plugin.offers:
            key = namespace, name = _key(entry)
            if namespace == "environment" and name in RESERVED_PREFIXES and not plugin.info.first_party:
                return f"offers the environment name or prefix '{name}', which is reserved"
            if key in own:
                return f"offers the {namespace} '{name}' twice"
            if key in self._entries:
                return f"offers the {namespace} '{name}', which {self._entries[key][1]} offers already"
            own.add(key)
        return None

    def _resolve(self, family: EnvFamily, name: str, rest: str) -> EnvEntry:
        culprit = self.owner(family)
        try:
            with redirect_stdout(sys.stderr):  # what a module prints would damage the output of `--json`
                resolved: EnvEntry = entries.load_object(family.resolve)(rest)
        except (Exception, SystemExit) as error:
            is_plugins = isinstance(error, PluginError)
            if isinstance(error, ZooError) and not is_plugins:
                raise  # the user's error, such as an unknown name
            why = str(error) if is_plugins else type_and_message(error)
            raise PluginError(f"{culprit} failed to resolve environment '{name}': {why}") from error
        if fault := fault_of_resolved(family, resolved):
            raise PluginError(f"environment '{name}' of {culprit} resolves to {fault}")
        return resolved


def _make_hooks(entry: HookEntry, settings: object, title: str) -> object:
    try:
        hooks: object = entries.load_object(entry.hooks)(settings)
        names = check_hooks(new_manager(), hooks)
    except (Exception, SystemExit) as error:
        if isinstance(error, ZooError):
            why = str(error)
        else:
            why = one_line(error)
        raise PluginError(f"{title} cannot be made: {why}") from error
    offering = [name for name in names if name in OFFERED_BY]
    if offering or not names:
        which = f"{offering[0]}, which is " if offering else ""
        raise PluginError(f"{title} has {which}no run hook")
    return hooks


def _key(entry: Entry) -> tuple[str, str]:
    return kind_of(entry).namespace, name_of(entry)


def module_named_by(env_name: str) -> str:
    """The module that an environment's name has: `my_package` for `gym:my_package:Maze-v0`; "" without one."""
    prefix, _, rest = env_name.partition(":")
    if prefix == PYTHON:
        return rest.partition(":")[0]
    return rest.rpartition(":")[0]


def imported_by(env_name: str) -> str:
    """The module that looking up an environment would import.

    It is "" for a name without a module, and for a module that is imported already. A class or a function of one counts
    as not imported: it is called.
    """
    module = module_named_by(env_name)
    if module in sys.modules and not env_name.startswith(f"{PYTHON}:"):
        return ""
    return module


def whole_examples(family: EnvFamily) -> list[str]:
    """The examples of a family that need no module to be imported: `gym:my_package:Maze-v0` is only a form."""
    return [example for example in family.examples if not imported_by(example)]


#: Kind and name of what a distribution of this project offers → the extra that installs it.
EXTRAS_OF = {("engine", "ray"): "ray", ("agent", "a3c-ray"): "ray"}
#: Name of a run hook → the distribution of this project that offers it.
HOOKS_OF = dict.fromkeys(("wandb", "trackio", "mlflow"), "a3c-zoo-wandb")


def unknown_entry(
    kind: str, name: str, known: Iterable[str], listing: str = "", option: str = "--agent"
) -> UnknownNameError:
    """As `unknown_name`, for an entry. If an extra of this project brings it, the cure installs that.

    option: that names an agent, "" for none.
    """
    if extra := EXTRAS_OF.get((kind, name)):
        return UnknownNameError(f"unknown {kind} '{name}'. It comes with: {install_extra(extra)}")
    if kind == "run hook" and name in HOOKS_OF:
        return UnknownNameError(f"unknown {kind} '{name}'. It comes with: {install_plugin(HOOKS_OF[name])}")
    known = [*known]
    if kind not in ("agent", "baseline"):
        return unknown_name(kind, name, known, listing)
    if cure := agent_cure(name, known, option):
        return UnknownNameError(f"unknown {kind} '{name}'. {cure}")
    # In a short name a wrong digit is a slip, which a wrong letter is not.
    same = [each for each in known if re.sub(r"\d", "0", each) == re.sub(r"\d", "0", name)]
    if not same:
        return unknown_name(kind, name, known, listing)
    return UnknownNameError(
        f"unknown {kind} '{name}'. Did you mean '{same[0]}'?{listing and f' See: {listing}'}"
    )


def load_registry(selection: Selection | None = None) -> Registry:
    """Loads the plugins anew; by default `selection` comes from the environment variables.

    Raises:
        PluginError: a plugin file has a fault. The user has named it, so it is not left out.
    """
    if selection is None:
        selection = Selection.from_environ()
    registry = Registry(load_plugins(selection))
    for info in registry.faults:
        if info.file:
            # --debug shows the traceback.
            traced = PluginError(f"its traceback:\n\n{info.trace.rstrip()}") if info.trace else None
            raise PluginError(f"plugin file {info.file}: {info.fault}") from traced
    return registry


@functools.cache
def get_registry() -> Registry:
    """Returns the registry of this process, which is made on first use."""
    return load_registry()
