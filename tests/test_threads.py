"""Environments and threads: one that sets torch's number of threads changes none, and one that leaves threads ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from a3c_zoo.config import EnvConfig
from a3c_zoo.learning.environments import make_vector_env
from a3c_zoo.plugins.entries import EnvEntry
from a3c_zoo.testing import plugin_distribution
from tests.toys import ToyVectorEnv
from tests.toys_runs import environ
from tests.waits import LIMIT_S

#: It writes down how many threads a reset, and the first step after a reset, find. Each sets another number then.
#: Rewards are 0 until the evaluator has made a step: the run is not solved sooner.
SOURCE = """
import multiprocessing, os
import torch
from a3c_zoo import EnvEntry, hookimpl
from tests.toys import ToyVectorEnv

class Setter(ToyVectorEnv):
    def __init__(self, num_envs):
        super().__init__(num_envs, scripts=[[([1.0], "terminated")]])
        torch.set_num_threads(3)

    def reset(self, **options):
        self.note("reset")
        self.is_first = True
        return super().reset(**options)

    def step(self, actions):
        if self.is_first:
            self.note("step")
        self.is_first = False
        torch.set_num_threads(3)
        observation, reward, *others = super().step(actions)
        return observation, reward * os.path.exists(os.environ["EVALUATED"]), *others

    def note(self, what):
        name = multiprocessing.current_process().name
        with open(os.environ["NOTES"], "a") as file:
            file.write(f"{name}:{what}:{torch.get_num_threads()}\\n")
        if (name, what) == ("a3c-zoo evaluator", "step"):
            open(os.environ["EVALUATED"], "w").close()
        torch.set_num_threads(3)

def make(num_envs, seed):
    return Setter(num_envs)

@hookimpl
def zoo_envs():
    return [EnvEntry("setter", factory="zoo_setter:make", threshold=1.0)]
"""


@pytest.mark.parametrize("serial", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_process_of_a_run_keeps_one_thread(tmp_path: Path, serial: bool) -> None:
    path = plugin_distribution(tmp_path / "plugin", "zoo-setter", SOURCE)
    options = ["-o", "run.workers=2", "-o", "run.evaluation_every_steps=500", "-o", "network.name=mlp"]
    command = [sys.executable, "-m", "a3c_zoo", "train", "setter", "--steps", "10000000", *options]
    command += ["--serial"] if serial else []
    notes, evaluated = tmp_path / "notes", tmp_path / "evaluated"
    if serial:  # without an evaluator of its own
        evaluated.touch()
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environ(path) | {"NOTES": str(notes), "EVALUATED": str(evaluated), "OMP_NUM_THREADS": "2"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    assert "episodes on fresh seeds" in done.stdout  # the solved check
    found = {(name, what, int(threads)) for name, what, threads in (row.split(":") for row in notes.open())}
    others = {"a3c-zoo worker 0", "a3c-zoo worker 1", "a3c-zoo evaluator", "a3c-zoo solved check"}
    names = {"MainProcess"} if serial else others
    found.discard(("a3c-zoo probe", "reset", 1))  # it looks for action masks
    assert found == {(name, what, 1) for name in names for what in ("reset", "step")}


def test_an_environment_is_made_without_a_change_of_threads() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        make_vector_env(EnvEntry("two", factory=f"{__name__}:make_with_three"), EnvConfig(), 1, 0).close()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def make_with_three(num_envs: int, seed: int) -> ToyVectorEnv:
    torch.set_num_threads(3)
    return ToyVectorEnv(num_envs)


LEAVES_THREADS = """
import threading
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

class Left(CartPoleEnv):
    def __init__(self, render_mode=None):
        super().__init__()
        threading.Thread(target=threading.Event().wait, name="simulator").start()

gymnasium.register("Left-v0", entry_point="leaves_threads:Left")
"""
UPLOADS = """
import threading, time
from pathlib import Path
import click
from a3c_zoo import CommandEntry, hookimpl

def upload():
    time.sleep(2)
    Path("uploaded").touch()

@click.command()
def command():
    threading.Thread(target=upload).start()

@hookimpl
def zoo_commands():
    return [CommandEntry("upload", "uploads:command", "Upload.")]
"""
LEFT = "Warning: threads that were left are ended: simulator. Cure: end them in close()"


def command_with_a_grace(grace_s: float, *words: str) -> list[str]:
    code = f"import a3c_zoo.__main__ as it; it.THREADS_GRACE_S = {grace_s}; it.main()"
    return [sys.executable, "-c", code, *words]


@pytest.mark.parametrize(("options", "status"), [((), 0), (("--agent", "monte-carlo", "-o", "agent.n_steps=5"), 2)])
def test_a_command_ends_though_an_environment_leaves_threads(
    options: tuple[str, ...], status: int, tmp_path: Path
) -> None:
    """Python waits for threads that are no daemons, and Ctrl-C is ignored by then."""
    (tmp_path / "leaves_threads.py").write_text(LEAVES_THREADS)
    words = ("train", "gym:leaves_threads:Left-v0", "--serial", "--steps", "100", "--quiet", *options)
    command = command_with_a_grace(0.5, *words)
    done = subprocess.run(command, cwd=tmp_path, env=environ(), stderr=subprocess.PIPE, text=True, timeout=LIMIT_S)
    assert done.returncode == status
    assert done.stderr.splitlines()[-1] == LEFT


def test_it_ends_though_nobody_reads_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "leaves_threads.py").write_text(LEAVES_THREADS)
    words = ("train", "gym:leaves_threads:Left-v0", "--serial", "--steps", "100", "--quiet")
    with subprocess.Popen(command_with_a_grace(0.5, *words), cwd=tmp_path, env=environ(), stderr=subprocess.PIPE) as it:
        assert it.stderr is not None
        it.stderr.close()
        assert it.wait(LIMIT_S) == 0


def test_threads_of_a_plugins_command_are_waited_for(tmp_path: Path) -> None:
    (tmp_path / "uploads.py").write_text(UPLOADS)
    command = command_with_a_grace(0.1, "--plugin", "uploads.py", "upload")
    done = subprocess.run(command, cwd=tmp_path, env=environ(), stderr=subprocess.PIPE, text=True, timeout=LIMIT_S)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "uploaded").exists()
