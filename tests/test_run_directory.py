"""Run directories: made once, locked while the run lives, and never trusted blindly."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import a3c_zoo
from a3c_zoo.config import AgentConfig, Config, EnvConfig, RunConfig
from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.records import Evaluation, Outcome
from a3c_zoo.store.directory import RunDirectory, describe_host, disk_errors, write_atomically
from a3c_zoo.store.run import Run, find_run, list_runs
from a3c_zoo.store.trained import find_policy
from tests.shared import closed
from tests.test_recorder import file_size_limit
from tests.toys_runs import Running

CONFIG = Config("my:env/x", "a3c", RunConfig.model_validate({}), EnvConfig.model_validate({}), AgentConfig())
META: dict[str, Any] = {"format": 1, "env": "cartpole", "agent": "a3c", "serial": True, "started": "2026-01-01T00:00"}
EVALUATION = Evaluation(100, 480.0, 10.0, 300.0, 500.0, 480.0, False, 0.4)
LOCKER = """
import sys, time
from pathlib import Path
from a3c_zoo.store.directory import RunDirectory

directory = RunDirectory(Path(sys.argv[1]))
directory.lock()
print("locked", flush=True)
time.sleep(600)
"""


def outcome(path: Path, evaluation: Evaluation | None = EVALUATION) -> Outcome:
    return Outcome(path, True, "solved", "d", 5, 4, 3, 1.0, 0.4, 0.1, 2.0, 3.5, 5.0, 481.0, evaluation)


def create(folder: Path, name: str | None = None) -> RunDirectory:
    directory = RunDirectory.create(folder, CONFIG, META, name)
    directory.unlock()
    return directory


def test_runs_without_a_name_never_share_a_directory(tmp_path: Path) -> None:
    paths = [create(tmp_path / "deep" / "runs").path for _ in range(5)]
    assert len(set(paths)) == 5
    assert all(path.name.startswith("my_env_x-a3c-s0-20") for path in paths)


def test_a_name_that_exists(tmp_path: Path) -> None:
    directory = create(tmp_path, "mine")
    before = {path: path.read_bytes() for path in directory.path.iterdir() if path.is_file()}
    refusal = r"mine exists already; nothing is overwritten\..*"
    with pytest.raises(RunDirectoryError, match=rf"{refusal}Choose another --name$"):  # no checkpoint to go on from
        create(tmp_path, "mine")
    directory.best_file.touch()
    with pytest.raises(RunDirectoryError, match=rf"{refusal}--resume mine$"):
        create(tmp_path, "mine")
    assert {path: path.read_bytes() for path in directory.path.iterdir() if path.is_file()} == before
    (tmp_path / "file").touch()
    with pytest.raises(RunDirectoryError, match="exists already"):
        create(tmp_path, "file")


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".", "..", ".hidden", "a b", "a\n", "a\0b", "x" * 300])
def test_a_name_that_cannot_be(name: str, tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError) as raised:
        create(tmp_path / "runs", name)
    assert "\n" not in str(raised.value)
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize("place", ["file", "file/runs", "/proc/runs"])
def test_a_place_that_cannot_be_made(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunDirectoryError, match=r"^cannot make .*\. Choose another: --runs-dir DIR$"):
        create(tmp_path / place)


def test_a_disk_that_is_full_from_the_start(tmp_path: Path) -> None:
    with file_size_limit(50), pytest.raises(RunDirectoryError, match=r"cannot write .*File too large"):
        create(tmp_path)


@pytest.mark.parametrize(
    ("number", "cure"),
    [
        (errno.ENOSPC, "Free space, or choose another: --out FILE"),
        (errno.EDQUOT, "Free space, or choose another: --out FILE"),
        (errno.EISDIR, "Choose another: --out FILE"),
        (errno.EACCES, "Choose another: --out FILE"),
    ],
)
def test_space_is_the_cure_for_a_full_disk_only(number: int, cure: str) -> None:
    message = f"^cannot write best.yml: {os.strerror(number)}. {cure}$"
    with pytest.raises(RunDirectoryError, match=message), disk_errors(Path("best.yml"), "write", "--out FILE"):
        raise OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("doing", "cure"),
    [
        ("write", "Free space, or begin a new run elsewhere: --runs-dir DIR"),  # this one keeps its place
        ("make", "Free space, or choose another: --runs-dir DIR"),
    ],
)
def test_the_cure_for_a_full_disk_of_a_run(doing: str, cure: str) -> None:
    with pytest.raises(RunDirectoryError, match=rf"^cannot {doing} x: .*\. {cure}$"), disk_errors(Path("x"), doing):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_command_with_thousands_of_words_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`python program.py data/*.csv`: nobody could read meta.json then."""
    monkeypatch.setattr(sys, "argv", ["program.py", *(f"data/{number}.csv" for number in range(100_000))])
    outcome = a3c_zoo.train("cartpole", agent="random", steps=100, runs_dir=tmp_path)
    assert Run(outcome.run).meta["command"] == ["program.py"]


def test_a_run_is_found_by_path_or_name(tmp_path: Path) -> None:
    directory = create(tmp_path, "mine")
    assert find_run(directory.path).path == find_run("mine", tmp_path).path == directory.path
    with pytest.raises(RunDirectoryError, match=r"no run 'mime' .*'mine'\?.* a3c-zoo"):
        find_run("mime", tmp_path)
    with pytest.raises(RunDirectoryError, match=r"it has no meta\.json"):
        find_run(tmp_path, tmp_path)
    for impossible in ("a\0b", "x" * 300):
        with pytest.raises(RunDirectoryError, match=r"^no run '"):
            find_run(impossible, tmp_path)


def test_the_name_itself_is_not_suggested(tmp_path: Path) -> None:
    (tmp_path / "mine/meta.json").mkdir(parents=True)
    with pytest.raises(RunDirectoryError, match=r"^no run 'mine' here or in \S+ See: "):
        find_run("mine", tmp_path)


def test_a_run_that_is_closed_to_the_user(tmp_path: Path) -> None:
    run = create(tmp_path, "mine").path
    told = f"^{run} cannot be read: Permission denied$"
    for folder in (run, tmp_path):
        with closed(folder), pytest.raises(RunDirectoryError, match=told):
            find_run(run, tmp_path)
    for name in ("mine", str(run)):
        with closed(run), pytest.raises(RunDirectoryError, match=told):
            find_policy(name, None, tmp_path, trust=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "meta.json cannot be read"),
        ("{", "meta.json cannot be read"),
        ("[1]", "meta.json cannot be read"),
        ("null", "meta.json cannot be read"),
        ('{"env": "cartpole"}', "meta.json cannot be read"),
        ('{"format": 1, "env": "cartpole"}', "is damaged: it has no agent and no serial"),
        ('{"format": 2, "env": "cartpole", "agent": "a3c", "serial": true}', "has run format 2; this version reads 1"),
        ('{"format": 2}', "has run format 2; this version reads 1. A newer a3c-zoo wrote it"),
        ('{"format": 0, "env": "x", "agent": "a", "serial": true}', "has run format 0; this version reads 1$"),
        ("\udc00", "meta.json cannot be read"),
    ],
)
def test_damaged_meta(text: str, message: str, tmp_path: Path) -> None:
    directory = create(tmp_path, "mine")
    directory.meta_file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(RunDirectoryError, match=message):
        _ = Run(directory.path).meta
    is_newer = "format 2" in message
    assert [run.status for run in list_runs(tmp_path)] == ["newer" if is_newer else "damaged"]


def test_the_outcome_comes_back_as_it_went(tmp_path: Path) -> None:
    directory = create(tmp_path, "mine")
    assert Run(directory.path).outcome is None
    for evaluation in (EVALUATION, None):
        written = outcome(directory.path, evaluation)
        directory.write_outcome(written)
        assert Run(directory.path).outcome == written
    assert set(json.loads(directory.outcome_file.read_text())) >= {
        "solved", "reason", "steps", "episodes", "updates", "training_s", "steps_per_s", "mean_return_100", "evaluation"
    }  # fmt: skip
    for text in ("", "{}", "[]", '{"evaluation": {"x": 1}}'):
        directory.outcome_file.write_text(text)
        with pytest.raises(RunDirectoryError, match=r"outcome.json is damaged"):
            _ = Run(directory.path).outcome
        assert list_runs(tmp_path)[0].status == "damaged"


def test_a_lock_is_held_by_one_process_and_ends_with_it(tmp_path: Path) -> None:
    directory = create(tmp_path, "mine")
    assert [run.status for run in list_runs(tmp_path)] == ["died"]
    with Running(LOCKER, directory.path, folder=tmp_path, program=("-c",)) as running:
        running.wait_until(lambda: "locked" in running.stdout)
        assert directory.is_running()
        assert [run.status for run in list_runs(tmp_path)] == ["running"]
        for closed_one, mode in ((directory.path, 0o555), (directory.path / "run.lock", 0o444)):  # to a colleague
            with closed(closed_one, mode):
                assert [run.status for run in list_runs(tmp_path)] == ["running"]
        with pytest.raises(RunDirectoryError, match="run mine is still running; stop it first"):
            directory.lock()
        running.process.kill()
        running.exit_status()
    assert not directory.is_running()
    directory.lock()
    with pytest.raises(RunDirectoryError, match="still running"):
        RunDirectory(directory.path).lock()  # by the same process, too
    directory.unlock()
    directory.write_outcome(outcome(directory.path))
    assert [run.status for run in list_runs(tmp_path)] == ["solved"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail(descriptor: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(KeyboardInterrupt):
            write_atomically(path, b"half of the new")
    with file_size_limit(2), pytest.raises(RunDirectoryError, match="cannot write"):
        write_atomically(path, b"the new")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "old"
    write_atomically(path, b"new")
    assert path.read_text() == "new"


def test_the_host_is_described() -> None:
    host = describe_host()
    assert {"python", "torch", "gymnasium", "a3c-zoo"} <= host["versions"].keys()
    assert host["host"]["cores"] >= 1
    json.dumps(host)
