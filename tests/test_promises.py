"""docs/promises.md: what 0.1.0 had is still there. Commit 7cecceba is 0.1.0; its names lie in a file."""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import click
import pytest

import a3c_zoo
from a3c_zoo import testing
from a3c_zoo.cli.main import cli
from a3c_zoo.config import OptimizerConfig, RunConfig
from a3c_zoo.plugins import hookspecs
from a3c_zoo.plugins.entries import load_object
from a3c_zoo.plugins.registry import Registry, get_registry

#: Names of commands with their options; of keys by section; of modules; of arguments; of hooks; of sets.
OF_0_1_0: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "surface-0.1.0.json").read_text())


def command_named(words: str) -> click.Command:
    """The command that these words behind `a3c-zoo` name."""
    command: click.Command = cli
    context = click.Context(cli)
    for word in words.split():
        assert isinstance(command, click.Group)
        found = command.get_command(context, word)
        assert found is not None, f"there is no command {words}"
        command = found
    return command


@pytest.mark.parametrize("words", OF_0_1_0["commands"])
def test_commands_have_the_options_of_0_1_0(words: str) -> None:
    command = command_named(words.removeprefix("a3c-zoo"))
    options = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    assert {*OF_0_1_0["commands"][words]} - options == set()


def model_of(registry: Registry, section: str) -> Any:
    kind, _, name = section.partition(" ")
    if kind == "run":
        return RunConfig
    if kind == "optimizer":
        return OptimizerConfig
    entries: dict[str, Callable[[str], Any]] = {
        "env": registry.env,
        "agent": registry.agent,
        "network": registry.network,
    }
    return load_object(entries[kind](name).config)


@pytest.mark.parametrize("section", OF_0_1_0["keys"])
def test_sections_have_the_keys_of_0_1_0(section: str) -> None:
    assert {*OF_0_1_0["keys"][section]} - {*model_of(get_registry(), section).model_fields} == set()


@pytest.mark.parametrize("module", OF_0_1_0["names"])
def test_modules_have_the_names_of_0_1_0(module: str) -> None:
    there = importlib.import_module(module)
    assert [name for name in OF_0_1_0["names"][module] if not hasattr(there, name)] == []


@pytest.mark.parametrize("function", OF_0_1_0["parameters"])
def test_functions_have_the_arguments_of_0_1_0(function: str) -> None:
    found = getattr(a3c_zoo, function, None) or getattr(testing, function)
    assert {*OF_0_1_0["parameters"][function]} - {*inspect.signature(found).parameters} == set()


def test_there_are_the_hooks_and_the_sets_of_0_1_0() -> None:
    assert [name for name in OF_0_1_0["hooks"] if not hasattr(hookspecs, name)] == []
    folders = [resources.files(package) for package in get_registry().hyperparams]
    sets = OF_0_1_0["sets"]
    assert [name for name in sets if not any(folder.joinpath(f"{name}.yml").is_file() for folder in folders)] == []
