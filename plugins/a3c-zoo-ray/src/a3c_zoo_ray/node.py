"""One node: the crew of `a3c` on memory of its own, and its exchange with the parameter servers. No Ray here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from a3c_zoo.agents import (
    Crew,
    OnTick,
    Replacements,
    SerialCrew,
    State,
    WorkerContext,
    WorkerFactory,
    WorkerPool,
    check_room,
)
from a3c_zoo.learning import Counters, RunningStatistics
from a3c_zoo.records import Report
from torch import Tensor

from a3c_zoo_ray.config import A3CRayConfig
from a3c_zoo_ray.exchange import Answer, Exchange, Floats, Message, Rows, Traffic

#: How often a node looks whether an exchange is due, in seconds.
LOOK_EVERY_S = 0.004
#: At a standstill a node repeats its exchange until the servers have its parameters bit by bit. The first sum of two
#: float32 may be rounded; the difference that is left then is exact.
MOST_ROUNDS = 4

#: Sends a message to each shard, and returns the answers.
Link = Callable[[Sequence[Message]], Sequence[Answer]]


@dataclass(frozen=True, slots=True)
class NodePlan:
    """What a node is made of; it travels there.

    Attributes:
        index: the node's number. ranks: of its workers. factory: builds a worker.
        context: the run's; the node copies its tensors. states: of the node's workers, to go on from; or None.
        max_episodes: its workers begin no rollout when they have so many. is_serial: its workers work in turn.
    """

    index: int
    ranks: range
    factory: WorkerFactory
    context: WorkerContext
    states: list[State] | None
    max_episodes: int
    is_serial: bool


@dataclass(slots=True)
class NodeReport:
    """What a node tells the driver.

    Attributes:
        reports: of its workers. rows: of its workers. buffers: of its network. traffic: since the last report.
        events: arguments of `RunContext.event`: kind, text, facts. lost: why its servers do not answer, or "".
        states: at a standstill. moments: then, and at the end. parameters: at the end; the servers may end earlier.
        now_s: this machine's `time.monotonic()`.
    """

    reports: list[Report]
    rows: Rows
    buffers: dict[str, Tensor]
    traffic: Traffic
    events: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    lost: str = ""
    states: list[State] = field(default_factory=list)
    moments: dict[str, Tensor] = field(default_factory=dict)
    parameters: Floats | None = None
    now_s: float = field(default_factory=time.monotonic)


def build_worker(
    factory: WorkerFactory, first: int, context: WorkerContext, rank: int, state: State | None, on_tick: OnTick
) -> Any:
    """Builds the node's worker number `rank`; its rank in the run is `first` higher."""
    return factory(context, first + rank, state, on_tick)


class Node:
    """A crew and its exchange with the servers.

    Args:
        link: to the servers. cuts_rollouts: see `SerialCrew`; only for nodes in turn.
    """

    def __init__(self, plan: NodePlan, link: Link, cuts_rollouts: Callable[[], bool] = lambda: False) -> None:
        config = plan.context.config
        assert isinstance(config.agent, A3CRayConfig)
        self._plan, self._link, self._agent = plan, link, config.agent
        self.context = _own_memory(plan.context, is_shared=not plan.is_serial)
        self._counters = Counters(self.context.counters)
        self._own = Counters(self.context.counters[plan.ranks.start : plan.ranks.stop])
        self._exchange = Exchange(self.context.parameters.numpy(), config.agent.shards)
        self._told_updates = self._own.updates
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._events: list[tuple[str, str, dict[str, Any]]] = []
        self._left, self._is_cut, self._lost = 0, False, ""
        self._error: Exception | None = None
        self._crew = self._make_crew(cuts_rollouts)

    def _make_crew(self, cuts_rollouts: Callable[[], bool]) -> Crew:
        plan, run = self._plan, self.context.config.run
        factory = partial(build_worker, plan.factory, plan.ranks.start)
        if plan.is_serial:
            return SerialCrew(factory, self.context, len(plan.ranks), plan.states, cuts_rollouts=cuts_rollouts)
        check_room(self.context.config, self.context.spaces, len(plan.ranks))
        return WorkerPool(
            factory,
            self.context,
            self._own,
            plan.states,
            run.start_method,
            run.worker_timeout_s,
            next_pause=lambda steps: steps + self._left,
            max_episodes=plan.max_episodes,
            judge=Replacements(self._event, run.worker_restarts).judge,
        )

    def _event(self, kind: str, text: str, **facts: object) -> None:
        self._events.append((kind, f"node {self._plan.index}: {text}", {"node": self._plan.index, **facts}))

    # What the driver calls, one call at a time

    def start(self) -> None:
        """Builds the workers."""
        self._crew.start()
        if not self._plan.is_serial:
            threading.Thread(target=self._exchange_when_due, name="exchange", daemon=True).start()

    def resume(self, left: int) -> None:
        """Takes the newest parameters, and lets the workers make at most so many steps, all together."""
        with self._lock:
            self._is_cut, self._left = False, left
            self._exchange_once()
            self._crew.resume()

    def poll(self) -> NodeReport:
        """Waits a short time, and tells what has happened."""
        if self._error is not None:
            raise self._error
        reports = self._crew.poll()
        if self._plan.is_serial and self._is_due():
            self._exchange_once()
        return self._report(reports)

    def park(self) -> NodeReport:
        """Brings the workers to a standstill, and gives the servers all that they have learned."""
        reports = self._crew.park(lambda: self._is_cut)
        self._settle()
        moments = _copies(self.context.moments or {})
        return replace(self._report(reports), states=self._crew.states(), moments=moments)

    def cut(self) -> None:
        """While `park` waits: workers stop after their next step. Called by another thread."""
        self._is_cut = True

    def stop(self) -> NodeReport:
        """Ends the workers and gives the servers what they have learned; returns the reports that nobody has got."""
        self._ended.set()
        reports = self._crew.stop()
        self._settle()
        moments, parameters = _copies(self.context.moments or {}), self.context.parameters.numpy().copy()
        return replace(self._report(reports), moments=moments, parameters=parameters)

    # The exchange

    def _is_due(self) -> bool:
        return self._own.updates - self._told_updates >= self._agent.exchange_updates

    def _exchange_when_due(self) -> None:
        try:
            while not self._ended.wait(LOOK_EVERY_S):
                with self._lock:
                    if self._is_due() and not self._lost:
                        self._exchange_once()
        except Exception as error:
            self._error = error

    def _settle(self) -> None:
        with self._lock:
            for _ in range(MOST_ROUNDS):
                if self._lost or self._exchange.is_settled():
                    break
                self._exchange_once(is_last=True)

    def _exchange_once(self, is_last: bool = False) -> None:
        """One round trip to every shard. is_last: nothing may be rounded off."""
        updates, began_s = self._own.updates, time.monotonic()
        is_short = self._agent.compression == "bfloat16" and not is_last
        messages = self._exchange.messages(updates - self._told_updates, self._rows(), is_short)
        try:
            answers = self._link(messages)
        except ConnectionError as error:
            self._lost = str(error)
            return
        self._exchange.take(answers)
        self._take_rows(answers[0].rows)
        self._told_updates = updates
        self._exchange.traffic.seconds += time.monotonic() - began_s

    # What all workers have counted

    def _rows(self) -> Rows:
        ranks = self._plan.ranks
        seen = {
            name: RunningStatistics(tensor[ranks.start : ranks.stop]).copy().numpy()
            for name, tensor in self.context.running_statistics.items()
        }
        return Rows(ranks.start, self._own.tensor.numpy().copy(), seen)

    def _take_rows(self, rows: Rows | None) -> None:
        """Takes over what the workers of other nodes have counted."""
        if rows is None:
            return
        for rank in range(len(rows.counters)):
            if rank in self._plan.ranks:
                continue
            self._counters.row(rank)[:] = rows.counters[rank]
            for name, tensor in self.context.running_statistics.items():
                RunningStatistics(tensor).take_over(rank, rows.statistics[name][rank])

    def _report(self, reports: list[Report]) -> NodeReport:
        events, self._events = self._events, []
        with self._lock:
            traffic, self._exchange.traffic = self._exchange.traffic, Traffic()
        return NodeReport(reports, self._rows(), _copies(self.context.buffers), traffic, events, self._lost)


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in tensors.items()}


def _own_memory(context: WorkerContext, is_shared: bool) -> WorkerContext:
    """The worker context with tensors of the node's own, in shared memory if its workers are processes."""

    def own(tensor: Tensor) -> Tensor:
        copied = tensor.clone()
        return copied.share_memory_() if is_shared else copied  # type: ignore[no-untyped-call]

    def own_if_any(tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else own(tensor)

    moments = context.moments
    return replace(
        context,
        parameters=own(context.parameters),
        counters=own(context.counters),
        moments=None if moments is None else {name: own(tensor) for name, tensor in moments.items()},
        buffers={name: own(buffer) for name, buffer in context.buffers.items()},
        observation_statistics=own_if_any(context.observation_statistics),
        reward_statistics=own_if_any(context.reward_statistics),
    )
