"""What the driver keeps of its nodes: the run's tensors, up to date, and the nodes in turn (`--serial`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from a3c_zoo.agents import State, WorkerContext, WorkerFactory
from a3c_zoo.config import NEVER
from a3c_zoo.errors import ConfigError
from a3c_zoo.learning import Counters, RunningStatistics
from a3c_zoo.records import Report, RunContext

from a3c_zoo_ray.config import A3CRayConfig
from a3c_zoo_ray.exchange import Answer, Floats, Message, Rows, Shard, Traffic, slices_of
from a3c_zoo_ray.node import Node, NodePlan, NodeReport

#: How often the metrics of the exchange are reported, in seconds.
METRICS_EVERY_S = 1.0


class Mirror:
    """The run's own tensors, from which its snapshots are made, and how they follow those of the nodes.

    Args:
        context: the run. factory: builds a worker. shared: what snapshots are made of.
        states: of all workers, to go on from; or None.

    Attributes:
        agent: the `agent` section. counters: of all workers. plans: of the nodes.
    """

    def __init__(
        self, context: RunContext, factory: WorkerFactory, shared: WorkerContext, states: list[State] | None
    ) -> None:
        agent, run = context.config.agent, context.config.run
        assert isinstance(agent, A3CRayConfig)
        self.context, self.agent, self.shared = context, agent, shared
        self.counters = Counters(shared.counters)
        # Episodes that workers had counted but not reported when a session failed do not count for the budget.
        lost = self.counters.episodes - context.episodes
        most = NEVER if run.episodes is None else run.episodes + lost
        self.plans = [
            NodePlan(
                index,
                ranks,
                factory,
                shared,
                states[ranks.start : ranks.stop] if states else None,
                most,
                context.serial,
            )
            for index, ranks in enumerate(ranks_of(run.workers, agent.nodes))
        ]
        self._reported = [int(self.counters.row(rank)[EPISODES]) for rank in range(run.workers)]
        self._traffic, self._since_s, self._dropped = Traffic(), time.monotonic(), 0

    @property
    def left(self) -> int:
        """How many steps all workers together may make until the next pause."""
        return self.context.config.run.next_pause(self.counters.steps) - self.counters.steps

    def first_rows(self) -> Rows:
        """The rows of all workers, for the first shard."""
        statistics = self.shared.running_statistics
        copied = {name: RunningStatistics(tensor).copy().numpy() for name, tensor in statistics.items()}
        return Rows(0, self.shared.counters.numpy().copy(), copied)

    def take(self, told: NodeReport, clock_offset_s: float = 0.0) -> list[Report]:
        """Takes over a node's counts and buffers; returns its reports, with the counts of the whole run.

        clock_offset_s: what to add to the node's times.
        """
        rows = told.rows
        self.shared.counters[rows.first : rows.first + len(rows.counters)] = torch.from_numpy(rows.counters.copy())
        for statistic, tensor in self.shared.running_statistics.items():
            for number, row in enumerate(rows.statistics[statistic]):
                RunningStatistics(tensor).take_over(rows.first + number, row)
        for name, buffer in told.buffers.items():
            self.shared.buffers[name].copy_(buffer)
        for kind, text, facts in told.events:
            self.context.event(kind, text, **facts)
        for report in told.reports:
            report.steps, report.updates = self.counters.steps, self.counters.updates
            report.episodes = [episode._replace(time_s=episode.time_s + clock_offset_s) for episode in report.episodes]
            for episode in report.episodes:
                self._reported[episode.worker] += 1
        return told.reports + self._metrics(told.traffic)

    def lose(self, plan: NodePlan) -> NodePlan:
        """A node is lost: what its workers have counted and not reported does not count. Returns its successor's plan.

        The successor begins with the newest parameters and moments that the run has, and with new episodes.
        """
        for rank in plan.ranks:
            self.counters.lose(rank, self._reported[rank])
        return replace(plan, states=None)

    def take_moments(self, moments: Sequence[dict[str, torch.Tensor]]) -> None:
        """Takes over the mean of the nodes' moments."""
        for name, tensor in (self.shared.moments or {}).items():
            theirs = [of_node[name] for of_node in moments]
            if theirs:
                tensor.copy_(theirs[0] if len(theirs) == 1 else torch.stack(theirs).mean(0))

    def take_values(self, values: Sequence[Floats]) -> None:
        """Takes over the parameters of the shards."""
        self.shared.parameters.copy_(torch.from_numpy(np.concatenate(values)))

    def _metrics(self, traffic: Traffic) -> list[Report]:
        total, now = self._traffic, time.monotonic()
        for name in Traffic.__slots__:
            setattr(total, name, getattr(total, name) + getattr(traffic, name))
        seconds = now - self._since_s
        if not total.exchanges or seconds < METRICS_EVERY_S:
            return []
        self._traffic, self._since_s, self._dropped = Traffic(), now, self._dropped + total.dropped
        metrics = {
            "exchanges_per_s": total.exchanges / seconds,
            "exchange_bytes_per_s": (total.sent_bytes + total.received_bytes) / seconds,
            "exchange_staleness": total.staleness / total.exchanges,
            "exchange_s": total.seconds / total.exchanges,
            "exchanges_dropped": float(self._dropped),
        }
        return [Report(steps=self.counters.steps, updates=self.counters.updates, metrics=metrics)]


#: The column of the counters that holds finished episodes.
EPISODES = 3


def ranks_of(workers: int, nodes: int) -> list[range]:
    """Shares out the ranks of the workers among nodes, as equally as possible.

    Raises:
        ConfigError: a node would have no worker.
    """
    if workers < nodes:
        raise ConfigError(f"agent.nodes: {nodes} — there are only {workers} workers: --workers {nodes}, or more")
    return [range(part.start, part.stop) for part in slices_of(workers, nodes)]


class SerialNodes:
    """Nodes in turn in this process, and their shards: each node's workers make one rollout, then the next node's."""

    def __init__(
        self, context: RunContext, factory: WorkerFactory, shared: WorkerContext, states: list[State] | None
    ) -> None:
        self._mirror = Mirror(context, factory, shared, states)
        self._shards = shards_of(self._mirror, Shard)
        self._nodes = [Node(plan, self._exchange, context.cuts_rollouts) for plan in self._mirror.plans]
        self._stands = True
        self._reports: list[Report] = []  # that nobody has got

    def _exchange(self, messages: Sequence[Message]) -> list[Answer]:
        return [shard.exchange(message) for shard, message in zip(self._shards, messages, strict=True)]

    def start(self) -> None:
        for node in self._nodes:
            node.start()

    def resume(self) -> None:
        if self._stands:
            for node in self._nodes:
                node.resume(NEVER)
        self._stands = False

    def poll(self) -> list[Report]:
        for node in self._nodes:
            self._reports += self._mirror.take(node.poll())
        return self._new_reports()

    def _new_reports(self) -> list[Report]:
        reports, self._reports = self._reports, []
        return reports

    def park(self, cuts: Callable[[], bool] = lambda: False) -> list[Report]:
        told = [node.park() for node in self._nodes]
        self._told, self._stands = told, True
        self._mirror.take_values([shard.values() for shard in self._shards])
        self._mirror.take_moments([node_report.moments for node_report in told])
        return [report for node_report in told for report in self._mirror.take(node_report)]

    def states(self) -> list[State]:
        return [state for node_report in self._told for state in node_report.states] if self._stands else []

    _told: Sequence[NodeReport] = ()

    def stop(self) -> list[Report]:
        told = [node.stop() for node in self._nodes]
        self._nodes = []
        if told:
            self._mirror.take_values([shard.values() for shard in self._shards])
            self._mirror.take_moments([node_report.moments for node_report in told])
        for report in told:
            self._reports += self._mirror.take(report)
        return self._new_reports()


def shards_of(mirror: Mirror, make: Callable[..., Any]) -> list[Any]:
    """Makes the shards by `make(values, rows, max_staleness)`, with the run's parameters."""
    values = mirror.shared.parameters.numpy()
    firsts = [mirror.first_rows(), *[None] * (mirror.agent.shards - 1)]
    parts = zip(slices_of(len(values), mirror.agent.shards), firsts, strict=True)
    return [make(values[part], rows, mirror.agent.max_staleness) for part, rows in parts]
