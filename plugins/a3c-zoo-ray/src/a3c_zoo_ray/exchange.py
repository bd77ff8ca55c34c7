"""What nodes and parameter servers say to each other, and what both compute. NumPy alone: no torch, no Ray.

A node sends the change of its parameters since its last exchange. A server adds it to its own and answers with the
newest ones, if another node has changed them. The node goes on from these, and keeps what its workers learned in the
meantime (Dean et al. 2012, "Large Scale Distributed Deep Networks", Downpour SGD; Nair et al. 2015, arXiv:1507.04296).

A shard is one server's slice of the parameters `[P]`, all float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class Seen(NamedTuple):
    """What a node has seen of a shard: how many changes it had taken, and of how many updates they were made."""

    version: int = -1  # nothing: the first answer has the parameters
    updates: int = 0


@dataclass(frozen=True, slots=True)
class Rows:
    """What the workers of one node, or of all, have counted.

    Attributes:
        first: the rank of the first row. counters: `[n, 5]`, int64.
        statistics: of observations and of rewards, by name, `[n, …]`, float64 (`WorkerContext.running_statistics`).
    """

    first: int
    counters: NDArray[np.int64]
    statistics: dict[str, NDArray[np.float64]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Message:
    """From a node to a shard.

    Attributes:
        change: of the slice since the last exchange, packed (`pack`). updates: how many it is made of.
        seen: what the node has seen of the shard. rows: of the node's workers; only for the first shard.
    """

    change: NDArray[Any]
    updates: int
    seen: Seen
    rows: Rows | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """From a shard to a node.

    Attributes:
        seen: what the node has now seen. staleness: how many updates of others the change did not know of.
        is_dropped: the change was too stale and was not added.
        values: the newest parameters; None if no other node has changed them.
        rows: of all workers; only from the first shard.
    """

    seen: Seen
    staleness: int
    is_dropped: bool
    values: Floats | None
    rows: Rows | None = None


def pack(values: Floats, is_short: bool) -> NDArray[Any]:
    """Returns float32 as it is, or rounded to the nearest bfloat16, as uint16."""
    if not is_short:
        return values
    bits = values.view(np.uint32)
    return ((bits + (((bits >> 16) & 1) + np.uint32(0x7FFF))) >> 16).astype(np.uint16)


def unpack(packed: NDArray[Any]) -> Floats:
    """Returns the float32 of what `pack` returned."""
    if packed.dtype == np.float32:
        return packed
    return (packed.astype(np.uint32) << 16).view(np.float32)


def slices_of(size: int, shards: int) -> list[slice]:
    """Splits `[size]` into slices of nearly equal length."""
    bounds = [size * number // shards for number in range(shards + 1)]
    return [slice(start, stop) for start, stop in zip(bounds, bounds[1:], strict=False)]


class Shard:
    """A slice of the parameters, and on the first shard the rows of all workers.

    Args:
        values: the slice, float32. rows: of all workers; None on the other shards.
        max_staleness: a change that did not know of more updates is not added; None: every change is.
    """

    def __init__(self, values: Floats, rows: Rows | None = None, max_staleness: int | None = None) -> None:
        self._values, self._max_staleness, self._seen = values.copy(), max_staleness, Seen(0, 0)
        self._counters = None if rows is None else rows.counters.copy()
        self._statistics = {} if rows is None else _copied(rows.statistics)

    def exchange(self, message: Message) -> Answer:
        """Adds a node's change, unless it is too stale; returns what the node has not seen."""
        version, updates = self._seen
        is_first = message.seen.version < 0
        staleness = 0 if is_first else updates - message.seen.updates
        is_dropped = self._max_staleness is not None and staleness > self._max_staleness
        is_new = is_dropped or message.seen.version != version
        if not is_dropped and not is_first:
            self._values += unpack(message.change)
            self._seen = Seen(version + 1, updates + message.updates)
        values = self._values.copy() if is_new else None
        return Answer(self._seen, staleness, is_dropped, values, self._swap(message.rows))

    def values(self) -> Floats:
        """A copy of the parameters as they are now."""
        return self._values.copy()

    def _swap(self, rows: Rows | None) -> Rows | None:
        if rows is None or self._counters is None:
            return None
        own = slice(rows.first, rows.first + len(rows.counters))
        self._counters[own] = rows.counters
        for name, mine in self._statistics.items():
            mine[own] = rows.statistics[name]
        return Rows(0, self._counters.copy(), _copied(self._statistics))


def _copied(arrays: dict[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
    return {name: array.copy() for name, array in arrays.items()}


@dataclass(slots=True)
class Traffic:
    """A node's exchanges since its last report.

    Attributes:
        exchanges: how many. sent_bytes, received_bytes: of parameters. seconds: waited for servers, in all.
        staleness: the sum over exchanges. dropped: changes that were too stale.
    """

    exchanges: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    seconds: float = 0.0
    staleness: int = 0
    dropped: int = 0


class Exchange:
    """A node's side: what it has told the servers, and what it has seen of them.

    Args:
        parameters: the node's own, `[P]`, which its workers change at the same time. shards: how many there are.

    Attributes:
        traffic: of all exchanges.
    """

    def __init__(self, parameters: Floats, shards: int) -> None:
        self._parameters, self._slices = parameters, slices_of(len(parameters), shards)
        self._base = parameters.copy()  # what the servers have, as far as this node knows
        self._sent = self._told = self._base
        self._seen = [Seen()] * shards
        self.traffic = Traffic()

    def messages(self, updates: int, rows: Rows, is_short: bool) -> list[Message]:
        """The change since the last exchange, for each shard. What packing rounds off goes along the next time."""
        now = self._parameters.copy()
        packed = pack(now - self._base, is_short)
        self._sent, self._told = now, self._base + unpack(packed)
        self.traffic.sent_bytes += packed.nbytes
        firsts = [rows, *[None] * (len(self._slices) - 1)]
        parts = zip(self._slices, self._seen, firsts, strict=True)
        return [Message(packed[part], updates, seen, row) for part, seen, row in parts]

    def take(self, answers: Sequence[Answer]) -> None:
        """Goes on from the newest parameters, and keeps what the workers have learned since `messages`."""
        for part, answer in zip(self._slices, answers, strict=True):
            if answer.values is None:
                self._base[part] = self._told[part]
                continue
            before = self._sent if answer.is_dropped else self._told
            self._parameters[part] += answer.values - before[part]
            self._base[part] = answer.values
            self.traffic.received_bytes += answer.values.nbytes
        self._seen = [answer.seen for answer in answers]
        self.traffic.exchanges += 1
        self.traffic.staleness += max(answer.staleness for answer in answers)
        self.traffic.dropped += any(answer.is_dropped for answer in answers)

    def is_settled(self) -> bool:
        """Whether the servers have everything that this node has learned."""
        return bool(np.array_equal(self._parameters, self._base))
