"""The crew over nodes: each node and each parameter server is a Ray actor. They end with this process, the driver."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import ray
from a3c_zoo.agents import MODULE_FILES, State, WorkerContext, WorkerFactory
from a3c_zoo.errors import ConfigError, ServersLostError, WorkerError, ZooError
from a3c_zoo.records import Report, RunContext
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from a3c_zoo_ray.actors import CALL_LIMIT_S, LostError, Member, NodeActor
from a3c_zoo_ray.exchange import Floats, Shard
from a3c_zoo_ray.node import NodePlan, NodeReport
from a3c_zoo_ray.nodes import Mirror, shards_of

#: How long the driver waits for nodes at a time, in seconds.
POLL_S = 0.2
#: How long the start waits for the last nodes, in seconds.
PLACE_LIMIT_S = 30.0
#: How often the driver copies the servers' parameters, in seconds: an evaluator beside training plays with them.
MIRROR_EVERY_S = 5.0
HOUR_S = 3600.0


class RayNodes:
    """Nodes side by side on a cluster. Arguments: see `Mirror`."""

    def __init__(
        self, context: RunContext, factory: WorkerFactory, shared: WorkerContext, states: list[State] | None
    ) -> None:
        self._mirror, self._context = Mirror(context, factory, shared, states), context
        self._timeout_s = context.config.run.worker_timeout_s
        self._shards: list[Any] = []
        self._members: list[Member] = []
        self._reports: list[Report] = []
        self._losses: deque[float] = deque()
        self._is_working, self._last_ready_s = False, time.monotonic()
        self._values: list[Any] = []  # outstanding calls: the servers' parameters
        self._values_s = time.monotonic()

    def start(self) -> None:
        # A run that goes on may have lost machines: it goes on with the rest. One with another's parameters is new.
        if self._context.checkpoint is None or self._context.acting_counts == Report():
            cpus = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
            check_cpus(cpus, [len(plan.ranks) for plan in self._mirror.plans])
        self._shards = shards_of(self._mirror, _server(self._mirror.agent.shards).remote)
        for plan in self._mirror.plans:
            self._members.append(self._begin(plan))
        self._wait_for_nodes()

    def _wait_for_nodes(self) -> None:
        """Waits for all nodes. Those that have found no room after a while join later."""
        began_s = time.monotonic()
        while (ready := len(self._ready())) < len(self._members):
            self._look(self._members)
            seconds = time.monotonic() - began_s
            if ready and seconds > PLACE_LIMIT_S:
                text = f"{ready} of {len(self._members)} nodes have begun; the others join when the cluster has room"
                self._context.event("nodes_missing", text, nodes=ready)
                return
            if seconds > PLACE_LIMIT_S + self._timeout_s:
                raise ConfigError(f"no node has begun for {seconds:.0f} s: are the cluster's CPUs in use?")

    def _begin(self, plan: NodePlan) -> Member:
        kind = ray.remote(num_cpus=len(plan.ranks), max_restarts=0, max_concurrency=2)(NodeActor)
        actor = kind.options(scheduling_strategy="SPREAD").remote(MODULE_FILES, plan, self._shards, os.getcwd())
        member = Member(plan, actor)
        member.ask("start")
        return member

    def resume(self) -> None:
        if self._is_working:
            return
        self._is_working, self._last_ready_s = True, time.monotonic()  # a standstill may last longer than the patience
        for member in self._ready():
            self._resume(member)

    def _resume(self, member: Member) -> None:
        """Lets a node work. With several, each may make all the steps that are left: the driver ends them in time."""
        member.parked = None
        member.ask("resume", self._mirror.left)

    def _ready(self) -> list[Member]:
        return [member for member in self._members if member.is_ready]

    def poll(self) -> list[Report]:
        for member in self._ready():
            self._last_ready_s = time.monotonic()  # before it may turn out to be lost: the last poll may be long ago
            if member.call is None:
                member.ask("poll")
        self._look(self._members)
        self._follow()
        if not self._ready() and time.monotonic() - self._last_ready_s > self._timeout_s:
            raise WorkerError(f"no node has been left for {self._timeout_s:g} s (limit: run.worker_timeout_s)")
        return self._new_reports()

    def _new_reports(self) -> list[Report]:
        reports, self._reports = self._reports, []
        return reports

    def _follow(self) -> None:
        """Copies the servers' parameters now and then, without waiting for them."""
        if self._values:
            _, waiting = ray.wait(self._values, num_returns=len(self._values), timeout=0)
            if not waiting:
                self._values = self._take_values(self._values)
        elif time.monotonic() - self._values_s > MIRROR_EVERY_S:
            self._values, self._values_s = [shard.values.remote() for shard in self._shards], time.monotonic()

    def _take_values(self, calls: Sequence[Any]) -> list[Any]:
        with suppress(RayError):  # the nodes tell of servers that have ended
            self._mirror.take_values(ray.get(list(calls), timeout=CALL_LIMIT_S))
        return []

    def _look(self, members: Sequence[Member]) -> None:
        """Waits a short time for answers of these nodes, takes them in, and replaces the nodes that are lost."""
        calls = [member.call for member in members if member.call is not None]
        if not calls:
            time.sleep(POLL_S)
            return
        ready, _ = ray.wait(calls, num_returns=len(calls), timeout=POLL_S)
        patience_s = self._timeout_s + CALL_LIMIT_S  # a node tells by itself of workers that hang
        for index, member in enumerate(self._members):
            try:
                if member.call in ready:
                    self._receive(member)
                elif member.is_ready and member.is_late(patience_s):
                    raise LostError(f"has not answered for {patience_s:g} s")
            except LostError as error:
                self._members[index] = self._replace(member, str(error))

    def _receive(self, member: Member) -> None:
        told = member.answer()
        if member.method == "start":
            member.is_ready = True
            if self._is_working:
                self._resume(member)
        elif isinstance(told, NodeReport):
            self._reports += self._mirror.take(told, member.offset_s)
            member.parked = told if member.method == "park" else None
            if told.lost:
                self._values_of_servers(told.lost)
                raise LostError(f"does not reach the parameter servers ({told.lost})")  # its machine may be dying

    def _values_of_servers(self, why: str) -> list[Floats]:
        """Raises ServersLostError if a parameter server does not answer the driver. why: what is known of that."""
        try:
            values: list[Floats] = ray.get([shard.values.remote() for shard in self._shards], timeout=CALL_LIMIT_S)
            return values
        except RayError as error:
            raise ServersLostError(f"a parameter server was lost ({why})") from error

    def _replace(self, member: Member, why: str) -> Member:
        """A new node takes the place of one that is lost, as soon as the cluster has room for it."""
        with suppress(RayError):
            ray.kill(member.actor)
        index, most, now = member.plan.index, self._context.config.run.worker_restarts, time.monotonic()
        while self._losses and now - self._losses[0] > HOUR_S:
            self._losses.popleft()
        self._losses.append(now)
        if len(self._losses) > most:
            raise WorkerError(f"node {index} {why} (node {most + 1} to be lost within an hour: run.worker_restarts)")
        text = f"node {index} {why}; a new one takes its place ({len(self._losses)} of {most} in an hour)"
        self._context.event("node_replaced", text, node=index, fault=why)
        return self._begin(self._mirror.lose(member.plan))

    def park(self, cuts: Callable[[], bool] = lambda: False) -> list[Report]:
        self._is_working = is_cut = False
        while waiting := [member for member in self._ready() if member.parked is None]:
            for member in waiting:
                if member.call is None:
                    member.ask("park")
            if not is_cut and cuts():
                is_cut = True
                for member in waiting:
                    member.actor.cut.remote()
            self._look(waiting)
        self._mirror.take_values(self._values_of_servers("no node is left to say why"))
        self._mirror.take_moments([member.parked.moments for member in self._ready() if member.parked])
        return self._new_reports()

    def states(self) -> list[State]:
        if not all(member.parked for member in self._members):
            return []
        return [state for member in self._members if member.parked for state in member.parked.states]

    def stop(self) -> list[Report]:
        """Ends the nodes and the servers. What the servers have, or a node if they are lost, becomes the run's."""
        members, self._members = self._members, []
        for member in members:
            if member.method == "park" and member.call is not None:
                member.actor.cut.remote()
        self._finish(members)
        for member in members:
            if member.is_ready and member.call is None:
                member.ask("stop")
        ended = self._finish(members)
        self._mirror.take_moments([told.moments for told in ended if told.moments])  # not of a late answer to `poll`
        if members:
            self._take_values([shard.values.remote() for shard in self._shards])
        for actor in [*(member.actor for member in members), *self._shards]:
            with suppress(RayError):
                ray.kill(actor)
        self._shards = []
        return self._new_reports()

    def _finish(self, members: Sequence[Member]) -> list[NodeReport]:
        """Takes in and returns the last answers of nodes that begin to end. A node that gives none is killed."""
        last_reports = []
        calls = [member.call for member in members if member.is_ready and member.call is not None]
        ready = ray.wait(calls, num_returns=len(calls), timeout=CALL_LIMIT_S)[0] if calls else []
        for member in members:
            if member.call in ready:
                with suppress(LostError, ZooError):  # the first error matters more
                    if isinstance(told := member.answer(), NodeReport):
                        self._reports += self._mirror.take(told, member.offset_s)
                        last_reports.append(told)
                        if told.parameters is not None:
                            self._mirror.take_values([told.parameters])
        return last_reports


def _server(shards: int) -> Any:
    """The class of parameter servers: a single one lives beside the driver, several on machines of their own."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    kind = ray.remote(num_cpus=0, max_restarts=0)(Shard)
    return kind.options(scheduling_strategy=here if shards == 1 else "SPREAD")


def check_cpus(cpus: Sequence[int], sizes: Sequence[int]) -> None:
    """Raises ConfigError if machines with so many CPUs have no room for nodes with so many workers."""
    if not _have_room(cpus, sizes):
        raise ConfigError(
            f"the cluster has {sum(cpus)} CPUs, {max(cpus)} on its largest machine; {len(sizes)} nodes need "
            f"{sum(sizes)}, each up to {max(sizes)} on one machine: lower --workers, or change agent.nodes"
        )


def _have_room(cpus: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether all nodes fit on machines. sizes: workers of each node, two different numbers at most (`ranks_of`)."""
    small, large = min(sizes), max(sizes)
    larges = sizes.count(large)
    most = {0: 0}  # number of large nodes → how many small ones fit beside them at most
    for free in cpus:
        before, most = most, {}
        for placed, smalls in before.items():
            for more in range(min(free // large, larges - placed) + 1):
                beside = smalls + (free - more * large) // small
                most[placed + more] = max(most.get(placed + more, 0), beside)
    return most.get(larges, -1) >= len(sizes) - larges
