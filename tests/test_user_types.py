"""A type checker sees the installed package: a user's script passes `mypy --strict`, and its types are known."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.shared import made_once
from tests.waits import LIMIT_S
from tests.wheels import zoo_dist

SCRIPT = """
from __future__ import annotations

import a3c_zoo
import gymnasium
import numpy as np
from numpy.typing import NDArray


class Coin(gymnasium.Env[NDArray[np.float32], np.int64]):
    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)


outcome = a3c_zoo.train("cartpole", steps=1000, progress=True, overrides={"agent.n_steps": 8})
a3c_zoo.train(Coin, serial=True)
a3c_zoo.train(lambda: Coin(), serial=True)
agent = a3c_zoo.load_agent(outcome)
a3c_zoo.plot(outcome).savefig("x.pdf")
reveal_type(outcome)
reveal_type(outcome.mean_return_100)
reveal_type(a3c_zoo.evaluate(agent).mean_return)
reveal_type(a3c_zoo.plot([outcome]))
reveal_type(a3c_zoo.plot([agent, "runs/x"], "x.pdf").path)
reveal_type(a3c_zoo.compare("cartpole", agents="a3c").verdict)
"""
TYPES = [
    "a3c_zoo.records.Outcome",
    "float | None",
    "float",
    "a3c_zoo.report.drawing.PlotFigure",
    "pathlib.Path",
    "tuple[str, ...]",
]


@pytest.mark.slow
def test_a_users_script(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The wheel lies in an environment of its own, outside the repository; its requirements are those of the tests."""
    wheel = next((made_once(tmp_path_factory, "build", zoo_dist) / "dist").glob("*.whl"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True, timeout=LIMIT_S)
    packages = next((tmp_path / "venv/lib").glob("python*")) / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    (packages / "requirements.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    (tmp_path / "user.py").write_text(SCRIPT)
    options = ["--strict", "--python-executable", str(tmp_path / "venv/bin/python"), "--cache-dir", "cache"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "user.py"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r'Revealed type is "([^"]+)"', done.stdout) == TYPES
