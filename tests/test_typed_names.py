"""Environments by the names that people type: ids of Gymnasium in any case, classes and functions of modules."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import a3c_zoo
from a3c_zoo.errors import UnknownNameError, ZooError
from a3c_zoo.plugins.entries import EnvFamily
from a3c_zoo.plugins.module_files import MODULE_FILES
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.plugins.typed_names import env_name, quiet_env_name
from a3c_zoo.runs import python_family
from a3c_zoo.store.run import Run
from a3c_zoo.testing import plugin_distribution
from tests.toys_runs import Running, command_line, installed_here
from tests.waits import LIMIT_S

Captured = pytest.CaptureFixture[str]

TANK = """
import gymnasium
import numpy as np

print("a module that prints")


class Tank(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(3, np.float32), float(action), self.steps == 10, False, {}


class Sized(Tank):
    def __init__(self, size):
        super().__init__()


class Hidden(gymnasium.Wrapper):
    pass


def make_tank():
    return Sized(3)


ready = Tank()
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(MODULE_FILES, "paths", {})
    python_family.resolve.cache_clear()
    before = {*sys.modules}
    yield
    for name in {*sys.modules} - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
    python_family.resolve.cache_clear()


def understood(typed: str) -> tuple[str, list[str]]:
    """The name that is meant, and what was told."""
    told: list[str] = []
    return env_name(get_registry(), typed, told.append), told


def test_a_module_of_this_folder_that_a_name_of_another_family_has(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("my_mazes.py").write_text("ready = 1\n")
    family = EnvFamily("maze", "my_plugin:resolve", "mazes")
    monkeypatch.setitem(get_registry().families, "maze", family)
    assert understood("maze:my_mazes:Maze") == ("maze:my_mazes:Maze", [])
    assert importlib.import_module("my_mazes").ready == 1


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("CartPole-v1", "cartpole"),
        ("cartpole-V1", "cartpole"),
        ("CartPole", "cartpole"),
        ("ALE/Pong-v5", "pong"),
        ("ale/pong-v5", "pong"),
        ("PongNoFrameskip-v4", "pong"),
        ("BreakoutDeterministic-v4", "breakout"),
        ("Pong", "pong"),
        ("SpaceInvadersNoFrameskip-v4", "atari:space_invaders"),
        ("spaceinvaders", "atari:space_invaders"),
        ("Atari:Pong", "atari:pong"),
        ("LunarLander-v3", "gym:LunarLander-v3"),
        ("lunarlander-v3", "gym:LunarLander-v3"),
        ("LunarLander", "gym:LunarLander-v3"),
        ("gym:acrobot-v1", "gym:Acrobot-v1"),
        ("GYM:Acrobot-v1", "gym:Acrobot-v1"),
        ("Blackjack-v1", "gym:Blackjack-v1"),
        ("ALE/Blackjack-v5", "atari:blackjack"),
    ],
)
def test_what_a_name_means(typed: str, name: str) -> None:
    found, told = understood(typed)
    assert found == name
    assert len(told) == 1
    assert told[0].startswith(f"Note: {typed} is {name} here")
    assert quiet_env_name(get_registry(), typed) == name
    assert understood(name) == (name, [])


def test_the_note_names_gymnasiums_own_environment_and_is_told_once() -> None:
    assert understood("CartPole-v1")[1] == ["Note: CartPole-v1 is cartpole here. Gymnasium's own: gym:CartPole-v1"]
    assert understood("CartPole-v1")[1] == []
    assert understood("gym:CartPole-v1") == ("gym:CartPole-v1", [])


@pytest.mark.parametrize("typed", ["nonsense", "tennis:x", "Nothing-v9", "", "a/b", "gym:Nothing-v9"])
def test_a_name_that_means_nothing_is_left_to_the_registry(typed: str) -> None:
    assert understood(typed) == (typed, [])
    with pytest.raises(UnknownNameError, match="unknown environment"):
        get_registry().env(typed)


def test_an_id_that_two_families_have_is_not_guessed(capsys: Captured) -> None:
    """Blackjack is a game of cards in Gymnasium, and one of the Atari 2600."""
    assert command_line("train", "Blackjack") == 2
    assert capsys.readouterr().err == (
        "Error: 'Blackjack' can mean atari:blackjack or gym:Blackjack-v1: type one of them\n"
    )


def test_an_id_that_two_plugins_have_is_not_guessed(tmp_path: Path) -> None:
    code = """
from a3c_zoo import EnvEntry, hookimpl
@hookimpl
def zoo_envs():
    return [EnvEntry("pole", factory="a:b", gym_id="CartPole-v1")]
"""
    with installed_here(plugin_distribution(tmp_path / "plugin", "zoo-pole", code)):
        with pytest.raises(UnknownNameError, match="'CartPole-v1' can mean cartpole or pole: type one of them"):
            understood("CartPole-v1")
        assert quiet_env_name(get_registry(), "CartPole-v1") == "CartPole-v1"
        assert understood("cartpole") == ("cartpole", [])


@pytest.mark.parametrize(
    ("words", "shows"),
    [
        (["show", "hyperparams", "CartPole-v1"], "agent.n_steps"),
        (["train", "cartpole-v1", "--dry-run", "--serial"], "a3c on cartpole, seed 0, serial"),
        (["train", "PongNoFrameskip-v4", "--dry-run", "--serial"], "a3c on pong, seed 0, serial"),
    ],
)
def test_commands_take_them(words: list[str], shows: str, capsys: Captured) -> None:
    assert command_line(*words) == 0
    shown = capsys.readouterr()
    assert shows in shown.out
    assert shown.err.startswith("Note: ")


def test_runs_are_found_by_them(capsys: Captured) -> None:
    outcome = a3c_zoo.train("CartPole-v1", serial=True, steps=200, name="x")
    assert Run(outcome.run).meta["env"] == "cartpole"
    assert capsys.readouterr().err.startswith("Note: CartPole-v1 is cartpole here.")
    assert command_line("list", "runs", "--env", "CARTPOLE-v1", "--json") == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == ["x"]
    assert command_line("evaluate", "CartPole-v1") == 2
    assert "no run in runs has solved 'cartpole'" in capsys.readouterr().err
    assert command_line("plot", "runs/x", "--env", "CartPole-v1", "--out", "x.csv") == 0


@pytest.mark.parametrize("typed", ["tank:Tank", "./tank.py:Tank", "tank.py:Tank", "tank:make_tank", "{}/tank.py:Tank"])
def test_a_class_or_a_function_of_a_file(typed: str, capsys: Captured) -> None:
    Path("tank.py").write_text(TANK)
    outcome = a3c_zoo.train(typed.format(os.getcwd()), serial=True, steps=200, name="x")
    name = typed.rpartition(":")[2]
    run = Run(outcome.run)
    assert run.meta["env"] == yaml.safe_load(run.config_file.read_text())["env_name"] == f"python:tank:{name}"
    assert "tank" in run.meta["sources"]
    shown = capsys.readouterr()
    assert shown.err == f"a module that prints\nNote: {typed.format(os.getcwd())} is python:tank:{name} here\n"
    assert shown.out == ""


def test_a_file_with_one_class(capsys: Captured) -> None:
    Path("one_class.py").write_text(TANK.partition("class Sized")[0] + "\nclass Around(gymnasium.Wrapper): pass\n")
    assert command_line("train", "one_class.py", "--dry-run", "--serial") == 0
    assert "a3c on python:one_class:Tank" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("tank.py", "tank.py defines Tank and Sized. Name one: tank.py:Tank"),
        ("tank:tank", "tank.py has no 'tank'. Did you mean 'Tank'?"),
        ("tank:Missing", "tank.py has no 'Missing'. It has Tank, Sized and make_tank"),
        ("tank:ready", "tank.py:ready is an environment that is made already: name a class, or a function"),
        ("tank:gymnasium", "tank.py:gymnasium is <module"),
        (
            "tank:Tank-v0",
            "module 'tank' registers no environment with Gymnasium; call gymnasium.register(id=…, entry_point=…) in "
            "it, or train its class: tank:CLASS",
        ),
        ("tank", "unknown environment 'tank'. Type: ./tank.py"),
        (
            "nosuch:Tank",
            "unknown environment 'nosuch:Tank'. There is no module 'nosuch', and no nosuch.py in this folder",
        ),
        ("gym:nosuch:Tank-v0", "install the package that has it, or go to the folder of nosuch.py"),
        (
            "pack:Tank-v0",
            "'pack' registers no environment with Gymnasium; name the one that does: gym:pack.parts.envs:Tank",
        ),
        ("pack:Tanker-v0", "module 'pack' registers no environment with Gymnasium"),
        ("gym:window:Tank-v0", "NoSuchDisplayException: no; without a screen: PYGLET_HEADLESS=1, with the library EGL"),
        (
            "old.py:Tank",
            "old.py:Tank makes no gymnasium.Env, but old.Tank. Write a class that is one and calls it: see docs/",
        ),
        ("none.py", "none.py defines no class of gymnasium.Env. Name the function that makes one: none.py:build"),
        ("none.py:build", "none.py:build makes no gymnasium.Env, but builtins.int"),
        ("missing.py:Tank", "missing.py: there is no such file"),
        ("my-tank.py", "my-tank.py: its name is no module name; rename it: letters, digits and '_'"),
        ("json.py:Tank", "json.py: Python has another module 'json' ("),
        ("nowhere:Tank", "unknown environment 'nowhere:Tank'"),
        ("os:getcwd", "os:getcwd makes no gymnasium.Env, but builtins.str"),
        ("exits.py", "importing exits.py ends the program (SystemExit: usage). Put what it runs below `if __name__"),
        ("trains.py", "trains.py: this script trains as it is imported, and workers import it. Put the call below"),
        ("raises.py", "importing raises.py failed: ValueError: no licence (in raises.py, line 1). Its traceback"),
        ("needs.py", "importing needs.py failed: ModuleNotFoundError: No module named 'no_such_module'; install it"),
        ("beside.py", "No module named 'none'; it lies beside that file, so type: PYTHONPATH=. a3c-zoo …"),
        ("python:", "'python:' names no module: type MODULE:NAME, FILE.py:NAME or FILE.py"),
        ("syntax.py", "importing syntax.py failed: SyntaxError"),
        ("bare.py", "the spaces of bare.py:Bare cannot be read: AttributeError: 'Bare' object has no attribute"),
        ("broken.py", "the environment of broken.py:Broken cannot be made: RuntimeError: no simulator (in broken.py"),
    ],
)
def test_a_file_that_has_no_environment(typed: str, says: str, capsys: Captured) -> None:
    files = {
        "tank": TANK,
        "none": "def build():\n    return 5\n",
        "my-tank": TANK,
        "json": TANK,
        "pack/__init__": "",
        "pack/parts/envs": "raise OSError\nregister(\n    id='Tank-v0', entry_point='pack:Tank')\n",
        "window": "class NoSuchDisplayException(Exception): pass\nraise NoSuchDisplayException('no')\n",
        "old": "class Tank:\n    def reset(self): return 0\n    def step(self, action): return 0, 0.0, True, {}\n",
        "exits": "raise SystemExit('usage')\n",
        "trains": "import a3c_zoo\na3c_zoo.train('cartpole', steps=100)\n",
        "raises": "raise ValueError('no licence')\n",
        "needs": "import no_such_module\n",
        "beside": "from none import build\n",
        "syntax": "def f(:\n",
        "bare": "import gymnasium\nclass Bare(gymnasium.Env):\n    def close(self):\n        raise OSError\n",
        "broken": "import gymnasium\nclass Broken(gymnasium.Env):\n"
        "    def __init__(self):\n        raise RuntimeError('no simulator')\n",
    }
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(f"{name}.py").write_text(text)
    assert command_line("train", typed) == 2
    lines = capsys.readouterr().err.removeprefix("a module that prints\n").splitlines()
    assert len(lines) == 1
    assert says in lines[0]
    assert not Path("runs").exists()


def test_a_module_with_side_effects_changes_nothing(capsys: Captured) -> None:
    effects = (
        "import os, sys, torch\nos.chdir('/')\ntorch.set_num_threads(1)\nprint('loud')\nassert sys.argv[1:] == []\n"
    )
    Path("effects.py").write_text(effects + TANK.partition("class Sized")[0])
    folder, arguments = os.getcwd(), [*sys.argv]
    assert command_line("train", "effects.py", "--dry-run", "--serial", "--json") == 0
    assert json.loads(capsys.readouterr().out)["env_name"] == "python:effects:Tank"
    assert (os.getcwd(), sys.argv) == (folder, arguments)


def test_workers_import_it_themselves_and_the_next_commands_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Also where the file lies in another folder."""
    (tmp_path / "sims").mkdir()
    (tmp_path / "sims/tank.py").write_text(TANK)
    train = ["train", "sims/tank.py:make_tank", "--steps", "1k", "--workers", "2", "--name", "x"]
    with Running(*train, folder=tmp_path) as run:
        assert run.process.wait(LIMIT_S) == 0, run.stderr
        last = run.stdout.splitlines()[-1]
    assert last.split()[1:3] == ["PYTHONPATH=" + last.split()[1].partition("=")[2], "a3c-zoo"]
    assert last.split()[1].endswith(":sims")
    monkeypatch.chdir(tmp_path)
    assert command_line("evaluate", "x", "--episodes", "1") == 2
    assert "there is no module 'tank'" in capsys.readouterr().err
    monkeypatch.syspath_prepend(tmp_path / "sims")
    assert command_line("evaluate", "x", "--episodes", "1") == 0, capsys.readouterr().err


def test_a_strangers_run_may_not_call_code(tmp_path: Path) -> None:
    """Nor that of a module that is imported already: `os` is."""
    with pytest.raises(ZooError, match="would import 'os', and the run that names it is not your own"):
        get_registry().env("python:os:abort", is_trusted=False)
    with pytest.raises(ZooError, match="would import 'this'"):
        get_registry().env("python:this", is_trusted=False)


WORTH = """
import gymnasium
import numpy as np


class Coin(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, worth=1.0, continuous=False):
        self.worth = worth
        self.action_space = gymnasium.spaces.Box(0, 1) if continuous else gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), self.worth, True, False, {}
"""


def test_a_class_takes_arguments(capfd: Captured) -> None:
    Path("coin.py").write_text(WORTH)
    words = ["train", "./coin.py:Coin", "--serial", "--steps", 500, "--quiet"]
    assert command_line(*words, "--name", "run", "-o", "env.kwargs.worth=3", "-o", "env.kwargs.continuous=true") == 0
    assert Path("runs/run/monitor.csv").read_text().splitlines()[-1].startswith("3.0,1,")
    capfd.readouterr()
    assert command_line("train", "coin:Coin", "--dry-run", "-o", "env.kwargs.continuous=true") == 0
    assert "gym/a3c-continuous.yml" in capfd.readouterr().out
    assert command_line(*words, "-o", "env.kwargs.wort=3") == 2
    error = capfd.readouterr().err.splitlines()[-1]
    assert "has no such argument. Did you mean 'worth'? It takes: continuous, worth" in error
    assert os.listdir("runs") == ["run"]


@pytest.mark.usefixtures("checked_here")
def test_a_class_that_cannot_be_drawn_passes_the_check(capfd: Captured) -> None:
    Path("coin.py").write_text(WORTH)
    assert command_line("check", "./coin.py:Coin", "--steps", 200) == 0
    shown = capfd.readouterr().out
    assert "no pictures: environment 'python:coin:Coin' cannot be drawn: it has no parameter render_mode" in shown
    assert "problems: 0" in shown


def test_a_class_that_needs_arguments(capfd: Captured) -> None:
    Path("tank.py").write_text(TANK)
    words = ["train", "tank:Sized", "--serial", "--steps", 200, "--quiet"]
    assert command_line(*words) == 2
    error = capfd.readouterr().err.splitlines()[-1]
    assert error.startswith("Error: environment 'python:tank:Sized' needs arguments: size. Type: ")
    assert "-o env.kwargs.size=VALUE, or name a function" in error
    assert command_line(*words, "-o", "env.kwargs.size=3", "--name", "x") == 0
    assert Run(Path("runs/x")).settings["env.kwargs"] == {"size": 3}
    capfd.readouterr()
    assert command_line("evaluate", "x", "--episodes", "1") == 0


@pytest.mark.usefixtures("checked_here")
def test_check_tells_the_cure_of_needed_arguments_alone(capfd: Captured) -> None:
    Path("tank.py").write_text(TANK)
    assert command_line("check", "tank:Sized") == 1
    lines = capfd.readouterr().out.splitlines()
    told = "num_envs=1: environment 'python:tank:Sized' needs arguments: size. Type: -o env.kwargs.size=VALUE"
    place = next(n for n, line in enumerate(lines) if told in line)
    assert lines[place].endswith(", or name a function without parameters that makes it")
    assert "cure:" not in lines[place + 1]


def test_needed_arguments_choose_the_default_set(capfd: Captured) -> None:
    Path("coin.py").write_text(WORTH.replace("worth=1.0, continuous=False", "continuous, worth=1.0"))
    assert command_line("train", "coin:Coin", "--dry-run", "-o", "env.kwargs.continuous=true") == 0
    assert "gym/a3c-continuous.yml" in capfd.readouterr().out


def test_a_needed_argument_that_a3c_zoo_gives(capfd: Captured) -> None:
    Path("coin.py").write_text(WORTH.replace("worth=1.0", "render_mode, worth=1.0"))
    assert command_line("train", "coin:Coin", "--dry-run") == 2
    error = capfd.readouterr().err.splitlines()[-1]
    assert "needs arguments: render_mode. Name a function without parameters that makes it" in error


@pytest.mark.parametrize(
    ("typed", "distribution"),
    [
        ("pettingzoo:simple_spread_v3", "a3c-zoo-pettingzoo"),
        ("gym-agents:lbforaging:Foraging-5x5-2p-1f-v3", "a3c-zoo-pettingzoo"),
        ("minigrid:Empty-5x5", "a3c-zoo-minigrid"),
    ],
)
def test_an_environment_of_a_plugin_that_is_not_installed(typed: str, distribution: str, capsys: Captured) -> None:
    assert command_line("train", typed) == 2
    error = capsys.readouterr().err
    assert f"'{typed}' needs the plugin {distribution}: " in error
    assert "pip install" in error
    assert error.count("\n") == 1
