"""One fault of the chaos program, or two minutes, and what it refuses. Longer: `make chaos`."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.chaos.__main__ import main
from tests.toys_runs import ROOT
from tests.waits import LIMIT_S


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder for temporary files, and so for the lock, that no other chaos program has; sockets need a short path."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def chaos(temporary: Path, *arguments: str, limit_s: float = LIMIT_S) -> subprocess.CompletedProcess[str]:
    """Runs the program, which takes less of busy cores than other tests do: its trainings use as much as they get."""
    command = ["nice", "-n", "5", sys.executable, "-m", "benchmarks.chaos", *arguments]
    variables = os.environ | {"TMPDIR": str(temporary)}
    return subprocess.run(
        command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=limit_s, check=False
    )


@pytest.mark.timeout(120 + 5 * LIMIT_S)
@pytest.mark.parametrize(("minutes", "fewest"), [(0.05, 1), pytest.param(2, 4, marks=pytest.mark.slow)])
def test_faults_do_no_damage(minutes: float, fewest: int, temporary: Path) -> None:
    done = chaos(temporary, "--seed", "1", "--minutes", str(minutes), "--json", limit_s=120 + 4 * LIMIT_S)
    assert done.returncode == 0, done.stderr
    kinds = json.loads(done.stdout)["kinds"]
    assert sum(kind["faults"] for kind in kinds.values()) >= fewest, done.stderr
    assert all(kind["faults"] == kind["recovered"] + kind["ended"] for kind in kinds.values())


def test_it_wants_a_seed() -> None:
    done = CliRunner().invoke(main, [])
    assert done.exit_code == 2
    assert "Missing option '--seed'" in done.stderr


def test_it_runs_once_at_a_time(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with (temporary / "a3c-zoo-chaos.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = CliRunner().invoke(main, ["--seed", "1"])
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1] == "Error: another chaos program runs on this machine; wait for its end"
