"""The commands of README, of the first page of the docs and of `--help`, typed after an installation without extras.

The environment has a3c-zoo from its wheel, the packages that the wheel requires, and no others. They are links to the
packages that the tests run with, so this shows that the requirements are complete, not that an index has them:
`test_packaging.test_a_real_install_works` shows that. No command gets an address of a network.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import pytest

from a3c_zoo.cli.main import cli
from tests.shared import made_once
from tests.toys_runs import in_turn
from tests.waits import LIMIT_S
from tests.wheels import (
    GRIDWORLD,
    ROOT,
    build_wheel,
    copied_environment,
    core_environment,
    plugin_source,
    run,
    zoo_dist,
)

#: What long commands get beside what is typed.
BUDGET: Final = "--steps 2000"
#: Commands as they are typed → what they get beside that, so that they end soon.
COMMANDS: Final[dict[str, str]] = {
    "a3c-zoo doctor": "",
    "a3c-zoo list envs": "",
    "a3c-zoo list agents": "",
    "a3c-zoo list runs": "",
    "a3c-zoo list runs --env pong --since 7d": "",
    "a3c-zoo train cartpole": BUDGET,
    "a3c-zoo train cartpole --seed 1": BUDGET,
    "a3c-zoo train cartpole --seed 1 --time-limit 2m": BUDGET,
    "a3c-zoo train cartpole --seed 1 -o optimizer.learning_rate=1e-3 --time-limit 2m": BUDGET,
    "a3c-zoo train cartpole -o optimizer.learning_rate=1e-3 -o env.num_envs=8": BUDGET,
    "a3c-zoo train gym:Acrobot-v1 --steps 500000": BUDGET,
    "a3c-zoo train gym:Acrobot-v1 --agent a3c-grad --steps 200000": BUDGET,
    "a3c-zoo train cartpole --agent sb3-a2c": BUDGET,
    "a3c-zoo train ./mysim.py:Tank --steps 30000": BUDGET,
    "a3c-zoo train pong": BUDGET,
    "a3c-zoo show hyperparams cartpole": "",
    "a3c-zoo show hyperparams cartpole -o n_steps=8": "",
    "a3c-zoo show hyperparams cartpole -o agent.n_steps=5": "",
    "a3c-zoo show plugin envs": "",
    "a3c-zoo evaluate runs/NAME --deterministic --json": "--episodes 2",
    "a3c-zoo evaluate runs/NAME --episodes 20": "",
    "a3c-zoo evaluate runs/NAME --episodes 20 --deterministic": "",
    "a3c-zoo plot runs/cartpole-* --out curves.svg": "",
    "a3c-zoo plot runs/NAME --out curve.png": "",
    "a3c-zoo plot runs/NAME --x seconds --out curve.svg": "",
    "a3c-zoo train --resume runs/NAME --time-limit 2h": "--steps 4000",
    "a3c-zoo train --resume runs/NAME": "--steps 6000",
    "a3c-zoo resume": "--steps 8000",
    "a3c-zoo help train": "",
    "a3c-zoo show schema cartpole --out a3c-zoo.schema.json": "",
    "a3c-zoo train cartpole --init-from runs/NAME": BUDGET,
    "a3c-zoo compare cartpole --baseline sb3-a2c --seeds 10": "--seeds 1 --steps 2000 --episodes 1 --yes",
    "a3c-zoo compare cartpole --baseline sb3-a2c --seeds 5": "--seeds 1 --steps 3000 --episodes 1 --yes",
    "a3c-zoo compare pong --baseline sb3-a2c --seeds 5 --steps 1000000 --episodes 10": (
        "--seeds 1 --steps 2000 --episodes 1 --yes"
    ),
    "a3c-zoo check cartpole": "",
    "a3c-zoo new-plugin maze --env": "",
}
#: Commands that need an extra → the extra, and what they need beside what is typed. Each says how to install it.
WITH_EXTRAS: Final[dict[str, tuple[str, str]]] = {
    "a3c-zoo play cartpole": ("play", "--video cartpole.mp4"),
    "a3c-zoo play runs/NAME --video pong.mp4": ("play", ""),
    "a3c-zoo train pong --film-every 1": ("play", ""),
    "a3c-zoo tune cartpole --trials 30 --timeout 15m": ("tune", ""),
    "a3c-zoo tune cartpole --agent nstep --trials 30 --timeout 15m": ("tune", ""),
    "a3c-zoo export runs/NAME --out cartpole.onnx": ("onnx", ""),
    "a3c-zoo pull OWNER/NAME": ("hub", ""),
    "a3c-zoo pull alice/cartpole": ("hub", ""),
    "a3c-zoo push runs/NAME alice/cartpole --dry-run look": ("hub", ""),
}
#: Commands that are not typed here → why.
ELSEWHERE: Final[dict[str, str]] = {
    "a3c-zoo play runs/NAME --terminal": "it needs a terminal, and lasts a game: tests/test_play.py",
    "a3c-zoo rm cartpole-a3c-s1-20260101-120000": "it names a run of the user: tests/test_run_upkeep.py",
    "a3c-zoo tensorboard": "it serves until Ctrl-C: tests/test_run_upkeep.py",
    "a3c-zoo tensorboard --port 6007": "it serves until Ctrl-C: tests/test_run_upkeep.py",
}


def typed() -> set[str]:
    """The commands of README, of getting-started and of `--help`, with NAME for the run."""
    found = list(epilogs(cli))
    for page in (ROOT / "README.md", ROOT / "docs/getting-started.md"):
        for block in re.findall(r"^```console\n(.*?)^```$", page.read_text(encoding="utf-8"), re.S | re.M):
            found += re.findall(r"^\$ (a3c-zoo .*)$", block, re.M)
        found += re.findall(r"^    (a3c-zoo .*)$", page.read_text(encoding="utf-8"), re.M)
    commands = {" ".join(line.partition(" #")[0].split()) for line in found}
    return {re.sub(r"runs/\w+-a3c-s\d-[\d-]+", "runs/NAME", command) for command in commands}


def epilogs(group: click.Group) -> Iterator[str]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if match := re.search(r"^Example: (a3c-zoo .*)$", command.epilog or "", re.M):
            yield match[1]
        if isinstance(command, click.Group):
            yield from epilogs(command)


def test_every_command_that_a_new_user_reads_is_typed_here() -> None:
    assert typed() <= COMMANDS.keys() | WITH_EXTRAS.keys() | ELSEWHERE.keys() | {"a3c-zoo train gridworld"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return next(made_once(tmp_path_factory, "build", zoo_dist).glob("dist/*.whl"))


@pytest.fixture(scope="module")
def fresh(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a user, with an environment in `venv`; it has a3c-zoo and what that requires."""

    def make(folder: Path) -> None:
        python = core_environment(folder, wheel)
        run(python, "-m", "pip", "install", "--no-index", wheel)

    return made_once(tmp_path_factory, "fresh", make)


def shell(
    line: str, folder: Path, cwd: Path, limit_s: float = 3 * LIMIT_S, **variables: str
) -> subprocess.CompletedProcess[str]:
    """A line as a user types it after the environment in a folder has been activated."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "A3C_ZOO", "PIP_"))}
    return subprocess.run(
        ["bash", "-c", f". {shlex.quote(str(folder))}/venv/bin/activate && {line}"],
        cwd=cwd,
        env=kept | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )


def test_nothing_but_what_the_wheel_requires_is_there(fresh: Path) -> None:
    """It has OpenCV, which stable-baselines3's Atari wrappers need, and nothing of the extras."""
    code = (
        "from importlib.util import find_spec as f; print(*(bool(f(n)) for n in ('cv2', 'pygame', 'optuna', 'mypy')))"
    )
    done = shell(f'python -c "{code}"', fresh, fresh)
    assert done.stdout.split() == ["True", "False", "False", "False"], done.stderr
    assert "No broken requirements found." in shell("pip check", fresh, fresh).stdout


@pytest.mark.slow
def test_the_missions_command_is_tried_and_told(fresh: Path, tmp_path: Path) -> None:
    """`compare pong --baseline sb3-a2c` comes to its question with the figures of both methods."""
    done = shell("a3c-zoo compare pong --baseline sb3-a2c", fresh, tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stderr == "Error: 10 runs must be trained, and there is no terminal to ask: give --yes\n"
    first, second, training, evaluations = done.stdout.splitlines()[-4:]
    assert re.fullmatch(r"  a3c on pong: [\d,]+ steps/s", first)
    assert re.fullmatch(r"  sb3-a2c on pong: [\d,]+ steps/s", second)
    assert re.match(r"10 runs, about .+ of training; `--steps \d+ --seeds 7`: ", training)
    assert re.fullmatch(r"evaluations come on top: about .+, if an episode lasts 1,000 steps", evaluations)
    assert list(tmp_path.iterdir()) == []


def test_the_first_commands(fresh: Path, tmp_path: Path) -> None:
    """In one process, which imports torch once."""
    lines: tuple[str, ...] = (
        "list envs",
        "show hyperparams cartpole -o n_steps=8",
        "train cartpole --seed 1 --steps 2000 --name one",
    )
    lines += ("evaluate runs/one --episodes 2 --json", "plot runs/one --out curve.png", "list runs")
    shown = run(fresh / "venv/bin/python", *in_turn(*map(str.split, lines)), cwd=tmp_path)
    assert "one" in shown.splitlines()[-1]
    assert (tmp_path / "curve.png").stat().st_size > 1000


@pytest.mark.parametrize("command", ["a3c-zoo pull OWNER/NAME", "a3c-zoo tune cartpole --trials 30 --timeout 15m"])
def test_the_cure_for_a_missing_extra_names_packages(command: str, fresh: Path, tmp_path: Path) -> None:
    """No index needs to have a3c-zoo: the packages are named, as the wheel's metadata lists them."""
    refuses_without_extra(command, fresh, tmp_path)


def test_trained_agents_are_a_line_away(fresh: Path, tmp_path: Path) -> None:
    """Only the wheel of a3c-zoo is here. It came from a file, so the line is one for a checkout."""
    done = shell("a3c-zoo play pong --video pong.gif", fresh, tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    line = "a3c-zoo-trained brings some: pip install -c constraints.txt ./plugins/a3c-zoo-trained"
    assert done.stderr.rstrip().endswith(f"{line} (in a checkout of a3c-zoo)"), done.stderr
    assert list(tmp_path.iterdir()) == []


def refuses_without_extra(command: str, fresh: Path, cwd: Path) -> None:
    extra, more = WITH_EXTRAS[command]
    done = shell(f"{command} {more}", fresh, cwd)
    assert done.returncode == 2, done.stdout + done.stderr
    needed = {"play": "imageio-ffmpeg<1,>=0.5", "tune": "optuna<6,>=5", "onnx": "onnxruntime<2,>=1.22"}
    assert f"pip install '{needed.get(extra, 'httpx2<3,>=2')}'" in done.stderr


def own_environment() -> str:
    """README's mysim.py."""
    found = re.search(r"^`mysim\.py`.*?^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.S | re.M)
    assert found is not None
    return found[1]


def test_four_commands_from_git_clone_to_an_own_environment(fresh: Path, tmp_path: Path) -> None:
    """By README alone: it has them in this order. The first three make an environment like `fresh`."""
    four = ["git clone ADDRESS a3c-zoo && cd a3c-zoo", "make train", ". .venv/bin/activate", "python mysim.py"]
    lines = re.findall(r"^\$ (.+?)(?: +#.*)?$", (ROOT / "README.md").read_text(), re.M)
    assert [line for line in lines if line in four] == four
    program = own_environment()
    assert "steps=30_000" in program
    (tmp_path / "mysim.py").write_text(program.replace("30_000", "2000"))
    done = shell(four[-1], fresh, tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"\d+ of 100 points after [\d,]+ steps: runs/tank-a3c-s0-[\d-]+\n", done.stdout)


def test_a_plugin_is_installed_and_trained(fresh: Path, tmp_path: Path) -> None:
    """`pip install some-env-plugin && a3c-zoo train some-env`, in an environment of its own.

    The plugin's wheel lies in a folder, which stands for an index.
    """
    plugin = build_wheel(plugin_source(GRIDWORLD, tmp_path / "source"), tmp_path / "index")
    with zipfile.ZipFile(plugin) as archive:
        assert any(name.endswith("entry_points.txt") for name in archive.namelist())
    (tmp_path / "user").mkdir()
    copied_environment(fresh / "venv", tmp_path / "user")
    line = f"pip install a3c-zoo-gridworld && a3c-zoo train gridworld {BUDGET} --name short"
    done = shell(line, tmp_path / "user", tmp_path / "user", PIP_NO_INDEX="1", PIP_FIND_LINKS=str(plugin.parent))
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(path.name for path in (tmp_path / "user").iterdir()) == ["runs", "venv"]
    outcome: dict[str, Any] = json.loads((tmp_path / "user/runs/short/outcome.json").read_text())
    assert (outcome["reason"], outcome["steps"] >= 2000) == ("steps", True)


@pytest.mark.slow
def test_a_baseline_whose_package_was_uninstalled(fresh: Path, tmp_path: Path) -> None:
    python = copied_environment(fresh / "venv", tmp_path)
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    for path in [*site.glob("cv2*"), *site.glob("opencv_python_headless*")]:
        path.unlink()
    (tmp_path / "here").mkdir()
    done = shell("a3c-zoo compare pong --baseline sb3-a2c --yes", tmp_path, tmp_path / "here")
    assert done.returncode == 2, done.stdout + done.stderr
    line = done.stderr.splitlines()[-1]
    assert line.startswith("Error: sb3-a2c on pong cannot be trained: stable-baselines3's Atari wrappers need OpenCV (")
    assert "pip install 'opencv-python-headless<6,>=4.8'" in line
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all_commands_end_with_status_0(fresh: Path, tmp_path: Path) -> None:
    """In the order of the table, which makes the runs that later commands name."""
    assert shell("a3c-zoo train cartpole --steps 1000 --name NAME", fresh, tmp_path).returncode == 0
    (tmp_path / "mysim.py").write_text(own_environment())
    for command, more in COMMANDS.items():
        done = shell(f"{command} {more}", fresh, tmp_path)
        if command == "a3c-zoo doctor":  # a busy machine is a warning, and no file of this test's extras is there
            assert done.returncode in (0, 1), done.stderr
            continue
        assert done.returncode == 0, f"{command} {more}\n{done.stdout}{done.stderr}"
    for command in WITH_EXTRAS:
        refuses_without_extra(command, fresh, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_mission_ends_with_a_report(fresh: Path, tmp_path: Path) -> None:
    line = "a3c-zoo compare pong --baseline sb3-a2c --steps 20000 --seeds 2 --episodes 1 --yes --out out"
    done = shell(line, fresh, tmp_path, limit_s=1500)  # 80 games of Pong
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((tmp_path / "out/results.json").read_text())
    assert results["missing"] == {}
    assert [run["method"] for run in results["runs"]] == ["a3c", "a3c", "sb3-a2c", "sb3-a2c"]
    assert all(run["final_return"] is not None and run["steps_per_s"] > 0 for run in results["runs"])
