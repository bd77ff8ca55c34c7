"""Which room imports which, and what may not be imported before it is needed.

That a room imports only rooms below it is import-linter's to hold (setup.cfg).
"""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import grimp
import networkx
import pytest

import a3c_zoo.cli
from a3c_zoo import AgentEntry, EnvEntry, NetworkEntry
from a3c_zoo.plugins.registry import load_registry

HEAVY = ("torch", "gymnasium", "ale_py", "stable_baselines3", "tensorboard", "pandas", "scipy", "matplotlib")

LIGHT = [
    "a3c_zoo",
    "a3c_zoo.__main__",
    "a3c_zoo.plugins.builtins",
    "a3c_zoo.config",
    "a3c_zoo.plugins.entries",
    "a3c_zoo.plugins.hookspecs",
    "a3c_zoo.config.sets",
    "a3c_zoo.plugins.loading",
    "a3c_zoo.records",
    "a3c_zoo.plugins.registry",
    "a3c_zoo.config.settings",
    "a3c_zoo.config.yaml",
    "a3c_zoo_envs",
    "a3c_zoo_hyperparams",
    *(module.name for module in pkgutil.walk_packages(a3c_zoo.cli.__path__, "a3c_zoo.cli.")),
]


#: The longest chain of imports between the root's packages and modules may have so many of them.
MOST_FLOORS = 9


@pytest.fixture(scope="module")
def modules() -> networkx.DiGraph[str]:
    """Module → what it imports, inside functions too; what is imported for annotations alone is left out."""
    graph = grimp.build_graph("a3c_zoo", exclude_type_checking_imports=True, cache_dir=None)
    imports = ((name, other) for name in graph.modules for other in graph.find_modules_directly_imported_by(name))
    return networkx.DiGraph(imports)


def rooms_of(modules: networkx.DiGraph[str]) -> networkx.DiGraph[str]:
    """The same between the packages and modules of the root."""

    def room(name: str) -> str:
        return name.split(".")[1] if "." in name else name

    return networkx.DiGraph((room(a), room(b)) for a, b in modules.edges if room(a) != room(b))


def circles(graph: networkx.DiGraph[str]) -> list[list[str]]:
    return [sorted(names) for names in networkx.strongly_connected_components(graph) if len(names) > 1]


def test_no_import_circle(modules: networkx.DiGraph[str]) -> None:
    assert circles(modules) == []
    assert circles(rooms_of(modules)) == []


def test_few_floors(modules: networkx.DiGraph[str]) -> None:
    chain = networkx.dag_longest_path(rooms_of(modules))
    assert len(chain) <= MOST_FLOORS, " → ".join(chain)


def test_nothing_but_the_root_imports_the_root(modules: networkx.DiGraph[str]) -> None:
    assert sorted(modules.predecessors("a3c_zoo")) == []


def test_the_checks_see_circles_and_floors() -> None:
    graph: networkx.DiGraph[str] = networkx.DiGraph([("p.a.x", "p.b.y"), ("p.b.y", "p.c"), ("p.c", "p.b.y")])
    assert circles(graph) == [["p.b.y", "p.c"]]
    assert sorted(rooms_of(graph).edges) == [("a", "b"), ("b", "c"), ("c", "b")]


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
from a3c_zoo.config.sets import describe, resolve_config
from a3c_zoo.plugins.registry import load_registry
registry = load_registry()
describe(resolve_config(registry, registry.env("cartpole"), registry.agent("a3c")))
"""
    assert heavy_imports(statements) == []


def test_the_check_sees_a_heavy_import() -> None:
    assert heavy_imports("sys.modules['torch'] = sys") == ["torch"]
