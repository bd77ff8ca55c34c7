"""Methods of a comparison: an agent or a baseline with its settings, as users write them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from a3c_zoo.config import Config
from a3c_zoo.config.sets import resolve_config
from a3c_zoo.errors import ZooError
from a3c_zoo.plugins.entries import AgentEntry, EnvEntry
from a3c_zoo.plugins.registry import Registry, unknown_entry
from a3c_zoo.store.run import method_name
from a3c_zoo.store.run_records import RunRecord

#: How a method is written.
FORM: Final = '[NAME=]AGENT[:SET] [-o KEY=VALUE]..., such as "fast=a3c:a3c-ppo -o agent.gamma=0.98"'
#: Sections of a configuration that make a method. `run` has seed, budget and what a comparison sets for every run.
OF_A_METHOD: Final = ("env", "agent", "network", "optimizer")


@dataclass(frozen=True, slots=True)
class Method:
    """An agent or a baseline, and its settings.

    Attributes:
        text: as users write it. stack: the value of `env.stack` that they asked for (`sb3-a2c@zoo`).
        label: its name in a report, if several configurations of one agent are compared.
        hyperparams, overrides: of `train`.
    """

    text: str
    agent: AgentEntry
    stack: str | None = None
    label: str = ""
    hyperparams: str | None = None
    overrides: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name in a report, if the environment does not decide `env.stack`."""
        return self.label or method_name(self.agent.name, self.stack)

    def config(self, registry: Registry, env: EnvEntry) -> Config:
        """Its configuration on an environment, as `train` has it. Raises ConfigError and UnknownNameError."""
        stack = [f"env.stack={self.stack}"] if self.stack else []
        overrides = [*self.overrides, *stack]
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
        raise unknown_entry(kind, name, known, listing=f"a3c-zoo list {kind}s")
    return Method(text, known[name], stack)


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
    if _is_named(words[0]):
        label, equals, rest = words[0].rpartition("=")
    else:
        label = ""
        equals = ""
        rest = words[0]
    agent, colon, hyperparams = rest.partition(":")
    name, stack = _stack_apart(agent)
    if (equals and not label) or (colon and not hyperparams) or not name:
        raise ZooError(f"--method '{text}' is not complete. Write {FORM}")
    if name not in registry.agents:
        raise unknown_entry("agent", name, registry.agents, listing="a3c-zoo list agents, a3c-zoo list baselines")
    overrides = _overrides(text, words[1:])
    if not label and (colon or overrides):
        label = text.strip()
    return Method(text, registry.agents[name], stack, label, hyperparams or None, overrides)


def _is_named(word: str) -> bool:
    """Whether a word is `NAME=AGENT[:SET]`. A file after the colon may have a sign of equality, too."""
    return "=" in word.partition(":")[0]


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


def runs_of_methods(registry: Registry, runs: Sequence[RunRecord], methods: Sequence[Method]) -> list[RunRecord]:
    """The runs with the settings of a method, each called like it.

    Seeds, budgets and the lengths of schedules may be any: a comparison sets them.

    Raises:
        ZooError: a method has no run, or a run has the settings of two methods.
    """
    envs = dict.fromkeys(run.env for run in runs)
    names: dict[Path, str] = {}
    for method in methods:
        paths = [run.path for env in envs for run in _of_method(registry, method, env, runs)]
        if not paths:
            raise ZooError(f"--from: no run has the settings of method '{method.name}'")
        for path in paths:
            if path in names:
                raise ZooError(f"--method: '{names[path]}' and '{method.name}' both have the settings of {path}")
            names[path] = method.name
    return [replace(run, method=names[run.path]) for run in runs if run.path in names]


def _of_method(registry: Registry, method: Method, env: str, runs: Sequence[RunRecord]) -> list[RunRecord]:
    """The runs on an environment that have a method's settings."""
    wanted = _settings(method, method.config(registry, registry.env(env)))
    here = [run for run in runs if run.env == env and run.is_ours]
    return [
        run
        for run in here
        if run.method == method_name(method.agent.name, run.settings.get("env.stack"))
        and all(run.settings.get(key) == value for key, value in wanted.items())
    ]


def _settings(method: Method, config: Config) -> dict[str, Any]:
    """The settings that make a method, "section.key" → value as in a config.yml.

    A comparison sets the lengths of schedules, and `network.precision: auto` is decided by the machine.
    """
    given = {override.partition("=")[0].strip() for override in method.overrides}
    document = json.loads(json.dumps(config.to_dict()))
    sections = {name: document[name] for name in OF_A_METHOD if document.get(name)}
    settings = {f"{name}.{key}": value for name, section in sections.items() for key, value in section.items()}
    decided = {key for key in settings if key.endswith(".schedule_steps")} | {"network.precision"}
    return {key: value for key, value in settings.items() if key not in decided or key in given}
