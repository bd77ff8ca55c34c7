"""What the distribution offers to a3c-zoo, and that its agents do what their folders say."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import a3c_zoo
import pytest

import a3c_zoo_trained
from a3c_zoo_trained import zoo_trained

HERE = Path(__file__).parents[1]
FOLDER = Path(a3c_zoo_trained.__file__).parent
TRAIN = runpy.run_path(str(HERE / "train.py"))
FILES = {"config.yml", "curve.csv", "meta.json", "outcome.json", "parameters.safetensors"}
#: Agents whose figures a fast test holds, with how many episodes; without a number all 100.
FAST = {"cartpole-a3c": 100, "cartpole-nstep": 100, "cartpole-lstm": 100, "pong-a3c": 3}
#: The time limit of a slow test. The 100 games of Breakout took 489 s on a machine that did other work, too.
SLOW_S = 2400


def card(name: str) -> dict[str, Any]:
    found: dict[str, Any] = TRAIN["cards"]()[name]
    return found


def test_the_entry_point_names_the_plugin() -> None:
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]["a3c_zoo"]
    assert [import_module(module).zoo_trained() for module in points.values()] == [zoo_trained()]


def test_each_entry_has_a_folder_without_optimizer_and_pickle() -> None:
    assert [entry.name for entry in zoo_trained()] == [*TRAIN["TRAININGS"]]
    for entry in zoo_trained():
        assert {path.name for path in (FOLDER / entry.name).iterdir()} == FILES
        size = int.from_bytes((FOLDER / entry.name / "parameters.safetensors").read_bytes()[:8], "little")
        header = json.loads((FOLDER / entry.name / "parameters.safetensors").read_bytes()[8 : 8 + size])
        kinds = {name.partition(".")[0] for name in header}
        assert {"__metadata__", "parameters"} <= kinds <= {"__metadata__", "parameters", "observation statistics"}
    assert sum(path.stat().st_size for path in FOLDER.rglob("*.safetensors")) <= 20_000_000


def test_the_folders_are_those_of_the_program() -> None:
    for name, arguments in TRAIN["TRAININGS"].items():
        assert (card(name)["command"][0], TRAIN["trained_by"](card(name))) == ("a3c-zoo", arguments)
        assert card(name)["evaluation"]["episodes"] == 100
        assert card(name)["solved"] or "--steps" in arguments
    assert TRAIN["generated"]() == TRAIN["table"]()


def test_listing_imports_nothing_heavy() -> None:
    program = "import sys, a3c_zoo_trained; print(*{'numpy', 'gymnasium', 'torch', 'safetensors'} & sys.modules.keys())"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environ)
    assert result.stdout.split() == []


def test_the_curve_ends_where_the_training_ended() -> None:
    for name in TRAIN["TRAININGS"]:
        head, *rows = (FOLDER / name / "curve.csv").read_text().splitlines()
        steps = [float(row.partition(",")[0]) for row in rows]
        assert head == "steps,return"
        assert steps == sorted(steps)
        assert 0.9 * card(name)["steps"] <= steps[-1] <= card(name)["steps"]


CASES = [
    *((entry.name, FAST[entry.name]) for entry in zoo_trained() if entry.name in FAST),
    *(pytest.param(entry.name, 100, marks=(pytest.mark.slow, pytest.mark.timeout(SLOW_S))) for entry in zoo_trained()),
]


def test_a_slow_case_has_time_for_its_episodes() -> None:
    assert 4 * max(card(name)["evaluation"]["seconds"] for name in TRAIN["TRAININGS"]) <= SLOW_S


@pytest.mark.parametrize(("name", "episodes"), CASES)
def test_they_play_as_their_figures_say(name: str, episodes: int) -> None:
    """On another processor single actions may differ: the mean stays within four standard errors, or a hundredth."""
    told, played = card(name)["evaluation"], a3c_zoo.evaluate(FOLDER / name, episodes=episodes)
    allowed = max(4 * told["std_return"] / episodes**0.5, 0.01 * abs(told["mean_return"]))
    assert played.mean_return == pytest.approx(told["mean_return"], abs=allowed)
