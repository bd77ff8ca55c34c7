"""The folder of a process's sockets: it goes with the process, or after one that was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from a3c_zoo.processes.temporary_folder import OWNER_FILE, PREFIX, YOUNGEST_S
from tests.waits import LIMIT_S

#: A program that trains in processes would take seconds; this starts the fork server as it does.
PROGRAM = """
import sys
from a3c_zoo.processes.start import warm_up
if __name__ == "__main__":
    warm_up()
    print("ready", flush=True)
    if sys.argv[1] == "waits":
        input()
"""


def folders(parent: Path) -> list[Path]:
    return sorted(parent.glob(f"{PREFIX}*"))


def started(folder: Path, how: str) -> subprocess.Popen[str]:
    script = folder / "program.py"
    script.write_text(PROGRAM)
    environment = os.environ | {"TMPDIR": str(folder)}
    process = subprocess.Popen(
        [sys.executable, script, how], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def make_old(paths: Sequence[Path]) -> None:
    for path in paths:
        before_s = time.time() - YOUNGEST_S - 1
        os.utime(path / OWNER_FILE, (before_s, before_s))


@pytest.fixture
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A path that a socket may have is at most 107 bytes long."""
    return tmp_path_factory.mktemp("t")


def test_a_process_removes_its_folder(short: Path) -> None:
    process = started(short, "ends")
    assert process.wait(LIMIT_S) == 0
    assert folders(short) == []
    assert list(short.glob("pymp-*")) == []


def test_the_folder_of_a_killed_process_is_removed_by_a_later_one(short: Path) -> None:
    living, killed = started(short, "waits"), started(short, "waits")
    try:
        killed.send_signal(signal.SIGKILL)
        killed.wait(LIMIT_S)
        assert len(folders(short)) == 2
        another = started(short, "ends")  # all are young: one of them may be about to be locked
        assert another.wait(LIMIT_S) == 0
        assert len(folders(short)) == 2
        make_old(folders(short))
        planted = short / f"{PREFIX}planted"
        planted.mkdir()
        (planted / OWNER_FILE).symlink_to(short / "program.py")
        last = started(short, "ends")
        assert last.wait(LIMIT_S) == 0
        (left,) = [path for path in folders(short) if path != planted]
        assert (short / "program.py").exists()
    finally:
        living.communicate("\n", timeout=LIMIT_S)
    assert living.returncode == 0
    assert not left.exists()
