"""The plugin under faults, on clusters of three Ray nodes with one CPU each, on this machine.

    python plugins/a3c-zoo-ray/faults.py [--solve 10] [--compare 6 [--steps N]] [--leftovers 50] [--seed 1]

`--solve N` trains CartPole N times with `a3c-ray` on three nodes, one of which is killed after a random number of
steps: every run must be solved. `--compare N` compares two methods with N seeds by the engine `ray`, one of whose nodes
is killed at a random moment, and by the engine `local`: returns and steps must be equal. `--leftovers N` ends N runs
with a Ray of their own in four ways: nothing may be left. It needs a3c-zoo[ray] and ends with status 1 on a failure.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from ray.cluster_utils import Cluster

STORE = {"object_store_memory": 100_000_000, "include_dashboard": False}
IN_TURN = Path(__file__).with_name("in_turn.py")
LIMIT_S = 1800.0
#: How long what was started may live after its driver.
GONE_LIMIT_S = 30.0
#: The node is killed before this step, and CartPole was never solved in fewer.
KILL_BEFORE = 30_000
#: Figures of a run in results.json that no machine changes.
FIGURES = (
    *("env", "method", "seed", "steps", "final_return", "final_return_greedy", "mean_return"),
    "steps_to_threshold",
)


class FaultError(Exception):
    """A figure was not reached."""


@contextmanager
def three_nodes() -> Iterator[Cluster]:
    """A head without CPUs and three nodes with one each."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **STORE})
    try:
        for _ in range(3):
            cluster.add_node(num_cpus=1, **STORE)
        yield cluster
    finally:
        cluster.shutdown()


def start(folder: Path, line: str, **variables: str) -> subprocess.Popen[bytes]:
    """Starts `a3c-zoo` with a log file, in a group of its own."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-P", "-m", "a3c_zoo", *line.split()]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command, cwd=folder, env=os.environ | variables, stdout=log, stderr=log, start_new_session=True
        )


def wait_until(is_true: Callable[[], object], process: subprocess.Popen[bytes], what: str) -> None:
    """Waits while a process runs."""
    deadline_s = time.monotonic() + LIMIT_S
    while not is_true():
        if process.poll() is not None or time.monotonic() > deadline_s:
            raise FaultError(f"{what}: the command ended before, or took too long")
        time.sleep(0.1)


def finish(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Waits for the end of a command, which must be in order."""
    if status := process.wait(LIMIT_S):
        raise FaultError(f"status {status}: {(folder / 'log').read_text().splitlines()[-1:]}")


def steps_of(run: Path) -> int:
    """The last step of monitor.csv."""
    with suppress(OSError, ValueError, KeyError), open(run / "monitor.csv") as file:
        rows = [row["step"] for row in csv.DictReader(list(file)[1:])]
        return int(rows[-1]) if rows else 0
    return 0


def kill_one(cluster: Cluster, dice: random.Random) -> None:
    """Kills a node with all its processes, at once.

    A driver joins any node of this machine, and its parameter server lives there: another node is killed.
    """
    servers = [
        process
        for process in psutil.process_iter(["cmdline"])
        if "ray::Shard" in " ".join(process.info["cmdline"] or ())
    ]
    homes = {server.ppid() for server in servers}
    nodes = sorted(cluster.worker_nodes, key=lambda node: str(node.unique_id))
    others = [node for node in nodes if node.all_processes["raylet"][0].process.pid not in homes]
    cluster.remove_node(dice.choice(others), allow_graceful=False)


def solve(runs: int, folder: Path, dice: random.Random) -> None:
    """CartPole on three nodes, one of which is killed."""
    with three_nodes() as cluster:
        for seed in range(1, runs + 1):
            here, run, at, begun_s = (
                folder / f"solve-{seed}",
                Path("runs/one"),
                dice.randrange(KILL_BEFORE),
                time.time(),
            )
            words = f"train cartpole --agent a3c-ray --workers 3 --seed {seed} --name one -o agent.nodes=3"
            process = start(here, words, RAY_ADDRESS=cluster.address)
            wait_until(lambda: steps_of(here / run) > at, process, "the kill")  # noqa: B023
            kill_one(cluster, dice)
            finish(process, here)
            cluster.add_node(num_cpus=1, **STORE)
            outcome = json.loads((here / run / "outcome.json").read_text())
            events = [json.loads(line)["kind"] for line in (here / run / "events.jsonl").read_text().splitlines()]
            print(
                f"seed {seed}: killed a node after {at:,} steps; "
                f"{'solved' if outcome['solved'] else outcome['reason']} after {outcome['steps']:,} steps, "
                f"{time.time() - begun_s:.0f} s",
                flush=True,
            )
            if not outcome["solved"] or "node_replaced" not in events:
                raise FaultError(f"seed {seed} was not solved, or lost no node")


def figures(folder: Path) -> list[dict[str, Any]]:
    """What no machine changes, of each run of a report."""
    (file,) = folder.glob("comparisons/*/results.json")
    runs = json.loads(file.read_text())["runs"]
    return sorted(({name: run[name] for name in FIGURES} for run in runs), key=lambda run: (run["method"], run["seed"]))


def compare(seeds: int, folder: Path, dice: random.Random, budget: str = "") -> None:
    """Two methods on the engine `ray`, which loses a node, and on the engine `local`. budget: options of `compare`."""
    words = f"compare cartpole --agent a3c-in-turn --baseline sb3-a2c --seeds {seeds} --plugin {IN_TURN} --yes {budget}"
    with three_nodes() as cluster:
        process = start(folder / "ray", f"{words} --engine ray --address {cluster.address}")
        jobs = dice.randrange(1, 2 * seeds)
        wait_until(lambda: len(list(folder.glob("ray/runs/*/outcome.json"))) >= jobs - 1, process, "the kill")
        wait_until(lambda: list(Path(tempfile.gettempdir()).glob("a3c-zoo-job-*")), process, "a job")
        time.sleep(dice.uniform(1.0, 5.0))
        kill_one(cluster, dice)
        finish(process, folder / "ray")
    finish(start(folder / "local", words), folder / "local")
    ours, theirs = figures(folder / "ray"), figures(folder / "local")
    print(f"compared {len(ours)} runs; a node was killed when {jobs - 1} had ended", flush=True)
    if ours != theirs or len(ours) != 2 * seeds:
        raise FaultError(f"{[(one, other) for one, other in zip(ours, theirs, strict=False) if one != other]}")


def left(before: set[str]) -> set[str]:
    """Processes and files of Ray and of runs that were not there before."""
    leftovers_now = {f"/dev/shm/{name}" for name in os.listdir("/dev/shm")}
    leftovers_now |= {str(path) for path in Path(tempfile.gettempdir()).glob("*") if path.name.startswith("a3c-")}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            line = " ".join(process.cmdline()) or process.name()
            if any(word in line for word in ("ray::", "raylet", "gcs_server", "a3c_zoo", "a3c worker", "a3c-")):
                leftovers_now.add(f"{process.pid} {line[:100]}")
    return leftovers_now - before


def leftovers(runs: int, folder: Path, dice: random.Random) -> None:
    """Runs that start a Ray of this machine, and end by their budget, Ctrl-C, SIGTERM for the group, or SIGKILL."""
    before, run = left(set()), Path("runs/one")
    for number in range(runs):
        way = (None, signal.SIGINT, signal.SIGTERM, signal.SIGKILL)[number % 4]
        here = folder / f"leftovers-{number}"
        steps = 5000 if way is None else 10_000_000
        words = f"train cartpole --agent a3c-ray --workers 1 --name one --steps {steps} -o run.stop_when_solved=false"
        process = start(here, words)
        if way is not None:
            at = dice.randrange(10_000)
            wait_until(lambda: steps_of(here / run) > at, process, "the end")  # noqa: B023
            (os.killpg if way == signal.SIGTERM else os.kill)(process.pid, way)
        process.wait(LIMIT_S)
        deadline_s = time.monotonic() + GONE_LIMIT_S
        while (remaining := left(before)) and time.monotonic() < deadline_s:
            time.sleep(0.2)
        took_s = GONE_LIMIT_S - (deadline_s - time.monotonic())
        print(f"run {number + 1}: {way.name if way else 'budget'}, nothing left after {took_s:.1f} s", flush=True)
        if remaining or not steps_of(here / run):
            raise FaultError(f"left after {GONE_LIMIT_S:g} s: {sorted(remaining)}")


def main() -> int:
    """Prints a line for each run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name, help_text in (("solve", "runs"), ("compare", "seeds"), ("leftovers", "runs")):
        parser.add_argument(f"--{name}", type=int, default=0, metavar="N", help=f"{help_text}; by default none")
    parser.add_argument("--steps", type=int, help="of the comparison's runs; by default the environment's")
    parser.add_argument("--seed", type=int, default=1, help="of the random moments")
    given = parser.parse_args()
    os.environ.pop("RAY_ADDRESS", None)
    folder, dice = Path(tempfile.mkdtemp(prefix="faults-")), random.Random(given.seed)
    try:
        if given.solve:
            solve(given.solve, folder, dice)
        if given.compare:
            compare(given.compare, folder, dice, f"--steps {given.steps}" if given.steps else "")
        if given.leftovers:
            leftovers(given.leftovers, folder, dice)
    except FaultError as error:
        print(f"failed: {error}; see {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
