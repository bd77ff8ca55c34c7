"""Which plugins took part in a run: in its meta.json and in a report; and what is said when one is gone."""

from __future__ import annotations

import json
import shutil
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
import yaml

from a3c_zoo.comparison.plan import Plan, make_plan
from a3c_zoo.plugins.loading import Selection
from a3c_zoo.plugins.registry import get_registry, load_registry
from a3c_zoo.store.needed_plugins import what_is_missing
from a3c_zoo.store.timing_file import speed_variables
from a3c_zoo.testing import plugin_distribution
from tests.toys_runs import command_line, installed_here

Captured = pytest.CaptureFixture[str]

MAZE = """
from a3c_zoo import EnvEntry, hookimpl

@hookimpl
def zoo_envs():
    return [EnvEntry("maze", env_id="CartPole-v1")]
"""
SETS = """
from a3c_zoo import HyperparamEntry, hookimpl

@hookimpl
def zoo_hyperparams():
    return [HyperparamEntry("maze_sets")]
"""
WATCHER = """
from a3c_zoo import hookimpl

@hookimpl
def zoo_run_end(run):
    print("a run has ended")
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with four distributions: an environment, its sets, a run hook, and one that takes no part."""
    folder = tmp_path_factory.mktemp("installed")
    plugin_distribution(folder, "zoo-maze", MAZE, version="2.1", entry_point="maze")
    plugin_distribution(folder, "maze-sets", SETS, version="0.7", entry_point="sets")
    plugin_distribution(folder, "zoo-watcher", WATCHER, version="3.0", entry_point="watcher")
    plugin_distribution(folder, "zoo-other", MAZE.replace("maze", "other"), entry_point="other")
    package = folder / "maze_sets"
    (package / "maze").mkdir(parents=True)
    (folder / "maze_sets.py").rename(package / "__init__.py")
    (package / "maze" / "a3c.yml").write_text("agent:\n  n_steps: 7\n")
    return folder


def zoo(*arguments: object, folder: Path, path: Path, **variables: str) -> int:
    """Runs `a3c-zoo` in `folder`, with the distributions of `path` and these variables; returns its exit status."""
    with chdir(folder), installed_here(path, **variables):
        return command_line(*arguments)


@pytest.fixture(scope="module")
def runs(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose `runs/x` is a finished run."""
    folder = tmp_path_factory.mktemp("runs")
    options = ("--serial", "--steps", 200, "--name", "x", "--quiet")
    assert zoo("train", "maze", *options, folder=folder, path=installed) == 0
    return folder


def test_meta_json_names_every_plugin_that_took_part(runs: Path) -> None:
    meta = json.loads((runs / "runs/x/meta.json").read_text())
    core = f"plugin 'core' (a3c-zoo {meta['versions']['a3c-zoo']})"
    assert meta["plugins"] == {
        "env": "plugin 'maze' (zoo-maze 2.1)",
        "agent": core,
        "network": core,
        "hyperparams": "plugin 'sets' (maze-sets 0.7)",
        "hooks": "plugin 'watcher' (zoo-watcher 3.0)",
    }
    versions = {name: version for name, version in meta["versions"].items() if "zoo-" in name or "maze" in name}
    assert versions == {"zoo-maze": "2.1", "maze-sets": "0.7", "zoo-watcher": "3.0"}


def test_a_run_without_the_set_was_made_without_its_plugin(installed: Path, tmp_path: Path) -> None:
    options = ["--serial", "--steps", 50, "--name", "x", "--quiet"]
    assert zoo("train", "cartpole", *options, folder=tmp_path, path=installed) == 0
    meta = json.loads((tmp_path / "runs/x/meta.json").read_text())
    assert meta["plugins"].keys() == {"env", "agent", "network", "hooks"}
    assert "maze-sets" not in meta["versions"]


def test_the_report_has_their_versions(runs: Path, installed: Path, tmp_path: Path) -> None:
    assert zoo("compare", "--from", runs / "runs", "--out", tmp_path / "out", folder=tmp_path, path=installed) == 0
    lines = [line.replace("\\", "") for line in (tmp_path / "out/report.md").read_text().splitlines()]
    assert [line for line in lines if line.startswith(("| zoo-maze", "| maze-sets", "| zoo-watcher"))] == [
        "| zoo-maze | 2.1 |",
        "| maze-sets | 0.7 |",
        "| zoo-watcher | 3.0 |",
    ]
    results = json.loads((tmp_path / "out/results.json").read_text())
    assert results["machine_and_versions"]["zoo-maze"] == ["2.1"]


def planned() -> Plan:
    budget: dict[str, Any] = {"seeds": [1], "steps": 500, "time_limit": None}
    return make_plan(envs=["maze"], agents=["a3c"], baselines=["random"], **budget, runs_dir=Path("runs"), reuse=True)


def test_a_comparison_trains_again_for_another_version(installed: Path, tmp_path: Path) -> None:
    """The environment, the set and the run hook count. A plugin that takes no part does not."""
    path = Path(shutil.copytree(installed, tmp_path / "installed"))
    missing = {}
    with chdir(tmp_path), installed_here(path):
        for run in planned().runs:  # with the command lines of the comparison, but here: a process takes longer
            assert command_line("train", *run.command.words(), "--quiet", "--name", run.method) == 0
            timing = {"format": 1, "calibration_s": 1.0, "wall_s": 1.0, "variables": speed_variables()}
            Path("runs", run.method, "timing.json").write_text(json.dumps(timing))
        for name in ("", "zoo_other-1.0", "zoo_maze-2.1", "maze_sets-0.7", "zoo_watcher-3.0"):
            file = path / f"{name}.dist-info" / "METADATA"
            before = file.read_text() if name else ""
            if name:
                file.write_text(before.replace("Version: ", "Version: 9."))
            get_registry.cache_clear()
            missing[name] = len(planned().missing)
            if name:
                file.write_text(before)
    # The baseline takes no set.
    assert missing == {"": 0, "zoo_other-1.0": 0, "zoo_maze-2.1": 2, "maze_sets-0.7": 1, "zoo_watcher-3.0": 2}


@pytest.mark.parametrize("command", [("evaluate", "x"), ("play", "x", "--video", "x.mp4"), ("train", "--resume", "x")])
def test_a_run_whose_plugin_is_gone_says_what_to_install(
    command: tuple[str, ...], runs: Path, tmp_path: Path, capsys: Captured
) -> None:
    assert zoo(*command, folder=runs, path=tmp_path) == 2
    assert capsys.readouterr().err == (
        "Error: run x was made with plugin 'maze' (zoo-maze 2.1), which is not installed: pip install zoo-maze==2.1\n"
    )


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"A3C_ZOO_PLUGINS": "watcher"}, "is blocked by A3C_ZOO_PLUGINS"),
        ({"A3C_ZOO_DISABLE_PLUGINS": "maze"}, "is blocked by A3C_ZOO_DISABLE_PLUGINS"),
    ],
)
def test_a_run_whose_plugin_is_blocked_says_by_what(
    variables: dict[str, str], why: str, runs: Path, installed: Path, capsys: Captured
) -> None:
    assert zoo("evaluate", "x", "--episodes", 1, folder=runs, path=installed, **variables) == 2
    assert capsys.readouterr().err == f"Error: run x was made with plugin 'maze' (zoo-maze 2.1), which {why}\n"


def test_a_run_whose_plugin_is_faulty_says_why(runs: Path, tmp_path: Path, capsys: Captured) -> None:
    path = plugin_distribution(tmp_path, "zoo-maze", "raise ValueError('boom')", version="2.2", entry_point="maze")
    assert zoo("evaluate", "x", folder=runs, path=path) == 2
    error = capsys.readouterr().err
    assert "which is left out: its import failed: ValueError: boom" in error
    assert error.endswith("See: a3c-zoo show plugin maze\n")


#: A part of a run → the line of config.yml that names it; "" for the one that depends on the set.
PARTS = {"agent": "agent_name: a3c", "network": "  name: mlp", "optimizer": ""}


@pytest.mark.parametrize(("kind", "line"), PARTS.items())
@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_a_run_whose_plugin_has_renamed_a_part_says_what_helps(
    kind: str, line: str, version: str, runs: Path, installed: Path, tmp_path: Path, capsys: Captured
) -> None:
    """The line named the new name, as if a run that is resumed could take it."""
    run = Path(shutil.copytree(runs / "runs/x", tmp_path / "runs/x"))
    config = (run / "config.yml").read_text()
    if not line:
        line = "  name: " + yaml.safe_load(config)["optimizer"]["name"]
    assert config.count(f"{line}\n") == 1
    (run / "config.yml").write_text(config.replace(f"{line}\n", f"{line.partition(':')[0]}: gone\n"))
    meta = json.loads((run / "meta.json").read_text())
    meta["plugins"][kind] = f"plugin 'maze' (zoo-maze {version})"
    if kind == "agent":
        meta["agent"] = "gone"
    (run / "meta.json").write_text(json.dumps(meta))
    assert zoo("train", "--resume", "x", folder=tmp_path, path=installed) == 2
    cure = "It must offer this name again"
    if version != "2.1":
        cure += ", or install the version that did: pip install zoo-maze==2.0"
    assert capsys.readouterr().err == (
        f"Error: run x was trained with {kind} 'gone', which plugin 'maze' (zoo-maze 2.1) does not offer now. {cure}\n"
    )


def test_a_stranger_gives_no_advice_to_install(runs: Path, tmp_path: Path, capsys: Captured) -> None:
    """What somebody else's meta.json says is said to be theirs, and nothing but a name and a version is quoted."""
    run = Path(shutil.copytree(runs / "runs/x", tmp_path / "theirs"))
    assert zoo("evaluate", run, folder=tmp_path, path=tmp_path) == 2
    assert capsys.readouterr().err.endswith("(so says its meta.json, and the run is not your own)\n")
    meta = json.loads((run / "meta.json").read_text())
    for title in ("plugin 'x' (-r evil 1)", "plugin 'x' (a;rm 1)", "plugin 'x' (a 1 --index-url=http://x)", 7, None):
        (run / "meta.json").write_text(json.dumps(meta | {"plugins": {"env": title}}))
        assert zoo("evaluate", run, folder=tmp_path, path=tmp_path) == 2
        error = capsys.readouterr().err
        assert "unknown environment 'maze'" in error
        assert "pip" not in error


def test_nothing_is_missing() -> None:
    registry = load_registry(Selection(allowed=frozenset()))
    ours = {"env": "plugin 'envs' (a3c-zoo 0.0.1)", "agent": "plugin 'core' (a3c-zoo 0.0.1)"}
    for plugins in (ours, {}):
        assert what_is_missing("x", {"env": "cartpole", "plugins": plugins}, registry, is_trusted=True) is None
