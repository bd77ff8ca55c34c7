"""How training scales with the number of workers where the environment is slow, not the CPU.

    python benchmarks/workers.py [--agent a3c] [--workers 1 2 4 8 16 32 64] [--seconds 20] [--repeats 3] [--json FILE]

Run it on an idle machine. Each worker has one environment that sleeps 5 ms in every step, like a simulator on another
machine, so W workers make at most W times the steps/s of one. Staleness is the number of updates by others between a
worker's pull and its apply. The parent supervises, records and writes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

import a3c_zoo
from a3c_zoo.records import Progress

#: Seconds of a step, and steps of an episode.
SLEEP_S, EPISODE_STEPS = 0.005, 200
#: T steps of one environment are a rollout and an update.
OVERRIDES = {"env.num_envs": 1, "agent.n_steps": 20}


class Sleeping(gymnasium.Env[NDArray[np.float32], int]):
    """Sleeps in every step, and pays 1 for action 1."""

    observation_space = spaces.Box(-1.0, 1.0, (4,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Starts an episode."""
        super().reset(seed=seed)
        self._steps = 0
        return np.zeros(4, np.float32), {}

    def step(self, action: int) -> Any:
        """Sleeps."""
        time.sleep(SLEEP_S)
        self._steps += 1
        return np.zeros(4, np.float32), float(action), False, self._steps >= EPISODE_STEPS, {}


if __name__ == "workers":  # imported for its environment, by the name `gym:workers:Sleeping-v0`
    gymnasium.register("Sleeping-v0", Sleeping)


class Staleness:
    """An observer that keeps the staleness of a run: mean and 95th percentile of the last 1000 updates, each report."""

    def __init__(self) -> None:
        self.means: list[float] = []
        self.p95s: list[float] = []

    def starting(self, *about: Any) -> None:
        """Does nothing."""

    def message(self, text: str) -> None:
        """Does nothing."""

    def progress(self, progress: Progress) -> None:
        """Keeps the newest values."""
        if "staleness" in progress.metrics:
            self.means.append(progress.metrics["staleness"])
            self.p95s.append(progress.metrics["staleness_p95"])


@dataclass(frozen=True)
class Result:
    """The figures of one training.

    Attributes:
        scaling: steps/s divided by W times those of one worker.
        cpu_us: CPU microseconds of a step, all processes together, with their start. parent_us: those of the parent.
        startup_s: until all workers are ready. memory_mib: of all processes; a shared page counts once.
    """

    workers: int
    steps_per_s: float
    scaling: float
    cpu_us: float
    parent_us: float
    startup_s: float
    memory_mib: float
    staleness: float
    staleness_p95: float


def train(agent: str, workers: int, seconds: float, one: float | None) -> Result:
    """Trains once. one: steps/s of one worker, None if this is it."""
    observer, parent_s = Staleness(), sum(os.times()[:2])
    with tempfile.TemporaryDirectory() as folder:
        outcome = a3c_zoo.train(
            "gym:workers:Sleeping-v0",
            agent=agent,
            workers=workers,
            overrides=OVERRIDES,
            time_limit_s=seconds,
            runs_dir=folder,
            observer=observer,
        )
    parent_s = sum(os.times()[:2]) - parent_s
    return Result(
        workers=workers,
        steps_per_s=outcome.steps_per_s,
        scaling=outcome.steps_per_s / (workers * (one or outcome.steps_per_s / workers)),
        cpu_us=1e6 * (outcome.cpu_s or 0.0) / outcome.steps,
        parent_us=1e6 * parent_s / outcome.steps,
        startup_s=outcome.startup_s,
        memory_mib=outcome.peak_memory_mib or 0.0,
        staleness=statistics.fmean(observer.means or [0.0]),
        staleness_p95=statistics.fmean(observer.p95s or [0.0]),
    )


HEADER = (
    f"{'workers':>7}{'steps/s':>9}{'of W × one':>12}{'CPU µs/step':>13}{'parent':>8}{'start s':>9}{'MiB':>7}"
    f"{'stale':>7}{'p95':>6}"
)


def show(result: Result) -> str:
    """The line of one training."""
    return (
        f"{result.workers:>7}{result.steps_per_s:>9,.0f}{result.scaling:>12.2f}{result.cpu_us:>13,.0f}"
        f"{result.parent_us:>8,.0f}{result.startup_s:>9.1f}{result.memory_mib:>7,.0f}{result.staleness:>7.1f}"
        f"{result.staleness_p95:>6.0f}"
    )


def main() -> None:
    """Measures everything and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", default="a3c", help="agent to train [a3c]")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64], help="numbers of workers")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds of each training [20]")
    parser.add_argument("--repeats", type=int, default=3, help="rounds; the first number of workers leads each [3]")
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    arguments = parser.parse_args()
    print(HEADER, flush=True)
    results: list[Result] = []
    for _ in range(arguments.repeats):
        one = None
        for workers in arguments.workers:
            results.append(train(arguments.agent, workers, arguments.seconds, one))
            one = one or results[-1].steps_per_s / workers
            print(show(results[-1]), flush=True)
    for workers in arguments.workers:
        scaling = statistics.median(result.scaling for result in results if result.workers == workers)
        print(f"median of {workers} workers: {scaling:.2f} of {workers} × one")
    if arguments.json:
        content = {"machine": platform.platform(), "results": [asdict(result) for result in results]}
        arguments.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
