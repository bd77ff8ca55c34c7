"""What every worker that collects rollouts has: a model, environments, exact counts, a report."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from a3c_zoo.agents.plan import Plan, misfit
from a3c_zoo.learning.environments import SEED_ENV, SEED_SAMPLING, make_vector_env, seed_for
from a3c_zoo.learning.model import Model
from a3c_zoo.learning.rollout import Collector
from a3c_zoo.learning.shared import Counters
from a3c_zoo.learning.statistics import RunningStatistics
from a3c_zoo.records import Episode, Report

#: Seconds between two updates whose statistics are computed: often enough for a plot, too seldom to cost.
STATISTICS_EVERY_S = 0.05


class RolloutWorker:
    """One worker without its work: agents derive from it and say what becomes of a rollout.

    Args:
        plan: what all workers share. rank: which of them this is. state: to go on from, or None.
        on_tick: called after every environment step; may raise to stop.
        n_steps: T, rows of a rollout.
    """

    def __init__(
        self, plan: Plan, rank: int, state: dict[str, Any] | None, on_tick: Callable[[], None], n_steps: int
    ) -> None:
        config, seed = plan.config, plan.config.run.seed
        self.plan, self.rank, self.on_tick = plan, rank, on_tick
        self.model = Model(plan.spaces, plan.network, config, config.run.device)
        self.counters = Counters(plan.counters)
        self.row = self.counters.row(rank)
        env = make_vector_env(plan.entry, config.env, config.env.num_envs, seed_for(seed, SEED_ENV, rank))
        self.collector = Collector(
            env,
            plan.entry.name,
            plan.spaces.observations,
            plan.spaces.actions,
            n_steps,
            seed_for(seed, SEED_ENV, rank, plan.session),
            torch.Generator().manual_seed(seed_for(seed, SEED_SAMPLING, rank, plan.session)),
            on_tick,
        )
        if state:
            try:
                self.collector.load_state_dict(state["collector"])
            except (KeyError, RuntimeError, ValueError) as error:
                raise misfit(error) from error
        self._report = Report(worker=rank)
        self._next_statistics_s = 0.0

    def work(self) -> None:
        """One rollout's worth of work."""
        raise NotImplementedError

    def pull(self) -> None:
        """Copies the shared parameters into the worker's own network."""
        self.model.pull(self.plan.parameters, self.plan.statistics)
        self.updates_at_pull = self.counters.updates

    def collect(self) -> None:
        """Collects one rollout, `self.collector.rollout`, and accounts for it."""
        steps_before = self.counters.steps
        episodes = self.collector.collect(self.model.network)
        rollout = self.collector.rollout
        if self.plan.statistics is not None:
            seen = self.plan.spaces.observations.encode(rollout.observations[:-1]).numpy()
            RunningStatistics(self.plan.statistics).update(self.rank, seen[rollout.valid])
        counts = rollout.valid.sum(axis=1)
        self.row[0] += counts.sum()
        if episodes:
            now, steps = time.monotonic(), steps_before + counts.cumsum()
            self._report.episodes += [
                Episode(e.episode_return, e.length, int(steps[e.row]), now, self.rank) for e in episodes
            ]

    def wants_statistics(self) -> bool:
        """Whether the next update's statistics shall be computed and given to `tell`."""
        return time.monotonic() >= self._next_statistics_s

    def tell(self, metrics: dict[str, float]) -> None:
        """Puts the statistics of an update into the next report."""
        self._next_statistics_s = time.monotonic() + STATISTICS_EVERY_S
        self._report.metrics = metrics

    def report(self) -> Report:
        report, self._report = self._report, Report(worker=self.rank)
        report.steps, report.updates = self.counters.steps, self.counters.updates
        return report

    def state_dict(self) -> dict[str, Any]:
        return {"collector": self.collector.state_dict()}

    def close(self) -> None:
        self.collector.env.close()
