"""Checkpoints: whole or not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.runs.checkpoints import checkpoint_steps, load_checkpoint, save_checkpoint
from a3c_zoo.runs.directory import RunDirectory
from tests.test_recorder import file_size_limit
from tests.toys_runs import Running

CONTENT: dict[str, object] = {"agent": {}, "session": {}}
WRITER = """
import sys, torch
from pathlib import Path
from a3c_zoo.runs.checkpoints import save_checkpoint
from a3c_zoo.runs.directory import RunDirectory

directory, step = RunDirectory(Path(sys.argv[1])), 0
while True:
    step += 1
    save_checkpoint(directory, step, {"agent": torch.full((1_000_000,), step), "session": 0})
"""


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    (tmp_path / "checkpoints").mkdir()
    return RunDirectory(tmp_path)


def test_save_and_load(directory: RunDirectory) -> None:
    content = {"numbers": [1, 2**127, 0.5], "nested": {"text": "x", "nothing": None}}
    path = save_checkpoint(directory, 7, {"agent": torch.arange(3), "session": content})
    save_checkpoint(directory, 12, {"agent": 1, "session": {}})
    assert path.name == "step-000000000007.pt"
    assert path.stat().st_mode & 0o777 == 0o666 & ~current_umask()
    assert checkpoint_steps(directory) == [7, 12]
    loaded = load_checkpoint(directory, "7")
    assert loaded.pop("agent").tolist() == [0, 1, 2]
    assert loaded == {"format": 1, "session": content}
    assert load_checkpoint(directory)["agent"] == load_checkpoint(directory, "000012")["agent"] == 1


def current_umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def test_an_unknown_step(directory: RunDirectory) -> None:
    with pytest.raises(RunDirectoryError, match=r"has no checkpoint$"):
        load_checkpoint(directory)
    save_checkpoint(directory, 7, CONTENT)
    for which in ("8", "last", "-7", "7.0", ""):
        with pytest.raises(RunDirectoryError, match=f"has no checkpoint '{which}'; it has: final, 7"):
            load_checkpoint(directory, which)


def test_what_looks_like_a_checkpoint(directory: RunDirectory) -> None:
    save_checkpoint(directory, 7, CONTENT)
    for name in (".step-000000000009.pt.tmp", "step-000000000009.pt.tmp", "step-9.pt.old", "step-x.pt", "best.pt"):
        (directory.checkpoints / name).write_bytes(b"half")
    assert checkpoint_steps(directory) == [7]


@pytest.mark.parametrize("damage", ["empty", "short", "text", "code", "other", "part"])
def test_a_damaged_checkpoint(damage: str, directory: RunDirectory) -> None:
    save_checkpoint(directory, 5, CONTENT)
    path = save_checkpoint(directory, 7, CONTENT | {"data": torch.arange(1000)})
    match damage:
        case "empty":
            path.write_bytes(b"")
        case "short":
            path.write_bytes(path.read_bytes()[:-100])
        case "text":
            path.write_text("hello\n")
        case "code":  # what runs code when it is unpickled is not loaded
            torch.save({"format": 1, "code": Path.cwd}, path)
        case "other":
            torch.save([1, 2], path)
        case "part":
            torch.save({"format": 1, "agent": {}}, path)
    with pytest.raises(RunDirectoryError, match=r"step-000000000007.pt cannot be read") as raised:
        load_checkpoint(directory)
    assert "\n" not in str(raised.value)
    assert "The one before it is at step 5" in str(raised.value)
    assert load_checkpoint(directory, "5")


def test_a_checkpoint_of_another_format(directory: RunDirectory) -> None:
    torch.save({"format": 99}, directory.checkpoints / "step-000000000007.pt")
    with pytest.raises(RunDirectoryError, match="has format 99; this version reads 1"):
        load_checkpoint(directory)


def test_a_full_disk_costs_nothing_that_was_there(directory: RunDirectory) -> None:
    save_checkpoint(directory, 7, CONTENT | {"data": torch.arange(1000)})
    with file_size_limit(5000):
        for step in (7, 8):
            with pytest.raises(RunDirectoryError, match=rf"cannot write .*step-00000000000{step}.pt: File too large"):
                save_checkpoint(directory, step, CONTENT | {"data": torch.arange(10_000)})
    assert [path.name for path in directory.checkpoints.iterdir()] == ["step-000000000007.pt"]
    assert len(load_checkpoint(directory)["data"]) == 1000


def test_killed_while_writing(directory: RunDirectory, tmp_path: Path) -> None:
    """kill -9 in a loop that does nothing but write: whatever has a final name is whole."""
    with Running(WRITER, tmp_path, folder=tmp_path, program=("-c",)) as running:
        running.wait_until(lambda: len(checkpoint_steps(directory)) >= 5)
        running.process.kill()
        running.exit_status()
    steps = checkpoint_steps(directory)
    assert steps == list(range(1, len(steps) + 1))
    for step in steps:
        assert (load_checkpoint(directory, str(step))["agent"] == step).all()
