"""How A3C on many nodes scales: a formula, held against a simulation.

    python benchmarks/scaling.py [--json FILE] [--parameters 677000] [--updates-per-s 60] …

A node trains without a pause. Every K updates it sends what it has learned to the shards of a server and takes the
newest parameters. An exchange takes its turn at the shards' network cards and processors. While it lasts, the node
trains on. So more nodes always make more updates; what grows with them is staleness, the updates by other nodes between
a node's two exchanges.

The numbers of a machine come from measurements: docs/scaling.md.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Generator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import simpy

NODES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster, without the number of its nodes.

    Attributes:
        parameters: of the network. bytes_up, bytes_down: of one parameter, to the server (2: bfloat16) and back.
        shards: of the server, each on a machine of its own. exchange_updates: K.
        updates_per_s: of one node.
        shard_s, shard_s_per_byte: what an exchange costs the processor of a shard: fixed, and for each of its bytes.
        bandwidth: of a network card, in bytes/s. latency_s: of the way there and back.
    """

    parameters: int = 677_000
    bytes_up: int = 4
    bytes_down: int = 4
    shards: int = 1
    exchange_updates: int = 20
    updates_per_s: float = 60.0
    shard_s: float = 1e-3
    shard_s_per_byte: float = 1e-9
    bandwidth: float = 1.25e9
    latency_s: float = 2e-4

    @property
    def bytes_per_shard(self) -> float:
        """What one exchange moves to and from one shard."""
        return self.parameters * (self.bytes_up + self.bytes_down) / self.shards

    @property
    def interval_s(self) -> float:
        """The time in which a node makes K updates."""
        return self.exchange_updates / self.updates_per_s

    @property
    def demands_s(self) -> tuple[float, float]:
        """How long one exchange occupies a shard's processor, and its network card."""
        return self.shard_s + self.shard_s_per_byte * self.bytes_per_shard, self.bytes_per_shard / self.bandwidth


@dataclass(frozen=True, slots=True)
class Load:
    """What a number of nodes makes of a cluster.

    Attributes:
        exchanges_per_s: of all nodes. exchange_s: how long one takes, its waiting included.
        updates_between: updates of a node from one of its exchanges to the next; K unless exchanges take too long.
        staleness: updates by others from the moment at which a node takes parameters to that at which it sends.
        busy: the share of time in which the busier part of a shard, processor or network card, works.
    """

    nodes: int
    exchanges_per_s: float
    exchange_s: float
    updates_between: float
    staleness: float
    busy: float


def formula(cluster: Cluster, nodes: int) -> Load:
    """Mean value analysis of a closed network: nodes that train, then queue at a card and a processor of each shard.

    Reiser and Lavenberg 1980, "Mean-value analysis of closed multichain queuing networks", for one class: the n-th node
    finds the queues Q that n − 1 nodes leave. An exchange always occupies a part for the same time D. So the one that
    is served, with probability U, has half of D left: R = D · (1 + Q − U / 2). All shards are alike and work side by
    side.
    """
    demands = np.array(cluster.demands_s)
    queues, fastest, exchange_s, rate = np.zeros(2), 1 / demands.max(), 0.0, 0.0
    for n in range(1, nodes + 1):
        times = demands * (1 + queues - rate * demands / 2)
        exchange_s = float(times.sum()) + cluster.latency_s
        rate = min(n / max(cluster.interval_s, exchange_s), fastest)
        queues = rate * times
    if rate == fastest:  # all nodes are in a queue
        exchange_s = max(exchange_s, nodes / rate)
    between = cluster.updates_per_s * nodes / rate
    return Load(nodes, rate, exchange_s, between, (nodes - 1) * between, rate / fastest)


@dataclass(slots=True)
class _Counts:
    """What a simulation counts: updates at the server, exchanges, their seconds, and the staleness of each."""

    updates: float = 0.0
    exchanges: int = 0
    exchange_s: float = 0.0
    staleness: list[float] = field(default_factory=list)


def simulate(cluster: Cluster, nodes: int, exchanges: int = 4000, seed: int = 0, spread: float = 0.2) -> Load:
    """The same, event by event, with a queue at each shard.

    Args:
        exchanges: how many are counted, after a tenth of them. spread: the standard deviation of the logarithm of the
            time that K updates take.
    """
    world, rng, counts = simpy.Environment(), np.random.default_rng(seed), _Counts()
    cards = [simpy.Resource(world) for _ in range(cluster.shards)]
    processors = [simpy.Resource(world) for _ in range(cluster.shards)]
    processor_s, card_s = cluster.demands_s

    def turn(resource: simpy.Resource, seconds: float) -> Generator[simpy.Event]:
        with resource.request() as mine:
            yield mine
            yield world.timeout(seconds)

    def visit(shard: int) -> Generator[simpy.Event]:
        yield from turn(cards[shard], card_s)
        yield from turn(processors[shard], processor_s)

    def node() -> Generator[simpy.Event]:
        yield world.timeout(rng.uniform(0, cluster.interval_s))  # nodes do not begin together
        sent_s, seen = world.now, counts.updates
        while True:
            usual_s = cluster.interval_s * rng.lognormal(-(spread**2) / 2, spread)
            yield world.timeout(max(sent_s + usual_s - world.now, 0))
            made, sent_s = max(usual_s, world.now - sent_s) * cluster.updates_per_s, world.now
            yield world.timeout(cluster.latency_s)
            yield simpy.AllOf(world, [world.process(visit(shard)) for shard in range(cluster.shards)])
            counts.staleness.append(counts.updates - seen)
            counts.updates += made
            counts.exchanges += 1
            counts.exchange_s += world.now - sent_s
            seen = counts.updates

    for _ in range(nodes):
        world.process(node())
    while counts.exchanges < max(exchanges // 10, 2 * nodes):
        world.step()
    before, begun_s = asdict(counts), world.now
    while counts.exchanges < before["exchanges"] + max(exchanges, 10 * nodes):
        world.step()
    done, seconds = counts.exchanges - before["exchanges"], world.now - begun_s
    between = (counts.updates - before["updates"]) / done
    staleness = float(np.mean(counts.staleness[before["exchanges"] :]))
    busy = done / seconds * max(cluster.demands_s)
    return Load(nodes, done / seconds, (counts.exchange_s - before["exchange_s"]) / done, between, staleness, busy)


def limits(cluster: Cluster, most_staleness: float) -> dict[str, float]:
    """The numbers of nodes from which on the server's processor, its network and staleness are the limit."""
    processor_s, card_s = cluster.demands_s
    return {
        "processor": cluster.interval_s / processor_s,
        "network": cluster.interval_s / card_s,
        "staleness": 1 + most_staleness / cluster.exchange_updates,
    }


def main() -> None:
    """Prints the table of a cluster, formula beside simulation."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name, default in asdict(Cluster()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES)
    parser.add_argument("--most-staleness", type=float, default=256.0, help="updates that learning still bears")
    parser.add_argument("--json", type=Path, help="write the figures here")
    given = vars(parser.parse_args())
    nodes, most, file = given.pop("nodes"), given.pop("most_staleness"), given.pop("json")
    cluster, rows = Cluster(**given), []
    print("nodes  exchanges/s        seconds each       updates between  staleness         busy")
    for n in nodes:
        model, found = formula(cluster, n), simulate(cluster, n)
        rows.append({"formula": asdict(model), "simulation": asdict(found)})
        print(
            f"{n:5}  {model.exchanges_per_s:8,.1f} {found.exchanges_per_s:8,.1f}  {model.exchange_s:8.4f} "
            f"{found.exchange_s:8.4f}  {model.updates_between:7,.0f} {found.updates_between:7,.0f}  "
            f"{model.staleness:8,.0f} {found.staleness:8,.0f}  {model.busy:4.0%} {found.busy:4.0%}"
        )
    reached = limits(cluster, most)
    print("; ".join(f"{name}: from {math.ceil(count):,} nodes on" for name, count in reached.items()))
    if file is not None:
        content: dict[str, Any] = {"cluster": asdict(cluster), "limits": reached, "rows": rows}
        file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
