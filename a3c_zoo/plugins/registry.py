"""Everything that has a name: name → entry, and the plugin that offers it.

A plugin that offers a name that is taken, or a reserved prefix, is left out whole. First-party plugins are
registered first, so no other plugin can take their names.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Mapping
from typing import TypeVar

from a3c_zoo.errors import PluginError, UnknownNameError, ZooError, type_and_message, unknown_name
from a3c_zoo.plugins import entries
from a3c_zoo.plugins.entries import AgentEntry, Entry, EnvEntry, EnvFamily, NetworkEntry, OptimizerEntry
from a3c_zoo.plugins.loading import Plugin, PluginInfo, Selection, load_plugins, new_manager
from a3c_zoo.plugins.offers import fault_of_resolved, kind_of, name_of
from a3c_zoo.plugins.run_hooks import RunHooks

#: Only first-party plugins may offer these prefixes, even while the plugin that offers them is not loaded.
RESERVED_PREFIXES = frozenset({"atari", "gym"})

_E = TypeVar("_E", bound=Entry)


class Registry:
    """The entries of all usable plugins, in loading order: first-party plugins first.

    Attributes:
        envs, families: environments by name, without those of families; families by prefix.
        agents: agents and baselines by name; `entry.kind` tells them apart.
        networks, optimizers, commands: entries by name.
        hyperparams: packages of hyperparameter sets by package name.
        plugins: every plugin that was found, with its final status.
        hooks: the run hooks of the loaded plugins.
    """

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        self._entries: dict[tuple[str, str], tuple[Entry, PluginInfo]] = {}
        manager = new_manager()
        found: list[PluginInfo] = []
        for plugin in plugins:
            twin = plugin.implementation is not None and manager.get_name(plugin.implementation)
            clash = f"is the same module as {twin}" if twin else self._clash(plugin)
            found.append(plugin.info.as_faulty(clash) if clash else plugin.info)
            if plugin.implementation is not None and not clash:
                self._entries |= {_key(entry): (entry, plugin.info) for entry in plugin.offers}
                manager.register(plugin.implementation, name=str(plugin.info))
        self.envs = self._by_name(EnvEntry)
        self.families = self._by_name(EnvFamily)
        self.agents = self._by_name(AgentEntry)
        self.networks = self._by_name(NetworkEntry)
        self.optimizers = self._by_name(OptimizerEntry)
        self.hyperparams = self._by_name(entries.HyperparamEntry)
        self.commands = self._by_name(entries.CommandEntry)
        self.plugins: tuple[PluginInfo, ...] = tuple(found)
        self.hooks = RunHooks(manager)

    @property
    def faults(self) -> tuple[PluginInfo, ...]:
        """The plugins that are left out because of a fault."""
        return tuple(info for info in self.plugins if info.status == "faulty")

    def env(self, name: str, *, is_trusted: bool = True, doubt: str = "") -> EnvEntry:
        """Returns the environment `name`, which may be `prefix:rest`.

        Args:
            is_trusted: whether the name may choose a module to import, as `gym:my_package:Maze-v0` does. A name that
                a stranger's file holds may not. Modules that are imported already may be named.
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
        near = [example for family in self.families.values() for example in family.examples]
        near += [f"{prefix}:{rest}" for prefix in self.families if colon]
        return self._find("environment", name, self.envs, near)

    def agent(self, name: str) -> AgentEntry:
        """Returns the agent or baseline `name`. Raises UnknownNameError if there is none."""
        return self._find("agent", name, self.agents)

    def network(self, name: str) -> NetworkEntry:
        """Returns the network `name`. Raises UnknownNameError if there is none."""
        return self._find("network", name, self.networks)

    def optimizer(self, name: str) -> OptimizerEntry:
        """Returns the optimizer `name`. Raises UnknownNameError if there is none."""
        return self._find("optimizer", name, self.optimizers)

    def owner(self, entry: Entry) -> PluginInfo:
        """Returns the plugin that offers an entry, or the family that an environment was resolved by."""
        namespace, name = _key(entry)
        return self._entries[namespace, name.partition(":")[0]][1]

    def _by_name(self, kind: type[_E]) -> dict[str, _E]:
        return {name: entry for (_, name), (entry, _) in self._entries.items() if isinstance(entry, kind)}

    def _find(self, namespace: str, name: str, known: Mapping[str, _E], near: Iterable[str] = ()) -> _E:
        """Returns an entry by its name. The error of an unknown name suggests one of `known` or `near`."""
        if name in known:
            return known[name]
        listing = f"a3c-zoo list {namespace.replace('environment', 'env')}s"
        error = unknown_name(namespace, name, [*known, *near], listing=listing)
        faulty = ", ".join(map(str, self.faults))
        # A faulty plugin may be the one that offers the name.
        raise UnknownNameError(f"{error} (left out as faulty: {faulty}: a3c-zoo list plugins)") if faulty else error

    def _clash(self, plugin: Plugin) -> str | None:
        """Returns why the plugin's names cannot be registered, None if they can."""
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


def _key(entry: Entry) -> tuple[str, str]:
    return kind_of(entry).namespace, name_of(entry)


def imported_by(env_name: str) -> str:
    """The module that looking up an environment would import: `my_package` for `gym:my_package:Maze-v0`.

    It is "" for a name without a module, and for a module that is imported already.
    """
    module = env_name.partition(":")[2].rpartition(":")[0]
    return "" if module in sys.modules else module


def load_registry(selection: Selection | None = None) -> Registry:
    """Loads the plugins anew; by default `selection` comes from the environment variables."""
    return Registry(load_plugins(Selection.from_environ() if selection is None else selection))


@functools.cache
def get_registry() -> Registry:
    """Returns the registry of this process, which is made on first use."""
    return load_registry()
