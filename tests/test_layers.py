"""What may not be imported before it is needed. The layers themselves are import-linter's (setup.cfg)."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

import a3c_zoo.cli
from a3c_zoo import AgentEntry, EnvEntry, NetworkEntry
from a3c_zoo.registry import load_registry

HEAVY = ("torch", "gymnasium", "ale_py", "stable_baselines3", "tensorboard", "pandas", "scipy", "matplotlib")

LIGHT = [
    "a3c_zoo",
    "a3c_zoo.__main__",
    "a3c_zoo.builtins",
    "a3c_zoo.config",
    "a3c_zoo.entries",
    "a3c_zoo.hookspecs",
    "a3c_zoo.hyperparams",
    "a3c_zoo.plugins",
    "a3c_zoo.records",
    "a3c_zoo.registry",
    "a3c_zoo.settings",
    "a3c_zoo.yaml_sets",
    "a3c_zoo_envs",
    "a3c_zoo_hyperparams",
    *(module.name for module in pkgutil.walk_packages(a3c_zoo.cli.__path__, "a3c_zoo.cli.")),
]


def config_modules() -> list[str]:
    """Where the configuration models of all first-party entries live."""
    registry = load_registry()
    entries: list[EnvEntry | AgentEntry | NetworkEntry] = [
        *registry.envs.values(),
        *registry.agents.values(),
        *registry.networks.values(),
    ]
    return sorted({entry.config.partition(":")[0] for entry in entries})


def heavy_imports(statements: str) -> list[str]:
    program = f"import sys\n{statements}\nprint(*(name for name in {HEAVY} if name in sys.modules))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return result.stdout.split()


def test_light_modules_import_nothing_heavy() -> None:
    modules = [*LIGHT, *config_modules()]
    if heavy_imports("\n".join(f"import {name}" for name in modules)):
        culprits = {name: heavy for name in modules if (heavy := heavy_imports(f"import {name}"))}
        pytest.fail(f"module → what it imports: {culprits}")


def test_resolving_a_configuration_imports_nothing_heavy() -> None:
    statements = """
from a3c_zoo.hyperparams import describe, resolve_config
from a3c_zoo.registry import load_registry
registry = load_registry()
describe(resolve_config(registry, registry.env("cartpole"), registry.agent("a3c")))
"""
    assert heavy_imports(statements) == []


def test_the_check_sees_a_heavy_import() -> None:
    assert heavy_imports("sys.modules['torch'] = sys") == ["torch"]
