"""The engine `ray` on a real cluster: comparisons while a node is killed, resumed jobs, machines that get no job."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

import pytest
from a3c_zoo.errors import ConfigError

pytest.importorskip("ray", reason="Ray is not installed: make test-ray")

from ray_clusters import GONE_LIMIT_S, LIMIT_S, STORE, folders, kill_a_node, pids_of, run_program, start, wait_until

from a3c_zoo_ray.config import RayEngineConfig
from a3c_zoo_ray.engine import EXAMINE_LIMIT_S, make

IN_TURN = Path(__file__).parents[1] / "in_turn.py"
#: How the folders of jobs begin, and what command lines of trainings have.
JOBS, TRAINING = "a3c-zoo-job-", "train cartpole --agent a3c-in-turn"
COMPARISON = f"compare cartpole --agent a3c-in-turn --baseline random --plugin {IN_TURN} --episodes 1 --yes --json"


def compare(folder: Path, environ: dict[str, str], options: str, *cluster: Any) -> subprocess.Popen[str]:
    engine = [word for each in cluster for word in ("--engine", "ray", "--address", each.address)]
    return start(folder, environ, *COMPARISON.split(), *options.split(), *engine)


def wait_for_jobs(process: subprocess.Popen[str]) -> None:
    wait_until(lambda: (pids_of(TRAINING) and folders(JOBS)) or process.poll() is not None)
    assert process.poll() is None, process.communicate()


def rows_of(run: Path) -> list[tuple[str, str, str]]:
    """Return, length and step of all episodes: what no machine changes."""
    with open(run / "monitor.csv") as file:
        return [(row["r"], row["l"], row["step"]) for row in csv.DictReader(list(file)[1:])]


def figures(folder: Path) -> dict[str, Any]:
    """Steps, episodes and evaluations of all runs, by method and seed."""
    found = {}
    for run in (path.parent for path in sorted(folder.glob("runs/*/outcome.json"))):
        played = json.loads((run / "evaluations.json").read_text())
        for each in played["evaluations"]:
            del each["seconds"], each["training_s"]
        steps = json.loads((run / "outcome.json").read_text())["steps"]
        found[run.name.rsplit("-", 3)[0]] = (steps, rows_of(run), played["evaluations"])
    return found


@pytest.mark.timeout(1000)
@pytest.mark.slow
def test_a_comparison_on_a_cluster_has_the_figures_of_this_machine(
    cluster: Any, environ: dict[str, str], tmp_path: Path
) -> None:
    """One node is killed, and one is of another kind: a process that may use one core of several."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    other = cluster.add_node(num_cpus=1, **STORE)
    os.sched_setaffinity(0, cores)
    process = compare(tmp_path / "ray", environ, "--seeds 1 --steps 3000", cluster)
    wait_for_jobs(process)
    time.sleep(1)
    cluster.worker_nodes.remove(other)
    kill_a_node(cluster)
    cluster.worker_nodes.add(other)
    output, errors = process.communicate(timeout=300)
    cluster.remove_node(other)
    cluster.add_node(num_cpus=1, **STORE)
    assert process.returncode == 0, errors
    local = compare(tmp_path / "local", environ, "--seeds 1 --steps 3000")
    _, errors = local.communicate(timeout=300)
    assert local.returncode == 0, errors
    ours, theirs = figures(tmp_path / "ray"), figures(tmp_path / "local")
    assert len(ours) == 2
    assert ours == theirs
    if len(cores) > 1:
        (note,) = json.loads(output)["engine_notes"]
        assert re.match(r"Machine [\d.]+ got no job: it has ", note)
        assert "cores: 1; the others " in note
        assert note.endswith(f"cores: {len(cores)}.")

    # What is there is not trained again.
    written = {path: path.stat().st_mtime_ns for path in tmp_path.glob("ray/runs/*/outcome.json")}
    again = compare(tmp_path / "ray", environ, "--seeds 1 --steps 3000", cluster)
    output, errors = again.communicate(timeout=LIMIT_S)
    assert again.returncode == 0, errors
    assert output
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("ray/runs/*/outcome.json")} == written
    assert len(written) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_jobs_end_with_their_command(
    number: signal.Signals, cluster: Any, environ: dict[str, str], tmp_path: Path
) -> None:
    process = compare(tmp_path, environ, "--seeds 2 --steps 10000000", cluster)
    wait_for_jobs(process)
    process.send_signal(number)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == (130 if number == signal.SIGINT else -9)
    wait_until(lambda: not pids_of(TRAINING, JOBS) and not folders(JOBS), GONE_LIMIT_S)
    wait_until(lambda: not [*tmp_path.glob("runs/.cartpole*")], GONE_LIMIT_S)  # where the runs would have arrived


RESUME = """
import sys
from pathlib import Path
from a3c_zoo.engines import TrainCommand, TrainingJob, local_engine
from a3c_zoo_ray.config import RayEngineConfig
from a3c_zoo_ray.engine import make

overrides = ("run.stop_when_solved=false", "run.checkpoint_every_steps=1000")
for folder, engine in ("ray", make(RayEngineConfig(address=sys.argv[1]))), ("local", local_engine()):
    with engine:
        for steps, resumes in (2000, False), (4000, True):
            command = TrainCommand("cartpole", "a3c-in-turn", 3, steps, overrides=overrides)
            job = TrainingJob(command, 1, Path(folder), "one", resumes)
            fault = engine.train(job, lambda told: None)
            assert fault is None, fault
"""


STOP = """
import sys
from dataclasses import replace
from pathlib import Path
from a3c_zoo.engines import TrainCommand, TrainingJob
from a3c_zoo_ray import engine as module
from a3c_zoo_ray.config import RayEngineConfig

class Writer(module.PieceWriter):
    def __call__(self, piece):
        super().__call__(piece)
        engine.stop()

files = lambda: {path: path.read_bytes() for path in sorted(Path("runs/one").rglob("*")) if path.is_file()}
with module.make(RayEngineConfig(address=sys.argv[1])) as engine:
    job = TrainingJob(TrainCommand("cartpole", "a3c", 1, 1000), 1, Path("runs"), "one")
    assert engine.train(job, lambda told: None) is None
    before = files()
    module.PieceWriter = Writer
    goes_on = replace(job, command=replace(job.command, steps=2000), resumes=True)
    fault = engine.train(goes_on, lambda told: None)
    assert (fault, files() == before) == (module.STOPPED, True)
    assert [path.name for path in Path("runs").iterdir()] == ["one"]
"""


def test_a_run_stays_as_it_was_if_its_job_is_stopped_while_it_arrives(
    cluster: Any, environ: dict[str, str], tmp_path: Path
) -> None:
    done = run_program(STOP, cluster, tmp_path, environ)
    assert done.returncode == 0, done.stderr


WITH_FILE = """
import sys
from pathlib import Path
from a3c_zoo.engines import TrainCommand, TrainingJob, local_engine
from a3c_zoo_ray.config import RayEngineConfig
from a3c_zoo_ray.engine import make

(file := Path("mine.yml")).write_text("agent: {gamma: 0.5}")
command = TrainCommand("cartpole", "a3c", 1, 100, hyperparams="mine.yml")
with make(RayEngineConfig(address=sys.argv[1], max_retries=0)) as engine:
    for folder, each in ("ray", engine), ("local", local_engine()):
        fault = each.train(TrainingJob(command, 1, Path(folder), "one"), lambda told: None)
        assert fault is None, fault
    file.unlink()
    print(engine.train(TrainingJob(command, 1, Path("ray"), "two"), lambda told: None))
"""


def test_the_file_of_hyperparameters_travels(cluster: Any, environ: dict[str, str], tmp_path: Path) -> None:
    """The processes of the cluster have another current folder."""
    done = run_program(WITH_FILE, cluster, tmp_path, environ | {"A3C_ZOO_PLUGIN_FILES": str(IN_TURN)})
    assert done.returncode == 0, done.stderr
    config = (tmp_path / "ray/one/config.yml").read_text()
    assert "gamma: 0.5\n" in config
    assert config == (tmp_path / "local/one/config.yml").read_text()  # so it counts as the same run
    ours, theirs = (json.loads((tmp_path / name / "one/meta.json").read_text()) for name in ("ray", "local"))
    assert ours["command"] == [{"local": "ray"}.get(word, word) for word in theirs["command"]]
    assert ours["plugin_files"] == theirs["plugin_files"] == [str(IN_TURN)]
    assert done.stdout.startswith("it cannot be sent to a machine: FileNotFoundError: ")
    assert "'mine.yml'" in done.stdout


GIVEN_UP = """
import sys
from pathlib import Path
from a3c_zoo.engines import TrainCommand, TrainingJob
from a3c_zoo_ray import engine as module
from a3c_zoo_ray.config import RayEngineConfig

class Damaged(module.PieceWriter):
    def __call__(self, piece):
        super().__call__(module.Piece(piece.name, piece.data, "0"))

class Full(module.PieceWriter):
    def __call__(self, piece):
        raise OSError(28, "No space left on device")

with module.make(RayEngineConfig(address=sys.argv[1], max_retries=0)) as engine:
    job = TrainingJob(TrainCommand("cartpole", "a3c", 1, 1000), 1, Path("runs"), "one")
    for module.PieceWriter in Damaged, Full:
        print(engine.train(job, lambda told: None))
assert not [*Path("runs").iterdir()]
"""


def test_a_job_that_is_given_up_says_why(cluster: Any, environ: dict[str, str], tmp_path: Path) -> None:
    done = run_program(GIVEN_UP, cluster, tmp_path, environ)
    assert done.returncode == 0, done.stderr
    lines = (
        r"its machine was lost while it trained: checkpoints/\S+ has arrived damaged",
        r"it cannot be kept: OSError: \[Errno 28\] No space left on device",
    )
    assert re.fullmatch("\n".join(lines), done.stdout.strip()), done.stdout
    wait_until(lambda: not folders(JOBS), GONE_LIMIT_S)


@pytest.mark.slow
def test_a_job_goes_on_on_a_machine_that_has_not_begun_it(
    cluster: Any, environ: dict[str, str], tmp_path: Path
) -> None:
    variables = environ | {"A3C_ZOO_PLUGIN_FILES": str(IN_TURN)}
    done = run_program(RESUME, cluster, tmp_path, variables)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "ray/one/outcome.json").read_text())["steps"] >= 4000
    assert rows_of(tmp_path / "ray/one") == rows_of(tmp_path / "local/one")
    assert [path.name for path in (tmp_path / "ray").iterdir()] == ["one"]


BROKEN = """
import sys
import ray
from a3c_zoo_ray import engine as module
from a3c_zoo_ray.config import RayEngineConfig

before = module.examine

def examine():
    if ray.get_runtime_context().get_task_id():
        raise ModuleNotFoundError("No module named 'torch'")
    return before()

module.examine = examine
module.make(RayEngineConfig(address=sys.argv[1]))
"""


def test_a_machine_that_cannot_be_examined_is_named(cluster: Any, environ: dict[str, str], tmp_path: Path) -> None:
    done = run_program(BROKEN, cluster, tmp_path, environ)
    last = done.stderr.splitlines()[-1]
    assert "got no job: it cannot be examined (ModuleNotFoundError: No module named 'torch'). Install the same" in last


SLOW = """
import sys, threading, time
from a3c_zoo_ray import engine as module
from a3c_zoo_ray.config import RayEngineConfig

made = module.make(RayEngineConfig(address=sys.argv[1]))
made._known = {}
module.examine = lambda: time.sleep(1000)
threading.Timer(1, made.stop).start()
assert made._take(1, lambda told: None) == (None, 0)
assert not made._left_out
"""


def test_a_machine_that_is_slow_to_answer_delays_no_stop(cluster: Any, environ: dict[str, str], tmp_path: Path) -> None:
    began_s = time.monotonic()
    done = run_program(SLOW, cluster, tmp_path, environ)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began_s < EXAMINE_LIMIT_S


def test_a_ray_of_this_machine_has_the_cores_that_a_container_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quota of its CPU time may be less than the cores that its processes may run on."""

    def join(num_cpus: int, address: str | None) -> NoReturn:
        raise ConfigError(f"{num_cpus} CPUs")

    monkeypatch.setattr("a3c_zoo.hardware.available_cores", lambda: 97)
    monkeypatch.setattr("a3c_zoo_ray.cluster.joined_cluster", join)
    with pytest.raises(ConfigError, match="^97 CPUs$"):
        make(RayEngineConfig())


def test_a_machine_with_another_version_is_refused(cluster: Any, environ: dict[str, str], tmp_path: Path) -> None:
    """Another version of a3c-zoo is installed there: its processes find these metadata first."""
    found = metadata.distribution("a3c-zoo")
    about = found.read_text("METADATA") or found.read_text("PKG-INFO") or ""
    files = {"METADATA": about, "entry_points.txt": found.read_text("entry_points.txt") or ""}
    (folder := tmp_path / "a3c_zoo-9.9.9.dist-info").mkdir()
    for name, text in files.items():
        (folder / name).write_text(text.replace(f"Version: {found.version}", "Version: 9.9.9"))
    path = os.pathsep.join([str(tmp_path), environ["PYTHONPATH"]])
    other = cluster.add_node(num_cpus=1, env_vars={"PYTHONPATH": path}, **STORE)
    process = compare(tmp_path / "ray", environ, "--seeds 1 --steps 3000", cluster)
    errors = process.communicate(timeout=LIMIT_S)[1].splitlines()
    cluster.remove_node(other)
    line = f"has a3c-zoo 9.9.9, this one {found.version}: install the same on both"
    assert process.returncode == 2
    assert errors[-1].startswith("Error: machine ")
    assert errors[-1].endswith(line)
    assert not (tmp_path / "ray/runs").exists()


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_the_figures_of_the_plugin_with_few_repetitions(environ: dict[str, str]) -> None:
    """Once each, where `make bench-ray` does it ten to fifty times."""
    options = "--solve 1 --compare 1 --steps 3000 --leftovers 4"
    command = [sys.executable, str(IN_TURN.with_name("faults.py")), *options.split()]
    done = subprocess.run(command, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == 1 + 1 + 4
