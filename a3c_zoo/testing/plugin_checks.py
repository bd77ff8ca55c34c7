"""The checks of hyperparameter sets, of the packages that hold them, and of what else a plugin offers."""

from __future__ import annotations

import configparser
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from glob import glob
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import click

from a3c_zoo.config import Config, EngineConfig, HookConfig, OptimizerConfig, yaml
from a3c_zoo.config.sets import HyperparamSet, list_sets, misnamed_files
from a3c_zoo.config.settings import Settings
from a3c_zoo.errors import PluginError, ZooError, did_you_mean
from a3c_zoo.learning.model import probe_spaces
from a3c_zoo.plugins.entries import (
    AgentEntry,
    CommandEntry,
    EngineEntry,
    Entry,
    EnvEntry,
    EnvFamily,
    HookEntry,
    HyperparamEntry,
    OptimizerEntry,
    TrainedEntry,
    load_object,
)
from a3c_zoo.plugins.loading import PluginInfo
from a3c_zoo.plugins.offers import kind_of, name_of
from a3c_zoo.plugins.registry import Registry, whole_examples
from a3c_zoo.plugins.sources import RUN_HOOKS
from a3c_zoo.runs.api import load_from
from a3c_zoo.runs.setup import RunSetup
from a3c_zoo.store.run_files import CONFIG_YML, META_JSON, OUTCOME_JSON, PARAMETERS
from a3c_zoo.store.trained import directory_of
from a3c_zoo.testing.conformance import check_entry
from a3c_zoo.testing.findings import Findings
from a3c_zoo.testing.optimizer_checks import examine_optimizer
from a3c_zoo.version import __version__, fitting_versions
from a3c_zoo.words import counted

#: An installed plugin whose import takes longer slows every command, in seconds.
LONGEST_IMPORT_S = 0.1

#: Folders of what was installed from a wheel. The project above them, if there is one, is the user's.
INSTALLED = {"site-packages", "dist-packages"}

CURE_DATA = '[tool.setuptools.package-data] "*" = ["**/*.yml"] in pyproject.toml'
#: The files of a trained agent's folder.
OF_AN_AGENT = (CONFIG_YML, "curve.csv", META_JSON, OUTCOME_JSON, PARAMETERS)
CURE_AGENT = CURE_DATA.replace('"**/*.yml"', '"**/*.yml", "**/*.json", "**/*.safetensors", "**/*.csv"')


def examine_set(registry: Registry, chosen: HyperparamSet, findings: Findings) -> None:
    """Resolves a set as a run does, and compares its network with the environment's spaces."""
    if chosen.env.partition(":")[0] not in {*registry.envs, *registry.families}:
        message = f"folder '{chosen.env}' of {chosen.package} is named after no environment or family"
        cure = (
            f"rename it: a3c-zoo list envs.{did_you_mean(chosen.env, [*registry.envs, *registry.families])}"
        )
        findings.problem("environment", message, cure)
        return
    family = registry.families.get(chosen.env)
    if family and not family.examples:
        message = "the family names no example, so the set is not tried"
        findings.warn("environment", message, "name one: EnvFamily.examples")
        return
    with findings.during("environment", "correct the family, its examples, or the name of the folder"):
        name = family.examples[0] if family else chosen.env
        env = registry.env(name)
        _examine_values(registry, chosen, env, findings)


def _examine_values(registry: Registry, chosen: HyperparamSet, env: EnvEntry, findings: Findings) -> None:
    """Resolves the values of a set for an environment, and tries them on it."""
    agent: AgentEntry | None = None
    of_name = [name for name in registry.agents if f"{chosen.name}-".startswith(f"{name}-")]
    with findings.during("agent", "correct EnvEntry.default_agent, or name the set after an agent"):
        agent = registry.agent(max(of_name, key=len, default=env.default_agent))
    if agent is None:
        return
    config: Config | None = None
    with findings.during(
        "values", f"a3c-zoo show hyperparams {env.name} --agent {agent.name} shows the keys"
    ):
        settings = Settings(registry, env, agent)
        settings.add_document(yaml.read_document(chosen.file, chosen.source, follow=True))
        config = settings.config()
    if config is None:
        return
    variant = chosen.name.removeprefix(agent.name).removeprefix("-")
    # The set of a family may fit to some of its environments only.
    if env.name != chosen.env and variant not in ("", env.variant):
        findings.ok(
            "values", f"{len(config.sources)} values for agent '{agent.name}'; not tried on an environment"
        )
        return
    with findings.during("spaces", "choose a network and an agent that fit the environment"):
        setup = RunSetup.of(registry, config, serial=False)
        probe_spaces(env, setup.network, config, agent.spaces)
        findings.ok("values", f"{len(config.sources)} values for agent '{agent.name}' on '{env.name}'")


def examine_package(registry: Registry, entry: HyperparamEntry, findings: Findings) -> None:
    """Checks that a package of sets holds some, and that its wheel will."""
    with findings.during("package", "correct the name, or the package"):
        import_module(entry.package)
        for name in misnamed_files(entry.package):
            findings.warn("package", f"{name} is not read", f"rename it: {name.removesuffix('yaml')}yml")
    sets = [each for each in list_sets(registry) if each.package == entry.package]
    message = "it holds no sets: no file <environment>/<set>.yml"
    findings.expect(
        sets or not findings.is_sound, "package", message, f"if there are such files: {CURE_DATA}"
    )
    with findings.during("package data", "correct pyproject.toml"):
        left_out = _left_out_of_the_wheel({Path(str(each.file)): each.package for each in sets})
        message = f"the wheel will not hold {', '.join(left_out)}"
        findings.expect(not left_out, "package data", message, CURE_DATA)
    if sets and findings.is_sound:
        findings.ok("package", counted(len(sets), "sets"))


def _left_out_of_the_wheel(files: Mapping[Path, str]) -> list[str]:
    """The files, in an editable project that setuptools builds, that no pattern of its package data matches.

    Args:
        files: path → the package in a folder of which it lies.
    """
    paths = {
        path: package for path, package in files.items() if path.is_file() and not INSTALLED & {*path.parts}
    }
    project = next(
        (folder for path in paths for folder in path.parents if (folder / "pyproject.toml").exists()), None
    )
    if project is None or (project / "MANIFEST.in").exists() or _has_other_options(project):
        return []
    content = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
    build = content.get("build-system", {})
    if "setuptools" not in build.get("build-backend", "setuptools") or "setuptools-scm" in str(
        build.get("requires")
    ):
        return []
    setuptools = content.get("tool", {}).get("setuptools", {})
    return [
        f"{path.parent.name}/{path.name}"
        for path, package in paths.items()
        if not _is_held(path, package, setuptools)
    ]


def _has_other_options(project: Path) -> bool:
    """Whether setup.cfg or setup.py may say what the wheel holds; they are not read here."""
    parser = configparser.ConfigParser(interpolation=None)
    with suppress(configparser.Error):
        parser.read(project / "setup.cfg", encoding="utf-8")
    return (project / "setup.py").exists() or any(name.startswith("options") for name in parser.sections())


def _is_held(path: Path, package: str, setuptools: dict[str, Any]) -> bool:
    """Whether a pattern of the package data matches a file. A pattern is relative to the folder of its package.

    The folder of a file is a package only if namespaces are, or if it is listed.

    Args:
        package: the name of the package of sets or trained agents, whose folder has a folder for each.
    """
    packages = setuptools.get("packages", {})
    if isinstance(packages, dict):
        is_package = packages.get("find", {}).get("namespaces") is not False
    else:
        is_package = any(name.rpartition(".")[2] == path.parent.name for name in packages)
    data = setuptools.get("package-data", {})
    name = f"{package}.{path.parent.name}"
    for folder in path.parents:
        if not name:
            return False
        if is_package or folder != path.parent:
            patterns = [*data.get("*", []), *data.get(name, [])]
            inner = str(path.relative_to(folder))
            if any(inner in glob(pattern, root_dir=folder, recursive=True) for pattern in patterns):
                return True
        name = name.rpartition(".")[0]
    return False


def examine_plugin(registry: Registry, info: PluginInfo, findings: Findings) -> None:
    """Checks a plugin's import and requirement, and what it offers beside environments, agents, networks and sets."""
    if info.status == "faulty":
        findings.problem("loading", str(info.fault), "correct the plugin; until then it is left out whole")
        return
    if info.status == "blocked":
        cure = "see A3C_ZOO_PLUGINS and A3C_ZOO_DISABLE_PLUGINS"
        findings.warn("loading", "an environment variable blocks it, so it is not checked", cure)
        return
    # A file is loaded only by commands that name it, and has no other module for what it needs.
    if info.import_s > LONGEST_IMPORT_S and not info.file:
        message = f"its import takes {info.import_s * 1000:,.0f} ms, in every command"
        findings.warn(
            "import", message, "import heavy modules where they are used; entries name code by strings"
        )
    if not (info.first_party or info.file or _requires_the_zoo(info.distribution)):
        message = f"{info.distribution} does not require a3c-zoo"
        fitting = fitting_versions(__version__)
        findings.warn("requirement", message, f"name the versions that it was tested with: a3c-zoo{fitting}")
    for entry in registry.offers(info):
        check = f"{kind_of(entry).namespace} {name_of(entry)}"
        with findings.during(check, "correct it, or its import string"):
            _check_offer(registry, entry, check, findings)
    hooks = [hook for hook in info.hooks if hook in RUN_HOOKS]
    if hooks:
        watches = f"; run hooks of every run: {', '.join(hooks)}"
    else:
        watches = ""
    findings.ok("loading", f"imported in {info.import_s * 1000:.0f} ms{watches}")


#: A name that no environment has.
NOBODYS = "no-such-environment"


def _check_offer(registry: Registry, entry: Entry, check: str, findings: Findings) -> None:
    """Checks an entry of a kind that has no check of its own."""
    match entry:
        case CommandEntry():
            is_command = isinstance(load_object(entry.command), click.Command)
            findings.expect(is_command, check, "it is no click.Command", "use @click.command")
        case EngineEntry():
            check_entry(entry, "zoo_engines", EngineConfig, findings, factory=entry.factory)
        case EnvFamily():
            findings.expect(
                callable(load_object(entry.resolve)), check, "resolve is not callable", "name a function"
            )
            if entry.recognise is not None:
                known = load_object(entry.recognise)(NOBODYS)
                cure = "return None for a name that the family does not have"
                findings.expect(known is None, check, f"recognise takes '{NOBODYS}' for {known!r:.60}", cure)
            for example in whole_examples(entry):
                registry.env(example)
        case OptimizerEntry():
            model = check_entry(entry, "zoo_optimizers", OptimizerConfig, findings, factory=entry.factory)
            if callable(load_object(entry.factory)):
                examine_optimizer(entry, model(name=entry.name), findings, check)
        case TrainedEntry():
            directory = directory_of(entry)
            load_from(directory)
            needed = (directory.path / name for name in OF_AN_AGENT)
            left_out = _left_out_of_the_wheel(dict.fromkeys(needed, entry.package))
            message = f"the wheel will not hold {', '.join(sorted(left_out))}"
            findings.expect(not left_out, check, message, CURE_AGENT)
        case HookEntry():
            model = check_entry(entry, "zoo_hooks", HookConfig, findings, hooks=entry.hooks)
            try:
                registry.run_hooks({entry.name: model()})
            except PluginError:
                raise
            except ZooError as error:  # it wants something of its user, such as a key
                findings.warn(
                    "run hook", str(error), "do what the message says, before a run that chooses it"
                )


def _requires_the_zoo(distribution: str) -> bool:
    try:
        required = metadata.requires(distribution) or []
    except (metadata.PackageNotFoundError, ValueError):
        return False
    return any(requirement.replace("_", "-").lower().startswith("a3c-zoo") for requirement in required)
