"""Modules that lie in the current folder are never imported; those beside a user's script are found as ever."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.toys_runs import ROOT, environ, in_turn
from tests.waits import LIMIT_S

#: Modules that a3c-zoo, torch and multiprocessing import, in the parent or in children.
NAMES = (
    "yaml",
    "statistics",
    "pluggy",
    "click",
    "numpy",
    "torch",
    "gymnasium",
    "pickle",
    "selectors",
    "sympy",
    "secrets",
)
QUICK = ("-o", "run.evaluation_every_s=0.1", "-o", "run.evaluator_episodes=1", "-o", "run.stop_when_solved=false")

SCRIPT = """
import helper
import a3c_zoo

if __name__ == "__main__":
    quick = {"run.evaluation_episodes": 1, "run.stop_when_solved": False}
    outcome = a3c_zoo.train("gym:helper:Beside-v0", steps=300, workers=2, overrides=quick | START)
    print(outcome.reason)
    a3c_zoo.load_agent(outcome.run)
"""
HELPER = """
import gymnasium

gymnasium.register("Beside-v0", "gymnasium.envs.classic_control:CartPoleEnv", max_episode_steps=20)
"""
#: Its environment notes what programs see that it starts.
NOTING_HELPER = """
import gymnasium, os
from gymnasium.envs.classic_control import CartPoleEnv

def make(**options):
    with open("noted", "a") as file:
        file.write(f"{os.getpid()} {os.environ.get('PYTHONSAFEPATH', '-')}\\n")
    return CartPoleEnv(**options)

gymnasium.register("Beside-v0", make, max_episode_steps=20)
"""


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    variables = environ() | {"PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=2 * LIMIT_S)


def plant(folder: Path) -> None:
    """Puts modules into a folder that say so when they are imported."""
    for name in NAMES:
        (folder / f"{name}.py").write_text(
            f"open({str(folder / 'imported')!r}, 'a').write('{name} ')\nraise SystemExit"
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "start_method"),
    [
        ("console script", "spawn"),  # from the fork server: test_a_typed_gym_name_finds_its_module_here_...
        ("module", "forkserver"),
    ],
)
def test_no_process_of_a_training_imports_from_the_current_folder(
    program: str, start_method: str, tmp_path: Path
) -> None:
    plant(tmp_path)
    script = Path(sys.executable).with_name("a3c-zoo")
    start = [str(script)] if program == "console script" else [sys.executable, "-m", "a3c_zoo"]
    arguments = ["train", "cartpole", "--steps", "2000", "--workers", "2", "-o", f"run.start_method={start_method}"]
    ended = run(tmp_path, *start, *arguments, *QUICK)
    assert not (tmp_path / "imported").exists(), (tmp_path / "imported").read_text()
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("start", ["{}", pytest.param("{'run.start_method': 'spawn'}", marks=pytest.mark.slow)])
def test_a_script_finds_what_lies_beside_it_and_its_programs_get_no_variable_of_ours(
    start: str, tmp_path: Path
) -> None:
    (tmp_path / "helper.py").write_text(NOTING_HELPER)
    (tmp_path / "script.py").write_text(SCRIPT.replace("START", start))
    ended = run(tmp_path, sys.executable, "script.py")
    assert ended.stdout == "steps\n", ended.stderr
    noted = [line.split(" ", 1) for line in (tmp_path / "noted").read_text().splitlines()]
    assert {value for _, value in noted} == {"-"}
    assert len({pid for pid, _ in noted}) >= 3  # both workers, and the child that probes the environment


@pytest.mark.slow
def test_trainings_of_a_comparison_find_what_lies_beside_the_script(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(HELPER)
    call = 'a3c_zoo.compare("gym:helper:Beside-v0", baselines=["random"], seeds=1, steps=3000, episodes=1)'
    (tmp_path / "script.py").write_text(f'import a3c_zoo\nif __name__ == "__main__":\n    print({call}.failed)')
    ended = run(tmp_path, sys.executable, "script.py")
    assert ended.stdout == "()\n", ended.stderr


MAZE = """
import gymnasium

import maze_parts

gymnasium.register("Maze-v0", "gymnasium.envs.classic_control:CartPoleEnv", max_episode_steps=20)
"""


@pytest.mark.slow
def test_a_typed_gym_name_finds_its_package_here(tmp_path: Path) -> None:
    plant(tmp_path)
    (tmp_path / "maze").mkdir()
    (tmp_path / "maze/parts.py").write_text("")
    (tmp_path / "maze/__init__.py").write_text("import maze.parts\n" + HELPER.replace("Beside", "Maze"))
    script = str(Path(sys.executable).with_name("a3c-zoo"))
    ended = run(tmp_path, script, "train", "gym:maze:Maze-v0", "--steps", "600", "--workers", "2")
    assert not (tmp_path / "imported").exists(), (tmp_path / "imported").read_text()
    assert ended.returncode == 0, ended.stderr


REFUSED = """
from a3c_zoo import ZooError
from a3c_zoo.cli.main import cli
for words in (["evaluate", "one"], ["train", "--resume", "one"]):
    try:
        cli.main(words, prog_name="a3c-zoo", standalone_mode=False)
    except ZooError as error:
        print(error.exit_status, error)
"""


def test_a_typed_gym_name_finds_its_module_here_and_nothing_else(tmp_path: Path) -> None:
    plant(tmp_path)
    (tmp_path / "maze.py").write_text(HELPER.replace("Beside", "Maze"))
    script = str(Path(sys.executable).with_name("a3c-zoo"))
    name = "gym:maze:Maze-v0"
    ended = run(tmp_path, script, "train", name, "--steps", "600", "--workers", "2", "--name", "one", *QUICK)
    assert not (tmp_path / "imported").exists(), (tmp_path / "imported").read_text()
    assert ended.returncode == 0, ended.stderr
    assert f"next        PYTHONPATH={ROOT}:. a3c-zoo train --resume runs/one" in ended.stdout
    resumed = ["train", name, "--resume", "one", "--steps", "4000", "--quiet"]
    ended = run(tmp_path, sys.executable, *in_turn(resumed, ["show", "hyperparams", name]))
    assert ended.returncode == 0, ended.stderr
    ended = run(tmp_path, sys.executable, "-P", "-c", REFUSED)  # here nobody types the name
    line = (
        f"2 run one trains '{name}', and there is no module 'maze'. One of the current folder is found only for a name "
        "that you type; name its folder: PYTHONPATH=. a3c-zoo …\n"
    )
    assert (ended.returncode, ended.stdout) == (0, 2 * line), ended.stderr
    assert not (tmp_path / "imported").exists(), (tmp_path / "imported").read_text()


def test_a_module_of_the_current_folder_finds_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "maze.py").write_text(MAZE)
    (tmp_path / "maze_parts.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')")
    script = str(Path(sys.executable).with_name("a3c-zoo"))
    ended = run(tmp_path, script, "train", "gym:maze:Maze-v0", "--steps", "600")
    assert ended.returncode == 2
    assert "No module named 'maze_parts'" in ended.stderr
    assert not (tmp_path / "imported").exists()


def test_an_installed_module_comes_before_one_of_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "here/maze.py").write_text("raise SystemExit")
    (tmp_path / "there/maze.py").write_text(HELPER.replace("Beside", "Maze"))
    variables = environ() | {"PYTHONPATH": str(tmp_path / "there")}
    command = [str(Path(sys.executable).with_name("a3c-zoo")), "show", "hyperparams", "gym:maze:Maze-v0"]
    ended = subprocess.run(
        command, cwd=tmp_path / "here", env=variables, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert ended.returncode == 0, ended.stderr
