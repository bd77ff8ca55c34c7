"""Methods of a comparison: an agent or a baseline with its settings, as users write them."""

from __future__ import annotations

import itertools
import json
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from a3c_zoo.config import Config
from a3c_zoo.config.sets import resolve_config
from a3c_zoo.errors import UnknownNameError, ZooError, printable
from a3c_zoo.plugins.entries import AgentEntry, EnvEntry
from a3c_zoo.plugins.registry import Registry, unknown_entry
from a3c_zoo.store.run import method_name
from a3c_zoo.store.run_records import RunRecord
from a3c_zoo.synonyms import agent_cure, agent_for
from a3c_zoo.words import counted

#: How a method is written.
FORM: Final = '[NAME=]AGENT[:SET] [-o KEY=VALUE]..., such as "fast=a3c:a3c-ppo -o agent.gamma=0.98"'
#: Sections of a configuration that make a method, and keys of the section `run` that do.
OF_A_METHOD: Final = ("env", "agent", "network", "optimizer")
OF_RUN: Final = ("run.workers", "run.device")
#: How many settings the message of a method without a run names, at most.
DIFFERENCES: Final = 5


@dataclass(frozen=True, slots=True)
class Method:
    """An agent or a baseline, and its settings.

    Attributes:
        text: as users write it. stack: the value of `env.stack` that they asked for (`sb3-a2c@zoo`).
        label: its name in a report, if several configurations of one agent are compared. given_name: that part of
            it which the user gave, before the sign of equality.
        hyperparams, overrides: of `train`.
    """

    text: str
    agent: AgentEntry
    stack: str | None = None
    label: str = ""
    hyperparams: str | None = None
    overrides: tuple[str, ...] = ()
    given_name: str = ""

    @property
    def all_overrides(self) -> tuple[str, ...]:
        """Its overrides, with that of `env.stack`."""
        if self.stack:
            return (*self.overrides, f"env.stack={self.stack}")
        return self.overrides

    @property
    def name(self) -> str:
        """Its name in a report, if the environment does not decide `env.stack`."""
        return self.label or method_name(self.agent.name, self.stack)

    def config(self, registry: Registry, env: EnvEntry) -> Config:
        """Its configuration on an environment, as `train` has it. Raises ConfigError and UnknownNameError."""
        overrides = list(self.all_overrides)
        return resolve_config(registry, env, self.agent, hyperparams=self.hyperparams, overrides=overrides)


def method_of_kind(registry: Registry, kind: str, text: str) -> Method:
    """The method of `--agent NAME` or `--baseline NAME[@STACK]`, by the kind of the entry.

    Raises:
        ZooError: there is no such agent or baseline, or no such stack.
    """
    name, stack = _stack_apart(text)
    known = {each.name: each for each in registry.agents.values() if each.kind == kind}
    if name not in known:
        if name in registry.agents:
            other = registry.agents[name].kind
            articles = {"agent": "an agent", "baseline": "a baseline"}
            raise ZooError(f"'{name}' is {articles[other]}, not {articles[kind]}: --{other} {name}")
        if cure := _cure_of_agent(registry, name):
            raise UnknownNameError(f"unknown {kind} '{name}'. {cure}")
        raise unknown_entry(kind, name, known, listing=f"a3c-zoo list {kind}s")
    return Method(text, known[name], stack)


def _cure_of_agent(registry: Registry, name: str) -> str | None:
    """What to type in place of another program's agent: agents and baselines have options of their own here."""
    here = agent_for(name, registry.agents)
    option = f"--{registry.agents[here].kind}" if here else "--agent"
    return agent_cure(name, registry.agents, option)


def parsed_method(registry: Registry, text: str) -> Method:
    """Reads a method as `FORM` has it; the agent may also be a baseline, with `@zoo` or `@own`.

    Raises:
        ZooError: it is written otherwise, or names no agent.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ZooError(f"--method '{text}' cannot be read: {error}. Write {FORM}") from None
    if not words:
        raise ZooError(f"--method is empty. Write {FORM}")
    head, colon, hyperparams = words[0].partition(":")  # a file behind the colon may have a sign of equality
    label, equals, agent = head.rpartition("=")
    name, stack = _stack_apart(agent)
    if (equals and not label) or (colon and not hyperparams) or not name:
        raise ZooError(f"--method '{text}' is not complete. Write {FORM}")
    if name not in registry.agents:
        raise unknown_entry(
            "agent", name, registry.agents, listing="a3c-zoo list agents, a3c-zoo list baselines", option=""
        )
    overrides = _overrides(text, words[1:])
    given_name = label
    if not label and (colon or overrides):
        label = text.strip()
    return Method(text, registry.agents[name], stack, label, hyperparams or None, overrides, given_name)


def _stack_apart(text: str) -> tuple[str, str | None]:
    name, at, stack = text.partition("@")
    if at and stack not in ("own", "zoo"):
        raise ZooError(f"'{text}': write zoo or own after the @, for the environments that it trains on")
    return name, stack or None


def _overrides(text: str, words: Sequence[str]) -> tuple[str, ...]:
    """The values of `-o KEY=VALUE -o …`."""
    options = words[::2]
    values = words[1::2]
    if len(options) != len(values) or any(option != "-o" for option in options):
        raise ZooError(f"--method '{text}': only -o KEY=VALUE may follow the agent. Write {FORM}")
    return tuple(values)


def refuse_equal(methods: Mapping[str, Config], env: str) -> None:
    """Raises ZooError if two methods, by their names, have the same settings on an environment."""
    seen: dict[str, str] = {}
    for name, config in methods.items():
        settings = config.to_dict()
        del settings["run"]["seed"]
        other = seen.setdefault(repr(settings), name)
        if other != name:
            raise ZooError(f"'{other}' and '{name}' have the same settings on {env}: leave one of them out")


def owners_of(
    registry: Registry, runs: Sequence[RunRecord], methods: Sequence[Method], trusted_envs: Collection[str]
) -> dict[Path, Method]:
    """The directory of each run that has the settings of a method → this method.

    Seeds, budgets and the lengths of schedules may be any: a comparison sets them. Where `run.workers: auto` chooses
    the number of workers, this may be any, too, unless the run has all settings of another method.

    Args:
        trusted_envs: the environments that may name a module to import.

    Raises:
        ZooError: a run has the settings of two methods; or an environment names a module and is not trusted.
    """
    owners: dict[Path, Method] = {}
    envs = dict.fromkeys(run.env for run in runs if run.is_ours)
    for any_workers in (False, True):
        free = [run for run in runs if run.path not in owners]
        for method, env in itertools.product(methods, envs):
            wanted = _settings_on(registry, method, env, env in trusted_envs, any_workers)
            for run in free:
                if run.env != env or not _has_agent(method, run) or _unlike(wanted, run):
                    continue
                if run.path in owners:
                    two = f"'{owners[run.path].name}' and '{method.name}'"
                    raise ZooError(f"--method: {two} both have the settings of {run.path}")
                owners[run.path] = method
    return owners


def runs_of_methods(runs: Sequence[RunRecord], owners: Mapping[Path, Method]) -> list[RunRecord]:
    """The runs that have an owner (`owners_of`), each called like it."""
    chosen = [run for run in runs if run.path in owners]
    return [replace(run, method=owners[run.path].label or run.method) for run in chosen]


def _settings_on(
    registry: Registry, method: Method, env: str, is_trusted: bool, any_workers: bool
) -> dict[str, Any]:
    """The settings that runs of a method have on an environment.

    any_workers: leaves out the number of workers that `auto` chooses here; another machine chooses another one.
    """
    config = method.config(registry, registry.env(env, is_trusted=is_trusted))
    settings = method_settings(config, method.overrides)
    if any_workers and "run.workers" in config.decided:
        del settings["run.workers"]
    return settings


def _has_agent(method: Method, run: RunRecord) -> bool:
    return run.is_ours and run.method == method_name(method.agent.name, run.settings.get("env.stack"))


def _unlike(wanted: Mapping[str, Any], run: RunRecord) -> list[str]:
    """The keys of the settings that a run does not have."""
    return [key for key, value in wanted.items() if run.settings.get(key) != value]


def refuse_methods_without_runs(
    registry: Registry,
    methods: Sequence[Method],
    owners: Mapping[Path, Method],
    runs: Sequence[RunRecord],
    trusted_envs: Collection[str],
) -> None:
    """Raises ZooError if a method owns none of the runs. owners: see `owners_of`."""
    for method in methods:
        if method not in owners.values():
            nearest = _nearest(registry, method, runs, trusted_envs)
            raise ZooError(f"--from: no run has the settings of method '{method.name}'. {nearest}")


def _nearest(
    registry: Registry, method: Method, runs: Sequence[RunRecord], trusted_envs: Collection[str]
) -> str:
    """In which settings the run differs that has most of a method's, in one sentence."""
    found = []
    for run in runs:
        if _has_agent(method, run):
            wanted = _settings_on(registry, method, run.env, run.env in trusted_envs, any_workers=True)
            found.append((_unlike(wanted, run), wanted, run))
    if not found:
        return f"No run is of {method.agent.name}."
    keys, wanted, run = min(found, key=lambda each: len(each[0]))
    if not keys:
        return f"{run.path.name} has them, and is a run of another method, which names more of its settings."
    told = [
        f"{key} is {_as_json(run.settings.get(key))}, not {_as_json(wanted[key])}"
        for key in keys[:DIFFERENCES]
    ]
    if len(keys) > DIFFERENCES:
        told.append(f"and {counted(len(keys) - DIFFERENCES, 'other settings')}")
    return f"The nearest one is {run.path.name}: {', '.join(told)}."


def _as_json(value: Any) -> str:
    return printable(json.dumps(value, ensure_ascii=False, default=str))


def method_settings(config: Config, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """The settings that make a method, "section.key" → value as in a config.yml.

    Of `run` these are workers, device, and what was given by itself: a comparison sets seeds and budgets. It sets the
    lengths of schedules, too, and the machine decides values such as `network.precision: auto`.

    overrides: `KEY=VALUE` texts; the keys are settings in any case.
    """
    given = {override.partition("=")[0].strip() for override in overrides}
    document = json.loads(json.dumps(config.to_dict()))
    settings = {}
    for name, section in document.items():
        for key, value in section.items() if isinstance(section, dict) else ():
            label = f"{name}.{key}"
            is_decided = key == "schedule_steps" or label in config.decided
            is_of_a_method = name in OF_A_METHOD and not is_decided
            if is_of_a_method or label in OF_RUN or given & {label, key}:
                settings[label] = value
    return settings
