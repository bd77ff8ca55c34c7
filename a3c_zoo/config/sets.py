"""Hyperparameter sets → one frozen configuration, each value with its source.

Order, the later wins: defaults < set < `--hyperparams FILE` < `-o KEY=VALUE` < flags. A set is a file
`<env>/<set>.yml` in a package that a plugin offers; for an environment of a family,
`<family>/<rest>/<set>.yml`. All faults are collected and reported together.
"""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module, resources
from importlib.resources.abc import Traversable
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic_core import to_jsonable_python

from a3c_zoo.config import Config, rl_zoo, yaml
from a3c_zoo.config.models import AUTO, FEW_WORKERS, PLUGINS
from a3c_zoo.config.settings import COMPARE, TUNING, Settings, cite, faulty, is_comparison
from a3c_zoo.config.yaml import Document
from a3c_zoo.errors import ConfigError, UnknownNameError, ZooError, did_you_mean, printable
from a3c_zoo.files import open_file
from a3c_zoo.plugins.entries import AgentEntry, Entry, EnvEntry
from a3c_zoo.plugins.registry import Registry

_LOGGER = logging.getLogger(__name__)
#: The folder with the default search spaces of agents. No environment has this name.
SPACES = "_search"
#: The endings of a file with a set.
SET_SUFFIXES: Final = (".yml", ".yaml")


@dataclass(frozen=True, slots=True)
class HyperparamSet:
    """A hyperparameter set.

    Attributes:
        env: the environment, or the prefix of the family, that it is for.
        name: its name for `--hyperparams`.
        package: the package that holds it. file: the file in it.
        source: its name in messages, such as `cartpole/a3c.yml`.
        plugin: the plugin that offers the package. `PLUGIN/NAME` names the set even if another plugin has
            one, too.
    """

    env: str
    name: str
    package: str
    source: str
    file: Traversable
    plugin: str


class Row(NamedTuple):
    """One value of a configuration, for listings; `default` and `value` are plain data."""

    key: str
    value: Any
    description: str
    default: Any
    source: str


def list_sets(registry: Registry) -> list[HyperparamSet]:
    """Returns every set of every plugin, sorted by environment and name; an unreadable package is logged once."""
    sets = (each for each in _files(registry) if each.env != SPACES)
    return sorted(sets, key=lambda each: (each.env, each.name, each.package))


def search_file(registry: Registry, agent_name: str) -> HyperparamSet | None:
    """Returns the default search space of an agent; None if no plugin offers one."""
    spaces = (each for each in _files(registry) if each.env == SPACES and each.name == agent_name)
    return next(spaces, None)


def _files(registry: Registry) -> Iterator[HyperparamSet]:
    for entry in registry.hyperparams.values():
        try:
            yield from _read_package(entry.package, registry.owner(entry).name)
        except Exception as error:
            # A plugin's package may raise any error. The other packages are still listed.
            if entry.package not in registry.told:
                registry.told.add(entry.package)
                _LOGGER.warning("hyperparameter package '%s' cannot be read: %s", entry.package, error)


def misnamed_files(package: str) -> list[str]:
    """The files of a package that would be sets if their names ended with .yml, such as `maze/a3c.yaml`."""
    return [f"{place}/{file.name}" for place, file in _files_of(package) if file.name.endswith(".yaml")]


def _read_package(package: str, plugin: str) -> list[HyperparamSet]:
    return [
        HyperparamSet(
            place.replace("/", ":"),
            file.name.removesuffix(".yml"),
            package,
            f"{place}/{file.name}",
            file,
            plugin,
        )
        for place, file in _files_of(package)
        if file.name.endswith(".yml")
    ]


def _files_of(package: str) -> list[tuple[str, Traversable]]:
    """The files in the folders of a package, each with its folder: `maze`, or `gym/Maze-v0`."""
    # From Python 3.12 on, `files` takes a module for its folder.
    if not hasattr(import_module(package), "__path__"):
        raise TypeError(f"'{package}' is not a package")
    folders = {folder.name: folder for folder in resources.files(package).iterdir() if folder.is_dir()}
    below = {f"{name}/{file.name}": file for name, folder in folders.items() for file in folder.iterdir()}
    folders |= {place: folder for place, folder in below.items() if folder.is_dir()}
    return [(place, file) for place, folder in folders.items() for file in folder.iterdir()]


def sets_for(registry: Registry, env: EnvEntry) -> list[HyperparamSet]:
    """Returns an environment's own sets, then those of its family. Of several with one name, the first one is meant.

    Those of the distribution that offers the environment, or the family, come first; then by the order of
    loading.
    """
    loaded = {info.name: info for info in registry.plugins if info.status == "loaded"}
    order = list(loaded)

    def rank(hyperparam_set: HyperparamSet) -> tuple[bool, bool, int]:
        owned = registry.envs.get(hyperparam_set.env) or registry.families.get(hyperparam_set.env)
        is_owners = (
            owned is not None
            and loaded[hyperparam_set.plugin].distribution == registry.owner(owned).distribution
        )
        return hyperparam_set.env != env.name, not is_owners, order.index(hyperparam_set.plugin)

    return sorted(
        (each for each in list_sets(registry) if each.env in (env.name, env.family_prefix)), key=rank
    )


def find_set(registry: Registry, env: EnvEntry, name: str) -> HyperparamSet:
    """Returns a set of an environment or of its family.

    Args:
        name: its name, or `PLUGIN/NAME`.

    Raises:
        UnknownNameError: there is none.
    """
    sets = sets_for(registry, env)
    plugin, _, short = name.rpartition("/")
    for hyperparam_set in sets:
        if hyperparam_set.name == short and plugin in ("", hyperparam_set.plugin):
            if plugin:
                return replace(hyperparam_set, source=f"{plugin}/{hyperparam_set.source}")
            return hyperparam_set
    hint = did_you_mean(name, [full for each in sets for full in (each.name, f"{each.plugin}/{each.name}")])
    hint += " See: a3c-zoo list hyperparams"
    if os.path.isfile(file := f"{name}.yml"):
        hint = f" Type: --hyperparams ./{file}"
    raise UnknownNameError(f"environment '{env.name}' has no hyperparameter set '{name}'.{hint}")


def default_set(registry: Registry, env: EnvEntry, agent_name: str) -> HyperparamSet | None:
    """Returns the set that has the agent's name, None if there is none.

    Order of preference: the environment's own set, `AGENT-VARIANT` of its family, `AGENT` of its family.
    """
    sets = sets_for(registry, env)
    own = (each for each in sets if each.name == agent_name and each.env == env.name)
    variant = (each for each in sets if env.variant and each.name == f"{agent_name}-{env.variant}")
    return next(chain(own, variant, (each for each in sets if each.name == agent_name)), None)


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
        hyperparams: the name of a set that replaces the default set, also `PLUGIN/NAME`; or a file (another
            path with a separator, or with the ending .yml or .yaml) whose values replace those of the default
            set.
        overrides: `KEY=VALUE` texts; the value is read as in a set.
        flags: "section.key" → value and the name of its flag, such as "--seed".

    Raises:
        ConfigError: has one line for each fault.
        UnknownNameError: there is no such set.
    """
    settings = Settings(registry, env, agent)
    documents = documents_of(registry, env, agent, hyperparams, overrides)
    for document in documents:
        settings.add_document(document)
    rate = settings.settings.get("optimizer", {}).get("learning_rate")
    settings.add_flags(flags or {})
    settings.add_overrides(overrides)
    config = settings.config()
    if rate and rate.source == config.sources.get("optimizer.learning_rate"):
        own = documents[rate.order[0] - 1].data
        few = (own.get("run") or {}).get("workers")
        if few == AUTO:
            few = (own.get("agent") or {}).get("teams") or FEW_WORKERS
        is_number = type(few) is int and few > 0
        config = replace(config, sets_workers=few if is_number else None)
    source = config.sources.get("env.wrappers", "")
    if config.env.wrappers and hyperparams is not None and source.startswith(f"{hyperparams}:"):
        raise ConfigError(
            f"{source} env.wrappers: a file may not choose what is imported. Name them yourself: "
            f"-o {shlex.quote(f'env.wrappers={yaml.display(list(config.env.wrappers), 0)}')}"
        )
    return config


def override_texts(overrides: Mapping[str, Any] | str | Sequence[str]) -> list[str]:
    """Overrides as a program gives them, as `KEY=VALUE` texts. The values of a mapping stay what they are.

    Raises:
        ZooError: they have another form.
    """
    if isinstance(overrides, Mapping):
        return [f"{key}={yaml.written(value)}" for key, value in overrides.items()]
    if isinstance(overrides, str):
        return [overrides]
    texts = list(overrides) if isinstance(overrides, Iterable) else [overrides]
    if all(isinstance(text, str) for text in texts):
        return texts
    raise ZooError(
        f'overrides={overrides!r:.80}: give a dictionary, such as {{"agent.n_steps": 5}}, or texts, ["agent.n_steps=5"]'
    )


def load_config(
    path: str | Path,
    registry: Registry,
    flags: Mapping[str, tuple[Any, str]] | None = None,
    is_trusted: bool = True,
    doubt: str = "",
    with_hooks: bool = True,
) -> Config:
    """Reads a run's `config.yml`, written by `dump_config`.

    Args:
        flags: replace values of the file; see `resolve_config`.
        is_trusted: whether its environment and `env.wrappers` may name a module to import, see
            `Registry.env`; and whether it may switch on run hooks.
        doubt: why not.
        with_hooks: False leaves out the settings of run hooks, whose plugins playing does not need.

    Raises:
        ConfigError: has one line for each fault.
        UnknownNameError: its environment or agent is not installed.
        ZooError: it names a module to import, or run hooks, and is not trusted.
    """
    document = yaml.read_document(Path(path), str(path))
    names = [document.data.get(key) for key in ("env_name", "agent_name")]
    if document.faults or not all(isinstance(name, str) for name in names):
        faults = [cite(document, fault) for fault in document.faults]
        raise faulty(faults or [f"{path}: env_name and agent_name must be given"])
    entry = registry.env(str(names[0]), is_trusted=is_trusted, doubt=doubt)
    if not with_hooks:
        document.data.pop(PLUGINS, None)
    settings = Settings(registry, entry, registry.agent(str(names[1])), has_defaults=False)
    settings.add_document(document)
    settings.add_flags(flags or {})
    config = _as_it_began(settings.config(), document)
    if not is_trusted:
        _refuse_of_strangers(config, path, doubt)
    return config


def _refuse_of_strangers(config: Config, path: str | Path, doubt: str) -> None:
    """Raises ZooError for values with which a run of somebody else would do more than train."""
    hooks = [f"plugins.{name}" for name, settings in config.plugins.items() if settings.enabled]
    what = ""
    if config.env.wrappers:
        what = "names wrappers to import (env.wrappers)"
    elif hooks:  # such as one that sends metrics to an address
        what = f"switches on run hooks, with its settings ({', '.join(hooks)})"
    if what:
        raise ZooError(
            f"{path} {what}, and the run is not your own{doubt and f': {doubt}'}. "
            "If you trust whoever made it: --trust"
        )


def _as_it_began(config: Config, document: Document) -> Config:
    """A run's configuration. A run whose file lacks `env.action_masks` began before there were masks: it took none."""
    env = document.data.get("env")
    if isinstance(env, dict) and "action_masks" not in env:
        config = replace(config, env=config.env.model_copy(update={"action_masks": False}))
    return config


def dump_config(config: Config, head: str = "") -> str:
    """Returns a configuration as YAML, sections in order, without the sources of the values.

    Args:
        head: comments that stand before it.

    Raises:
        ConfigError: it could not be read again: it is too large, or nested too deeply.
    """
    values = config.to_dict()
    text = head + yaml.dump(values)
    if len(text.encode()) > yaml.MAX_BYTES:
        key = _key_with_most(values, lambda value: len(yaml.written(value)))
        most = f"{yaml.MAX_BYTES // 1024} KiB of all values together"
        raise ConfigError(f"{key}: is too long: no run can keep more than {most}; shorten it")
    if yaml.depth(values) > yaml.MAX_DEPTH:
        key = _key_with_most(values, yaml.depth)
        most = f"{yaml.MAX_DEPTH} levels, with those of its key"
        raise ConfigError(
            f"{key}: is nested too deeply: no run can keep more than {most}; use fewer brackets"
        )
    return text


def _key_with_most(values: Any, measure: Callable[[Any], int]) -> str:
    """The key of the value that has most of something, such as `env.kwargs.map`."""
    keys = []
    while isinstance(values, dict) and values:
        keys.append(max(values, key=lambda key: measure(values[key])))
        values = values[keys[-1]]
    return ".".join(keys)


def describe(config: Config) -> list[Row]:
    """Returns a row for each value, in order, with its meaning, default and source."""
    rows = []
    for name, section in config.sections().items():
        plain = section.model_dump(mode="json")
        for key, info in type(section).model_fields.items():
            if info.is_required():
                default = None
            else:
                default = info.get_default(call_default_factory=True)
            label = f"{name}.{key}"
            source = config.sources.get(label, "default")
            if label == "run.workers" and config.workers_why:
                source += f"; {config.workers_why}"
            rows.append(Row(label, plain[key], info.description or "", to_jsonable_python(default), source))
    return rows


def env_of(registry: Registry, config: Config) -> EnvEntry:
    """Returns the environment of a configuration, as it is with its arguments (`env.kwargs`)."""
    return registry.with_arguments(registry.env(config.env_name), config.env.kwargs)


def entries_of(registry: Registry, config: Config) -> dict[str, Entry]:
    """Returns the entries that a configuration names: env, agent, network and optimizer, and run hooks that are on."""
    entries: dict[str, Entry] = {
        "env": env_of(registry, config),
        "agent": registry.agent(config.agent_name),
    }
    if config.network:
        entries["network"] = registry.network(config.network.name)
    if config.optimizer:
        entries["optimizer"] = registry.optimizer(config.optimizer.name)
    on = (name for name, section in config.plugins.items() if section.enabled)
    return entries | {f"{PLUGINS}.{name}": registry.hooks[name] for name in on}


def documents_of(
    registry: Registry,
    env: EnvEntry,
    agent: AgentEntry,
    hyperparams: str | None,
    overrides: Sequence[str] = (),
) -> list[Document]:
    """The sets and the file that a configuration begins with, the lowest first; see `resolve_config`.

    A file of RL Baselines3 Zoo stands alone: what it does not say is stable-baselines3's default there. Arguments of
    the environment may make it of another kind, with another default set.
    """
    documents = _documents_of(registry, env, agent, hyperparams)
    settings = Settings(registry, env, agent)
    for document in documents:
        settings.add_document(document)
    settings.add_overrides(overrides)
    varied = registry.with_arguments(env, settings.arguments())
    if varied == env:
        return documents
    return _documents_of(registry, varied, agent, hyperparams)


def _documents_of(
    registry: Registry, env: EnvEntry, agent: AgentEntry, hyperparams: str | None
) -> list[Document]:
    """See `documents_of`, for arguments that an entry has already."""
    if hyperparams is not None and names_set(registry, hyperparams):
        chosen = find_set(registry, env, hyperparams)
        return [yaml.read_document(chosen.file, chosen.source, follow=True)]
    if hyperparams is not None and (theirs := _of_rl_zoo(registry, env, agent, hyperparams)):
        return [theirs]
    default = default_set(registry, env, agent.name)
    if default is None:
        documents = []
    else:
        documents = [yaml.read_document(default.file, default.source, follow=True)]
    if hyperparams is not None:
        documents.append(yaml.read_document(Path(hyperparams), hyperparams, follow=True))
    return documents


def _of_rl_zoo(registry: Registry, env: EnvEntry, agent: AgentEntry, file: str) -> Document | None:
    """A file of RL Baselines3 Zoo in the zoo's own keys; None for another file. What is left out is logged once."""
    try:
        with open_file(Path(file), limit=yaml.MAX_BYTES, follow=True) as opened:
            raw = opened.read()
    except OSError:
        return None  # the reader of sets tells why
    models = Settings(registry, env, agent).models
    fields = {name: {*models[name].model_fields} for name in ("run", "env", "agent")}
    translated = rl_zoo.translated(raw, file, env.own_id, env.factory is not None, fields)
    if translated is None:
        return None
    for sentence in translated.left_out:
        if sentence not in registry.told:
            registry.told.add(sentence)
            _LOGGER.warning("%s", printable(sentence))
    return translated.document


def tuning_cost(
    registry: Registry,
    env: EnvEntry,
    agent: AgentEntry,
    hyperparams: str | None,
    overrides: Sequence[str] = (),
) -> Mapping[str, int] | str:
    """The cost of finding the values with which a configuration begins; empty if its last source has none.

    It is a text if the cost was not counted.
    """
    documents = documents_of(registry, env, agent, hyperparams, overrides)
    if not documents:
        return {}
    cost: Mapping[str, int] | str = documents[-1].data.get(TUNING) or {}
    return cost


def comparison_steps(registry: Registry, env: EnvEntry) -> int | None:
    """Agent steps of each run of a comparison on an environment, by default.

    The default set of the environment's own agent says it in its block `compare:`, else the environment's
    entry does.

    Raises:
        ConfigError: the set has a fault.
    """
    documents = documents_of(registry, env, registry.agent(env.default_agent), None)
    block = documents[-1].data.get(COMPARE) if documents else None
    if block is None:
        return env.budget_steps
    if not is_comparison(block):
        resolve_config(registry, env, registry.agent(env.default_agent))  # names the place of the fault
    steps: int = block["steps"]
    return steps


def names_set(registry: Registry, text: str) -> bool:
    """Whether a text names a set, and no file. A folder with the name of a plugin can be written `./NAME`."""
    plugin, slash, _ = text.rpartition("/")
    return not text.lower().endswith(SET_SUFFIXES) and (
        not slash or plugin in {info.name for info in registry.plugins}
    )
