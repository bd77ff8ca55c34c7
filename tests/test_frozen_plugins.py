"""Plugins as they were built against an earlier state of the public API: wheels that nobody rebuilds.

`tests/data/frozen/` has one of each kind. A change that breaks one of them breaks plugins of other people: then the
API must keep what they use, or the entry revision rises and CHANGELOG.md says so. A new kind of plugin gets a wheel.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from a3c_zoo.comparison.plan import make_plan
from a3c_zoo.comparison.trainings import ComparisonWatcher, train_plan
from a3c_zoo.engines.choice import open_engine
from a3c_zoo.plugins import entries
from a3c_zoo.plugins.registry import get_registry
from tests.toys_runs import checkpoint, command_line, installed_here
from tests.waits import LIMIT_S

WHEELS = sorted((Path(__file__).parent / "data" / "frozen").glob("*.whl"))
NAMES = {path.name.partition("-")[0].replace("_", "-") for path in WHEELS}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("frozen")
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-index", "--no-deps"]
    subprocess.run([*command, "--target", folder, *WHEELS], check=True, capture_output=True, timeout=LIMIT_S)
    for metadata in folder.glob("*.dist-info/METADATA"):
        text, count = re.subn(r"(?<=^Requires-Dist: a3c-zoo)[<>=].*$", "", metadata.read_text(), flags=re.MULTILINE)
        assert count <= 1
        metadata.write_text(text)  # their code is held here, and not for which versions they were released
    return folder


@pytest.fixture
def zoo(installed: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[Any]:
    """Runs command lines with the plugins in a folder of its own; returns what they printed."""

    def run(*lines: str) -> str:
        status = 0
        for line in lines:
            status = status or command_line(*line.split())
        out, error = capfd.readouterr()
        assert status == 0, out + error
        assert "Warning" not in error, error
        return out

    with chdir(tmp_path), installed_here(installed):
        yield run


def outcome(folder: Path, run: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "runs" / run / "outcome.json").read_text())
    return found


def test_all_are_loaded(zoo: Any) -> None:
    plugins = {plugin["name"]: plugin for plugin in json.loads(zoo("list plugins --json"))}
    assert plugins.keys() >= NAMES
    assert {name: plugins[name]["status"] for name in NAMES} == dict.fromkeys(NAMES, "loaded")


def test_there_is_one_of_each_kind_of_entry(installed: Path) -> None:
    """A kind that is added to `a3c_zoo` needs a wheel here, from its first release on."""
    sources = "".join(path.read_text() for path in installed.glob("frozen_*.py"))
    sources += (installed / "frozen_set" / "__init__.py").read_text()
    kinds = [kind for kind in vars(entries) if kind.endswith(("Entry", "Family")) and kind != "Entry"]
    assert [kind for kind in kinds if f"{kind}(" not in sources] == []


def test_the_environments_train(zoo: Any, tmp_path: Path) -> None:
    names = ("corridor", "corridor-single", "corridors:4")
    lines = [
        f"train {env} --agent a3c --steps 800 --name {number} --serial --quiet" for number, env in enumerate(names)
    ]
    zoo(*lines, "train corridor --agent a3c -o length=4 --steps 400 --serial --quiet")
    assert [outcome(tmp_path, str(number))["steps"] >= 800 for number in range(3)] == [True] * 3


@pytest.mark.parametrize("agent", ["search", "clipped", "huber", "patient"])
def test_the_agents_train_resume_and_act(agent: str, zoo: Any, tmp_path: Path) -> None:
    zoo(
        f"train cartpole --agent {agent} --steps 2000 --name tried --quiet",
        "train --resume tried --steps 4000 --quiet",
        "evaluate tried --episodes 2",
    )
    assert outcome(tmp_path, "tried")["steps"] >= 4000


@pytest.mark.parametrize(
    ("network", "keys"),
    [("frozen-plain", ""), ("frozen-wide", "-o units=8"), ("frozen-wide", "-o network.recurrent=gru")],
)
def test_the_networks_train(network: str, keys: str, zoo: Any, tmp_path: Path) -> None:
    zoo(
        f"train cartpole -o network.name={network} {keys} --steps 1000 --name tried --serial --quiet",
        "evaluate tried --episodes 2",
    )
    kept = checkpoint(tmp_path / "runs/tried")["agent"]["model"]["buffers"]
    assert bool(kept) == (network == "frozen-wide")


def test_the_optimizer_the_set_the_command_and_the_trained_agent(zoo: Any) -> None:
    assert "cartpole/frozen.yml:" in zoo("show hyperparams cartpole --hyperparams frozen")
    told = zoo(
        "train cartpole --hyperparams frozen --steps 300 --name tried --serial --quiet",
        "train cartpole -o optimizer.name=frozen-momentum -o momentum=0.8 --steps 300 --serial --quiet",
        "frozen tried",
        "evaluate cartpole --episodes 2 --runs-dir none",
    )
    assert "\naction " in told
    assert told.splitlines()[-1].startswith("played   2 episodes")


def test_the_run_hooks_are_called(zoo: Any, tmp_path: Path) -> None:
    zoo("train cartpole -o plugins.frozen-stop.episodes=3 --steps 200000 --seed 4 --name tried --quiet")
    assert (outcome(tmp_path, "tried")["reason"], outcome(tmp_path, "tried")["detail"]) == ("plugin", "3 episodes")
    lines = (tmp_path / "runs/tried/frozen.txt").read_text().splitlines()
    assert lines[0] == "start cartpole a3c 4"
    assert {line.split()[0] for line in lines} == {"start", "episode", "metrics", "end"}
    assert lines[-1].startswith("end plugin ")


def test_the_engine_trains(zoo: Any, tmp_path: Path) -> None:
    budget: dict[str, Any] = {"seeds": [1], "steps": 400, "time_limit": None}
    plan = make_plan(envs=["cartpole"], agents=["a3c"], baselines=["random"], **budget, runs_dir=tmp_path, reuse=False)
    plan = replace(plan, runs=tuple(run for run in plan.runs if run.method == "random"))
    with open_engine(get_registry(), "frozen-engine", ["note=done"]) as engine:
        (trained,) = train_plan(plan, ComparisonWatcher(), engine)
        assert engine.evaluate([trained.path], 1, lambda done, total: None, lambda: None) == {}
    assert trained.fault is None
    assert (trained.path / "note.txt").read_text() == "done: random on cartpole, seed 1\n"
