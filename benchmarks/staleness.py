"""How learning bears staleness: a3c with gradients that are D updates old.

    python benchmarks/staleness.py [--env cartpole] [--delays 0 1 4 16 64 256] [--seeds 1 2 3] [--steps 300000]

It trains one run after the other in the serial runner, and prints a line for each delay. As it counts steps, not
seconds, it may share the machine. The file is a plugin as well: it offers the agent `delayed`. Its only worker acts and
learns with the parameters of D updates before, as a worker does whose exchange with the others takes so long. An update
is one of the set's own size.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from a3c_zoo import AgentEntry, hookimpl
from a3c_zoo.agents import A3CConfig


class DelayedConfig(A3CConfig):
    """The keys of `a3c`, and the delay."""

    delay: int = Field(0, ge=0, le=4096, description="updates that the parameters of a gradient are old")


@hookimpl
def zoo_agents() -> list[AgentEntry]:
    """Offers the agent."""
    return [
        AgentEntry(
            "delayed",
            run="staleness:run",
            load="a3c_zoo.agents:load",
            config="staleness:DelayedConfig",
            description="a3c with delayed gradients",
            revision=1,
        )
    ]


def run(context: Any) -> None:
    """Trains; the only worker keeps the parameters of the last D updates."""
    from a3c_zoo.agents import agent_config, train

    if context.config.run.workers != 1 or not context.serial:
        raise RuntimeError("the delay is that of one worker in turn: --workers 1 --serial")
    agent_config(context, DelayedConfig)
    train(context, delayed_worker, None)


def delayed_worker(*arguments: Any) -> Any:
    """A worker of a3c whose pull gives it parameters that are D updates old; fresher ones in its first D updates."""
    from a3c_zoo.agents import A3CWorker

    class DelayedWorker(A3CWorker):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self._kept: deque[Any] = deque(maxlen=self.agent.delay + 1)  # type: ignore[attr-defined]

        def pull(self) -> None:
            super().pull()
            flat = self.model.flat
            self._kept.append(flat.values.clone())
            flat.pull(self._kept[0])

    return DelayedWorker(*arguments)


@dataclass(frozen=True, slots=True)
class Run:
    """A run: when it was solved, None if never; its mean return at the end."""

    delay: int
    seed: int
    solved_step: int | None
    mean_return: float | None


def train_one(env: str, delay: int, seed: int, steps: int, folder: Path, options: list[str]) -> Run:
    """Trains in a process of its own."""
    name = f"d{delay}-s{seed}"
    command = [sys.executable, "-m", "a3c_zoo", "train", env, "--plugin", __file__, "--agent", "delayed", "--serial"]
    command += ["--workers", "1", "--seed", str(seed), "--steps", str(steps), "--quiet"]
    command += ["--runs-dir", str(folder), "--name", name, "-o", f"agent.delay={delay}", *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    outcome = json.loads((folder / name / "outcome.json").read_text(encoding="utf-8"))
    return Run(delay, seed, outcome["solved_step"], outcome["mean_return_100"])


def main() -> None:
    """Trains all runs and prints a line for each delay."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--env", default="cartpole")
    parser.add_argument("--hyperparams", default="a3c", help="a set of a3c [a3c]")
    parser.add_argument("--delays", type=int, nargs="+", default=[0, 1, 4, 16, 64, 256])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=300_000)
    parser.add_argument("-o", dest="options", action="append", default=[], help="as of a3c-zoo train")
    parser.add_argument("--json", type=Path, help="write the figures here")
    given, runs = parser.parse_args(), []
    options = ["--hyperparams", given.hyperparams, *(word for text in given.options for word in ("-o", text))]
    with tempfile.TemporaryDirectory() as folder:
        for delay in given.delays:
            done = [train_one(given.env, delay, seed, given.steps, Path(folder), options) for seed in given.seeds]
            solved = [f"{run.solved_step:,}" if run.solved_step else "-" for run in done]
            mean = statistics.fmean(run.mean_return or 0.0 for run in done)
            print(f"delay {delay:4}: solved at step {', '.join(solved)}; mean return at the end {mean:.1f}", flush=True)
            runs += done
    if given.json is not None:
        content = {
            "env": given.env,
            "steps": given.steps,
            "options": given.options,
            "runs": [asdict(run) for run in runs],
        }
        given.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
