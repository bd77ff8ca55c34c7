"""Two comparisons at once in one folder: real processes share runs, evaluations and nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from a3c_zoo.engines import shared_folder as reservations
from a3c_zoo.engines.shared_folder import LOCKS_DIR, reserved
from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.report import places as report_places
from a3c_zoo.store.directory import RunDirectory
from tests.shared import made_once
from tests.toys_runs import environ
from tests.waits import LIMIT_S

ARGUMENTS = ["compare", "cartpole", "--baseline", "random", "--seeds", "1", "--steps", "2000", "--yes"]


class Pair(NamedTuple):
    """Two comparisons that were started together: their folder, what they printed, and the results of both reports."""

    folder: Path
    said: list[str]
    results: list[dict[str, Any]]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """They differ in their numbers of episodes, and have no `--out`."""
    folder = made_once(tmp_path_factory, "pair", compare_twice)
    said = json.loads((folder / "said.json").read_text())
    reports = {out: next(line for line in out.splitlines() if line.endswith("results.json")) for out in said}
    return Pair(folder, [*reports], [json.loads((folder / path.strip()).read_text()) for path in reports.values()])


def compare_twice(folder: Path) -> None:
    """Starts both together; what they print goes to said.json."""
    command = [sys.executable, "-m", "a3c_zoo", *ARGUMENTS, "--episodes"]
    env = environ() | {"OMP_NUM_THREADS": "1"}
    both = [
        subprocess.Popen([*command, str(n)], cwd=folder, env=env, stdout=-1, stderr=-1, stdin=-3, text=True)
        for n in (2, 3)
    ]
    ended = [process.communicate(timeout=3 * LIMIT_S) for process in both]
    assert [process.returncode for process in both] == [0, 0], ended
    (folder / "said.json").write_text(json.dumps([out for out, _ in ended]))


@pytest.mark.slow
def test_each_run_is_trained_once_and_used_by_both(pair: Pair) -> None:
    runs = sorted(path.parent for path in pair.folder.glob("runs/*/meta.json"))
    assert len(runs) == 2
    assert all((run / "timing.json").exists() for run in runs)
    ends = Counter(
        line.split(": ")[1].split(",")[0] for said in pair.said for line in said.splitlines() if " → " in line
    )
    # The second finds a run when it plans, or waits for it.
    assert ends["trained"] == 2
    assert ends["trained by another comparison"] + ends["finished before"] == 2
    assert pair.results[0]["runs"][0]["run"] == pair.results[1]["runs"][0]["run"]


@pytest.mark.slow
def test_each_report_is_whole_and_has_its_own_evaluations(pair: Pair) -> None:
    assert [results["evaluation_episodes"] for results in pair.results] == [[2], [3]]
    assert all(results["left_out"] == {} for results in pair.results)
    assert all(run["final_return"] is not None for results in pair.results for run in results["runs"])
    folders = sorted((pair.folder / "comparisons").iterdir())
    assert [len(list(folder.iterdir())) for folder in folders] == [6, 6]


@pytest.mark.slow
def test_nothing_is_left_but_locks(pair: Pair) -> None:
    assert all(path.stat().st_size == 0 for path in (pair.folder / "runs" / LOCKS_DIR).iterdir())
    assert not [path for path in pair.folder.rglob("*") if ".tmp" in path.name]


# Turns


@contextmanager
def holder(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds a reservation, and gives signs of life."""
    source = (
        "import sys, time\nfrom pathlib import Path\nfrom a3c_zoo.engines.shared_folder import reserved\n"
        "with reserved(Path(sys.argv[1]), 'x', 'works', print) as give_sign:\n"
        "    print('holds', flush=True)\n"
        "    while True:\n        give_sign()\n        time.sleep(0.05)\n"
    )
    with subprocess.Popen([sys.executable, "-c", source, str(folder)], stdout=-1, text=True, env=environ()) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "holds\n"
            yield process
        finally:
            process.kill()


def test_a_reservation_is_free_at_once_when_its_holder_is_killed(tmp_path: Path) -> None:
    said: list[str] = []
    with holder(tmp_path) as process:
        process.kill()
        process.wait(LIMIT_S)
        with reserved(tmp_path, "x", "works", said.append):
            assert said == []


def test_a_holder_without_a_sign_of_life_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservations, "PATIENCE_S", 1.0)
    said: list[str] = []
    with holder(tmp_path) as process:
        os.kill(process.pid, signal.SIGSTOP)
        with reserved(tmp_path, "x", "works", said.append):
            pass
    assert said == [
        "waiting: another comparison works",
        "another comparison works, but has given no sign of life for 1 s; going on without it",
    ]


def test_a_holder_that_lives_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservations, "PATIENCE_S", 1.5)  # a busy machine may be as long between a sign and a look
    said: list[str] = []
    with ExitStack() as held:
        give_sign = held.enter_context(reserved(tmp_path, "x", "works", print))
        end_s = time.monotonic() + 2 * reservations.PATIENCE_S

        def between_two_looks() -> None:
            give_sign()
            if time.monotonic() > end_s:
                held.close()

        with reserved(tmp_path, "x", "works", said.append, between_two_looks):
            assert time.monotonic() > end_s
    assert said == ["waiting: another comparison works"]


def test_what_ends_the_waiting_is_no_fault_of_the_disk(tmp_path: Path) -> None:
    """InterruptedError is an OSError."""

    def ended() -> None:
        raise InterruptedError("other work has failed")

    with (
        reserved(tmp_path, "x", "works", print),
        pytest.raises(InterruptedError, match="other work has failed"),
        reserved(tmp_path, "x", "works", lambda line: None, ended),
    ):
        pass


def test_a_folder_that_cannot_be_written_has_no_reservations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    with reserved(tmp_path, "x", "works", print) as give_sign:
        give_sign()
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    (tmp_path / LOCKS_DIR).touch()
    with (
        pytest.raises(RunDirectoryError, match=r"cannot make \S+/\.turns: File exists"),
        reserved(tmp_path, "x", "", print),
    ):
        pass


def test_looking_at_a_run_does_not_make_it_seem_to_run(tmp_path: Path) -> None:
    (tmp_path / "run.lock").touch()
    source = (
        "import sys\nfrom pathlib import Path\nfrom a3c_zoo.store import directory\n"
        "directory.LOCK_PATIENCE_S = 5.0  # the resume may have to wait for a core while it has the lock\n"
        "run = directory.RunDirectory(Path(sys.argv[1]))\nprint('looks', flush=True)\n"
        "assert not any([run.is_running() for _ in range(20_000)])\n"
    )
    lookers = [
        subprocess.Popen([sys.executable, "-c", source, str(tmp_path)], env=environ(), stdout=-1) for _ in range(2)
    ]
    for each in lookers:
        assert each.stdout is not None
        each.stdout.readline()
    for _ in range(20):  # a resume takes the lock while they look
        directory = RunDirectory(tmp_path)
        directory.lock()
        directory.unlock()
    assert [each.wait(LIMIT_S) for each in lookers] == [0, 0]


# Folders of reports


def test_a_report_takes_the_next_free_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out-5").mkdir()
    (tmp_path / "out-5/results.json").touch()
    Path("out-4").touch()
    with ExitStack() as held:
        claim = report_places.claimed
        assert [held.enter_context(claim(Path("out"))) for _ in range(3)] == [Path("out"), Path("out-2"), Path("out-3")]
        assert held.enter_context(claim(Path("out"))) == Path("out-6")
        assert held.enter_context(claim(Path("."))) == Path(".")
        assert held.enter_context(claim(Path("."))) == Path(f"{tmp_path}-2")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out-4", "out-5"]  # nothing was written
    assert not Path(f"{tmp_path}-2").exists()


def test_two_that_begin_in_the_same_second_have_a_folder_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    now = type("Now", (), {"now": staticmethod(lambda: datetime(2026, 11, 22, 12, 0, 5))})
    monkeypatch.setattr(report_places, "datetime", now)
    first, second = (report_places.choose_out(None, ["pong"]) for _ in range(2))
    with report_places.claimed(first) as one, report_places.claimed(second) as other:
        assert [str(one), str(other)] == ["comparisons/pong-20261122-120005", "comparisons/pong-20261122-120005-2"]
