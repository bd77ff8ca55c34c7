"""What the parent tells its workers: a row of cells in shared memory for each, which the parent alone writes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from a3c_zoo.config import NEVER
from a3c_zoo.learning.parameters import share
from a3c_zoo.store_order import memory_barrier

if TYPE_CHECKING:
    from collections.abc import Callable

    from a3c_zoo.learning.counters import Counters

#: What the first cell holds: STOP, or the number of a turn. Workers stand still in odd turns and work in even ones. Two
#: fixed values for standing and working would not do: a worker that sleeps while it is told to work, and then to stand
#: still again, would take the second standstill for the first.
STOP = 0


class StopWork(BaseException):
    """Raised inside a worker, between two environment steps, when the parent says stop."""


class Commands:
    """The parent's side.

    Args:
        num_workers: processes, the learner included. num_collecting: those that are not the learner.

    Attributes:
        cells: `[workers, 3]`, int64: the turn; the steps and the episodes of the run at which the turn ends.
    """

    def __init__(self, num_workers: int, num_collecting: int) -> None:
        self.cells = torch.ones((num_workers, 3), dtype=torch.int64)
        share(self.cells)
        self._num_collecting = num_collecting

    @property
    def turn(self) -> int:
        """The turn of the first worker."""
        return int(self.cells[0, 0])

    def work(self, until_steps: int, until_episodes: int) -> None:
        """Begins the next turn of work, in which no worker begins a rollout at these counts or later."""
        self.cells[:, 1:] = NEVER
        self.cells[: self._num_collecting, 1] = until_steps
        self.cells[: self._num_collecting, 2] = until_episodes
        memory_barrier()
        self.cells[:, 0] = self.turn + 1

    def stand_still(self, group: slice, turn: int) -> None:
        """Begins this turn, an odd one, for some of the workers."""
        self.cells[group, 0] = turn

    def stop(self) -> None:
        """Ends all workers after their current environment step."""
        self.cells[:, 0] = STOP


class CommandCells:
    """A worker's side.

    Args:
        cells: its row, `[3]`. counters: of all workers. rank: which of them this is.
    """

    def __init__(self, cells: Tensor, counters: Counters, rank: int) -> None:
        self._cells, self._counters, self._rank = cells.numpy(), counters, rank

    @property
    def turn(self) -> int:
        """STOP, or the number of the turn."""
        return int(self._cells[0])

    @property
    def is_turn_over(self) -> bool:
        """Whether no further rollout begins in this turn."""
        return bool(self._counters.steps >= self._cells[1] or self._counters.episodes >= self._cells[2])

    def wait_for_turn_after(self, turn: int) -> None:
        """Waits while this turn lasts. It has no limit of its own: the parent's end, or its stop, ends it."""
        while self._cells[0] == turn:
            time.sleep(0.001)
        memory_barrier()

    def on_tick(self) -> Callable[[], None]:
        """Returns the function that counts a tick and raises StopWork once the parent says stop."""
        cells, row = self._cells, self._counters.row(self._rank)

        def tick() -> None:
            row[2] += 1
            if cells[0] == STOP:
                raise StopWork

        return tick
