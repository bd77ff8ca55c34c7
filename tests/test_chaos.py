"""One fault of the chaos program, or two minutes, what it calls damage, and what it refuses. Longer: `make chaos`."""

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
from click import UsageError
from click.testing import CliRunner

from benchmarks.chaos.__main__ import BEGIN, Campaign, main
from benchmarks.chaos.faults import FAULTS
from benchmarks.chaos.mutants import MUTANTS, Mutant
from benchmarks.chaos.mutants import main as mutants_main
from benchmarks.chaos.trial import HUNG, DamageError, Trial
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
    done = chaos(
        temporary, "--seed", "1", "--minutes", str(minutes), "--trials", "1", "--json", limit_s=120 + 4 * LIMIT_S
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["faults"] >= fewest, done.stderr
    assert all(kind["faults"] == kind["right"] + kind["never_began"] for kind in told["kinds"].values())


class Puppet(Trial):
    """A trial whose command is a shell script."""

    script = "exit 0"

    def start(self, *more: str, output: int | None = None) -> None:
        with (self.folder / "log.txt").open("ab") as log:
            self._log_start = log.tell()
            self.process = subprocess.Popen(["sh", "-c", self.script], stdout=log, stderr=log, start_new_session=True)


def campaign(folder: Path) -> Campaign:
    return Campaign(1, folder, (), lambda text: None)


def puppet(folder: Path, script: str) -> Puppet:
    """A trial that has begun, with this script."""
    trial = Puppet(folder / "t", "cartpole", "a3c", 1, folder)
    trial.script = script
    trial.run.mkdir(parents=True)
    return trial


def event(kind: str, text: str) -> str:
    return json.dumps({"kind": kind, "text": text})


@pytest.mark.parametrize(
    ("script", "never_began", "damage"),
    [
        (f"echo Error: worker 0 {HUNG}: busy; exit 1", 1, []),
        (
            "echo Error: checkpoint x cannot be read; exit 2",
            0,
            [
                "trial 0, a3c on cartpole: the command ended before it trained: status 2, Error: checkpoint x cannot "
                "be read"
            ],
        ),
        ("exit 1", 0, ["trial 0, a3c on cartpole: the command ended before it trained: status 1, without a line"]),
        (
            "echo out; kill -SEGV $$",
            0,
            ["trial 0, a3c on cartpole: the command ended before it trained: status -11, out"],
        ),
    ],
)
def test_a_run_that_never_began_is_a_row_of_the_table(
    script: str, never_began: int, damage: list[str], tmp_path: Path
) -> None:
    trials, trial = campaign(tmp_path), puppet(tmp_path, script)
    assert not trials._try(trial, BEGIN, trial.begin)
    kind = trials.kinds[BEGIN]
    assert (kind.faults, kind.right, kind.never_began, kind.damage) == (1, 0, never_began, damage)
    assert "begin a run" in trials.table()


def test_a_fault_of_the_program_itself_is_a_row_of_the_table(tmp_path: Path) -> None:
    trials, trial = campaign(tmp_path), puppet(tmp_path, "exit 0")
    trial.start()
    assert not trials._try(trial, "kill a worker", lambda: [][-1])
    assert trials.kinds["kill a worker"].damage == ["trial 0, a3c on cartpole: IndexError: list index out of range"]
    assert (trials.num_faults, trials.num_damages) == (1, 1)


HANGS = f"worker 1 {HUNG}; a new one takes its place"


@pytest.mark.parametrize(
    ("fault", "events", "damage"),
    [
        ("kill a worker", [("worker_replaced", "worker 1 died")], ""),
        ("kill a worker", [("worker_replaced", "worker 0 died")], "no event worker_replaced"),
        ("kill a worker", [], "no event worker_replaced"),
        ("kill a worker", [("worker_replaced", "worker 1 died"), ("worker_replaced", HANGS)], ""),
        ("kill a worker", [("worker_replaced", "worker 1 died"), ("restarted", "lost")], "nothing explains: restarted"),
        ("suspend the run", [("worker_replaced", HANGS)], "nothing explains: worker_replaced"),
        ("fill the disk", [("disk_full", "worker 1 died")], "no event disk_recovered"),
        ("fill the disk", [("disk_full", "worker 1 died"), ("disk_recovered", "")], ""),
    ],
)
def test_events_that_are_missing_or_that_nothing_explains_are_damage(
    fault: str, events: list[tuple[str, str]], damage: str, tmp_path: Path
) -> None:
    trial = puppet(tmp_path, "")
    (trial.run / "events.jsonl").write_text("".join(f"{event(*each)}\n" for each in [("old", "one"), *events]))
    trials = campaign(tmp_path)
    if not damage:
        trials._check_events(trial, FAULTS[fault], 1, "worker 1 died")
        return
    with pytest.raises(DamageError, match=damage):
        trials._check_events(trial, FAULTS[fault], 1, "worker 1 died")


def test_a_wrong_end_is_damage(tmp_path: Path) -> None:
    trial = puppet(tmp_path, "echo Error: no; exit 2")
    trial.start()
    with pytest.raises(DamageError, match=r"it should end with 130, and has ended with status 2, Error: no"):
        campaign(tmp_path)._end(trial, 130)


def test_the_mutants_fit_the_code() -> None:
    assert len({mutant.safeguard for mutant in MUTANTS}) >= 12
    for mutant in MUTANTS:
        assert (ROOT / "a3c_zoo" / mutant.file).read_text().count(mutant.text) == 1, mutant.safeguard
        assert (mutant.kind in FAULTS) != bool(mutant.test)
        file, _, name = mutant.test.partition("::")
        assert not file or f"def {name.partition('[')[0]}(" in (ROOT / file).read_text()


@pytest.mark.slow
@pytest.mark.timeout(2000)
@pytest.mark.parametrize("safeguard", ["a dead worker is replaced", "a lock that died with its holder is noticed"])
def test_a_mutant_is_noticed(safeguard: str, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    done = CliRunner().invoke(mutants_main, ["--only", safeguard])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1] == "1 mutants, 1 noticed"


def test_a_mutant_that_nothing_notices_is_shown(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    test = "tests/test_durations.py::test_the_median_of_fewer_than_five_runs_has_no_interval"  # it needs no torch
    monkeypatch.setattr(
        "benchmarks.chaos.mutants.MUTANTS",
        [Mutant("none", "figures/statistics.py", "MIN_SEEDS: Final = 5", "MIN_SEEDS: Final = 2 + 3", test=test)],
    )
    done = CliRunner().invoke(mutants_main, [])
    assert done.exit_code == 1
    assert [line.split()[-1] for line in done.output.splitlines()[1:]] == ["NOTHING", "noticed"]


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


def test_the_only_kinds_come_in_turn(tmp_path: Path) -> None:
    kinds = ("kill the parent", "remove the run", "kill a worker")
    trials = Campaign(1, tmp_path, kinds, lambda text: None)
    assert trials._chosen("cartpole", "a3c", 4, False) == [
        *("kill the parent", "kill a worker", "kill the parent"),
        "remove the run",
    ]
    assert trials._chosen("cartpole", "a3c", 2, False) == ["kill the parent", "remove the run"]
    with pytest.raises(UsageError, match="needs root"):
        Campaign(1, tmp_path / "other", ("fill the disk",), lambda text: None)._place(has_disk=False)


def test_faults_that_were_tried_least_come_first(tmp_path: Path) -> None:
    """All 27 kinds that fit have come before one comes again."""
    trials = campaign(tmp_path)
    fitting = [name for name, fault in FAULTS.items() if fault.fits("chaos", "a3c-data", True) and not fault.is_last]
    chosen = [name for _ in range(3) for name in trials._chosen("chaos", "a3c-data", 9, True)]
    others = [name for name in chosen if not FAULTS[name].is_last]
    assert sorted(others) == sorted(fitting)
