"""Which plugins take part in a run. Its figures depend on their versions."""

from __future__ import annotations

from collections.abc import Iterator

from a3c_zoo.config.models import Config
from a3c_zoo.config.sets import entries_of, sets_for
from a3c_zoo.plugins.loading import PluginInfo
from a3c_zoo.plugins.registry import Registry
from a3c_zoo.plugins.sources import with_run_hooks


def plugins_of(registry: Registry, config: Config) -> dict[str, str]:
    """Returns the plugins that take part in a run: part of the run → plugin and version.

    Keys: "env", "agent", "network", "optimizer"; "plugins.NAME" for run hooks that the run has chosen;
    "hooks" for the plugins whose hooks are called in every run; "hyperparams" for the set. The optimizer's
    plugin, and those of the last two keys, are there only if they are not of a3c-zoo.
    """
    owners = {kind: registry.owner(entry) for kind, entry in entries_of(registry, config).items()}
    plugins = {
        kind: str(owner) for kind, owner in owners.items() if (kind, owner.first_party) != ("optimizer", True)
    }
    others = {"hyperparams": _owners_of_sets(registry, config), "hooks": with_run_hooks(registry)}
    named = {
        kind: ", ".join(str(info) for info in infos if not info.first_party) for kind, infos in others.items()
    }
    return plugins | {kind: text for kind, text in named.items() if text}


def plugin_versions(registry: Registry, config: Config) -> dict[str, str]:
    """Returns the distributions of the plugins that take part in a run → their versions."""
    owners = [registry.owner(entry) for entry in entries_of(registry, config).values()]
    plugins = [*owners, *_owners_of_sets(registry, config), *with_run_hooks(registry)]
    return {info.distribution: info.version for info in plugins if info.version}


def _owners_of_sets(registry: Registry, config: Config) -> Iterator[PluginInfo]:
    """The plugin of the set from which values come."""
    sources = {source.rpartition(":")[0] for source in config.sources.values()}
    sets = sets_for(registry, registry.env(config.env_name))
    named = {
        source: each for each in reversed(sets) for source in (each.source, f"{each.plugin}/{each.source}")
    }
    return (
        registry.owner(registry.hyperparams[each.package]) for name, each in named.items() if name in sources
    )
