"""`a3c` and stable-baselines3's A2C on CartPole-v1: time, steps and memory until a 100-episode mean of 475.

    python benchmarks/cartpole.py [--seeds N] [--json FILE] [--csv FILE]

Run it on an idle machine. Every training is a fresh `a3c-zoo train` process. The methods take turns, so a change of the
machine's speed affects both. Seconds count from the start of the process.
"""

from __future__ import annotations

import argparse
import csv
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import psutil

from a3c_zoo.figures.curves import reached
from a3c_zoo.runs.resources import family, memory_mib
from a3c_zoo.store.run_records import read_run
from a3c_zoo.store.tables import read_monitor

THRESHOLD = 475.0
METHODS = ("a3c", "sb3-a2c")
SAMPLE_MEMORY_EVERY_S = 0.5
CEILING_S = 3.0
SCALING_STEPS = 1_000_000

RANDOM_ACTIONS = """
import sys, time
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
num_envs, seconds = int(sys.argv[1]), float(sys.argv[2])
env = CartPoleVectorEnv(num_envs)
env.reset(seed=0)
actions = np.random.default_rng(0).integers(0, 2, (1024, num_envs))
calls, start_s = 0, time.monotonic()
while time.monotonic() - start_s < seconds:
    for row in actions:
        env.step(row)
    calls += len(actions)
print(calls * num_envs / (time.monotonic() - start_s))
"""


@dataclass(frozen=True)
class Result:
    """The figures of one training.

    Attributes:
        seconds: from the start of the process to the first 100-episode mean of 475; None if there was none.
        training_s: the same without the start. steps: the same in steps.
        peak_memory_mib: the largest sum over its processes, in MiB.
    """

    method: str
    seed: int
    solved: bool
    seconds: float | None
    training_s: float | None
    steps: int | None
    steps_per_s: float
    peak_memory_mib: float


def train(method: str, seed: int, folder: Path, *options: str) -> Result:
    """Runs one training in a process of its own and reads its run directory."""
    name = f"{method}-{seed}-{len(list(folder.iterdir()))}"
    executable = str(Path(sys.executable).with_name("a3c-zoo"))
    command = [executable, "train", "cartpole", "--agent", method, "--seed", str(seed), "--quiet", "--name", name]
    start_s = time.time()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [*command, "--runs-dir", str(folder), *options], stdout=output, stderr=subprocess.STDOUT
        )
        peak_mib, watched = 0.0, psutil.Process(process.pid)
        while True:
            try:
                process.wait(SAMPLE_MEMORY_EVERY_S)
                break
            except subprocess.TimeoutExpired:
                peak_mib = max(peak_mib, memory_mib(family(watched)))
        if process.returncode != 0:
            output.seek(0)
            raise SystemExit(f"{' '.join(command)} failed:\n{output.read().decode()}")
    outcome = json.loads((folder / name / "outcome.json").read_text(encoding="utf-8"))
    monitor = read_monitor(folder / name / "monitor.csv")
    first = reached(read_run(folder / name).curve, THRESHOLD)
    return Result(
        method,
        seed,
        outcome["solved"],
        monitor.start_s + first.seconds - start_s if first else None,
        first.seconds if first else None,
        first.steps if first else None,
        outcome["steps_per_s"],
        peak_mib,
    )


def ceiling(processes: int, num_envs: int) -> float:
    """Steps/s of the environment alone, random actions, all processes together."""
    command = [sys.executable, "-c", RANDOM_ACTIONS, str(num_envs), str(CEILING_S)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    return sum(float(process.communicate(timeout=60)[0]) for process in running)


def scaling(folder: Path, repeats: int) -> dict[int, float]:
    """Median steps/s of the agent with 1 and with 2 workers, over a fixed number of steps."""
    options = ("--steps", str(SCALING_STEPS), "--stop-return", "1e9")
    speeds: dict[int, list[float]] = {1: [], 2: []}
    for seed in range(1, repeats + 1):
        for workers, values in speeds.items():
            values.append(train("a3c", seed, folder, *options, "--workers", str(workers)).steps_per_s)
    return {workers: statistics.median(values) for workers, values in speeds.items()}


def median(results: Sequence[Result], method: str, figure: str) -> float:
    """Median over seeds; a training without a mean of 475 counts as infinitely long."""
    values = [getattr(result, figure) for result in results if result.method == method]
    return statistics.median(float("inf") if value is None else value for value in values)


def show(result: Result) -> str:
    """The line of one training."""
    seconds = "never" if result.seconds is None else f"{result.seconds:6.2f} s"
    steps = "-" if result.steps is None else f"{result.steps:,}"
    return (
        f"{result.method:8} {result.seed:4}   {'yes' if result.solved else 'NO':6} {seconds:>9} {steps:>10} "
        f"{result.steps_per_s:>10,.0f} {result.peak_memory_mib:>8,.0f}"
    )


def main() -> None:
    """Measures everything and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="seeds per method [10]")
    parser.add_argument("--first-seed", type=int, default=1, help="the first seed [1]")
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    parser.add_argument("--csv", type=Path, help="write a row for each training to this file")
    arguments = parser.parse_args()
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("method   seed   solved   to 475      steps    steps/s      MiB", flush=True)
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            for method in METHODS:
                results.append(train(method, seed, folder))
                print(show(results[-1]), flush=True)
        figures = {
            f: {m: median(results, m, f) for m in METHODS}
            for f in ("seconds", "training_s", "steps", "steps_per_s", "peak_memory_mib")
        }
        solved = {m: sum(r.solved for r in results if r.method == m) for m in METHODS}
        speeds = scaling(folder, repeats=3)
    top = {"1 process": ceiling(1, 16), "2 processes": ceiling(2, 16)}
    print(f"\nmedian of {arguments.seeds} seeds{'':14}{'a3c':>12}{'sb3-a2c':>12}{'ratio':>8}")
    for figure, values in figures.items():
        ours, theirs = values["a3c"], values["sb3-a2c"]
        ratio = ours / theirs if figure == "steps_per_s" else theirs / ours
        print(f"{figure:32}{ours:>12,.2f}{theirs:>12,.2f}{ratio:>8.2f}")
    print(f"{'solved':32}{solved['a3c']:>12}{solved['sb3-a2c']:>12}")
    print(f"\nworkers   1: {speeds[1]:,.0f} steps/s   2: {speeds[2]:,.0f} steps/s   ratio {speeds[2] / speeds[1]:.2f}")
    print("environment alone, 16 at a time: " + ", ".join(f"{k} {v:,.0f} steps/s" for k, v in top.items()))
    if arguments.csv:
        with arguments.csv.open("w", encoding="utf-8", newline="") as text:
            writer = csv.DictWriter(text, [each.name for each in fields(Result)], lineterminator="\n")
            writer.writeheader()
            writer.writerows(map(asdict, results))
    if arguments.json:
        content = {
            "machine": platform.platform(),
            "results": [asdict(result) for result in results],
            "medians": figures,
            "solved": solved,
            "scaling_steps_per_s": speeds,
            "ceiling_steps_per_s": top,
        }
        arguments.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
