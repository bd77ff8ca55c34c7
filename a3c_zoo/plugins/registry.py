"""Everything that can be named: name → entry, and the plugin that offers it.

One rule for clashes: a plugin that offers a name that is taken, or a reserved prefix, is left out whole. First-party
plugins come first, so that nothing can take their names.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from a3c_zoo.errors import PluginError, UnknownNameError, ZooError, unknown_name
from a3c_zoo.plugins import offers
from a3c_zoo.plugins.entries import (
    AgentEntry,
    CommandEntry,
    Entry,
    EnvEntry,
    EnvFamily,
    HyperparamEntry,
    NetworkEntry,
    load_object,
)
from a3c_zoo.plugins.loading import Plugin, PluginInfo, Selection, load_plugins, new_manager
from a3c_zoo.plugins.run_hooks import RunHooks

#: Family prefixes that are first-party's even while the plugin that offers them is not loaded.
RESERVED_PREFIXES = frozenset({"atari", "gym"})


class Registry:
    """The entries of all usable plugins.

    Attributes:
        envs: environments by name, without those of families.
        families: environment families by prefix.
        agents: agents and baselines by name; `entry.kind` tells them apart.
        networks: networks by name.
        hyperparams: packages of hyperparameter sets by package name.
        commands: sub-commands by name.
        plugins: every plugin that was found, with its final status.
        hooks: the run hooks of the loaded plugins.

    Everything is in loading order: first-party plugins first.
    """

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        self.envs: dict[str, EnvEntry] = {}
        self.families: dict[str, EnvFamily] = {}
        self.agents: dict[str, AgentEntry] = {}
        self.networks: dict[str, NetworkEntry] = {}
        self.hyperparams: dict[str, HyperparamEntry] = {}
        self.commands: dict[str, CommandEntry] = {}
        self._owners: dict[tuple[str, str], PluginInfo] = {}
        manager = new_manager()
        found: list[PluginInfo] = []
        for plugin in plugins:
            twin = plugin.implementation is not None and manager.get_name(plugin.implementation)
            clash = f"is the same module as plugin '{twin}'" if twin else self._clash(plugin)
            found.append(plugin.info.as_faulty(clash) if clash else plugin.info)
            if plugin.implementation is not None and not clash:
                self._add(plugin)
                manager.register(plugin.implementation, name=plugin.info.name)
        self.plugins: tuple[PluginInfo, ...] = tuple(found)
        self.hooks = RunHooks(manager, {info.name: info for info in found if info.status == "loaded"})

    @property
    def faults(self) -> tuple[PluginInfo, ...]:
        """The plugins that are left out because something is wrong with them."""
        return tuple(info for info in self.plugins if info.status == "faulty")

    def env(self, name: str) -> EnvEntry:
        """The environment of this name, `prefix:rest` included.

        Raises:
            UnknownNameError: there is none.
            PluginError: the plugin of the family fails to resolve the name.
        """
        prefix, colon, rest = name.partition(":")
        if colon and prefix in self.families:
            return self._resolve(self.families[prefix], name, rest)
        if name in self.envs:
            return self.envs[name]
        known = [*self.envs, *(example for family in self.families.values() for example in family.examples)]
        known += [f"{prefix}:{rest}" for prefix in self.families if colon]
        raise self._unknown("environment", name, known)

    def agent(self, name: str) -> AgentEntry:
        """The agent or baseline of this name.

        Raises:
            UnknownNameError: there is none.
        """
        if name in self.agents:
            return self.agents[name]
        raise self._unknown("agent", name, self.agents)

    def network(self, name: str) -> NetworkEntry:
        """The network of this name.

        Raises:
            UnknownNameError: there is none.
        """
        if name in self.networks:
            return self.networks[name]
        raise self._unknown("network", name, self.networks)

    def owner(self, entry: Entry) -> PluginInfo:
        """The plugin that offers a registered entry, or the family that an environment was resolved by."""
        name = offers.name_of(entry)
        if isinstance(entry, EnvEntry):
            name = name.partition(":")[0]
        return self._owners[_namespace(entry), name]

    def _add(self, plugin: Plugin) -> None:
        for entry in plugin.offers:
            self._table(entry)[offers.name_of(entry)] = entry
            self._owners[_namespace(entry), offers.name_of(entry)] = plugin.info

    def _table(self, entry: Entry) -> dict[str, Any]:
        match entry:
            case EnvEntry():
                return self.envs
            case EnvFamily():
                return self.families
            case AgentEntry():
                return self.agents
            case NetworkEntry():
                return self.networks
            case HyperparamEntry():
                return self.hyperparams
            case CommandEntry():
                return self.commands

    def _clash(self, plugin: Plugin) -> str | None:
        """Why the plugin's names can't be registered, None if they can."""
        own = set()
        for entry in plugin.offers:
            key = namespace, name = _namespace(entry), offers.name_of(entry)
            if namespace == "environment" and name in RESERVED_PREFIXES and not plugin.info.first_party:
                return f"offers the environment name or prefix '{name}', which is reserved"
            if key in own:
                return f"offers the {namespace} '{name}' twice"
            if key in self._owners:
                return f"offers the {namespace} '{name}', which {self._owners[key]} offers already"
            own.add(key)
        return None

    def _resolve(self, family: EnvFamily, name: str, rest: str) -> EnvEntry:
        try:
            resolved = load_object(family.resolve)(rest)
        except ZooError:
            raise
        except (Exception, SystemExit) as error:
            message = " ".join(f"{type(error).__name__}: {error}".split())
            raise PluginError(f"{self.owner(family)} failed to resolve environment '{name}': {message}") from error
        return offers.check_resolved(family, name, resolved)

    def _unknown(self, kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
        error = unknown_name(kind, name, known, listing=f"a3c-zoo list {kind.replace('environment', 'env')}s")
        faulty = ", ".join(map(str, self.faults))
        # Which names a plugin would have offered can't be known: it may be the one that is missing.
        return UnknownNameError(f"{error} (left out as faulty: {faulty}: a3c-zoo list plugins)") if faulty else error


def _namespace(entry: Entry) -> str:
    """Entries of one namespace can't share a name; environments and prefixes of their families share one."""
    match entry:
        case EnvEntry() | EnvFamily():
            return "environment"
        case AgentEntry():
            return "agent"
        case NetworkEntry():
            return "network"
        case HyperparamEntry():
            return "hyperparameter package"
        case CommandEntry():
            return "command"


def load_registry(selection: Selection | None = None) -> Registry:
    """Loads the plugins anew; `selection` is by default what the environment variables say."""
    return Registry(load_plugins(Selection.from_environ() if selection is None else selection))


@functools.cache
def get_registry() -> Registry:
    """The registry of this process, made on first use."""
    return load_registry()
