"""What the distribution offers to a3c-zoo, and that its agents do what their folders say."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.util import find_spec
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
FAST = {
    **{"cartpole-a3c": 100, "cartpole-nstep": 100, "cartpole-lstm": 100, "mountain-car-continuous-a3c": 100},
    **{"door-key-a3c": 20, "lunar-lander-a3c": 4, "hopper-a3c": 2, "pong-a3c": 3},
}
#: Beginning of an environment's name → the module that it needs, and not every installation has.
NEEDED = {
    **dict.fromkeys(("gym:LunarLander", "gym:Bipedal"), "Box2D"),
    **dict.fromkeys(("gym:Hopper", "gym:HalfCheetah", "gym:Walker2d", "gym:Ant", "gym:Swimmer"), "mujoco"),
    "minigrid:": "minigrid",
}
#: The time limit of a slow test. The 100 games of Breakout took 489 s on a machine that did other work, too.
SLOW_S = 2700


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
    # Ten games with the network of PPO's paper are 34 MB.
    assert sum(path.stat().st_size for path in FOLDER.rglob("*.safetensors")) <= 40_000_000
    assert sum(path.stat().st_size for path in HERE.rglob("*") if path.is_file()) <= 45_000_000


def test_the_folders_are_those_of_the_program() -> None:
    for name, arguments in TRAIN["TRAININGS"].items():
        assert (card(name)["command"][0], TRAIN["trained_by"](card(name))) == ("a3c-zoo", arguments)
        assert card(name)["evaluation"]["episodes"] == 100
        assert card(name)["solved"] or "--steps" in arguments
    assert TRAIN["generated"]() == TRAIN["table"]()


def test_no_path_of_a_machine_is_told() -> None:
    for entry in zoo_trained():
        for file in ("meta.json", "outcome.json", "config.yml"):
            text = (FOLDER / entry.name / file).read_text()
            assert not re.search(r"[/~\\\\]", text), (entry.name, file)


def test_what_an_agent_needs_is_told_with_it() -> None:
    told = {"Box2D": "extra box2d", "mujoco": "extra mujoco", "minigrid": "a3c-zoo-minigrid"}
    for entry in zoo_trained():
        assert [words for words in told.values() if words in entry.description] == [
            told[module] for start, module in NEEDED.items() if entry.env.startswith(start)
        ]


def test_a_run_of_the_table_is_found_by_its_command(tmp_path: Path) -> None:
    command = ["/there/a3c_zoo/__main__.py", *TRAIN["TRAININGS"]["hopper-a3c"], "--name", "x", "--runs-dir", "/there"]
    other = [*TRAIN["TRAININGS"]["ant-a3c"], "--name", "y"]
    for name, words in {"x": [*command, "--json"], "y": ["a3c-zoo", *other]}.items():
        (tmp_path / "zoo" / name).mkdir(parents=True)
        (tmp_path / "zoo" / name / "meta.json").write_text(json.dumps({"command": words}))
    assert TRAIN["find"]("hopper-a3c", tmp_path) is None  # it has not ended
    for name in ("x", "y"):
        (tmp_path / "zoo" / name / "outcome.json").touch()
    assert TRAIN["find"]("hopper-a3c", tmp_path) == tmp_path / "zoo" / "x"
    assert TRAIN["find"]("swimmer-a3c", tmp_path) is None
    (tmp_path / "hopper-a3c").mkdir()
    assert TRAIN["find"]("hopper-a3c", tmp_path) == tmp_path / "hopper-a3c"


def test_a_run_is_told_as_on_every_machine() -> None:
    command = [
        "/there/a3c_zoo/__main__.py",
        "train",
        "minigrid:Unlock",
        "--runs-dir",
        "/there",
        "--json",
        "--name",
        "x",
    ]
    plugins = {"env": "plugin 'plugin' (plugin.py)", "agent": "plugin 'core' (a3c-zoo 0.1.0)"}
    told = TRAIN["for_all"]({"command": command, "plugins": plugins, "plugin_files": ["/there/plugin.py"], "seed": 2})
    assert told == {
        "command": ["/there/a3c_zoo/__main__.py", "train", "minigrid:Unlock", "--name", "x"],
        "plugins": {**plugins, "env": "plugin 'minigrid' (a3c-zoo-minigrid 1.0.0)"},
        "plugin_files": [],
        "seed": 2,
    }


def test_listing_imports_nothing_heavy() -> None:
    program = "import sys, a3c_zoo_trained; print(*{'numpy', 'gymnasium', 'torch', 'safetensors'} & sys.modules.keys())"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environ)
    assert result.stdout.split() == []


#: Agents that are not the end of their training, but its best checkpoint → the steps of the training.
OF_BEST = {"asteroids-a3c": 2_501_000}


def test_the_curve_ends_where_the_training_ended() -> None:
    for name in TRAIN["TRAININGS"]:
        head, *rows = (FOLDER / name / "curve.csv").read_text().splitlines()
        steps = [float(row.partition(",")[0]) for row in rows]
        assert head == "steps,return"
        assert steps == sorted(steps)
        trained = OF_BEST.get(name, card(name)["steps"])
        assert 0.9 * trained <= steps[-1] <= trained


CASES = [
    *((entry.name, FAST[entry.name]) for entry in zoo_trained() if entry.name in FAST),
    *(pytest.param(entry.name, 100, marks=(pytest.mark.slow, pytest.mark.timeout(SLOW_S))) for entry in zoo_trained()),
]


def test_a_slow_case_has_time_for_its_episodes() -> None:
    assert 4 * max(card(name)["evaluation"]["seconds"] for name in TRAIN["TRAININGS"]) <= SLOW_S


def mean_return(name: str, episodes: int) -> float:
    """Plays an agent; one of MiniGrid in a process of its own, which loads the plugin that its environment needs."""
    if not card(name)["env"].startswith("minigrid:"):
        return float(a3c_zoo.evaluate(FOLDER / name, episodes=episodes, trust=True).mean_return)
    file = HERE.parent / "a3c-zoo-minigrid" / "src" / "a3c_zoo_minigrid" / "plugin.py"
    folders = os.pathsep.join([str(file.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "a3c_zoo", "evaluate", str(FOLDER / name), "--trust", "--json"]
    command += ["--episodes", str(episodes)]
    variables = os.environ | {"PYTHONPATH": folders, "A3C_ZOO_PLUGIN_FILES": str(file)}
    played = subprocess.run(command, env=variables, check=True, capture_output=True, text=True)
    return float(json.loads(played.stdout)["mean_return"])


@pytest.mark.parametrize(("name", "episodes"), CASES)
def test_they_play_as_their_figures_say(name: str, episodes: int) -> None:
    """On another processor single actions may differ: the mean stays within four standard errors, or a hundredth."""
    for start, module in NEEDED.items():
        if card(name)["env"].startswith(start) and find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    told = card(name)["evaluation"]
    allowed = max(4 * told["std_return"] / episodes**0.5, 0.01 * abs(told["mean_return"]))
    assert mean_return(name, episodes) == pytest.approx(told["mean_return"], abs=allowed)
