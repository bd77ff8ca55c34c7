"""The jobs of the engine: what travels to and from machines, and which machine gets one. No Ray."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from a3c_zoo.engines import TrainCommand, TrainingJob
from a3c_zoo.errors import WorkerError

from a3c_zoo_ray import engine
from a3c_zoo_ray.job import Order, Piece, order_of, pieces_of, tell_given_paths, write_pieces
from a3c_zoo_ray.machines import Machine, difference, free_machine

COMMAND = TrainCommand("cartpole", "a3c", 1)


def test_a_run_directory_travels_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a3c_zoo_ray.job.PIECE_BYTES", 3)
    (tmp_path / "one/checkpoints").mkdir(parents=True)
    files = {"a.txt": b"", "b.txt": b"123", "checkpoints/c.pt": b"1234567"}
    for name, content in files.items():
        (tmp_path / "one" / name).write_bytes(content)
    (tmp_path / "one/link").symlink_to("/etc/passwd")
    pieces = tuple(pieces_of(tmp_path / "one"))
    assert [piece.data for piece in pieces] == [b"", b"123", b"123", b"456", b"7"]
    write_pieces(pieces, tmp_path / "two")
    found = {
        path.relative_to(tmp_path / "two").as_posix(): path.read_bytes() for path in (tmp_path / "two").rglob("*.*")
    }
    assert found == files


def test_a_damaged_piece_and_a_name_that_leads_out_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match=r"^a\.txt has arrived damaged$"):
        write_pieces((Piece("a.txt", b"1", "00"),), tmp_path)
    for name in ("../a.txt", "/tmp/a.txt"):
        with pytest.raises(WorkerError, match="which lies in no run directory"):
            write_pieces((Piece(name, b"1"),), tmp_path)


def test_a_run_directory_that_has_arrived_takes_no_place_of_others(tmp_path: Path) -> None:
    job = TrainingJob(COMMAND, 1, tmp_path, "one")
    arrived = tmp_path / "arriving/one"

    def arrive(text: str) -> None:
        arrived.mkdir(parents=True)
        (arrived / "monitor.csv").write_text(text)

    arrive("new")
    assert engine._put(arrived, job) is None
    arrive("resumed")
    assert engine._put(arrived, replace(job, resumes=True)) is None
    assert (tmp_path / "one/monitor.csv").read_text() == "resumed"
    assert not (tmp_path / "one-before-1").exists()
    for number in (1, 2):
        arrive(f"another {number}")
        fault = engine._put(arrived, job)
        where = tmp_path / f"one-arrived-{number}"
        assert fault == f"{job.path} has appeared meanwhile, and is not overwritten; the run is in {where}"
        assert (where / "monitor.csv").read_text() == f"another {number}"
    assert (tmp_path / "one/monitor.csv").read_text() == "resumed"


def test_a_run_is_never_only_in_the_folder_that_is_cleaned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = TrainingJob(COMMAND, 1, tmp_path, "one", resumes=True)
    arrived = tmp_path / ".one-arriving/one"
    arrived.mkdir(parents=True)
    job.path.mkdir()
    (job.path / "monitor.csv").write_text("before")
    rename = Path.rename

    def fail(path: Path, target: Path) -> Path:
        if path == arrived:
            assert (tmp_path / "one-before-1/monitor.csv").read_text() == "before"
            raise OSError("no space left")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OSError, match="no space left"):
        engine._put(arrived, job)
    assert (job.path / "monitor.csv").read_text() == "before"


def test_an_order_has_plugin_files_and_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("X = 1\n")
    monkeypatch.setenv("A3C_ZOO_PLUGIN_FILES", "mine.py")
    monkeypatch.setenv("A3C_ZOO_PLUGINS", "ppo")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    job = TrainingJob(COMMAND, 1, tmp_path, "one")
    order = order_of(job)
    assert order.plugin_files == {str(tmp_path / "mine.py"): b"X = 1\n"}
    assert (order.variables["A3C_ZOO_PLUGINS"], order.variables["OMP_NUM_THREADS"]) == ("ppo", "3")
    assert "A3C_ZOO_PLUGIN_FILES" not in order.variables


def test_an_order_has_the_file_of_hyperparameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yml").write_text("agent: {gamma: 0.5}\n")
    command = replace(COMMAND, hyperparams="mine.yml", steps=100)
    order = order_of(TrainingJob(command, 1, tmp_path, "one"))
    assert order.hyperparams_file == ("mine.yml", b"agent: {gamma: 0.5}\n")
    for command in (replace(COMMAND, hyperparams="nstep-classic"), replace(COMMAND, overrides=("gamma=0.5",))):
        job = TrainingJob(command, 1, tmp_path, "one")
        assert order_of(job).hyperparams_file is None


def test_the_paths_of_a_run_are_those_of_the_command(tmp_path: Path) -> None:
    """The folder of a job goes away with what lies there."""
    command = replace(COMMAND, hyperparams="mine.yml")
    order = Order(Path("runs"), "one", command, 1, False, {}, {"/home/me/mine.py": b""}, ("mine.yml", b""))
    job = TrainingJob(replace(command, hyperparams="/job/mine.yml"), 1, tmp_path / "runs", "one")
    job.path.mkdir(parents=True)
    files = ["/job/plugins/mine.py", "/there/own.py"]
    told = {"command": ["a3c-zoo", *job.arguments(job.runs_dir)], "plugin_files": files}
    (job.path / "meta.json").write_text(json.dumps(told))
    tell_given_paths(job, order)
    told = json.loads((job.path / "meta.json").read_text())
    words = "a3c-zoo train cartpole --agent a3c --seed 1 --hyperparams mine.yml --name one --quiet --runs-dir runs"
    assert told == {"command": words.split(), "plugin_files": ["/home/me/mine.py", "/there/own.py"]}


def test_no_job_begins_if_its_run_cannot_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_on", lambda *arguments, **options: pytest.fail("a job began"))
    (tmp_path / "file").touch()
    for runs, error in (tmp_path / "file", FileExistsError), (tmp_path / "file/runs", NotADirectoryError):
        job = TrainingJob(COMMAND, 1, runs, "one")
        made, machine = engine.RayEngine.__new__(engine.RayEngine), Machine("n", "127.0.0.1", 4, {})
        fault = made._run(job, machine, 1, lambda told: None)
        assert (fault or "").startswith(f"it cannot be kept: {error.__name__}: ")


def test_machines_with_other_versions_are_told_apart() -> None:
    here = {"versions": {"python": "3.11.7", "torch": "2.13.0"}, "plugins": {"ray": "a3c-zoo-ray 1.0.0"}}
    there = {"versions": {"python": "3.11.7", "torch": "2.12.0"}, "plugins": {"ray": "a3c-zoo-ray 1.0.0"}}
    assert difference(Machine("x", "10.0.0.2", 4, here), here) == ""
    line = "torch 2.12.0, this one 2.13.0"
    assert difference(Machine("x", "10.0.0.2", 4, there), here) == line
    alone = {**here, "plugins": {}}
    line = "ray none, this one a3c-zoo-ray 1.0.0"
    assert difference(Machine("x", "10.0.0.2", 4, alone), here) == line


def test_a_run_takes_a_cpu_for_each_worker_and_one_more_if_the_machine_has_it() -> None:
    small, large = Machine("small", "10.0.0.2", 1, {}), Machine("large", "10.0.0.3", 4, {})
    assert [small.room_for(1), large.room_for(1), large.room_for(3), large.room_for(4)] == [1, 2, 4, 4]
    both = [small, large]
    assert free_machine(both, {}, 1) == large
    assert free_machine(both, {"large": 2}, 1) == large
    assert free_machine(both, {"large": 3}, 1) == small  # one CPU is left there: too few for two
    assert free_machine(both, {"large": 4, "small": 1}, 1) is None
    assert free_machine(both, {"large": 2}, 2) is None  # the small one has fewer CPUs than workers
    assert free_machine(both, {}, 9) == large  # no machine has so many
    assert free_machine([small], {}, 9) == small
    assert free_machine([], {}, 1) is None


def test_the_engine_has_as_many_slots_as_runs_of_one_worker_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run takes 2 CPUs or more where a machine has 2. Machines of other kinds get none."""
    made = engine.RayEngine.__new__(engine.RayEngine)
    kinds = [{"host": {"cpu": "A", "machine": "x", "cores": n}, "versions": {}, "plugins": {}} for n in (8, 4)]
    made._here, made._known, made._left_out = kinds[0], {}, {}
    found = [Machine(str(n), "10.0.0.2", cpus, kinds[n == 3]) for n, cpus in enumerate([1, 2, 5, 4])]
    monkeypatch.setattr(made, "_alive", dict)
    monkeypatch.setattr(made, "_examine", lambda nodes: found)
    assert made._choose_kind() == (found[0], 1 + 1 + 2)
    assert [*made._left_out] == ["3"]


def test_jobs_wait_for_a_machine_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has lost a job, and gets none for a while. That is not the time without any machine."""
    monkeypatch.setattr(engine, "ALONE_LIMIT_S", 0.1)
    made = engine.RayEngine.__new__(engine.RayEngine)
    made._known = {"n": Machine("n", "127.0.0.1", 4, {})}
    made._shunned_s = {"n": time.monotonic() + 1e6}
    made._changed, made._is_stopped, made._used = threading.Condition(), threading.Event(), defaultdict(int)
    monkeypatch.setattr(made, "_look_for_machines", lambda: None)
    threading.Timer(2.5, made.stop).start()
    assert made._take(1, lambda told: None) == (None, 0)
    made._is_stopped.clear()
    made._known = {}
    with pytest.raises(WorkerError, match="no machine has been left for 0.1 s"):
        made._take(1, lambda told: None)


def test_a_machine_that_is_slow_to_answer_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one job waits for it, another takes a machine, and all can be stopped."""
    made, asked, goes_on, late = engine.RayEngine.__new__(engine.RayEngine), threading.Event(), threading.Event(), []

    def examine(nodes: object) -> list[Machine]:
        asked.set()
        late.append(not goes_on.wait(10))
        return []

    made._known, made._left_out, made._shunned_s = {"n": Machine("n", "127.0.0.1", 4, {})}, {}, {}
    made._changed, made._is_stopped, made._used = threading.Condition(), threading.Event(), defaultdict(int)
    made._looking, made._example = threading.Lock(), made._known["n"]
    monkeypatch.setattr(made, "_alive", lambda: {"n": {}, "new": {}})
    monkeypatch.setattr(made, "_examine", examine)
    waits = threading.Thread(target=made._take, args=(1, lambda told: None))
    waits.start()
    assert asked.wait(10)
    assert made._take(1, lambda told: None) == (made._known["n"], 2)
    made.stop()
    goes_on.set()
    waits.join()
    assert late == [False]
