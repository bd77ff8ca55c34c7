"""Settings in layers, each value with its source; all are validated together at the end."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from pydantic import ValidationError

from a3c_zoo.config import models as bases
from a3c_zoo.config import yaml
from a3c_zoo.config.models import PLUGINS, AgentConfig, Config, EnvConfig, Section
from a3c_zoo.config.yaml import Document, YamlFault, display
from a3c_zoo.errors import ConfigError, PluginError, UnknownNameError, did_you_mean, printable
from a3c_zoo.hardware import available_cores
from a3c_zoo.plugins.entries import (
    GIVEN_TO_FACTORY,
    SECTIONS,
    AgentEntry,
    EngineEntry,
    EnvEntry,
    NetworkEntry,
    OptimizerEntry,
    load_part,
)
from a3c_zoo.plugins.registry import Registry, unknown_entry
from a3c_zoo.synonyms import agent_for, key_for, value_for

#: Position of a setting: its layer, then its line in the file or its place on the command line. The later
#: wins.
_Order = tuple[int, int]
#: The key with the arguments of the environment itself; `env.kwargs.NAME` is one of them.
ARGUMENTS: Final = "env.kwargs"
#: The layers above all files: single values, flags, and what follows from the agent.
_OVERRIDES = 10
_FLAGS = 11
_LAST = 12
#: The block of a set that `a3c-zoo tune` reads, see `config/search.py`. A run does not have it.
SEARCH = "search"
#: The block of a set that says what finding it cost. A run does not have it.
TUNING = "tuning"
#: The keys of this block; each has a whole number. A text takes their place where nobody counted.
TUNING_COST = ("trials", "runs", "steps")
#: The most characters of such a text.
MAX_TUNING_TEXT = 200
#: The block of a set with the budget of a comparison: `steps`, in agent steps of each run. A run does not
#: have it.
COMPARE = "compare"


#: Between the values of `n_steps=8,gamma=0.9`.
_SEVERAL: Final = re.compile(r",\s*(?=[A-Za-z_][\w.]*\s*=)")


class Setting(NamedTuple):
    """A value before validation."""

    value: Any
    source: str = ""
    order: _Order = (_LAST, 0)

    @property
    def is_typed(self) -> bool:
        """Whether it was typed: an option or an override, and no value of a set or a file."""
        return self.order[0] in (_OVERRIDES, _FLAGS)


class Settings:
    """Gathers settings in layers, then validates them. Faults are collected until the end.

    Args:
        has_defaults: whether run hooks that are on by default take part. A run that goes on has those of its
            file.
    """

    def __init__(
        self, registry: Registry, env: EnvEntry, agent: AgentEntry, has_defaults: bool = True
    ) -> None:
        self.registry = registry
        self.env = env
        self.agent = agent
        self.settings: dict[str, dict[str, Setting]] = {
            name: {} for name in SECTIONS if name in agent.sections
        }
        on = (entry.name for entry in registry.hooks.values() if entry.on_by_default and has_defaults)
        self.settings |= {f"{PLUGINS}.{name}": {} for name in on}
        self.faults: list[tuple[_Order, str]] = []
        self.layers = 0
        #: The highest layer with a block `search:`.
        self.search: Document | None = None
        #: Keys of documents that stand below no section.
        self._flat: list[tuple[str, Setting]] = []
        #: For sections whose model depends on their name: the layer that names another entry than a layer
        #: below it.
        self._named_in = dict.fromkeys(bases.NAMED, 0)
        self._workers_why = ""
        self._decided: set[str] = set()
        self._goes_on = not has_defaults  # with the values of its config.yml, and flags

    def add_document(self, document: Document) -> None:
        """Adds a set or a file as the next layer."""
        self.layers += 1
        for fault in document.faults:
            self.faults.append(((self.layers, fault.line), cite(document, fault)))
        names = {"env_name": self.env.name, "agent_name": self.agent.name}  # in a run's config.yml
        for section, values in document.data.items():
            given = self._given(document, values, section)
            if section in names:
                if values != names[section]:
                    self._fault(given, section, f"is for {display(values)}, not for '{names[section]}'")
            elif section == SEARCH:
                self.search = document
            elif section == TUNING:
                if not is_cost(values):
                    keys = ", ".join(TUNING_COST)
                    self._fault(
                        given, section, f"must have the keys {keys}, with whole numbers, or be a line of text"
                    )
            elif section == COMPARE:
                if not is_comparison(values):
                    self._fault(given, section, "must have one key, steps, with a whole number above 0")
            elif section == PLUGINS and (values is None or isinstance(values, dict)):
                for name, settings in (values or {}).items():
                    self._add_section(document, settings, section, name)
            elif section not in SECTIONS and section != PLUGINS and not isinstance(values, dict):
                self._flat.append((section, given))
            else:
                self._add_section(document, values, section)

    def _add_section(self, document: Document, values: Any, *place: str) -> None:
        """Adds a section of a document, which lies at a place of one key, or of two: `plugins`, `NAME`."""
        section = ".".join(place)
        given = self._given(document, values, *place)
        if values is not None and not isinstance(values, dict):
            self._refuse(given, section, "must be a section with keys below it")
        elif self._has_section(section, given):
            for key, value in (values or {}).items():
                self._put(section, key, self._given(document, value, *place, key))

    def _given(self, document: Document, value: Any, *location: str) -> Setting:
        line = document.lines[location]
        return Setting(value, f"{document.source}:{line}", (self.layers, line))

    def add_flags(self, flags: Mapping[str, tuple[Any, str]]) -> None:
        """Adds the flags of the command line, the highest layer: "section.key" → value and name of the flag."""
        for place, (label, (value, source)) in enumerate(flags.items()):
            section, _, key = label.partition(".")
            self._put(section, key, Setting(value, source, (_FLAGS, place)))

    def add_overrides(self, overrides: Sequence[str]) -> None:
        """Adds `KEY=VALUE` texts, the layer below the flags. A key without a section is searched in all models."""
        short: list[tuple[str, Setting]] = []
        for place, text in enumerate(overrides):
            setting = Setting(None, "-o", (_OVERRIDES, place))
            key, value_text = _key_and_value(text)
            if not value_text:
                self._fault(
                    setting, text, "must read KEY=VALUE, such as agent.n_steps=5 (write null for no value)"
                )
                continue
            fault = ""
            try:
                setting = setting._replace(value=yaml.parse_value(value_text))
            except ValueError as error:
                fault = str(error)
            is_word = isinstance(setting.value, str) and value_text[0] not in "\"'"
            if (fault or is_word) and len(several := _SEVERAL.split(value_text)) > 1:
                cure = shlex.join(
                    word for each in (f"{key}={several[0]}", *several[1:]) for word in ("-o", each)
                )
                self._fault(setting, text, f"has several values. Type: {cure}")
                continue
            if fault:
                self._fault(setting, key, fault)
                continue
            section, dot, rest = key.rpartition(".")
            if key.startswith(f"{ARGUMENTS}."):
                self._put_argument(key.removeprefix(f"{ARGUMENTS}."), setting)
            elif dot:
                self._put(section, rest, setting)
            else:
                short.append((rest, setting))
        self._add_short(short)

    def _add_short(self, short: list[tuple[str, Setting]]) -> None:
        models = {name: model for name, model in self.models.items() if name in SECTIONS}
        for key, setting in short:
            sections = [name for name, model in models.items() if key in model.model_fields]
            if len(sections) == 1:
                self._put(sections[0], key, setting)
            elif sections:
                choices = " or ".join(f"{name}.{key}" for name in sections)
                self._fault(setting, key, f"ambiguous, give {choices}")
            elif self.models.keys() == self.settings.keys():  # if not, it may be a key of an unknown name
                labels = _labels(models)
                known = {name: label for label in labels for name in (label, label.partition(".")[2])}
                hint = self._words_of_others(key, setting.value, labels) or did_you_mean(key, known)
                self._fault(setting, key, f"unknown key.{hint}")

    def _words_of_others(self, key: str, value: Any, labels: Collection[str]) -> str:
        """What to type for a key of another program, `" Type: …"`; "" if it is none."""
        if label := key_for(key, labels):
            meant = f"{label}={display(value_for(key, value), 0)}"
            return f" Type: -o {shlex.quote(meant)}"
        if key in SECTIONS and isinstance(value, dict) and value:
            one_by_one = [f"{key}.{name}={display(each, 0)}" for name, each in value.items()]
            return f" Type: {shlex.join(word for text in one_by_one for word in ('-o', text))}"
        if key == "env" and isinstance(value, str):
            return f" The environment stands without an option. Type: a3c-zoo train {shlex.quote(value)}"
        if key == "agent" and isinstance(value, str):
            agent = agent_for(value, self.registry.agents) or value
            return f" Type: --agent {shlex.quote(agent)}"
        return ""

    def arguments(self) -> dict[str, Any]:
        """The arguments of the environment that were given until now (`env.kwargs`), before validation."""
        section, _, key = ARGUMENTS.partition(".")
        given = self.settings[section].get(key, Setting({})).value
        if isinstance(given, dict):
            return given
        return {}

    def config(self) -> Config:
        """Validates all settings.

        Raises:
            ConfigError: has all faults, in the order of their sources.
        """
        self._drop_keys_of_others()
        self._refuse_flat()
        sections: dict[str, Any] = {name: self._validate(name, model) for name, model in self.models.items()}
        self._fit_to_agent(sections)
        if self.faults:
            raise faulty([text for _, text in sorted(self.faults)])
        sections["agent"].check(sections["env"].num_envs)
        if not self._goes_on:
            sections["agent"].check_new(sections.get("network"))
        sources = {
            f"{name}.{key}": setting.source
            for name, keys in self.settings.items()
            for key, setting in keys.items()
        }
        own = {name: section for name, section in sections.items() if name in SECTIONS}
        hooks = {name.partition(".")[2]: sections[name] for name in sorted(sections.keys() - own.keys())}
        return Config(
            self.env.name,
            self.agent.name,
            **own,
            plugins=hooks,
            sources=sources,
            workers_why=self._workers_why,
            decided=frozenset(self._decided),
        )

    def _fit_to_agent(self, sections: dict[str, Any]) -> None:
        """Decides the values that follow from the agent and the machine, in sections without faults."""
        name = self.agent.name
        if self.agent.one_environment:
            why = f"agent '{name}' takes one environment per worker; give it more workers: run.workers"
            self._set_to_one(sections, "env", "num_envs", why)
        if self.agent.one_process:
            why = f"agent '{name}' trains in one process; give it more environments: env.num_envs"
            self._set_to_one(sections, "run", "workers", why)
        env, run, network = (sections.get(section) for section in ("env", "run", "network"))
        if run is not None:
            sections["run"] = run.settled()
        if env is not None:
            env = self._of_whole_games(env, sections["agent"])
            sections["env"] = self._on_stack(env, self._stack(env.stack))
            if run is not None and network is not None:
                settled = network.settled(run.device, env.num_envs)
                before = network.model_dump()
                self._decided |= {
                    f"network.{key}" for key, value in settled.model_dump().items() if value != before[key]
                }
                sections["network"] = settled
        self._settle_workers(sections)

    def _of_whole_games(self, env: EnvConfig, agent: AgentConfig | None) -> EnvConfig:
        """Makes `env.num_envs` a multiple of the agents that play one game. A number that was typed is refused.

        Args:
            agent: None if it has faults. The larger number is the first that fits it, so that its updates split, too.
        """
        entry = self.registry.with_arguments(self.env, env.kwargs)
        setting = self.settings["env"].get("num_envs")
        whole = entry.whole_games(env.num_envs)
        if self.agent.one_environment and entry.num_agents > 1:
            fault = (
                f"it takes one environment, and {entry.num_agents} agents play each game of '{entry.name}'"
            )
            self._fault(Setting(self.agent.name, ""), "agent", f"'{self.agent.name}' — {fault}")
        elif whole != env.num_envs and setting is not None and setting.is_typed:
            smaller = max(whole - entry.num_agents, entry.num_agents)
            numbers = " or ".join(f"{n:,}" for n in sorted({smaller, whole}))
            why = f"{entry.num_agents} agents play each game of '{entry.name}', and all take part: choose {numbers}"
            self._refuse(setting, "env.num_envs", why)
        elif whole != env.num_envs and agent is not None:
            larger = range(whole, 4 * whole + 1, entry.num_agents)
            whole = next((number for number in larger if _fits(agent, number)), whole)
        return env.model_copy(update={"num_envs": whole})

    def _settle_workers(self, sections: dict[str, Any]) -> None:
        """Decides `run.workers: auto`, and refuses a number among which the agent cannot share out its work."""
        run, env, agent = (sections[section] for section in ("run", "env", "agent"))
        if None in (run, env, agent):
            return

        num_agents = self.registry.with_arguments(self.env, env.kwargs).num_agents
        num_games = env.num_envs // num_agents

        def fitting(most: int) -> list[int]:
            return [n for n in range(1, most + 1) if agent.takes_workers(n, num_games)]

        if run.workers == bases.AUTO:
            cores = available_cores()
            most = cores if agent.shares_out else min(cores, bases.FEW_WORKERS)
            workers = fitting(most)[-1]
            sections["run"] = run.model_copy(update={"workers": workers})
            self._decided.add("run.workers")
            self._workers_why = why_workers(workers, cores, fitting(cores) if agent.shares_out else [])
        elif not agent.takes_workers(run.workers, num_games):
            larger = [n for n in fitting(bases.MOST_WORKERS) if n > run.workers]
            numbers = ", ".join(f"{n:,}" for n in [*fitting(run.workers), *larger[:1]])
            of_games = f", {num_games} games of {num_agents} agents," if num_agents > 1 else ""
            why = (
                f"agent.teams: {agent.teams} shares out env.num_envs: {env.num_envs}{of_games} among {numbers} "
                "workers"
            )
            if not self._goes_on:  # a run that goes on takes no other agent.teams
                why += f". {agent.cure_of_teams} lets each worker learn by itself"
            setting = self.settings["run"].get("workers", Setting(run.workers))
            self._refuse(setting, "run.workers", why)

    def _set_to_one(self, sections: dict[str, Any], section: str, key: str, why: str) -> None:
        """Sets a value to 1, and refuses another value that was given."""
        if (config := sections.get(section)) is not None:
            if key in self.settings[section] and getattr(config, key) not in (1, bases.AUTO):
                self._refuse(self.settings[section][key], f"{section}.{key}", why)
            sections[section] = config.model_copy(update={key: 1})

    def _on_stack(self, env: EnvConfig, stack: str) -> EnvConfig:
        """The section with its stack. On the zoo's, a baseline lacks what its sets have for its own."""
        values: dict[str, Any] = {"stack": stack}
        if stack == "zoo" and "own" in self.agent.stacks:
            typed = {key for key, setting in self.settings["env"].items() if setting.is_typed}
            values |= {key: value for key, value in env.without_own_stack.items() if key not in typed}
        return env.model_copy(update=values)

    def _stack(self, wanted: str) -> str:
        """Decides `env.stack`: "own" or "zoo"."""
        if wanted == "auto":
            if "own" in self.agent.stacks and self.env.own_id:
                return "own"
            return "zoo"
        if wanted not in self.agent.stacks:
            why = f"agent '{self.agent.name}' trains on: {', '.join(self.agent.stacks)}"
            self._refuse(self.settings["env"]["stack"], "env.stack", why)
        elif wanted == "own" and not self.env.own_id:
            why = f"environment '{self.env.name}' has no Gymnasium id (EnvEntry.gym_id) by which to make it; use zoo"
            self._refuse(self.settings["env"]["stack"], "env.stack", why)
        return wanted

    def _refuse(self, setting: Setting, label: str, why: str) -> None:
        self._fault(setting, label, f"{display(setting.value)} — {why}")

    def _fault(self, setting: Setting, label: str, text: str) -> None:
        self.faults.append((setting.order, f"{setting.source} {label}: {text}".lstrip()))

    def _has_section(self, section: str, setting: Setting) -> bool:
        if section in self.settings:
            return True
        place, _, name = section.partition(".")
        if name and place == PLUGINS:
            if name in self.registry.hooks:
                self.settings[section] = {}
                return True
            error = unknown_entry("run hook", name, self.registry.hooks, listing="a3c-zoo list hooks")
            self._fault(setting, section, str(error))
        elif section == PLUGINS:
            self._fault(
                setting, section, "must name a run hook and its key, such as plugins.NAME.enabled=true"
            )
        elif section in SECTIONS:
            self._fault(setting, section, f"agent '{self.agent.name}' has no such section")
        else:
            self._fault(setting, section, f"unknown section.{did_you_mean(section, self.settings)}")
        return False

    def _refuse_flat(self) -> None:
        """Refuses keys of documents that stand beside the sections, and not below one. Says where they belong."""
        labels = _labels({name: model for name, model in self.models.items() if name in SECTIONS})
        for key, given in self._flat:
            places = [label for label in labels if key in (label, label.partition(".")[2])]
            label = places[0] if len(places) == 1 else key_for(key, labels)
            if label is None:
                hint = did_you_mean(key, [*self.settings, *labels])
                self._fault(given, key, f"unknown section.{hint}")
                continue
            section, _, name = label.partition(".")
            text = f"{section}: {{{name}: {display(value_for(key, given.value))}}}"
            self._fault(given, key, f"stands below no section. Type: {text}")

    def _put_argument(self, name: str, setting: Setting) -> None:
        """Sets one of the arguments in `env.kwargs`; the others stay."""
        section, _, key = ARGUMENTS.partition(".")
        present = self.settings[section].get(key, Setting({}))
        if isinstance(present.value, dict):
            kept = present.value
            sources = dict.fromkeys(filter(None, (present.source, setting.source)))
            setting = setting._replace(source=", ".join(sources))
        else:
            kept = {}
        self._put(section, key, setting._replace(value={**kept, name: setting.value}))

    def _put(self, section: str, key: str, setting: Setting) -> None:
        if not self._has_section(section, setting):
            return
        if section == "env":
            key = self._env_model.also_called.get(key, key)
        present = self.settings[section].get(key)
        if present is None or present.order <= setting.order:
            self.settings[section][key] = setting
            if section in self._named_in and key == "name":
                if present:
                    before = present.value
                else:
                    before = bases.NAMED[section].model_fields["name"].default
                if setting.value != before:
                    self._named_in[section] = setting.order[0]

    def _drop_keys_of_others(self) -> None:
        """Drops keys that a lower layer gives for its own network or optimizer when a higher layer names another."""
        for section, layer in self._named_in.items():
            if (model := self.models.get(section)) is not None:
                given = self.settings[section].items()
                kept = {
                    key: setting
                    for key, setting in given
                    if key in model.model_fields or setting.order[0] >= layer
                }
                self.settings[section] = kept

    @functools.cached_property
    def _env_model(self) -> type[bases.EnvConfig]:
        model = cast("type[bases.EnvConfig]", _model(self.env.config, bases.EnvConfig))
        refuse_taken_keys(self.env, model)
        return model

    @functools.cached_property
    def models(self) -> dict[str, type[Section]]:
        """The model of each section; `network` or `optimizer` is left out if its name is unknown.

        This is computed once, after all settings with a section have been added.
        """
        models: dict[str, type[Section] | None] = {
            "run": bases.RunConfig,
            "env": self._env_model,
            "agent": _model(self.agent.config, bases.AgentConfig),
            "network": self._named_model("network", bases.NetworkConfig, self.registry.network),
            "optimizer": self._named_model("optimizer", bases.OptimizerConfig, self.registry.optimizer),
        }
        for name, entry in self.registry.hooks.items():
            if f"{PLUGINS}.{name}" in self.settings:
                models[f"{PLUGINS}.{name}"] = _model(entry.config, bases.HookConfig)
        return {name: model for name, model in models.items() if model is not None and name in self.settings}

    def _named_model(
        self, section: str, base: type[Section], find: Callable[[str], NetworkEntry | OptimizerEntry]
    ) -> type[Section] | None:
        """The model of a section that names its entry, None for a section that is not there or an unknown name."""
        if section not in self.settings:
            return None
        setting = self.settings[section].get("name", Setting(base.model_fields["name"].default, "default"))
        if not isinstance(setting.value, str):
            self._refuse(setting, f"{section}.name", "must be a name")
            return None
        try:
            return _model(find(setting.value).config, base)
        except UnknownNameError as error:
            self._fault(setting, f"{section}.name", str(error))
            return None

    def _validate(self, name: str, model: type[Section]) -> Section | None:
        try:
            return bases.validated(
                model, {key: setting.value for key, setting in self.settings[name].items()}
            )
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                key, *inner = detail["loc"] or ("",)
                label = f"{name}.{key}".rstrip(".") + "".join(
                    f"[{part}]" for part in inner if "[" not in str(part)
                )
                setting = self.settings[name].get(str(key), Setting(None))
                self._fault(setting, label, explain(detail, name, self.models))
            return None


def why_workers(workers: int, cores: int, shared_out: Sequence[int]) -> str:
    """Why `run.workers: auto` has become so many workers.

    Args:
        shared_out: among how many workers `agent.teams` shares out the environments; empty without teams.
    """
    if cores == 1:
        return "auto: this process may use one core"
    if workers == cores:
        return f"auto: one for each of {cores:,} cores"
    if shared_out:
        numbers = ", ".join(f"{number:,}" for number in shared_out)
        return (
            f"auto: there are {cores:,} cores, and the environments can be shared out among {numbers} workers"
        )
    return f"auto: there are {cores:,} cores, but without agent.teams more workers need more steps"


def _key_and_value(text: str) -> tuple[str, str]:
    """The two texts of `KEY=VALUE`; the value is "" if one of them is missing."""
    key, _, value = (part.strip() for part in text.partition("="))
    return key, value if key else ""


def engine_settings(entry: EngineEntry, given: Sequence[str], flags: Mapping[str, Any]) -> bases.EngineConfig:
    """The settings of an engine.

    Args:
        given: `KEY=VALUE` texts of `--engine-option`. flags: key → value of the flag `--KEY`.

    Raises:
        ConfigError: has one line for each fault.
    """
    model = _model(entry.config, bases.EngineConfig)
    values = dict(flags)
    sources = {key: f"--{key}" for key in flags}
    faults = []
    for text in given:
        key, value_text = _key_and_value(text)
        try:
            if not value_text:
                raise ValueError("must read KEY=VALUE (write null for no value)")
            values[key] = yaml.parse_value(value_text)
        except ValueError as error:
            faults.append(f"--engine-option {text}: {error}")
        sources.setdefault(key, f"--engine-option {key}")
    try:
        settings = bases.validated(model, values)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            key = str((detail["loc"] or ("",))[0])
            fault = f"{sources.get(key, key)}: {explain(detail, 'engine', {'engine': model})}"
            faults.append(f"engine '{entry.name}' {fault}")
    if faults:
        raise faulty(faults)
    assert isinstance(settings, bases.EngineConfig)
    return settings


def faulty(faults: list[str]) -> ConfigError:
    """Returns one error for all faults: a single fault in one line, several in a line each."""
    lines = [printable(fault) for fault in faults]
    if len(lines) == 1:
        return ConfigError(lines[0])
    return ConfigError("\n  ".join([f"{len(lines)} faults in the configuration:", *lines]))


def _fits(agent: AgentConfig, num_envs: int) -> bool:
    try:
        agent.check(num_envs)
    except ConfigError:
        return False
    return True


def cite(document: Document, fault: YamlFault) -> str:
    """Returns a fault of a document in one line; line 0 means the whole document."""
    line = f"{fault.line} " if fault.line else " "
    where = ".".join(str(part) for part in fault.location)
    return f"{document.source}:{line}{where}{': ' if where else ''}{fault.message}"


def _model(path: str, base: type[Section]) -> type[Section]:
    model = load_part(f"configuration model '{path}'", path)
    if not (isinstance(model, type) and issubclass(model, base)):
        raise PluginError(f"'{path}' must be a subclass of a3c_zoo.config.{base.__name__}")
    return model


def refuse_taken_keys(env: EnvEntry, model: type[EnvConfig]) -> None:
    """Raises PluginError for a key of an environment's own that its factory would get as an argument twice."""
    own = model.model_fields.keys() - EnvConfig.model_fields.keys()
    for name in GIVEN_TO_FACTORY:
        if env.factory is not None and name in own:
            raise PluginError(
                f"environment '{env.name}': its factory gets the argument '{name}' from a3c-zoo; rename the key of "
                f"this name in {model.__name__}"
            )


def _labels(models: Mapping[str, type[Section]]) -> list[str]:
    return [f"{name}.{key}" for name, model in models.items() for key in model.model_fields]


def explain(detail: Any, section: str, models: Mapping[str, type[Section]]) -> str:
    """Returns one of pydantic's faults in words."""
    if detail["type"] == "missing":
        return "must be given"
    if detail["type"] == "extra_forbidden" and len(detail["loc"]) == 1:
        key = str(detail["loc"][0])
        labels = _labels(models)
        elsewhere = [label for label in labels if label.rpartition(".")[2] == key]
        if elsewhere:
            hint = f" Did you mean '{elsewhere[0]}'?"
        else:
            hint = did_you_mean(key, models[section].model_fields)
        if not hint and (meant := key_for(key, labels)):
            hint = f" Did you mean '{meant}'?"
        if section == "env" and not hint:
            hint = f" Arguments of the environment itself: {ARGUMENTS}.{key}"
        return f"unknown key.{hint}"
    message: str = detail["msg"].removeprefix("Value error, ")
    message = message.replace("Input should be", "must be").replace("Input should have", "must have")
    message = message.replace("a valid tuple", "a list: [first, second, …]")
    message = message.replace("a valid dictionary", "a mapping: {name: value}")
    if detail["loc"]:
        cure = _cure_of_value(detail, section, models)
        return f"{display(detail['input'])} — {message}{cure and f'. Type: {cure}'}"
    return message


def _cure_of_value(detail: Any, section: str, models: Mapping[str, type[Section]]) -> str:
    """How to write a value that was meant, `-o KEY=VALUE`; "" if nobody knows."""
    value = detail["input"]
    label = f"{section}.{detail['loc'][0]}"
    if section not in models or len(detail["loc"]) > 1:
        return ""
    if detail["type"] in ("tuple_type", "list_type"):
        numbers = [part.strip(" ()") for part in str(value).split(",")]
        if isinstance(value, int | str) and all(numbers) and not isinstance(value, bool):
            listed = ", ".join(numbers)
            return f"-o {shlex.quote(f'{label}=[{listed}]')}"
    if detail["type"] in ("int_parsing", "int_type") and isinstance(value, str):
        match = re.fullmatch(r"(\d+)([kKmM])", value)
        if match:
            return f"-o {label}={int(match[1]) * {'k': 10**3, 'm': 10**6}[match[2].lower()]}"
    return ""


def is_cost(values: Any) -> bool:
    """Whether a block `tuning:` has all of its numbers, and nothing else; or a line of text."""
    if isinstance(values, str):
        return 0 < len(values) <= MAX_TUNING_TEXT and values.isprintable()
    is_whole = isinstance(values, dict) and all(type(each) is int and each >= 0 for each in values.values())
    return is_whole and {*values} == {*TUNING_COST}


def is_comparison(values: Any) -> bool:
    """Whether a block `compare:` has its number, and nothing else."""
    return (
        isinstance(values, dict)
        and {*values} == {"steps"}
        and type(values["steps"]) is int
        and values["steps"] > 0
    )
