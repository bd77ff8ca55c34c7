"""All agents on CartPole; on Pong, the ways to cut the pipeline, with one network and one optimizer.

    python benchmarks/agents.py [--seeds N] [--cartpole-steps N] [--pong-seconds S] [--json FILE]

Run it on an idle machine.

CartPole: each agent trains with its own set until CartPole is solved or the budget is spent.
Pong: `a3c`, `a3c` with a lock, `a3c-data` and `a3c-grad` train for 5 minutes each, with 2 workers.

Staleness is the number of updates by others between a worker's pull and its apply: mean and 95th percentile over the
last 1000 updates, averaged over the run. Utilisation is the share of time in which the learner does not wait.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import a3c_zoo
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.records import Progress

#: Method, agent, set and values: one pass over a rollout, in each.
PONG: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("a3c", "a3c", "a3c-plain", {}),
    ("a3c locked", "a3c", "a3c-plain", {"agent.locking": "apply"}),
    ("a3c-data", "a3c-data", "a3c-data", {}),
    ("a3c-grad", "a3c-grad", "a3c-grad", {}),
)
FIGURES = ("staleness", "staleness_p95", "learner_utilisation")


@dataclass
class Watcher:
    """An observer that keeps the metrics that a run reports."""

    seen: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in FIGURES})

    def starting(self, *about: Any) -> None:
        """Does nothing."""

    def message(self, text: str) -> None:
        """Does nothing."""

    def progress(self, progress: Progress) -> None:
        """Keeps the metrics of one report; training reports several times a second."""
        for name, values in self.seen.items():
            if name in progress.metrics:
                values.append(progress.metrics[name])

    def mean(self, name: str) -> float | None:
        """The mean over the run; None if the agent does not report this metric."""
        return statistics.fmean(self.seen[name]) if self.seen[name] else None


@dataclass(frozen=True)
class Result:
    """The figures of one training."""

    env: str
    method: str
    seed: int
    ended: str
    training_s: float
    steps: int
    steps_per_s: float
    updates_per_s: float
    staleness: float | None
    staleness_p95: float | None
    learner_utilisation: float | None
    mean_return_100: float | None


def train(env: str, method: str, agent: str, seed: int, overrides: Mapping[str, Any], **more: Any) -> Result:
    """Trains once and returns its figures. more: as of `a3c_zoo.train`."""
    watcher = Watcher()
    with tempfile.TemporaryDirectory() as folder:
        outcome = a3c_zoo.train(
            env, agent=agent, seed=seed, overrides=overrides, runs_dir=folder, observer=watcher, **more
        )
    return Result(
        env,
        method,
        seed,
        outcome.reason,
        outcome.training_s,
        outcome.steps,
        outcome.steps_per_s,
        outcome.updates / outcome.training_s,
        *(watcher.mean(name) for name in FIGURES),
        outcome.mean_return_100,
    )


HEADER = (
    f"{'':9}{'method':13}{'seed':>5} {'ended':11}{'s':>7}{'steps':>11}{'steps/s':>10}{'updates/s':>11}"
    f"{'stale':>7}{'p95':>6}{'learner':>9}{'return':>8}"
)


def show(result: Result) -> str:
    """The line of one training."""

    def number(value: float | None, digits: int, width: int) -> str:
        return f"{'-' if value is None else format(value, f',.{digits}f'):>{width}}"

    utilisation = "-" if result.learner_utilisation is None else f"{result.learner_utilisation:.0%}"
    return (
        f"{result.env:9}{result.method:13}{result.seed:>5} {result.ended:11}{result.training_s:>7.1f}"
        f"{result.steps:>11,}{result.steps_per_s:>10,.0f}{result.updates_per_s:>11,.0f}{number(result.staleness, 2, 7)}"
        f"{number(result.staleness_p95, 1, 6)}{utilisation:>9}{number(result.mean_return_100, 1, 8)}"
    )


def main() -> None:
    """Measures everything and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="seeds per agent on CartPole [3]")
    parser.add_argument("--first-seed", type=int, default=1, help="first seed on CartPole, seed on Pong [1]")
    parser.add_argument("--cartpole-steps", type=int, default=500_000, help="steps of each training; 0: none [500000]")
    parser.add_argument("--pong-seconds", type=float, default=300.0, help="seconds of each training; 0: none [300]")
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    arguments = parser.parse_args()
    agents = [name for name, entry in get_registry().agents.items() if entry.kind == "agent"]
    results: list[Result] = []

    def take(result: Result) -> None:
        results.append(result)
        print(show(result), flush=True)

    print(HEADER, flush=True)
    if arguments.cartpole_steps:
        locked = ("a3c locked", "a3c", {"agent.locking": "apply"})
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            for method, agent, overrides in (*((name, name, {}) for name in agents), locked):
                take(train("cartpole", method, agent, seed, overrides, steps=arguments.cartpole_steps))
    if arguments.pong_seconds:
        for method, agent, hyperparams, overrides in PONG:
            options = {"run.workers": 2, "run.stop_when_solved": False, **overrides}
            more = {"hyperparams": hyperparams, "time_limit_s": arguments.pong_seconds}
            take(train("pong", method, agent, arguments.first_seed, options, **more))
    if arguments.json:
        content = {"machine": platform.platform(), "results": [asdict(result) for result in results]}
        arguments.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
