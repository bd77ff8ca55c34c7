"""What exchanges with the parameter servers of `a3c-ray` cost, on one machine: the numbers of benchmarks/scaling.py.

    python plugins/a3c-zoo-ray/measure.py [--parameters 200000 677000 1700000] [--shards 1 4] [--seconds 10]

It needs a3c-zoo[ray] and an idle machine. Two nodes without workers exchange as fast as they can with real servers in a
Ray of this machine. Each exchange sends a change and receives the newest parameters. CPU seconds are those of the
nodes' and the servers' processes; what Ray's own processes take is listed beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import ray

from a3c_zoo_ray.actors import ask
from a3c_zoo_ray.cluster import joined_cluster
from a3c_zoo_ray.exchange import Exchange, Rows, Shard, slices_of

NODES = 2


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured.

    Attributes:
        exchanges_per_s, bytes_per_s: of both nodes together; bytes of parameters, both ways.
        server_cpu_s, node_cpu_s, ray_cpu_s: CPU seconds of one exchange: of all servers, of the node, of Ray's own.
        seconds: of one exchange, as its node waits for it.
    """

    parameters: int
    shards: int
    compression: str
    exchanges_per_s: float
    bytes_per_s: float
    server_cpu_s: float
    node_cpu_s: float
    ray_cpu_s: float
    seconds: float


class Server(Shard):
    """A shard that tells its process."""

    def pid(self) -> int:
        return os.getpid()


class Client:
    """A node without workers: it changes its parameters a little before each exchange."""

    def __init__(self, size: int, shards: list[Any], is_short: bool) -> None:
        self._values = np.zeros(size, np.float32)
        self._exchange, self._shards, self._is_short = Exchange(self._values, len(shards)), shards, is_short
        self._rows = Rows(0, np.zeros((1, 5), np.int64))

    def pid(self) -> int:
        return os.getpid()

    def run(self, seconds: float) -> tuple[int, int, float]:
        """Exchanges for so long. Returns the exchanges, their bytes, and the seconds that they took."""
        traffic, end_s = self._exchange.traffic, time.monotonic() + seconds
        before, moved, waited_s = traffic.exchanges, traffic.sent_bytes + traffic.received_bytes, 0.0
        while time.monotonic() < end_s:
            self._values[:] += 1e-3
            messages, begun_s = self._exchange.messages(1, self._rows, self._is_short), time.monotonic()
            answers = ask(self._shards, messages)
            waited_s += time.monotonic() - begun_s
            self._exchange.take(answers)
        return traffic.exchanges - before, traffic.sent_bytes + traffic.received_bytes - moved, waited_s


def cpu_s(pids: set[int]) -> dict[int, float]:
    """CPU seconds of processes until now."""
    return {pid: sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids if psutil.pid_exists(pid)}


def measure(size: int, shards: int, is_short: bool, seconds: float) -> Figures:
    """Measures one size, in a Ray of its own."""
    with joined_cluster(num_cpus=NODES):
        values, rows = np.zeros(size, np.float32), Rows(0, np.zeros((NODES, 5), np.int64))
        parts = zip(slices_of(size, shards), [rows, *[None] * (shards - 1)], strict=True)
        servers = [ray.remote(num_cpus=0)(Server).remote(values[part], first) for part, first in parts]
        clients = [ray.remote(num_cpus=1)(Client).remote(size, servers, is_short) for _ in range(NODES)]
        server_pids = set(ray.get([server.pid.remote() for server in servers], timeout=60))
        client_pids = set(ray.get([client.pid.remote() for client in clients], timeout=60))
        ray.get([client.run.remote(2.0) for client in clients], timeout=60)  # warm
        everything = {process.pid for process in psutil.Process().children(recursive=True)} | {os.getpid()}
        before = cpu_s(everything)
        told = ray.get([client.run.remote(seconds) for client in clients], timeout=60 + 2 * seconds)
        spent = {pid: now - before[pid] for pid, now in cpu_s(everything).items()}
    exchanges, moved, waited_s = (sum(part) for part in zip(*told, strict=True))
    of_servers, of_clients = (sum(spent.get(pid, 0.0) for pid in pids) for pids in (server_pids, client_pids))
    return Figures(
        size,
        shards,
        "bfloat16" if is_short else "none",
        exchanges / seconds,
        moved / seconds,
        of_servers / exchanges,
        of_clients / exchanges,
        (sum(spent.values()) - of_servers - of_clients) / exchanges,
        waited_s / exchanges,
    )


def main() -> None:
    """Prints a line for each size, number of shards and compression."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--parameters", type=int, nargs="+", default=[200_000, 677_000, 1_700_000])
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--json", type=Path, help="write the figures here")
    given, rows = parser.parse_args(), []
    print("parameters  shards  compression  exchanges/s   MB/s  ms each  CPU ms: servers   node    Ray")
    for size in given.parameters:
        for shards in given.shards:
            for is_short in (False, True):
                figures = measure(size, shards, is_short, given.seconds)
                rows.append(figures)
                costs = (figures.server_cpu_s, figures.node_cpu_s, figures.ray_cpu_s)
                servers_ms, node_ms, ray_ms = (cost_s * 1e3 for cost_s in costs)
                print(
                    f"{size:10,}  {shards:6}  {figures.compression:11}  {figures.exchanges_per_s:11,.1f} "
                    f"{figures.bytes_per_s / 1e6:6,.0f}  {figures.seconds * 1e3:7.2f}  {servers_ms:15.2f} "
                    f"{node_ms:6.2f} {ray_ms:6.2f}",
                    flush=True,
                )
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
