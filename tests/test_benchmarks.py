"""The programs in benchmarks/ start, and what they measure inside the agents is still there."""

from __future__ import annotations

import csv
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waits import LIMIT_S

PROGRAMS = sorted((Path(__file__).parents[1] / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_it_says_what_it_measures(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = runpy.run_path(str(path))
    monkeypatch.setattr(sys, "argv", [path.name, "--help"])
    with pytest.raises(SystemExit) as left:
        program["main"]()
    assert left.value.code == 0
    assert program["__doc__"].partition("\n")[0] in capsys.readouterr().out


def test_the_stages_of_a_worker_are_timed(tmp_path: Path) -> None:
    program = runpy.run_path(str(PROGRAMS[0].with_name("atari.py")))["SPLIT"]
    command = [sys.executable, "-c", program, "pong", "1", str(tmp_path), "agent.n_steps=16"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    seconds = json.loads(done.stdout.splitlines()[-1])
    assert seconds.keys() == {"environment", "acting", "differentiating", "applying", "the rest"}
    assert min(seconds.values()) > 0


def test_the_benchmark_of_cartpole_measures_a_training(tmp_path: Path) -> None:
    program = runpy.run_path(str(PROGRAMS[0].with_name("cartpole.py")))
    result = program["train"]("a3c", 1, tmp_path, "--steps", "20000")
    assert (result.solved, result.seconds, result.steps) == (False, None, None)  # too few steps for 475
    assert result.steps_per_s > 0
    assert result.peak_memory_mib > 100  # torch's alone


def test_virtual_workers_learn_in_teams(tmp_path: Path) -> None:
    """Each option of the trials trains; the figures are those of the run."""
    trials: list[list[str]] = [
        [],
        ["agent.members=2"],
        ["agent.members=2", "agent.waits=false", "agent.anew=true"],
        ["agent.kl_limit=0.01", "agent.clipped_against=pulled"],
    ]
    for number, options in enumerate(trials):
        table = tmp_path / f"{number}.csv"
        command = [sys.executable, str(PROGRAMS[0].with_name("virtual_workers.py")), "--env", "cartpole"]
        command += ["--set", "a3c-ppo", "--workers", "4", "--steps", "3000", "--csv", str(table)]
        for option in options:
            command += ["-o", option]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=LIMIT_S)
        assert done.returncode == 0, done.stderr
        [row] = csv.DictReader(table.read_text().splitlines())
        assert row["options"] == " ".join(options)
        assert 3000 <= int(row["steps"]) < 3000 + 4 * 16 * 32
        assert 8 < float(row["at_1_4"]) < float(row["mean_return"])
