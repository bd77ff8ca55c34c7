"""What the tests on real clusters share: the commands that they start, and what must end."""

from __future__ import annotations

import contextlib
import csv
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psutil

LIMIT_S = 200.0
#: How long processes and folders may live after what started them was killed.
GONE_LIMIT_S = 30.0
#: What the tests have started.
STARTED: list[subprocess.Popen[str]] = []
#: Options of each Ray node of the cluster.
STORE = {"object_store_memory": 100_000_000, "include_dashboard": False}


def start(folder: Path, environ: dict[str, str], *words: str) -> subprocess.Popen[str]:
    """Starts `a3c-zoo` in its own group."""
    folder.mkdir(exist_ok=True)
    command, pipe = [sys.executable, "-P", "-m", "a3c_zoo", *words], subprocess.PIPE
    process = subprocess.Popen(
        command, cwd=folder, env=environ, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
    STARTED.append(process)
    return process


class Run:
    """`a3c-zoo train` in a process of its own."""

    def __init__(self, folder: Path, environ: dict[str, str], *options: str) -> None:
        self.path = folder / "runs" / "one"
        name = () if "--resume" in options else ("--name", "one")
        self.process = start(folder, environ, "train", "--json", *name, *options)

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


def run_program(program: str, cluster: Any, folder: Path, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs the text of a program in a process of its own, with the cluster's address as its argument."""
    command = [sys.executable, "-P", "-c", program, cluster.address]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=LIMIT_S)


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


def servers() -> list[int]:
    """The processes of the parameter servers. Ray writes their titles anew at each call: a look may miss one."""
    deadline_s = time.monotonic() + LIMIT_S
    while not (found := pids_of("ray::Shard")):
        assert time.monotonic() < deadline_s
    return [*found]


def living(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that have not ended."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def folders(*prefixes: str) -> set[Path]:
    """What lies in the folder of temporary files under such names."""
    return {path for path in Path(tempfile.gettempdir()).iterdir() if path.name.startswith(prefixes)}


def kill_a_node(cluster: Any, spared: Iterable[int] = ()) -> None:
    """Kills one node at once, with all its processes, but none that these processes live on.

    A driver joins any node of this machine, and its parameter server lives there: `spared` is for such servers.
    """
    with_servers = {psutil.Process(pid).ppid() for pid in spared}
    nodes = sorted(cluster.worker_nodes, key=lambda node: node.unique_id)
    others = [node for node in nodes if node.all_processes["raylet"][0].process.pid not in with_servers]
    cluster.remove_node(others[0], allow_graceful=False)
