"""Running mean and variance of observations, gathered by all workers without a lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from a3c_zoo.store_order import memory_barrier

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Doubles = NDArray[np.float64]

#: How often a row is read before that counts as a fault of ours: a try fails only where a whole rollout is collected,
#: and written, during the microsecond that it takes.
READ_TRIES = 1000


class ObservationStatistics:
    """Each worker writes its own row; whoever needs the whole merges all rows.

    A row has two halves that are written in turn. What counts is the one that is not being written, so that nobody
    takes half of anything, or waits for a writer that sleeps, or died, in the middle (`store_order.py`).

    Args:
        tensor: `[workers, 1 + 2·(1 + 2F)]`, float64, in shared memory where processes share it. Columns: how often the
            row was written, w; then the halves, of which number w mod 2 counts: count, mean `[F]`, sum of squared
            deviations `[F]`.
    """

    def __init__(self, tensor: Tensor) -> None:
        self._rows: Doubles = tensor.numpy()
        self._half_size = (tensor.shape[1] - 1) // 2
        self._size = (self._half_size - 1) // 2

    @staticmethod
    def zeros(workers: int, num_features: int) -> Tensor:
        """The tensor of workers that have seen nothing."""
        return torch.zeros((workers, 1 + 2 * (1 + 2 * num_features)), dtype=torch.float64)

    def update(self, worker: int, batch: NDArray[np.float32]) -> None:
        """Takes observations `[B, F]` into the worker's own row."""
        if not len(batch):
            return
        row, wide = self._rows[worker], batch.astype(np.float64)
        mean = wide.mean(axis=0)
        theirs = (float(len(wide)), mean, np.square(wide - mean).sum(axis=0))
        written = int(row[0]) + 1
        memory_barrier()  # readers may still read this half, until they see the number of the other one
        half = self._half(row, written)
        half[0], half[1 : 1 + self._size], half[1 + self._size :] = merge(
            self._parts(self._half(row, written - 1)), theirs
        )
        memory_barrier()
        row[0] = written

    def copy(self) -> Tensor:
        """The tensor as it stands, while workers go on: only what counts, in the first halves."""
        rows = np.zeros_like(self._rows)
        for copy, row in zip(rows, self._rows, strict=True):
            self._half(copy, 0)[:] = self._read(row)
        return torch.from_numpy(rows)

    def mean_and_scale(self) -> tuple[Tensor, Tensor]:
        """Mean and 1/standard deviation over all workers, both `[F]`, float32; 0 and 1 before anything was seen."""
        total: tuple[float, Doubles, Doubles] = (0.0, np.zeros(self._size), np.zeros(self._size))
        for row in self._rows:
            total = merge(total, self._parts(self._read(row)))
        count, mean, deviations = total
        if not count:
            return torch.zeros(self._size), torch.ones(self._size)
        scale = 1.0 / np.sqrt(deviations / count + 1e-8)
        return torch.from_numpy(mean.astype(np.float32)), torch.from_numpy(scale.astype(np.float32))

    def _half(self, row: Doubles, written: int) -> Doubles:
        start = 1 + written % 2 * self._half_size
        return row[start : start + self._half_size]

    def _parts(self, half: Doubles) -> tuple[float, Doubles, Doubles]:
        return float(half[0]), half[1 : 1 + self._size], half[1 + self._size :]

    def _read(self, row: Doubles) -> Doubles:
        """A copy of the half that counts; its writer comes back to it only after the number has changed."""
        for _ in range(READ_TRIES):
            written = row[0]
            memory_barrier()
            half = self._half(row, int(written)).copy()
            memory_barrier()
            if row[0] == written:
                return half
        raise RuntimeError(f"statistics of observations changed in each of {READ_TRIES} readings")


def merge(
    ours: tuple[float, Doubles, Doubles], theirs: tuple[float, Doubles, Doubles]
) -> tuple[float, Doubles, Doubles]:
    """Count, mean and sum of squared deviations of two samples together (Chan, Golub & LeVeque 1979, eq. 1.5)."""
    (n, mean, deviations), (m, other_mean, other_deviations) = ours, theirs
    if n + m == 0:
        return ours
    delta = other_mean - mean
    return (
        n + m,
        mean + delta * (m / (n + m)),
        deviations + other_deviations + np.square(delta) * (n * m / (n + m)),
    )
