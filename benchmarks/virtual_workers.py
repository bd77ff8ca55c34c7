"""Many workers beside each other, emulated in one process: returns by steps.

    python benchmarks/virtual_workers.py --env gym:LunarLander-v3 --workers 16 --seeds 50 51 --steps 200000 \
        -o env.num_envs=1 -o agent.rollout_ticks=19 -o agent.members=8 [--csv FILE]

It trains one run after the other, and prints a line for each. As it counts steps, not seconds, it may share the
machine. The file is a plugin as well: it offers the agent `virtual`, which is `a3c` with a clipped ratio in the serial
runner. An event queue decides whose turn it is, as if each worker had a core of its own: a rollout takes
`agent.rollout_ticks`, an update one tick, each times a random factor between 0.75 and 1.25. A worker differentiates at
the parameters of the beginning of its tick, and applies at the end: others have applied their gradients meanwhile.

With `agent.members` above 1 so many workers are a team, as `agent.teams` makes them. A group of members that makes its
updates together learns as one worker with all their environments, so give it as one. The other keys of `agent` are what
was tried in place of teams (docs/explanation/experiments-default-sets.md, "More workers than two").
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
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from a3c_zoo import AgentEntry, hookimpl
from a3c_zoo.agents import A3CConfig

#: How many pieces of work the workers do between two looks at the budget.
TURNS_OF_POLL = 8


class VirtualConfig(A3CConfig):
    """The keys of `a3c`, and how virtual workers go beside each other."""

    members: int = Field(1, ge=1, description="workers of a team")
    rollout_ticks: float = Field(54, ge=0, description="time of a rollout, in times of an update")
    waits: bool = Field(True, description="members wait for their team before they learn")
    waits_after: bool = Field(True, description="members also wait for their team before they collect")
    normalized_over: Literal["update", "team"] = Field(
        "team", description="team: advantages are normalised over the rollouts of a team of several members"
    )
    shares_samples: bool = Field(False, description="an update has samples of all members of the team")
    anew: bool = Field(False, description="values and advantages are computed anew before each pass")
    kl_limit: float | None = Field(None, description="a worker leaves its rollout beyond this divergence")
    clipped_against: Literal["acted", "pulled"] = Field(
        "acted",
        description="pulled: ratios are to the policy at the first update of a rollout, and advantages have a "
        "truncated weight, min(1, that policy's probability / the acting one's)",
    )


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
    """A crew of workers that take turns by an event queue. Its methods are those of `Crew`."""

    def __init__(self, context: Any, factory: Any, shared: Any, states: Any) -> None:
        self._factory = factory
        self._shared = shared
        self._agent = shared.config.agent
        self._workers: list[Any] = []
        self._turns: list[Iterator[float | None]] = []
        self._random = random.Random(context.config.run.seed)
        self._now = 0.0
        self._queue: list[tuple[float, int]] = []
        self._waiting: dict[int, list[int]] = {}
        self._one_thread = contextlib.ExitStack()

    def start(self) -> None:
        """Builds the workers; they begin at different times."""
        from a3c_zoo.learning.model import one_torch_thread

        self._one_thread.enter_context(one_torch_thread())
        for rank in range(len(self._shared.counters)):
            self._workers.append(self._factory(self._shared, rank, None, lambda: None))
            self._turns.append(self._workers[rank].turns())
            heapq.heappush(self._queue, (self._random.random() * 2 * self._agent.rollout_ticks, rank))

    def resume(self) -> None:
        """Does nothing: workers work when polled."""

    def poll(self) -> list[Any]:
        """Lets workers take a few turns: so many that the end of a run does not depend on the machine's speed."""
        for _ in range(TURNS_OF_POLL):
            self._now, rank = heapq.heappop(self._queue)
            ticks = next(self._turns[rank])
            if ticks is None:
                self._wait(rank)
            else:
                self._push(rank, ticks)
        return [worker.report() for worker in self._workers]

    def _push(self, rank: int, ticks: float) -> None:
        heapq.heappush(self._queue, (self._now + ticks * self._random.uniform(0.75, 1.25), rank))

    def _wait(self, rank: int) -> None:
        """The last of a team to come lets all go on."""
        waiting = self._waiting.setdefault(rank % (len(self._workers) // self._agent.members), [])
        waiting.append(rank)
        if len(waiting) < self._agent.members:
            return
        team = [self._workers[each] for each in waiting]
        for each in waiting:
            self._workers[each].join(team)
            self._push(each, 1e-3)
        waiting.clear()

    def park(self, cuts: Any = None) -> list[Any]:
        """Does nothing: nobody works."""
        return []

    def states(self) -> list[Any]:
        """None that a run could go on from."""
        return []

    def stop(self) -> list[Any]:
        """Closes the environments."""
        reports = [worker.report() for worker in self._workers]
        for worker in self._workers:
            worker.close()
        self._workers.clear()
        self._one_thread.close()
        return reports


def virtual_worker(*arguments: Any) -> Any:
    """A worker whose method `turns` yields how long each piece of its work takes; None to wait for the team."""
    from dataclasses import replace

    import numpy as np
    import torch

    from a3c_zoo.agents import A3CWorker
    from a3c_zoo.learning.actions import masked_logits
    from a3c_zoo.learning.counters import STEPS
    from a3c_zoo.learning.objective import advantages_and_returns
    from a3c_zoo.learning.samples import differentiate_samples
    from a3c_zoo.learning.update_parts import WholeUpdate, moments_of_updates, whole_updates

    class VirtualWorker(A3CWorker):
        agent: Any

        def turns(self) -> Iterator[float | None]:
            while True:
                self.pull()
                rollout = self.collect()
                self._samples = self.samples(rollout)
                self._of_team: WholeUpdate | None = None
                yield self.agent.rollout_ticks
                if self.agent.waits and self.agent.members > 1:
                    yield None
                yield from self._learn(rollout)
                if self.agent.waits_after and self.agent.members > 1:
                    yield None

        def join(self, team: list[Any]) -> None:
            """All members of the team have collected."""
            if self.agent.shares_samples:
                team = sorted(team, key=lambda member: member.rank)
                self._place = team.index(self)
                self._pooled = self._pool(team)
                self._shuffles = torch.Generator().manual_seed(int(team[0].row[STEPS]))
            elif self.agent.normalized_over == "team":
                moments = np.array([member.moments() for member in team])
                [self._of_team] = whole_updates(moments, slice(0, len(team)), 1)

        def _pool(self, team: list[Any]) -> Any:
            parts = [member._samples for member in team]
            tensors = {
                name: torch.cat([getattr(part, name) for part in parts])
                for name in ("observations", "actions", "log_probs", "advantages", "returns", "valid")
            }
            return replace(parts[0], **tensors)

        def _batches_of(self, samples: Any) -> Iterator[Any]:
            if not self.agent.shares_samples:
                yield from samples.batches(self._size, self.collector.generator)
                return
            chosen = self._pooled.shuffled(self._size, self._shuffles)
            for numbers in chosen[self._place :: self.agent.members]:
                yield self._pooled.chosen(numbers)

        def moments(self) -> Any:
            samples: Any = self._samples
            return moments_of_updates(samples.advantages, samples.valid, (torch.arange(len(samples.valid)),))

        def _learn(self, rollout: Any) -> Iterator[float]:
            samples: Any = self._samples
            self.pull()
            if self.agent.clipped_against == "pulled":
                samples = self._clipped_against_newest(samples)
            for number in range(self.agent.passes):
                if number and self.agent.anew:
                    samples = self._valued_anew(rollout, samples)
                for batch in self._batches_of(samples):
                    self.pull()
                    if not batch.valid.any():
                        continue
                    self.model.flat.zero_gradients()
                    wanted = self.agent.kl_limit is not None or self.wants_metrics()
                    metrics = self._differentiate_batch(batch, wanted)
                    yield 1.0
                    if self.agent.kl_limit is not None and metrics["approx_kl"] > self.agent.kl_limit:
                        return
                    applied = self.applier.apply(self.model.flat.wide_gradients(), (self.updates_at_pull,))
                    if wanted:
                        self.tell(metrics | applied)

        def _differentiate_batch(self, batch: Any, want_metrics: bool) -> dict[str, float]:
            whole = self._of_team
            if whole is not None:
                whole = replace(whole, num_valid=int(batch.valid.sum()))
            actions = self.context.spaces.actions
            return differentiate_samples(self.model.network, actions, batch, self.objective(), want_metrics, whole)

        def _clipped_against_newest(self, samples: Any) -> Any:
            actions = self.context.spaces.actions
            with torch.no_grad():
                logits, _ = self.model.network.act(samples.observations)
                logits = masked_logits(actions, logits, samples.masks)
                log_probs, _ = actions.log_prob_and_entropy(logits, samples.actions)
            weight = (log_probs - samples.log_probs).clamp(max=0).exp()
            return replace(samples, log_probs=log_probs, advantages=samples.advantages * weight)

        def _valued_anew(self, rollout: Any, samples: Any) -> Any:
            self.pull()
            network = self.model.network
            steps, envs = rollout.rewards.shape
            with torch.no_grad():
                values = network.value(rollout.observations.flatten(0, 1)).view(steps + 1, envs).numpy()
            following = rollout.next_values(values[1:], slice(None), network.value)
            objective = self.objective()
            advantages, returns = advantages_and_returns(rollout, slice(None), values[:-1], following, objective)
            return replace(
                samples,
                advantages=torch.from_numpy(advantages.reshape(-1)),
                returns=torch.from_numpy(returns.reshape(-1)),
            )

    return VirtualWorker(*arguments)


@dataclass(frozen=True, slots=True)
class Run:
    """A run: when it was solved, None if never; its mean return at the end, and at three moments before."""

    env: str
    set_name: str
    workers: int
    options: str
    seed: int
    budget_steps: int
    steps: int
    solved_step: int | None
    mean_return: float | None
    at_1_4: float | None
    at_1_2: float | None
    at_3_4: float | None


def train_one(given: argparse.Namespace, seed: int, folder: Path) -> Run:
    """Trains in a process of its own."""
    name = f"s{seed}"
    command = [sys.executable, "-m", "a3c_zoo", "train", given.env, "--plugin", __file__, "--agent", "virtual"]
    command += ["--serial", "--hyperparams", given.set, "--workers", str(given.workers), "--seed", str(seed)]
    command += ["--steps", str(given.steps), "--quiet", "--runs-dir", str(folder), "--name", name]
    options = ["agent.teams=null", "run.evaluation_every_s=null", "run.checkpoint_every_s=100000"]
    options += [f"optimizer.schedule_steps={given.schedule_steps}", *given.options]
    for option in options:
        command += ["-o", option]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if not (folder / name / "outcome.json").exists():
        raise SystemExit(done.stdout[-3000:])
    outcome = json.loads((folder / name / "outcome.json").read_text(encoding="utf-8"))
    with (folder / name / "monitor.csv").open(encoding="utf-8", newline="") as lines:
        next(lines)  # a comment
        returns = sorted((int(row["step"]), float(row["r"])) for row in csv.DictReader(lines))
    means = [mean_at(returns, given.steps * quarter // 4) for quarter in (1, 2, 3)]
    words = " ".join(given.options)
    own = (given.env, given.set, given.workers, words, seed, given.steps)
    return Run(*own, outcome["steps"], outcome["solved_step"], outcome["mean_return_100"], *means)


def mean_at(returns: list[tuple[int, float]], step: int) -> float | None:
    """The mean of the last 100 returns until a step."""
    before = [value for at, value in returns if at <= step]
    return round(statistics.fmean(before[-100:]), 1) if before else None


def main() -> None:
    """Trains all runs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--env", default="gym:LunarLander-v3")
    parser.add_argument("--set", default="a3c", help="a hyperparameter set with agent.clip_ratio")
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--seeds", type=int, nargs="+", default=[50])
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--schedule-steps", type=int, default=400_000, help="optimizer.schedule_steps")
    parser.add_argument("-o", dest="options", action="append", default=[], help="as of a3c-zoo train")
    parser.add_argument("--csv", type=Path, help="add the figures to this file")
    given = parser.parse_args()
    for seed in given.seeds:
        with tempfile.TemporaryDirectory() as folder:
            run = train_one(given, seed, Path(folder))
        print(run, flush=True)
        if given.csv:
            add(given.csv, run)


def add(file: Path, run: Run) -> None:
    """Adds a row."""
    is_new = not file.exists()
    with file.open("a", encoding="utf-8", newline="") as lines:
        writer = csv.DictWriter(lines, [each.name for each in fields(Run)], lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(asdict(run))


if __name__ == "__main__":
    main()
