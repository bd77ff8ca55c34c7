"""Exact counts of steps, updates and episodes, without a lock."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

#: The columns of a worker's row:
#: - STEPS, UPDATES, EPISODES: agent steps, updates, finished episodes
#: - TICKS: environment steps, and checks while it waits; a worker without ticks hangs
#: - REPLACED: how many workers of this rank have failed and were replaced
STEPS, UPDATES, TICKS, EPISODES, REPLACED = range(5)
NUM_COLUMNS = 5


class Counters:
    """Exact counters without a lock: each worker writes its own row, and the sum of all rows is read.

    Attributes:
        tensor: `[workers, 5]`, int64, in shared memory if processes share it.
    """

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self._rows: NDArray[np.int64] = tensor.numpy()

    @staticmethod
    def zeros(num_workers: int) -> Tensor:
        """The tensor before the first step."""
        return torch.zeros((num_workers, NUM_COLUMNS), dtype=torch.int64)

    def row(self, worker: int) -> NDArray[np.int64]:
        """The row `[5]` that this worker alone writes; the parent, while the worker does not live."""
        row: NDArray[np.int64] = self._rows[worker]
        return row

    def lose(self, worker: int, episodes: int) -> None:
        """A worker is lost: only the `episodes` of its rank that were reported count; its successor has other seeds."""
        row = self.row(worker)
        row[EPISODES] = episodes
        row[REPLACED] += 1

    @property
    def steps(self) -> int:
        """Agent steps of all workers."""
        return int(self._rows[:, STEPS].sum())

    @property
    def updates(self) -> int:
        """Updates of all workers."""
        return int(self._rows[:, UPDATES].sum())

    @property
    def ticks(self) -> NDArray[np.int64]:
        """Ticks of each worker, `[workers]`."""
        return self._rows[:, TICKS].copy()

    @property
    def episodes(self) -> int:
        """Finished episodes of all workers."""
        return int(self._rows[:, EPISODES].sum())
