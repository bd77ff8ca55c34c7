"""What the distribution offers to a3c-zoo."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import import_module, resources
from pathlib import Path

import pytest
from a3c_zoo import EnvEntry
from a3c_zoo.testing import check_env

from a3c_zoo_gridworld.config import GridworldConfig
from a3c_zoo_gridworld.plugin import zoo_envs, zoo_hyperparams

ENTRIES = {entry.name: entry for entry in zoo_envs()}


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=list(ENTRIES))
def test_the_environments_keep_the_contract(entry: EnvEntry) -> None:
    check_env(entry)


@pytest.mark.parametrize(
    "config",
    [
        GridworldConfig(size=4, slip=0.0),
        GridworldConfig(size=5, slip=1.0),
        GridworldConfig(size=10, max_episode_steps=7),
        GridworldConfig(max_episode_steps=1),
    ],
)
def test_every_configuration_keeps_the_contract(config: GridworldConfig) -> None:
    check_env(ENTRIES["gridworld"], config=config, steps=150)


def test_the_entry_point_names_the_plugin() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]["a3c_zoo"]
    assert [import_module(module).zoo_envs() for module in points.values()] == [zoo_envs()]


def test_the_sets_are_in_the_package() -> None:
    (entry,) = zoo_hyperparams()
    assert (resources.files(entry.package) / "gridworld" / "a3c.yml").is_file()


def test_listing_imports_nothing_heavy() -> None:
    program = """
import sys, a3c_zoo_gridworld.plugin, a3c_zoo_gridworld.config
print(*{"numpy", "gymnasium", "torch"} & sys.modules.keys())
"""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environ)
    assert result.stdout.split() == []
