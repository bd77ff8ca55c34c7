"""Which package imports which, what may not be imported before it is needed, and how things are named.

import-linter checks that a package imports only packages below it (setup.cfg).
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from configparser import ConfigParser
from pathlib import Path

import grimp
import networkx
import pytest

import a3c_zoo.cli
from a3c_zoo import AgentEntry, EnvEntry, NetworkEntry, OptimizerEntry
from a3c_zoo.plugins.registry import load_registry

ROOT = Path(__file__).parents[1]
#: The folders of the distribution `a3c-zoo`.
DISTRIBUTION = ("a3c_zoo", "envs", "hyperparams")

HEAVY = ("torch", "gymnasium", "ale_py", "stable_baselines3", "tensorboard", "pandas", "scipy", "matplotlib", "optuna")

LIGHT = [
    "a3c_zoo",
    "a3c_zoo.__main__",
    "a3c_zoo.plugins.builtins",
    "a3c_zoo.config",
    "a3c_zoo.engines",
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


@pytest.fixture(scope="module")
def modules() -> networkx.DiGraph[str]:
    """Module → what it imports, inside functions too; imports for annotations alone are left out."""
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


def dynamic_imports(path: Path) -> Iterator[str]:
    """The lines that import a module whose name is computed or is a string of our own package."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            name = node.args[0]
            is_theirs = isinstance(name, ast.Constant) and not str(name.value).startswith("a3c_zoo")
            if not is_theirs:
                yield ast.unparse(node)


def test_no_import_hides_in_a_string() -> None:
    """Else a room could use one above it, and the checks here would see no circle. The rest imports what users name."""
    of_users = {"config/sets.py", "learning/arguments.py", "plugins/entries.py", "processes/preload.py"}
    of_users |= {"testing/plugin_checks.py", "first_look.py"}
    package = ROOT / "a3c_zoo"
    found = {str(path.relative_to(package)) for path in sources("a3c_zoo") if [*dynamic_imports(path)]}
    assert found == of_users | {"public_names.py"}  # what it imports stands under `if TYPE_CHECKING:`
    texts = [text for path in sources("a3c_zoo") for text in dynamic_imports(path)]
    assert [text for text in texts if "a3c_zoo" in text] == []


def test_nothing_but_the_root_imports_the_root(modules: networkx.DiGraph[str]) -> None:
    assert sorted(modules.predecessors("a3c_zoo")) == []


def floors() -> dict[str, int]:
    """Package or module of the root → its floor from the top, as setup.cfg orders them; import-linter finds gaps."""
    settings = ConfigParser()
    settings.read(ROOT / "setup.cfg")
    lines = settings["importlinter:contract:layers"]["layers"].split("\n")
    return {name.strip(): floor for floor, line in enumerate(filter(None, lines)) for name in line.split(":")}


def pictured() -> list[str]:
    """The packages (`cli/`) and modules (`errors.py`) in the picture of docs/architecture.md, from top to bottom."""
    picture = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").split("```")[1]
    return [line.split()[0] for line in picture.splitlines()[1:]]


def test_the_picture_is_the_folder() -> None:
    paths = [path for path in (ROOT / "a3c_zoo").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    names = {path.name if path.suffix else f"{path.name}/" for path in paths} - {"__init__.py"}
    found, floor_of = pictured(), floors()
    assert sorted(found) == sorted(names)
    assert found == sorted(found, key=lambda name: floor_of[name.removesuffix("/").removesuffix(".py")])


def test_the_checks_see_circles_and_floors() -> None:
    graph: networkx.DiGraph[str] = networkx.DiGraph([("p.a.x", "p.b.y"), ("p.b.y", "p.c"), ("p.c", "p.b.y")])
    assert circles(graph) == [["p.b.y", "p.c"]]
    assert sorted(rooms_of(graph).edges) == [("a", "b"), ("b", "c"), ("c", "b")]


def sources(*packages: str) -> list[Path]:
    return sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))


def repeated(named: Iterable[tuple[str, Path]]) -> dict[str, list[str]]:
    """Names that occur in more than one place, with the places."""
    places = defaultdict(list)
    for name, path in named:
        places[name].append(str(path.relative_to(ROOT)))
    return {name: found for name, found in places.items() if len(found) > 1}


def public_classes(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def test_a_public_class_name_occurs_once() -> None:
    found = repeated((name, path) for path in sources("a3c_zoo") for name in public_classes(path))
    assert found == {}


def test_a_module_name_occurs_once() -> None:
    """A command's module may be called like the module that does the work."""
    own = (path for path in sources("a3c_zoo") if path.name != "__init__.py" and path.parent.name != "cli")
    found = repeated((path.stem, path) for path in own)
    assert found == {}


def test_ruff_looks_at_every_file() -> None:
    """The folder `runs/` of the root holds no code; `a3c_zoo/runs/` does."""
    command = [sys.executable, "-m", "ruff", "check", "--show-files", *DISTRIBUTION]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {str(path) for path in sources(*DISTRIBUTION)} <= set(shown.splitlines())


def test_agents_inherit_over_two_levels_at_most() -> None:
    """`Member` → `RolloutWorker` or `Learner` → what an agent adds."""
    for name in ("a3c", "a3c_data", "a3c_grad", "learner", "worker"):
        module = importlib.import_module(f"a3c_zoo.agents.{name}")
        for kind in vars(module).values():
            if isinstance(kind, type) and kind.__module__ == module.__name__:
                assert len(kind.__mro__) <= 4, kind.__mro__  # with `object`


def test_no_key_of_a_configuration_is_read_with_a_default() -> None:
    """A misspelt key must not become a default: `getattr(config.network, "precison", "float32")`."""
    for path in sources("a3c_zoo"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
                is_config = "config" in ast.unparse(node.args[0])
                assert not (is_config and len(node.args) > 2), f"{path}:{node.lineno}: {ast.unparse(node)}"


def config_modules() -> list[str]:
    """Where the configuration models of all first-party entries live."""
    registry = load_registry()
    entries: list[EnvEntry | AgentEntry | NetworkEntry | OptimizerEntry] = [
        *registry.envs.values(),
        *registry.agents.values(),
        *registry.networks.values(),
        *registry.optimizers.values(),
    ]
    return sorted({entry.config.partition(":")[0] for entry in entries})


def heavy_imports(statements: str, heavy: Sequence[str] = HEAVY) -> list[str]:
    program = f"import sys\n{statements}\nprint(*(name for name in {heavy} if name in sys.modules))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return result.stdout.split()


def test_light_modules_import_nothing_heavy() -> None:
    modules = [*LIGHT, *config_modules()]
    if heavy_imports("\n".join(f"import {name}" for name in modules)):
        culprits = {name: heavy for name in modules if (heavy := heavy_imports(f"import {name}"))}
        pytest.fail(f"module → what it imports: {culprits}")


def test_what_comes_before_the_fork_server_does_not_import_numpy() -> None:
    """The fork server begins to import torch a tenth of a second sooner."""
    statements = "import a3c_zoo.cli.summary, a3c_zoo.cli.train, a3c_zoo.runs.api, a3c_zoo.display.displays"
    assert heavy_imports(statements, ("numpy", *HEAVY)) == []


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
