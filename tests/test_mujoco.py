"""MuJoCo, the extra `mujoco`: it trains, plays and draws; without it, or with a wrong version, one line says so."""

from __future__ import annotations

import ctypes.util
import gc
import os
import subprocess
import sys
import tomllib
from contextlib import closing
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packaging.requirements import Requirement

import a3c_zoo
from a3c_zoo.config import EnvConfig
from a3c_zoo.errors import ZooError
from a3c_zoo.learning import mujoco
from a3c_zoo.learning.environments import make_vector_env
from a3c_zoo.plugins.entries import EnvEntry
from a3c_zoo.runs.pictures import draw_once
from tests.toys_runs import command_line, environ
from tests.waits import LIMIT_S
from tests.wheels import ROOT

HOPPER = EnvEntry("hopper", env_id="Hopper-v5")
#: Steps of a training whose episodes are short: with random actions Hopper falls after about 20.
STEPS = 400


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mujoco")
    folder = tmp_path_factory.mktemp("hopper")
    overrides = {"run.evaluation_episodes": 2, "run.stop_when_solved": False}
    return a3c_zoo.train("gym:Hopper-v5", steps=STEPS, workers=2, seed=3, runs_dir=folder, overrides=overrides).run


def zoo(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "a3c_zoo", *arguments],
        cwd=folder,
        env=environ() | variables,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )


def test_two_workers_train_and_the_policy_is_evaluated(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    episodes = (run / "monitor.csv").read_text().splitlines()
    worker = episodes[1].split(",").index("worker")
    workers = {line.split(",")[worker] for line in episodes[2:]}
    assert workers == {"0", "1"}
    assert command_line("evaluate", str(run), "--episodes", "3") == 0
    assert "3 episodes" in capfd.readouterr().out


@pytest.mark.parametrize("agent", ["a3c", "sb3-ppo"])
def test_a_start_prints_no_warning(tmp_path: Path, agent: str) -> None:
    """HalfCheetah is the one about which later versions complain; they write a file, too."""
    pytest.importorskip("mujoco")
    done = zoo(tmp_path, "train", "gym:HalfCheetah-v5", "--steps", "64", "--agent", agent, "-o", "n_steps=32")
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    assert not list(tmp_path.rglob("MUJOCO_LOG.TXT"))


def test_drawing_without_a_display(run: Path, tmp_path: Path) -> None:
    variables = {"DISPLAY": "", "WAYLAND_DISPLAY": "", "PYTHONWARNINGS": "error::UserWarning"}
    film = tmp_path / "hopper.mp4"
    done = zoo(tmp_path, "play", str(run), "--checkpoint", "final", "--video", str(film), **variables)
    if ctypes.util.find_library("EGL"):
        assert (done.returncode, done.stderr) == (0, "")
        assert film.stat().st_size > 1000
    else:
        assert done.returncode == 2
        assert "without a display it needs libEGL and MUJOCO_GL=egl" in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Gymnasium frees its viewer too late
@pytest.mark.parametrize(("kwargs", "is_followed"), [({}, True), ({"camera_id": -1}, False)])
def test_the_camera_follows_the_body(
    kwargs: dict[str, int], is_followed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty metres on, the body is in the picture: the picture is another one without it."""
    pytest.importorskip("mujoco")
    if not ctypes.util.find_library("EGL"):
        pytest.skip("MuJoCo cannot draw here")
    monkeypatch.setenv("MUJOCO_GL", "egl")
    with closing(make_vector_env(HOPPER, EnvConfig(kwargs=kwargs), 1, 0, "rgb_array")) as made:
        envs: Any = made
        envs.reset(seed=1)
        env = envs.envs[0].unwrapped
        qpos = env.data.qpos.copy()
        qpos[0] = 30
        env.set_state(qpos, env.data.qvel)
        (seen,) = envs.render()
        env.model.geom_rgba[1:, 3] = 0  # all but the floor
        (without,) = envs.render()
    assert np.array_equal(seen, without) is not is_followed


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Gymnasium frees what it has not made
def test_what_drawing_needs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mujoco")
    monkeypatch.setenv("MUJOCO_GL", "crayons")
    expected = r"^environment 'hopper' cannot be drawn: MuJoCo cannot draw with MUJOCO_GL crayons: without a display"
    with pytest.raises(ZooError, match=expected):
        draw_once(HOPPER, EnvConfig())
    gc.collect()


def test_another_fault_is_not_one_of_drawing() -> None:
    with pytest.raises(IndexError) as caught:
        np.zeros(2)[5]
    assert mujoco.drawing_cure(caught.value) == ""


def test_a_display_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mujoco, "has_display", lambda: True)
    assert mujoco.drawing_variables() == {}
    monkeypatch.setattr(mujoco, "has_display", lambda: False)
    assert mujoco.drawing_variables() == ({"MUJOCO_GL": "egl"} if sys.platform == "linux" else {})


@pytest.mark.parametrize(("version", "fits"), [("2.3.7", False), ("3.5.0", True), ("3.17.0", False), ("4.0.0", False)])
def test_versions(monkeypatch: pytest.MonkeyPatch, version: str, fits: bool) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: version)
    assert bool(mujoco.wrong_version()) is not fits


@pytest.mark.parametrize(("version", "agent"), [("3.17.0", "a3c"), ("4.0.0", "sb3-ppo")])
def test_a_version_that_does_not_fit(tmp_path: Path, version: str, agent: str) -> None:
    info = tmp_path / "other" / f"mujoco-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: mujoco\nVersion: {version}\n")
    path = os.pathsep.join([str(info.parent), environ()["PYTHONPATH"]])
    done = zoo(tmp_path, "train", "gym:Hopper-v5", "--steps", "10", "--agent", agent, PYTHONPATH=path)
    assert done.returncode == 2
    assert done.stderr == (
        f"Error: environment 'gym:Hopper-v5' cannot be made: mujoco {version} is installed, needed: >=3.5,<3.16. "
        f"pip install -c {ROOT}/constraints.txt -e '{ROOT}[mujoco]'\n"
    )


def test_the_environments_of_others_do_not_need_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: "4.0.0")
    make_vector_env(EnvEntry("pole", env_id="CartPole-v1"), EnvConfig(), 1, 0).close()
    with pytest.raises(ZooError, match=r"'hopper' cannot be made: mujoco 4\.0\.0"):
        make_vector_env(HOPPER, EnvConfig(), 1, 0)


def test_it_is_not_installed(tmp_path: Path) -> None:
    package = tmp_path / "none" / "mujoco"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'mujoco'\", name='mujoco')\n")
    path = os.pathsep.join([str(package.parent), environ()["PYTHONPATH"]])
    done = zoo(tmp_path, "train", "gym:Hopper-v5", "--steps", "10", PYTHONPATH=path)
    assert done.returncode == 2
    assert done.stderr == (
        "Error: environment 'gym:Hopper-v5' needs a package that is not installed: "
        f"pip install -c {ROOT}/constraints.txt -e '{ROOT}[mujoco]'\n"
    )


def test_the_range_is_that_of_the_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (needed,) = [each for each in map(Requirement, extras["mujoco"]) if each.name == "mujoco"]
    assert needed.specifier == Requirement(f"mujoco{mujoco.VERSIONS}").specifier
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    assert needed.specifier.contains(pins["mujoco"])
