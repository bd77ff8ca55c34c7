"""Hyperparameter sets → one frozen configuration, each value with where it came from.

Order, the later wins: defaults < set < `--hyperparams FILE` < `-o KEY=VALUE` < flags. A set is a file
`<env>/<set>.yml` of a package that a plugin offers. Every fault is collected, and all are reported together.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import to_jsonable_python

from a3c_zoo.config import Config, yaml
from a3c_zoo.config.settings import Settings, cite, faulty
from a3c_zoo.config.yaml import Document
from a3c_zoo.errors import PluginError, UnknownNameError, did_you_mean
from a3c_zoo.plugins.entries import AgentEntry, Entry, EnvEntry

if TYPE_CHECKING:
    from a3c_zoo.plugins.registry import Registry

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HyperparamSet:
    """A set that `--hyperparams NAME` can name for environment `env`.

    Attributes:
        package: the package that holds it. source: how it is cited, such as `cartpole/a3c.yml`. file: the file.
    """

    env: str
    name: str
    package: str
    source: str
    file: Traversable


class Row(NamedTuple):
    """One value of a configuration, to be shown; `default` and `value` are plain data."""

    key: str
    value: Any
    description: str
    default: Any
    source: str


def list_sets(registry: Registry) -> list[HyperparamSet]:
    """Returns every set of every plugin, sorted by environment and name; an unreadable package is logged."""
    found: list[HyperparamSet] = []
    for entry in registry.hyperparams.values():
        try:
            found += _sets_of(entry.package)
        except Exception as error:  # a plugin's package may raise anything, and the others must go on
            _LOGGER.warning("hyperparameter package '%s' cannot be read: %s", entry.package, error)
    return sorted(found, key=lambda each: (each.env, each.name, each.package))


def _sets_of(package: str) -> list[HyperparamSet]:
    return [
        HyperparamSet(folder.name, file.name.removesuffix(".yml"), package, f"{folder.name}/{file.name}", file)
        for folder in resources.files(package).iterdir()
        if folder.is_dir()
        for file in folder.iterdir()
        if file.name.endswith(".yml")
    ]


def find_set(registry: Registry, env_name: str, name: str) -> HyperparamSet:
    """Returns the set called `name` of an environment.

    Raises:
        UnknownNameError: there is none.
        PluginError: two packages have it, and neither may silently replace the other.
    """
    sets = _sets_for(registry, env_name)
    found = _only(each for each in sets if each.name == name)
    if found is None:
        hint = did_you_mean(name, [each.name for each in sets])
        raise UnknownNameError(
            f"environment '{env_name}' has no hyperparameter set '{name}'.{hint} See: a3c-zoo list hyperparams"
        )
    return found


def default_set(registry: Registry, env: EnvEntry, agent_name: str) -> HyperparamSet | None:
    """Returns the set of an environment that has the agent's name, or that and its variant's; None if there is none."""
    sets = _sets_for(registry, env.name)
    own = _only(each for each in sets if each.name == agent_name and each.env == env.name)
    variant = _only(each for each in sets if env.variant and each.name == f"{agent_name}-{env.variant}")
    return own or variant or _only(each for each in sets if each.name == agent_name)


def _sets_for(registry: Registry, env_name: str) -> list[HyperparamSet]:
    """An environment's own sets, and those of its family (`atari/` for `atari:seaquest`) that it doesn't replace."""
    sets = list_sets(registry)
    own = [each for each in sets if each.env == env_name]
    replaced = {each.name for each in own}
    family, colon, _ = env_name.partition(":")
    return own + [each for each in sets if colon and each.env == family and each.name not in replaced]


def _only(matches: Iterable[HyperparamSet]) -> HyperparamSet | None:
    found = list(matches)
    if len(found) > 1:
        packages = " and ".join(each.package for each in found)
        raise PluginError(
            f"hyperparameter set '{found[0].env}/{found[0].name}' is in {packages}; disable the plugin of one"
        )
    return found[0] if found else None


def resolve_config(
    registry: Registry,
    env: EnvEntry,
    agent: AgentEntry,
    *,
    hyperparams: str | None = None,
    overrides: Sequence[str] = (),
    flags: Mapping[str, tuple[Any, str]] | None = None,
) -> Config:
    """Builds the configuration of a run.

    Args:
        registry: where networks and sets are looked up.
        env: the environment. agent: the agent; the set that has its name is the default set, if there is one.
        hyperparams: the name of a set, used in place of the default set; or a file (a path with a separator, or
            one that ends in .yml or .yaml), put on top of it.
        overrides: `KEY=VALUE` texts; the value is read as in a set.
        flags: "section.key" → value and the flag that gave it, such as "--seed".

    Raises:
        ConfigError: with one line for each fault.
        UnknownNameError: there is no such set.
    """
    settings = Settings(registry, env, agent)
    for document in _documents(registry, env, agent, hyperparams):
        settings.add_document(document)
    settings.add_flags(flags or {})
    settings.add_overrides(overrides)
    return settings.config()


def load_config(path: str | Path, registry: Registry, flags: Mapping[str, tuple[Any, str]] | None = None) -> Config:
    """Reads a run's `config.yml`, as `dump_config` wrote it.

    Args:
        flags: put on top of it; see `resolve_config`.

    Raises:
        ConfigError: with one line for each fault.
        UnknownNameError: its environment or agent is not installed.
    """
    document = yaml.read_document(Path(path), str(path))
    names = [document.data.get(key) for key in ("env_name", "agent_name")]
    if document.faults or not all(isinstance(name, str) for name in names):
        faults = [cite(document, fault) for fault in document.faults]
        raise faulty(faults or [f"{path}: env_name and agent_name must be given"])
    settings = Settings(registry, registry.env(str(names[0])), registry.agent(str(names[1])))
    settings.add_document(document)
    settings.add_flags(flags or {})
    return settings.config()


def dump_config(config: Config) -> str:
    """Writes a configuration as YAML, sections in order; where the values came from is not kept."""
    return yaml.dump(config.to_dict())


def describe(config: Config) -> list[Row]:
    """Returns a row for each value, in order, with its meaning, its default and where it came from."""
    rows = []
    for name, section in config.sections().items():
        plain = section.model_dump(mode="json")
        for key, info in type(section).model_fields.items():
            default = None if info.is_required() else info.get_default(call_default_factory=True)
            label = f"{name}.{key}"
            source = config.sources.get(label, "default")
            rows.append(Row(label, plain[key], info.description or "", to_jsonable_python(default), source))
    return rows


def plugins_of(registry: Registry, config: Config) -> dict[str, str]:
    """The plugins, with their versions, that the environment, the agent and the network of a run are from."""
    entries: dict[str, Entry] = {"env": registry.env(config.env_name), "agent": registry.agent(config.agent_name)}
    if config.network:
        entries["network"] = registry.network(config.network.name)
    return {kind: str(registry.owner(entry)) for kind, entry in entries.items()}


def is_file(hyperparams: str) -> bool:
    """Does `--hyperparams` name a file rather than a set?"""
    return os.sep in hyperparams or "/" in hyperparams or hyperparams.endswith((".yml", ".yaml"))


def _documents(registry: Registry, env: EnvEntry, agent: AgentEntry, hyperparams: str | None) -> list[Document]:
    if hyperparams is not None and not is_file(hyperparams):
        chosen: HyperparamSet | None = find_set(registry, env.name, hyperparams)
    else:
        chosen = default_set(registry, env, agent.name)
    documents = [] if chosen is None else [yaml.read_document(chosen.file, chosen.source)]
    if hyperparams is not None and is_file(hyperparams):
        documents.append(yaml.read_document(Path(hyperparams), hyperparams))
    return documents
