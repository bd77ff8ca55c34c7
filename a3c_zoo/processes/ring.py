"""The ring in shared memory through which workers hand rollouts or gradients to the learner: bounded and made once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from a3c_zoo.learning.parameters import share
from a3c_zoo.store_order import memory_barrier

#: The fields of one slot: name → shape and dtype.
Layout = Mapping[str, tuple[tuple[int, ...], torch.dtype]]

#: The first and the longest wait between two looks at a slot that is not ready, in seconds.
SHORTEST_WAIT_S = 5e-5
LONGEST_WAIT_S = 1e-3


def ring_memory(workers: int, slots: int, layout: Layout, is_shared: bool) -> dict[str, Tensor]:
    """The tensors of a ring, all zero: every field `[workers, slots, *shape]`, `filled` and `emptied` `[workers]`."""
    memory = {
        name: torch.zeros((workers, slots, *shape), dtype=dtype) for name, (shape, dtype) in layout.items()
    }
    memory |= {name: torch.zeros(workers, dtype=torch.int64) for name in ("filled", "emptied")}
    if is_shared:
        share(*memory.values())
    return memory


class Ring:
    """One process's view of a ring. It takes no lock that could stay locked when its holder dies.

    Every worker has slots of its own and fills them in turn; the learner empties them in the same order. Two
    numbers for each worker, each written by one side alone, count the slots filled and emptied so far
    (`store_order.py`).

    Args:
        memory: from `ring_memory`.

    Attributes:
        last: the worker whose slot was offered last, −1 before the first.
    """

    def __init__(self, memory: Mapping[str, Tensor]) -> None:
        self._fields = {name: field for name, field in memory.items() if name not in ("filled", "emptied")}
        self._filled = memory["filled"].numpy()
        self._emptied = memory["emptied"].numpy()
        self._slots = next(iter(self._fields.values())).shape[1]
        self.last = -1

    def claim(self, worker: int, on_wait: Callable[[], None]) -> dict[str, Tensor]:
        """The worker's next slot to fill; waits until the learner has emptied one.

        Args:
            on_wait: called again and again while it waits; raises to give up.
        """
        wait_s = SHORTEST_WAIT_S
        while self.is_full(worker):
            on_wait()
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)
        memory_barrier()
        return self._slot(worker, int(self._filled[worker]))

    def is_full(self, worker: int) -> bool:
        """Whether the learner has yet to empty all slots of a worker."""
        return bool(self._filled[worker] - self._emptied[worker] >= self._slots)

    def commit(self, worker: int) -> None:
        """Hands over the slot that was claimed."""
        memory_barrier()
        self._filled[worker] += 1

    def offer(self) -> tuple[int, dict[str, Tensor]] | None:
        """The next filled slot and its worker, for the learner to read; None if there is none. Workers in turn."""
        workers = len(self._filled)
        for worker in ((self.last + 1 + k) % workers for k in range(workers)):
            if self._emptied[worker] < self._filled[worker]:
                memory_barrier()
                self.last = worker
                return worker, self._slot(worker, int(self._emptied[worker]))
        return None

    def release(self, worker: int) -> None:
        """Gives back the slot that was offered."""
        memory_barrier()
        self._emptied[worker] += 1

    def _slot(self, worker: int, number: int) -> dict[str, Tensor]:
        return {name: field[worker, number % self._slots] for name, field in self._fields.items()}
