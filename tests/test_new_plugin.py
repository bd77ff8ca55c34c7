"""`a3c-zoo new-plugin`: each kind is a complete distribution that installs, trains, and passes check and its tests."""

from __future__ import annotations

import compileall
import json
import os
import re
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from a3c_zoo.cli.main import cli
from a3c_zoo.cli.new_plugin import KINDS
from tests.waits import LIMIT_S
from tests.wheels import clean_environment, pip, run, zoo_wheel

#: Kind → the command that uses the plugin `tried`.
USES = {
    "env": ["train", "tried", "--steps", "2000", "--name", "first"],
    "vector-env": ["train", "tried", "--steps", "2000", "--name", "first"],
    "wrap": ["train", "tried", "--steps", "2000", "--name", "first"],
    "agent": ["train", "cartpole", "--agent", "tried", "--steps", "2000", "--name", "first"],
    "network": ["train", "cartpole", "-o", "network.name=tried", "--steps", "2000", "--name", "first"],
    "optimizer": ["train", "cartpole", "-o", "optimizer.name=tried", "--steps", "2000", "--name", "first"],
    "hook": ["train", "cartpole", "-o", "plugins.tried.patience=20000", "--steps", "2000", "--name", "first"],
    "command": ["tried", "."],
}


def new_plugin(*arguments: str | Path) -> str:
    """Runs the command, which must succeed; returns its output."""
    result = CliRunner().invoke(cli, ["new-plugin", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def option_of(kind: str) -> list[str]:
    """The option that asks for a kind."""
    return ["--wrap", "gym:Acrobot-v1"] if kind == "wrap" else [f"--{kind}"]


def refusal(*arguments: str | Path) -> str:
    """The one line with which the command refuses its arguments."""
    result = CliRunner().invoke(cli, ["new-plugin", *map(str, arguments)], catch_exceptions=False)
    assert (result.exit_code, result.output.count("\n")) == (2, 1), result.output
    return result.output


def call(*command: str, cwd: Path, path: Path, status: int = 0) -> str:
    """Runs a command beside an installed plugin; returns its output."""
    environ = {**os.environ, "PYTHONPATH": str(path)}
    done = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


#: The kind whose own tests are run each time; those of the others take up to half a minute (make test-slow).
QUICK = ("command",)


@pytest.mark.parametrize(
    "kind", [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
)
def test_each_kind_installs_and_passes_its_own_tests(kind: str, tmp_path: Path) -> None:
    project, site = tmp_path / "project", tmp_path / "site"
    new_plugin("tried", *option_of(kind), "--dir", project)
    options = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target")
    run(sys.executable, "-m", "pip", "install", *options, site, project)  # a wheel, so that forgotten data would show
    zoo = (sys.executable, "-m", "a3c_zoo")
    found = json.loads(call(*zoo, "check", "tried", "--json", cwd=tmp_path, path=site))
    others = {"sb3", "rewarded steps"} if kind == "wrap" else {"sb3"}  # no random action swings Acrobot up
    assert [each for each in found if each["status"] != "ok" and each["check"] not in others] == []
    (tmp_path / "old").mkdir()
    (tmp_path / "old/outcome.json").write_text(json.dumps({"reason": "solved", "steps": 1234}))
    printed = call(*zoo, *USES[kind], cwd=tmp_path, path=site)
    assert ("old: solved, 1,234 steps" if kind == "command" else "steps") in printed
    tested = call(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=project, path=tmp_path)
    assert re.search(r"^\d+ passed", tested, re.M)


def test_an_environment_with_long_episodes_passes_its_tests(tmp_path: Path) -> None:
    """Random actions end its episodes after 999 steps, and `check_env` takes 500."""
    new_plugin("tried", "--wrap", "gym:MountainCarContinuous-v0", "--dir", tmp_path)
    tests = ("-q", "-p", "no:cacheprovider", "tests/test_environment.py")
    assert "1 passed" in call(sys.executable, "-m", "pytest", *tests, cwd=tmp_path, path=tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_tidy(kind: str, tmp_path: Path) -> None:
    printed = new_plugin("tried", *option_of(kind), "--dir", tmp_path)
    for tool in (["check"], ["format", "--check"]):
        call(sys.executable, "-m", "ruff", *tool, "--no-cache", ".", cwd=tmp_path, path=tmp_path)
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    workflow = ".github/workflows/ci.yml"
    assert {"pyproject.toml", "README.md", "LICENSE", ".gitignore", workflow, "src/a3c_zoo_tried/py.typed"} <= files
    assert f"{len(files)} files in {tmp_path}" in printed
    steps = yaml.safe_load((tmp_path / workflow).read_text())["jobs"]["test"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == [
        "pip install -e '.[test]'",
        "a3c-zoo check tried",
        "pytest",
    ]
    assert steps[1]["with"]["python-version"] == "${{ matrix.python }}"
    edited = tmp_path / "src/a3c_zoo_tried" / KINDS[kind].edited
    assert 1 <= edited.read_text().count("# EDIT: ") <= 3
    assert "tests/" in {f"{Path(name).parts[0]}/" for name in files}


def test_the_environment_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = new_plugin("deep-maze")
    text = (tmp_path / "a3c-zoo-deep-maze/src/a3c_zoo_deep_maze/env.py").read_text()
    assert "class DeepMazeEnv(" in text
    assert 'gymnasium.register("a3c_zoo_deep_maze/DeepMaze-v0", ' in text  # never one of Gymnasium's own
    assert printed.splitlines()[1:4] == [
        "  cd a3c-zoo-deep-maze",
        "  pip install -e '.[test]'",
        "  a3c-zoo check deep-maze",
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["none", "a-class", "split"])
def test_any_word_may_be_the_name(kind: str, name: str, tmp_path: Path) -> None:
    new_plugin(name, *option_of(kind), "--dir", tmp_path)
    assert compileall.compile_dir(tmp_path, quiet=1)


def test_a_folder_that_has_files_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert "is not an empty folder; name another: --dir DIR" in refusal("maze", "--dir", tmp_path)
    assert "is not an empty folder" in refusal("maze", "--dir", tmp_path / "notes.txt")
    assert "Not a directory" in refusal("maze", "--dir", tmp_path / "notes.txt" / "below")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_a_disk_that_is_full_half_way(tmp_path: Path) -> None:
    """Files of 1000 bytes are written, larger ones are not. Nothing is left."""
    command = [sys.executable, "-B", "-m", "a3c_zoo", "new-plugin", "maze", "--dir", "projects/maze"]
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (1000, 1000))
    done = subprocess.run(command, cwd=tmp_path, preexec_fn=limit, capture_output=True, text=True, check=False)
    line = "Error: cannot write to 'projects/maze': File too large; name another folder: --dir DIR\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", line)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Maze"], "'Maze' is no name for a plugin: use a-z, 0-9 and single hyphens"),
        (["../maze"], "'../maze' is no name"),
        (["3d"], "'3d' is no name"),
        (["null", "--network"], "'null' is no name for a plugin: in YAML, it is no word; choose another"),
        (["true"], "'true' is no name for a plugin: in YAML, it is no word; choose another"),
        (["cartpole"], "the name 'cartpole' is taken"),
        (["atari"], "the name 'atari' is taken"),
        (["a3c", "--agent"], "the name 'a3c' is taken"),
        (["mlp", "--network"], "the name 'mlp' is taken"),
        (["train", "--command"], "the name 'train' is taken"),
        (["envs", "--hook"], "the name 'envs' is taken"),
        (["adam", "--optimizer"], "the name 'adam' is taken"),
        (["maze", "--wrap", "Acrobot-v1"], "such as gym:Acrobot-v1"),
        (["maze", "--wrap", "gym:Acrobat-v1"], "Did you mean 'gym:Acrobot-v1'"),
        (["maze", "--wrap", "gym:Acrobot-v1", "--env"], "choose one kind of plugin, not --env and --wrap"),
        (["maze", "--vector-env", "--agent"], "choose one kind of plugin, not --vector-env and --agent"),
    ],
)
def test_names_that_cannot_be_used(arguments: list[str], message: str, tmp_path: Path) -> None:
    assert message in refusal(*arguments, "--dir", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    """The limit of a file's size stands for a disk on which the licence has no room."""
    program = f"""
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
from a3c_zoo.cli.main import cli
cli.main(["new-plugin", "maze", "--dir", {str(tmp_path)!r}])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, "cannot write to" in done.stderr, done.stderr.count("\n")) == (2, True, 1)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


EDITS = {
    "(1 if action == RIGHT else -1)": "(2 if action == RIGHT else -1)",
    "terminated = self._place == self.length - 1": "terminated = self._place >= self.length - 2",
    "1.0 if terminated else -0.01": "1.0 if terminated else -0.02",
}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_from_an_empty_folder_to_a_trained_agent(tmp_path: Path) -> None:
    """Five commands and three edited lines, in a clean virtual environment."""
    python = clean_environment(tmp_path / "clean", zoo_wheel(tmp_path / "wheel"))
    zoo, folder = python.parent / "a3c-zoo", tmp_path / "empty"
    folder.mkdir()
    run(zoo, "new-plugin", "maze", cwd=folder)  # 1
    project = folder / "a3c-zoo-maze"  # 2: cd
    source = project / "src/a3c_zoo_maze/env.py"
    text = source.read_text()
    for line, edited in EDITS.items():
        assert text.count(line) == 1
        text = text.replace(line, edited)
    source.write_text(text)
    pip(python, "install", "--no-index", "--no-build-isolation", "--no-deps", "--editable", project)  # 3
    run(zoo, "check", "maze", cwd=project)  # 4
    run(zoo, "train", "maze", "--seed", "1", "--time-limit", "60s", "--name", "run", cwd=project)  # 5
    assert json.loads((project / "runs/run/outcome.json").read_text())["solved"]
    assert re.search(r"^\d+ passed", run(python, "-m", "pytest", "-q", cwd=project), re.M)
