"""Many workers that learn beside each other, emulated in one process: how many steps they need, whatever the machine.

    python benchmarks/virtual_workers.py --env gym:LunarLander-v3 --workers 16 --seeds 50 51 --steps 200000 \
        -o env.num_envs=1 -o agent.joins=round [--csv FILE]

The file is a plugin as well: it offers the agent `virtual`, which is `a3c` with a clipped ratio, in the serial runner.
An event queue decides whose turn it is, as if each worker had a core of its own: a rollout takes `agent.rollout_ticks`,
an update one tick, each times a random factor between 0.75 and 1.25. A worker differentiates at the parameters that it
pulled at the beginning of the tick, and applies at its end: others have applied theirs meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import heapq
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from a3c_zoo import AgentEntry, hookimpl
from a3c_zoo.agents import A3CConfig


class VirtualConfig(A3CConfig):
    """The keys of `a3c`, and how virtual workers go beside each other."""

    members: int = Field(1, ge=1, description="workers of a team: they begin to learn together, `joins` permitting")
    joins: Literal["never", "round"] = Field("never", description="round: wait for all before learning from a rollout")
    rollout_ticks: float = Field(54, ge=0, description="time of a rollout, in times of an update")
    advantages: Literal["update", "round"] = Field("update", description="over what advantages are normalised")
    anew: bool = Field(False, description="compute values and advantages anew before each pass")
    kl_limit: float | None = Field(None, description="a worker leaves its rollout beyond this divergence")
    behaviour: Literal["acted", "pulled"] = Field("acted", description="whose probabilities the ratio is of")
    stratified: bool = Field(False, description="an update has samples of all members, made by all at once (teams)")


@hookimpl
def zoo_agents() -> list[AgentEntry]:
    """Offers the agent."""
    return [
        AgentEntry(
            "virtual",
            run="virtual_workers:run",
            load="a3c_zoo.agents:load",
            config="virtual_workers:VirtualConfig",
            description="a3c with virtual workers",
            revision=1,
        )
    ]


def run(context: Any) -> None:
    """Trains with virtual workers."""
    from a3c_zoo.agents import agent_config, train

    if not context.serial:
        raise RuntimeError("virtual workers have one process: --serial")
    agent_config(context, VirtualConfig)
    train(context, virtual_worker, None, crew=VirtualCrew)


class VirtualCrew:
    """A crew of generators and an event queue."""

    def __init__(self, context: Any, factory: Any, shared: Any, states: Any) -> None:
        self._factory, self._shared = factory, shared
        self._cuts = context.cuts_rollouts
        self._workers: list[Any] = []
        self._one_thread = contextlib.ExitStack()
        self._random = random.Random(context.config.run.seed)
        self._now = 0.0
        self._queue: list[tuple[float, int]] = []
        self._waiting: dict[int, list[int]] = {}

    def start(self) -> None:
        from a3c_zoo.learning.model import one_torch_thread

        self._one_thread.enter_context(one_torch_thread())
        count = len(self._shared.counters)
        self._members = self._shared.config.agent.members
        for rank in range(count):
            self._workers.append(self._factory(self._shared, rank, None, lambda: None))
        self._turns = [worker.turns() for worker in self._workers]
        ticks = self._shared.config.agent.rollout_ticks
        for rank in range(count):
            heapq.heappush(self._queue, (self._random.random() * ticks * 2, rank))

    def resume(self) -> None: ...

    def poll(self) -> list[Any]:
        end_s = time.monotonic() + 0.1
        while time.monotonic() < end_s:
            self._now, rank = heapq.heappop(self._queue)
            self._go_on(rank)
        return [worker.report() for worker in self._workers]

    def _go_on(self, rank: int) -> None:
        ticks = next(self._turns[rank])
        if ticks is not None:
            heapq.heappush(self._queue, (self._now + ticks * self._random.uniform(0.75, 1.25), rank))
            return
        teams = len(self._workers) // self._members
        waiting = self._waiting.setdefault(rank % teams, [])
        waiting.append(rank)
        if len(waiting) == self._members:
            team = [self._workers[each] for each in waiting]
            for worker in team:
                worker.join(team)
            for each in waiting:
                heapq.heappush(self._queue, (self._now + 1e-3 * self._random.random(), each))
            waiting.clear()

    def park(self, cuts: Any = None) -> list[Any]:
        return []

    def states(self) -> list[Any]:
        return [worker.state_dict() for worker in self._workers]

    def stop(self) -> list[Any]:
        reports = [worker.report() for worker in self._workers]
        for worker in self._workers:
            worker.close()
        self._workers.clear()
        self._one_thread.close()
        return reports


def virtual_worker(*arguments: Any) -> Any:
    """One worker; `turns` yields how long each piece of its work takes, None to wait for the team."""
    from dataclasses import replace

    import numpy as np
    import torch

    from a3c_zoo.agents import A3CWorker
    from a3c_zoo.learning.actions import masked_logits
    from a3c_zoo.learning.objective import advantages_and_returns
    from a3c_zoo.learning.samples import differentiate_samples
    from a3c_zoo.learning.update_parts import WholeUpdate, merged_moments, moments_of_updates

    class VirtualWorker(A3CWorker):
        agent: Any

        def turns(self) -> Iterator[float | None]:
            agent = self.agent
            while True:
                self.pull()
                rollout = self.collect()
                self._own = self.samples(rollout)
                yield agent.rollout_ticks
                self._whole = None
                if agent.joins == "round":
                    yield None
                yield from self._learn(rollout)

        def join(self, team: list[Any]) -> None:
            if self.agent.advantages == "round":
                moments = [
                    moments_of_updates(w._own.advantages, w._own.valid, (torch.arange(len(w._own.valid)),)) for w in team
                ]
                self._whole = WholeUpdate.of(merged_moments(np.array(moments))[0])

        def _learn(self, rollout: Any) -> Iterator[float]:
            agent = self.agent
            samples = self._own
            self.pull()
            if agent.behaviour == "pulled":
                samples = self._with_pulled(samples)
            divergence = 0.0
            for number in range(agent.passes):
                if number and agent.anew:
                    samples = self._anew(rollout, samples)
                for chosen in samples.shuffled(self._size, self.collector.generator):
                    self.pull()
                    batch = samples.chosen(chosen)
                    if self._whole is not None:
                        scaled = (batch.advantages - self._whole.mean) / (self._whole.deviation + 1e-8)
                        batch = replace(batch, advantages=scaled.float())
                    if not batch.valid.any():
                        continue
                    self.model.flat.zero_gradients()
                    wants = agent.kl_limit is not None or self.wants_metrics()
                    objective = self.objective()
                    if self._whole is not None:
                        objective = replace(objective, normalize_advantages=False)
                    metrics = differentiate_samples(
                        self.model.network, self.context.spaces.actions, batch, objective, wants
                    )
                    divergence = metrics.get("approx_kl", 0.0)
                    yield 1.0
                    if agent.kl_limit is not None and divergence > agent.kl_limit:
                        return
                    applied = self.applier.apply(self.model.flat.wide_gradients(), (self.updates_at_pull,))
                    if wants:
                        self.tell(metrics | applied)

        def _with_pulled(self, samples: Any) -> Any:
            """The ratio is of the policy when learning begins; the weight of a sample is its truncated ratio to acting."""
            actions = self.context.spaces.actions
            with torch.no_grad():
                logits, _ = self.model.network.act(samples.observations)
                log_probs, _ = actions.log_prob_and_entropy(
                    masked_logits(actions, logits, samples.masks), samples.actions
                )
            weight = (log_probs - samples.log_probs).clamp(max=0).exp()
            return replace(samples, log_probs=log_probs, advantages=samples.advantages * weight)

        def _anew(self, rollout: Any, samples: Any) -> Any:
            """Values and advantages by the newest parameters."""
            self.pull()
            network = self.model.network
            with torch.no_grad():
                steps, envs = rollout.rewards.shape
                flat = rollout.observations.flatten(0, 1)
                values = network.value(flat).view(steps + 1, envs).numpy()
            following = rollout.next_values(values[1:], slice(None), network.value)
            advantages, returns = advantages_and_returns(rollout, slice(None), values[:-1], following, self.objective())
            return replace(
                samples,
                advantages=torch.from_numpy(advantages.reshape(-1)),
                returns=torch.from_numpy(returns.reshape(-1)),
            )

        def state_dict(self) -> dict[str, Any]:
            return {}

    return VirtualWorker(*arguments)


def train_one(given: argparse.Namespace, seed: int, folder: Path) -> dict[str, Any]:
    """Trains one run in a process of its own; its figures."""
    name = f"s{seed}-{time.monotonic_ns()}"
    command = [sys.executable, "-m", "a3c_zoo", "train", given.env, "--plugin", __file__, "--agent", "virtual", "--serial"]
    command += ["--hyperparams", given.set, "--workers", str(given.workers), "--seed", str(seed)]
    command += ["--steps", str(given.steps), "--quiet", "--runs-dir", str(folder), "--name", name]
    options = ["agent.teams=null", "run.evaluation_every_s=null", "run.checkpoint_every_s=100000"]
    options += [f"optimizer.schedule_steps={given.schedule}", *given.options]
    for option in options:
        command += ["-o", option]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stdout[-3000:])
    outcome = json.loads((folder / name / "outcome.json").read_text(encoding="utf-8"))
    with (folder / name / "monitor.csv").open(encoding="utf-8", newline="") as lines:
        next(lines)
        rows = sorted((int(row["step"]), float(row["r"])) for row in csv.DictReader(lines))
    means = {}
    for mark in (given.steps // 4, given.steps // 2, given.steps * 3 // 4):
        past = [value for step, value in rows if step <= mark][-100:]
        means[mark] = round(statistics.fmean(past), 1) if past else None
    return {"solved": outcome["solved_step"], "mean": outcome["mean_return_100"], "steps": outcome["steps"], "marks": means}


def main() -> None:
    """Trains all runs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--env", default="gym:LunarLander-v3")
    parser.add_argument("--set", default="a3c")
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--seeds", type=int, nargs="+", default=[50])
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--schedule", type=int, default=400_000, help="steps after which the rate is 0")
    parser.add_argument("-o", dest="options", action="append", default=[])
    parser.add_argument("--csv", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        for seed in given.seeds:
            began_s = time.monotonic()
            figures = train_one(given, seed, Path(temporary))
            took_s = time.monotonic() - began_s
            words = " ".join(given.options)
            print(f"{given.env} W={given.workers} {words} seed {seed}: {figures} {took_s:.0f} s", flush=True)
            if given.csv:
                is_new = not given.csv.exists()
                with given.csv.open("a", newline="") as file:
                    writer = csv.writer(file, lineterminator="\n")
                    if is_new:
                        writer.writerow(
                            "env set workers options seed budget_steps steps solved_step mean_return at_1_4 at_1_2 at_3_4".split()
                        )
                    writer.writerow(
                        [given.env, given.set, given.workers, words, seed, given.steps, figures["steps"]]
                        + [figures["solved"], figures["mean"], *figures["marks"].values()]
                    )


if __name__ == "__main__":
    main()
