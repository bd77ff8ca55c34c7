"""`a3c-ray` on a real cluster: several Ray nodes on this machine, some of which are killed."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from a3c_zoo.testing import plugin_distribution

pytest.importorskip("ray", reason="Ray is not installed: make test-ray")

from ray.cluster_utils import Cluster

LIMIT_S = 200.0
#: Ray gives up a machine that does not answer after half a minute.
GONE_LIMIT_S = 30.0
#: What the tests have started.
STARTED: list[subprocess.Popen[str]] = []
#: Options of each Ray node of the cluster.
STORE = {"object_store_memory": 100_000_000, "include_dashboard": False}


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of a process in which the plugin is installed."""
    folder = tmp_path_factory.mktemp("installed")
    plugin_distribution(folder, "ray-plugin", "from a3c_zoo_ray.plugin import *\n")
    found = {name: value for name, value in os.environ.items() if not name.startswith(("A3C_ZOO", "RAY_"))}
    return found | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path]), "RAY_USAGE_STATS_ENABLED": "0"}


@pytest.fixture(scope="module")
def cluster(environ: dict[str, str]) -> Iterator[Cluster]:
    """A head without CPUs, where drivers and servers live, and three nodes with one CPU each."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PYTHONPATH", "RAY_USAGE_STATS_ENABLED"):
            patch.setenv(name, environ[name])
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **STORE})
        try:
            for _ in range(3):
                cluster.add_node(num_cpus=1, **STORE)
            yield cluster
        finally:
            cluster.shutdown()


@pytest.fixture(autouse=True)
def nothing_goes_on() -> Iterator[None]:
    """However a test ends, so do the processes that it has started."""
    yield
    for process in STARTED:
        process.kill()
        process.communicate()
    STARTED.clear()


class Run:
    """`a3c-zoo train` in a process of its own, in its own group."""

    def __init__(self, folder: Path, environ: dict[str, str], *options: str) -> None:
        self.path = folder / "runs" / "one"
        name = () if "--resume" in options else ("--name", "one")
        command = [sys.executable, "-P", "-m", "a3c_zoo", "train", "--json", *name, *options]
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        STARTED.append(self.process)

    def wait_for_episodes(self, number: int) -> None:
        wait_until(lambda: len(self.episodes()) >= number or self.process.poll() is not None)
        assert self.process.poll() is None, self.process.communicate()[1]

    def episodes(self) -> list[dict[str, str]]:
        with contextlib.suppress(FileNotFoundError), open(self.path / "monitor.csv") as file:
            return list(csv.DictReader(list(file)[1:]))
        return []

    def events(self, kind: str) -> list[dict[str, Any]]:
        lines = (self.path / "events.jsonl").read_text().splitlines() if (self.path / "events.jsonl").exists() else []
        return [event for event in map(json.loads, lines) if event["kind"] == kind]

    def outcome(self) -> dict[str, Any]:
        output, errors = self.process.communicate(timeout=LIMIT_S)
        assert self.process.returncode in (0, 3, 130), output + errors
        found: dict[str, Any] = json.loads(output)  # Ray prints nothing
        assert len(self.episodes()) == found["episodes"]
        return found


def wait_until(is_true: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    deadline_s = time.monotonic() + limit_s
    while not is_true():
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def pids_of(*words: str) -> dict[int, str]:
    """The processes whose command line has one of these words."""
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            line = " ".join(process.cmdline()) or process.name()
            if any(word in line for word in words):
                found[process.pid] = line
    return found


def options(nodes: int, steps: int, *more: str) -> list[str]:
    keys = (f"agent.nodes={nodes}", "run.stop_when_solved=false", "run.checkpoint_every_steps=20000", *more)
    return [
        *("cartpole", "--agent", "a3c-ray", "--workers", str(nodes), "--steps", str(steps)),
        *(word for key in keys for word in ("-o", key)),
    ]


def test_three_nodes_train_and_go_on(cluster: Cluster, environ: dict[str, str], tmp_path: Path) -> None:
    here = environ | {"RAY_ADDRESS": cluster.address}
    keys = ("agent.shards=2", "agent.compression=bfloat16", "agent.max_staleness=1000", "agent.exchange_updates=5")
    run = Run(tmp_path, here, *options(3, 60_000, *keys))
    outcome = run.outcome()
    assert outcome["reason"] == "steps"
    assert 60_000 <= outcome["steps"] < 90_000
    assert {row["worker"] for row in run.episodes()} == {"0", "1", "2"}
    resumed = Run(tmp_path, here, "--resume", str(run.path), "--steps", "120000")
    again = resumed.outcome()
    assert again["steps"] >= 120_000
    assert again["mean_return_100"] > 100
    assert run.events("node_replaced") == []
    assert pids_of("ray::NodeActor", "ray::Shard") == {}


def test_a_node_dies_and_another_takes_its_place(cluster: Cluster, environ: dict[str, str], tmp_path: Path) -> None:
    run = Run(tmp_path, environ | {"RAY_ADDRESS": cluster.address}, *options(3, 2_000_000, "run.time_limit_s=60"))
    run.wait_for_episodes(100)
    victim = sorted(cluster.worker_nodes, key=lambda node: node.unique_id)[0]
    cluster.remove_node(victim, allow_graceful=False)
    wait_until(lambda: run.events("node_replaced"))
    (event,) = run.events("node_replaced")
    seen = len(run.episodes())
    run.wait_for_episodes(seen + 20)  # of the other nodes
    assert str(event["node"]) not in {row["worker"] for row in run.episodes()[seen:]}
    cluster.add_node(num_cpus=1, **STORE)
    wait_until(lambda: str(event["node"]) in {row["worker"] for row in run.episodes()[seen:]})
    run.process.send_signal(signal.SIGINT)
    outcome = run.outcome()
    assert outcome["reason"] == "interrupted"


def test_a_server_dies(cluster: Cluster, environ: dict[str, str], tmp_path: Path) -> None:
    run = Run(tmp_path, environ | {"RAY_ADDRESS": cluster.address}, *options(2, 200_000))
    run.wait_for_episodes(100)
    before = len(run.episodes())
    (server,) = pids_of("ray::Shard")
    os.kill(server, signal.SIGKILL)
    outcome = run.outcome()
    assert outcome["steps"] >= 200_000
    (event,) = run.events("restarted")
    assert "a parameter server was lost" in event["text"]
    assert len(run.episodes()) > before


def test_the_driver_dies(cluster: Cluster, environ: dict[str, str], tmp_path: Path) -> None:
    here = environ | {"RAY_ADDRESS": cluster.address}
    run = Run(tmp_path, here, *options(2, 10_000_000))
    run.wait_for_episodes(100)
    assert len(pids_of("ray::NodeActor", "a3c worker")) >= 2
    run.process.kill()
    run.process.communicate()
    wait_until(lambda: not pids_of("ray::NodeActor", "ray::Shard", "a3c worker"), GONE_LIMIT_S)
    resumed = Run(tmp_path, here, "--resume", str(run.path), "--steps", "50000")
    assert resumed.outcome()["steps"] >= 50_000


def test_an_address_that_nobody_answers_at(environ: dict[str, str], tmp_path: Path) -> None:
    for number, (address, line) in enumerate(
        [
            (
                "127.0.0.1:1",
                "no cluster answers at '127.0.0.1:1' ([Errno 111] Connection refused): is Ray running there",
            ),
            ("ray://127.0.0.1:1", "ray://127.0.0.1:1: run the command on a machine of the cluster, with the address"),
        ]
    ):
        (folder := tmp_path / str(number)).mkdir()
        run = Run(folder, environ | {"RAY_ADDRESS": address}, *options(1, 1000))
        errors = run.process.communicate(timeout=LIMIT_S)[1].splitlines()
        assert (run.process.returncode, errors[-1][: len(line) + 7]) == (2, f"Error: {line}")


def test_too_few_cpus(cluster: Cluster, environ: dict[str, str], tmp_path: Path) -> None:
    run = Run(tmp_path, environ | {"RAY_ADDRESS": cluster.address}, *options(4, 1000))
    errors = run.process.communicate(timeout=LIMIT_S)[1].splitlines()
    line = (
        "Error: the cluster has 3 CPUs, 1 on its largest machine; 4 nodes with 1 workers each need 4: lower --workers, "
        "or change agent.nodes"
    )
    assert (run.process.returncode, errors[-1]) == (2, line)


# The engine


def compare(folder: Path, environ: dict[str, str], *more: str) -> subprocess.Popen[str]:
    line = "compare cartpole --baseline sb3-a2c --baseline random --seeds 1 --steps 3000 --episodes 1 --yes --json"
    command = [sys.executable, "-P", "-m", "a3c_zoo", *line.split(), *more]
    folder.mkdir(exist_ok=True)
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=folder, env=environ, stdout=pipe, stderr=pipe, text=True)
    STARTED.append(process)
    return process


def figures(folder: Path) -> dict[str, Any]:
    """Steps, episodes and evaluations of all runs, by method and seed: what no machine changes."""
    found = {}
    for run in (path.parent for path in sorted(folder.glob("runs/*/outcome.json"))):
        meta, outcome = (json.loads((run / f"{name}.json").read_text()) for name in ("meta", "outcome"))
        with open(run / "monitor.csv") as file:
            rows = [(row["r"], row["l"], row["step"]) for row in csv.DictReader(list(file)[1:])]
        played = json.loads((run / "evaluations.json").read_text())
        for each in played["evaluations"]:
            del each["seconds"], each["training_s"]
        name = run.name.rsplit("-", 3)[0]
        found[name] = (meta["agent"], outcome["steps"], rows, played["evaluations"])
    return {name: found[name] for name in found if "a3c" not in name}  # its workers are not reproducible


@pytest.mark.timeout(1000)
def test_a_comparison_on_a_cluster_has_the_figures_of_this_machine(
    cluster: Cluster, environ: dict[str, str], tmp_path: Path
) -> None:
    with_engine = compare(tmp_path / "ray", environ, "--engine", "ray", "--address", cluster.address)
    wait_until(lambda: pids_of("a3c-zoo-job-") or with_engine.poll() is not None)
    assert with_engine.poll() is None, with_engine.communicate()
    time.sleep(2)
    cluster.remove_node(sorted(cluster.worker_nodes, key=lambda node: node.unique_id)[0], allow_graceful=False)
    output, errors = with_engine.communicate(timeout=300)
    cluster.add_node(num_cpus=1, **STORE)
    assert with_engine.returncode == 0, errors
    local = compare(tmp_path / "local", environ)
    local_output, errors = local.communicate(timeout=300)
    assert local.returncode == 0, errors
    ours, theirs = figures(tmp_path / "ray"), figures(tmp_path / "local")
    assert len(ours) == 2
    assert ours == theirs
    json.loads(output)
    again = compare(tmp_path / "ray", environ, "--engine", "ray", "--address", cluster.address)
    assert again.communicate(timeout=200)[0]
    assert len(list(tmp_path.glob("ray/runs/*/outcome.json"))) == 3

    # Ctrl-C: nothing goes on, and what was finished stays.
    stopped = compare(tmp_path / "ray", environ, "--seeds", "3", "--engine", "ray", "--address", cluster.address)
    wait_until(lambda: pids_of("a3c-zoo-job-") or stopped.poll() is not None)
    stopped.send_signal(signal.SIGINT)
    assert stopped.communicate(timeout=LIMIT_S)[1].splitlines()
    assert stopped.returncode == 130
    wait_until(lambda: not pids_of("a3c-zoo-job-"), GONE_LIMIT_S)
    assert len(list(tmp_path.glob("ray/runs/*/outcome.json"))) >= 3


def children_of(run: Run) -> list[psutil.Process]:
    found: list[psutil.Process] = psutil.Process(run.process.pid).children(recursive=True)
    return found


def living(processes: list[psutil.Process], *but: str) -> list[psutil.Process]:
    """Those that have not ended, apart from those with such names."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            line = " ".join(process.cmdline())
            if process.status() != psutil.STATUS_ZOMBIE and not any(name in line for name in but):
                found.append(process)
    return found


def test_without_a_cluster_a_ray_of_this_machine_begins_and_ends(environ: dict[str, str], tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))  # names of Ray's sockets must be short
    here = environ | {"TMPDIR": str(folder)}
    run = Run(tmp_path, here, *options(1, 10_000_000))
    run.wait_for_episodes(50)
    processes = children_of(run)
    names = {" ".join(each.cmdline()).split(".")[0].strip() for each in processes}
    assert {"ray::NodeActor", "ray::Shard"} <= names
    for process in processes:
        listening = [each.laddr.ip for each in process.net_connections() if each.status == "LISTEN"]
        assert {ip.removeprefix("::ffff:") for ip in listening} <= {"127.0.0.1"}, process
    os.killpg(run.process.pid, signal.SIGTERM)  # as `timeout` and a closed terminal do: to the whole group
    assert run.outcome()["reason"] == "interrupted"
    wait_until(lambda: not living(processes), GONE_LIMIT_S)
    assert not list(folder.iterdir())

    resumed = Run(tmp_path, here, "--resume", str(run.path))
    resumed.wait_for_episodes(len(resumed.episodes()) + 50)
    processes = children_of(resumed)
    resumed.process.kill()
    resumed.process.communicate()
    # Two helpers of Ray try to reach their server for a minute.
    wait_until(lambda: not living(processes, "ray::DashboardAgent", "ray::RuntimeEnvAgent"), GONE_LIMIT_S)
    assert not [name for name in os.listdir("/dev/shm") if "plasma" in name]
    shutil.rmtree(folder)
