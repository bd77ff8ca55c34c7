"""What surrounds a command and cannot be used: one clear line each, exit status 2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.toys_runs import command_line, environ

Captured = pytest.CaptureFixture[str]


def refused(line: str, folder: Path, *arguments: str | bytes, **variables: str) -> str:
    """Runs `line` in bash, with `a3c-zoo` and the arguments as "$@"; returns what it says in one line."""
    command = ["bash", "-c", line, "bash", sys.executable, "-m", "a3c_zoo", *arguments]
    ended = subprocess.run(command, cwd=folder, env=environ() | variables, capture_output=True, check=False)
    err = ended.stderr.decode()
    assert ended.returncode == 2, err
    assert err.startswith("Error: ")
    assert err.count("\n") == 1, err
    return err.removeprefix("Error: ").removesuffix("\n")


def test_a_folder_for_temporary_files_with_a_long_path(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    message = refused('"$@"', tmp_path, "train", "cartpole", TMPDIR=str(folder))
    assert message.startswith(f"TMPDIR is too long ({len(str(folder))} bytes; about 75 are possible)")
    assert message.endswith("Choose a shorter one: TMPDIR=/tmp a3c-zoo …")
    assert not (tmp_path / "runs").exists()
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("arguments", "size"),
    [
        (["cartpole"], "8k"),
        pytest.param(["pong", "--agent", "a3c-data"], "1m", marks=pytest.mark.slow),
        pytest.param(["cartpole", "--agent", "a3c", "-o", "agent.locking=apply"], "16k", marks=pytest.mark.slow),
    ],
)
def test_shared_memory_that_is_too_small(arguments: list[str], size: str, tmp_path: Path) -> None:
    """As in a container of docker, in a mount namespace of its own."""
    mount = f"mount -t tmpfs -o size={size} tmpfs /dev/shm"
    if subprocess.run(["unshare", "-m", "bash", "-c", mount], check=False, capture_output=True).returncode:
        pytest.skip("cannot mount here")
    message = refused(f'unshare -m bash -c \'{mount} && exec "$@"\' bash "$@"', tmp_path, "train", *arguments)
    assert message.startswith("shared memory (/dev/shm) has no room for ")
    assert "docker run --shm-size=1g" in message


def test_shared_memory_that_is_mounted_for_reading(tmp_path: Path) -> None:
    mount = "mount -t tmpfs -o ro tmpfs /dev/shm"
    if subprocess.run(["unshare", "-m", "bash", "-c", mount], check=False, capture_output=True).returncode:
        pytest.skip("cannot mount here")
    message = refused(f'unshare -m bash -c \'{mount} && exec "$@"\' bash "$@"', tmp_path, "train", "cartpole")
    assert message.startswith("shared memory (/dev/shm) cannot be written: ")
    assert message.endswith("Mount it for writing: docker run --tmpfs /dev/shm")


PLUGIN = ["--plugin", "p.py", "list", "envs"]


def test_a_folder_that_was_removed(tmp_path: Path) -> None:
    for command in (
        ["train", "cartpole"],
        ["train", "cartpole", "--serial", "--runs-dir", "/tmp/x"],
        ["list", "envs"],
        PLUGIN,
    ):
        (tmp_path / "here").mkdir()
        message = refused('cd here && rmdir ../here && "$@"', tmp_path, *command)
        assert message == "the current folder has been removed; go to another (cd), and try again"


NOT_UTF_8 = r"'n\xff' is not UTF-8; rename the file or folder, or choose another name"


def test_a_name_that_is_not_utf_8(tmp_path: Path) -> None:
    assert refused('"$@"', tmp_path, "train", "cartpole", "--name", b"n\xff") == NOT_UTF_8
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    ["train cartpole --runs-dir", "train cartpole --hyperparams", "train", "compare --from", "plot"],
)
def test_names_that_are_not_utf_8(
    arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """As Python has the arguments of a process."""
    monkeypatch.chdir(tmp_path)
    assert command_line(*arguments.split(), os.fsdecode(b"n\xff")) == 2
    assert capsys.readouterr().err == f"Error: {NOT_UTF_8}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_folder_whose_name_is_not_utf_8_is_no_fault(tmp_path: Path) -> None:
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/n\xff")
    os.mkdir(folder)
    command = [sys.executable, "-m", "a3c_zoo", "train", "cartpole", "--steps", "500", "--quiet", "--name", "x"]
    ended = subprocess.run(command, cwd=folder, env=environ(), capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.parametrize("number", [2**63, 10**30])
@pytest.mark.parametrize(
    "option",
    [
        "run.workers",
        "run.seed",
        "run.steps",
        "run.episodes",
        "run.checkpoint_every_steps",
        "run.evaluation_every_steps",
        "run.evaluation_episodes",
        "run.evaluator_episodes",
        "env.num_envs",
        "env.max_episode_steps",
        "agent.n_steps",
        "agent.update_samples",
        "optimizer.schedule_steps",
    ],
)
def test_integers_that_need_more_than_64_bits(option: str, number: int, capsys: Captured) -> None:
    assert command_line("show", "hyperparams", "cartpole", "-o", f"{option}={number}") == 2
    err = capsys.readouterr().err
    assert f"{option}: {number} — must be " in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("option", ["--steps", "--episodes", "--workers", "--seed"])
def test_options_that_need_more_than_64_bits(option: str, tmp_path: Path, capsys: Captured) -> None:
    assert command_line("train", "cartpole", option, 2**63, "--runs-dir", tmp_path / "runs") == 2
    err = capsys.readouterr().err
    assert err.startswith(f"Error: {option} run.{option[2:]}: {2**63} — must be ")
    assert err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("option", ["--steps", "--episodes"])
def test_the_largest_budget(option: str, tmp_path: Path, capsys: Captured) -> None:
    """Counters of 64 bits hold it, and the episodes beyond it, too."""
    options = ["--quiet", option, 2**62 - 1, "--time-limit", "1s", "--runs-dir", tmp_path]
    assert command_line("train", "cartpole", *options) == 0
    assert capsys.readouterr().err == ""
