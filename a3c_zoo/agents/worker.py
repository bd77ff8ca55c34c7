"""What workers and learners have in common, and what every worker that collects rollouts has."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from a3c_zoo.agents.context import WorkerContext, misfit
from a3c_zoo.learning.collector import Collector
from a3c_zoo.learning.contract import CheckedEnvironment
from a3c_zoo.learning.counters import Counters
from a3c_zoo.learning.environments import make_vector_env
from a3c_zoo.learning.model import Model
from a3c_zoo.learning.objective import Objective
from a3c_zoo.learning.observation_statistics import ObservationStatistics
from a3c_zoo.learning.optimizers import schedule_left
from a3c_zoo.records import Episode, Report
from a3c_zoo.seeds import SEED_ENV, SEED_SAMPLING, seed_for

#: Seconds between two updates whose statistics are computed: often enough for a plot, too seldom to cost.
STATISTICS_EVERY_S = 0.05


#: Updates over which staleness is told.
STALENESS_WINDOW = 1000


class Member:
    """What workers and learners have in common: exact counts and a report. Agents derive from it and say what is done.

    Args:
        plan: what all share. rank: which of them this is. on_tick: called while it works or waits; may raise to stop.
    """

    def __init__(self, plan: WorkerContext, rank: int, on_tick: Callable[[], None]) -> None:
        self.plan, self.rank, self.on_tick = plan, rank, on_tick
        self.model = Model(plan.spaces, plan.network, plan.config, plan.config.run.device)
        self.counters = Counters(plan.counters)
        self.row = self.counters.row(rank)
        self.staleness: deque[float] = deque(maxlen=STALENESS_WINDOW)  # of the latest updates
        self._report = Report(worker=rank)
        self._next_statistics_s = 0.0

    def work(self) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        """Nothing is left to do at a standstill."""

    def at_schedule(self, objective: Objective) -> Objective:
        """The objective with what its coefficients are by now."""
        optimizer = self.plan.config.optimizer
        assert optimizer is not None
        return objective.at(schedule_left(optimizer, self.counters.steps, self.plan.config.run.steps))

    def wants_statistics(self) -> bool:
        """Whether the next update's statistics shall be computed and given to `tell`."""
        return time.monotonic() >= self._next_statistics_s

    def tell(self, metrics: dict[str, float]) -> None:
        """Puts the statistics of an update into the next report, and what is known of staleness."""
        self._next_statistics_s = time.monotonic() + STATISTICS_EVERY_S
        self._report.metrics |= metrics
        if self.staleness:
            ordered = sorted(self.staleness)
            self._report.metrics |= {
                "staleness": float(sum(ordered) / len(ordered)),
                "staleness_p95": float(ordered[-(-95 * len(ordered) // 100) - 1]),  # by nearest rank
            }

    def report(self) -> Report:
        report, self._report = self._report, Report(worker=self.rank)
        report.steps, report.updates = self.counters.steps, self.counters.updates
        return report

    def state_dict(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        """Nothing to close."""


class RolloutWorker(Member):
    """One worker without its work: agents derive from it and say what becomes of a rollout.

    Args:
        plan: what all workers share. rank: which of them this is. state: to go on from, or None.
        on_tick: called after every environment step; may raise to stop.
        n_steps: T, rows of a rollout. cut_at_end: it ends with its episode, if that is sooner (`Collector`).
    """

    def __init__(
        self,
        plan: WorkerContext,
        rank: int,
        state: dict[str, Any] | None,
        on_tick: Callable[[], None],
        n_steps: int,
        cut_at_end: bool = False,
    ) -> None:
        config, seed = plan.config, plan.config.run.seed
        super().__init__(plan, rank, on_tick)
        env = make_vector_env(plan.entry, config.env, config.env.num_envs, seed_for(seed, SEED_ENV, rank))
        self.collector = Collector(
            CheckedEnvironment(env, plan.entry.name, plan.spaces.observations),
            plan.spaces.actions,
            n_steps,
            seed_for(seed, SEED_ENV, rank, plan.session),
            torch.Generator().manual_seed(seed_for(seed, SEED_SAMPLING, rank, plan.session)),
            on_tick,
            cut_at_end,
            self.model.network.start(config.env.num_envs),
        )
        if state:
            try:
                self.collector.load_state_dict(state["collector"])
            except (KeyError, RuntimeError, ValueError) as error:
                raise misfit(error) from error

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
            ObservationStatistics(self.plan.statistics).update(self.rank, seen[rollout.valid])
        counts = rollout.valid.sum(axis=1)
        self.row[0] += counts.sum()
        self.row[3] += len(episodes)
        if episodes:
            now, steps = time.monotonic(), steps_before + counts.cumsum()
            self._report.episodes += [
                Episode(e.episode_return, e.length, int(steps[e.row]), now, self.rank) for e in episodes
            ]

    def state_dict(self) -> dict[str, Any]:
        return {"collector": self.collector.state_dict()}

    def close(self) -> None:
        self.collector.env.close()
