"""The wheel away from the checkout; a plugin from outside beside it, from `pip install` to `pip uninstall`."""

from __future__ import annotations

import ast
import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import a3c_zoo
from tests.shared import made_once
from tests.toys_runs import in_turn
from tests.wheels import (
    GRIDWORLD,
    PLUGINS,
    PPO,
    WANDB,
    attempt,
    build_wheel,
    clean_environment,
    install,
    pip,
    plugin_source,
    run,
    zoo_dist,
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return next(made_once(tmp_path_factory, "build", zoo_dist).glob("dist/*.whl"))


@pytest.fixture(scope="module")
def plugin_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gridworld")
    return build_wheel(plugin_source(GRIDWORLD, folder / "source"), folder / "dist")


@pytest.fixture(scope="module")
def ppo_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ppo")
    return build_wheel(plugin_source(PPO, folder / "source"), folder / "dist")


@pytest.fixture
def python(wheel: Path, tmp_path: Path) -> Path:
    """The interpreter of a new virtual environment with a3c-zoo and without the plugin."""
    return clean_environment(tmp_path, wheel)


def command(python: Path) -> Path:
    return python.parent / "a3c-zoo"


def listed(python: Path, what: str) -> dict[str, dict[str, Any]]:
    return by_name(run(command(python), "list", what, "--json"))[0]


def by_name(shown: str) -> tuple[dict[str, dict[str, Any]], str]:
    """The rows of a listing as JSON, and what was printed after it."""
    rows, end = json.JSONDecoder().raw_decode(shown)
    return {row["name"]: row for row in rows}, shown[end:].lstrip()


WHERE = """
import importlib.metadata, json, a3c_zoo, a3c_zoo_envs, a3c_zoo_hyperparams
found = [d.metadata["Name"] for d in importlib.metadata.distributions()]
files = [m.__file__ for m in (a3c_zoo, a3c_zoo_envs, a3c_zoo_hyperparams)]
print(json.dumps({"files": files, "count": found.count("a3c-zoo")}))
"""


def test_from_install_to_uninstall(python: Path, plugin_wheel: Path, tmp_path: Path) -> None:
    zoo = command(python)
    report = json.loads(run(python, "-c", WHERE))
    assert all(file.startswith(str(python.parent.parent)) for file in report["files"])
    assert report["count"] == 1
    envs = listed(python, "envs")
    assert "cartpole" in envs
    assert "gridworld" not in envs
    assert "cartpole/a3c.yml:" in run(zoo, "show", "hyperparams", "cartpole")

    install(python, plugin_wheel)
    train = "train gridworld --steps 2000 --name short"
    lines = ("list envs --json", "list plugins --json", "show hyperparams gridworld -o slip=0.2", train)
    envs, rest = by_name(run(python, *in_turn(*map(str.split, lines)), cwd=tmp_path))
    assert {"gridworld", "gridworld-single"} <= envs.keys()
    plugins, rest = by_name(rest)
    plugin = plugins["gridworld"]
    assert (plugin["distribution"], plugin["status"]) == ("a3c-zoo-gridworld", "loaded")
    assert plugin["hooks"] == ["zoo_envs", "zoo_hyperparams"]
    assert "gridworld/a3c.yml:" in rest
    assert "probability that a move goes in a random direction" in rest
    outcome = json.loads((tmp_path / "runs/short/outcome.json").read_text())
    assert (outcome["reason"], outcome["steps"] >= 2000) == ("steps", True)

    pip(python, "uninstall", "--yes", "a3c-zoo-gridworld")
    envs, rest = by_name(run(python, *in_turn(*map(str.split, lines[:2])), cwd=tmp_path))
    assert "gridworld" not in envs
    assert "gridworld" not in by_name(rest)[0]
    gone = attempt(zoo, "train", "gridworld", cwd=tmp_path)
    assert (gone.returncode, "unknown environment 'gridworld'" in gone.stderr) == (2, True)


@pytest.mark.slow
def test_an_agent_trains_resumes_and_acts(python: Path, ppo_wheel: Path, tmp_path: Path) -> None:
    install(python, ppo_wheel)
    assert listed(python, "agents")["ppo"]["plugin"] == "ppo"
    assert "cartpole/ppo.yml:" in run(command(python), "show", "hyperparams", "cartpole", "--agent", "ppo")
    train = "train cartpole --agent ppo --steps 3000 --name short"
    lines = (train, "train --resume short --steps 6000", "evaluate short --episodes 2")
    assert "episodes" in run(python, *in_turn(*map(str.split, lines)), cwd=tmp_path)
    outcome = json.loads((tmp_path / "runs/short/outcome.json").read_text())
    assert (outcome["reason"], outcome["steps"] >= 6000) == ("steps", True)


@pytest.mark.slow
def test_an_agent_is_compared(python: Path, ppo_wheel: Path, tmp_path: Path) -> None:
    install(python, ppo_wheel)
    arguments = "compare cartpole --agent a3c --agent ppo --seeds 1 --steps 2000 --episodes 1 --yes --json"
    results = run(command(python), *arguments.split(), cwd=tmp_path)
    assert {"a3c", "ppo"} <= set(re.findall(r'"(a3c|ppo)"', results))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_agent_solves_cartpole(python: Path, ppo_wheel: Path, tmp_path: Path) -> None:
    install(python, ppo_wheel)
    for seed in ("1", "2", "3"):
        arguments = ("--agent", "ppo", "--seed", seed, "--time-limit", "120s", "--name", seed)
        run(command(python), "train", "cartpole", *arguments, cwd=tmp_path)
        outcome = json.loads((tmp_path / "runs" / seed / "outcome.json").read_text())
        assert (seed, outcome["solved"]) == (seed, True)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_training_solves_it(python: Path, plugin_wheel: Path, tmp_path: Path) -> None:
    install(python, plugin_wheel)
    for seed in ("1", "2", "3", "4", "5"):
        arguments = ("--seed", seed, "--time-limit", "60s", "--name", seed)
        run(command(python), "train", "gridworld", *arguments, cwd=tmp_path)
        outcome = json.loads((tmp_path / "runs" / seed / "outcome.json").read_text())
        assert (seed, outcome["solved"], outcome["evaluation"]["mean_return"] >= 0.7) == (seed, True, True)


@pytest.mark.skipif(find_spec("wandb") is None, reason="wandb is not installed: make plugin-requirements")
def test_a_logger_from_outside(python: Path, tmp_path: Path) -> None:
    install(python, build_wheel(plugin_source(WANDB, tmp_path / "source"), tmp_path / "dist"))
    assert listed(python, "hooks")["wandb"]["by_default"] is False
    options = ("--serial", "--steps", "1000", "-o", "plugins.wandb.mode=offline", "--name", "one")
    run(command(python), "train", "cartpole", *options, cwd=tmp_path)
    assert len(list(tmp_path.glob("runs/one/wandb/offline-run-*/*.wandb"))) == 1
    pip(python, "uninstall", "--yes", "a3c-zoo-wandb")
    assert "played   1 episode " in run(command(python), "evaluate", "one", "--episodes", "1", cwd=tmp_path)
    resumed = attempt(command(python), "train", "--resume", "one", "--steps", "2000", cwd=tmp_path)
    line = (
        rf"plugin 'wandb' \(a3c-zoo-wandb {a3c_zoo.__version__}\), which is not installed: "
        r".* \./plugins/a3c-zoo-wandb \(in a checkout"
    )
    assert (resumed.returncode, bool(re.search(line, resumed.stderr))) == (2, True), resumed.stderr


OTHER_REVISION = (
    "zoo_envs() offers an EnvEntry of revision 2, but this version of a3c-zoo understands revision 1: "
    "the plugin was made for a newer version of a3c-zoo; upgrade a3c-zoo"
)
UNKNOWN_FIELD = (
    "it gives EnvEntry a field 'reward_range' that is unknown: the plugin was made for another version of a3c-zoo "
    f"than {a3c_zoo.__version__}; upgrade both ("
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("REVISION = 1", "REVISION = 2", OTHER_REVISION),
        ("revision=REVISION", "reward_range=(-2, 1)", UNKNOWN_FIELD),
    ],
)
def test_a_wheel_for_another_entry_revision(old: str, new: str, fault: str, python: Path, tmp_path: Path) -> None:
    source = plugin_source(GRIDWORLD, tmp_path / "source")
    module = source / "src/a3c_zoo_gridworld/plugin.py"
    assert old in module.read_text()
    module.write_text(module.read_text().replace(old, new))
    install(python, build_wheel(source, tmp_path / "dist"))

    assert listed(python, "plugins")["gridworld"]["fault"].startswith(fault)
    result = attempt(command(python), "list", "envs")
    assert result.returncode == 0
    assert "cartpole" in result.stdout
    assert "gridworld" not in result.stdout
    (warning,) = result.stderr.splitlines()
    assert "gridworld" in warning
    assert fault in warning
    trained = attempt(command(python), "train", "gridworld", cwd=tmp_path)
    assert trained.returncode == 2
    assert "Traceback" not in trained.stderr
    assert f"left out as faulty: plugin 'gridworld' (a3c-zoo-gridworld {a3c_zoo.__version__})" in trained.stderr


@pytest.mark.parametrize("plugin", sorted(PLUGINS.iterdir()), ids=lambda path: path.name)
def test_it_uses_public_names_alone(plugin: Path) -> None:
    import a3c_zoo.agents
    import a3c_zoo.config
    import a3c_zoo.engines
    import a3c_zoo.errors
    import a3c_zoo.learning
    import a3c_zoo.records
    import a3c_zoo.testing

    public = {
        "a3c_zoo": a3c_zoo.__all__,
        "a3c_zoo.agents": a3c_zoo.agents.__all__,
        "a3c_zoo.config": dir(a3c_zoo.config),
        "a3c_zoo.engines": dir(a3c_zoo.engines),
        "a3c_zoo.errors": dir(a3c_zoo.errors),
        "a3c_zoo.learning": a3c_zoo.learning.__all__,
        "a3c_zoo.records": dir(a3c_zoo.records),
        "a3c_zoo.testing": a3c_zoo.testing.__all__,
    }
    imported, modules = [], []
    for path in plugin.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "a3c_zoo":
                imported += [(node.module, alias.name) for alias in node.names]
            elif isinstance(node, ast.Import):
                modules += [alias.name for alias in node.names if alias.name.startswith("a3c_zoo.")]
    assert imported
    assert [each for each in imported if each[1] not in public.get(str(each[0]), [])] == []
    assert set(modules) <= public.keys()
