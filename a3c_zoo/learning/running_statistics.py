"""Running mean and variance of numbers that all workers see and update without a lock."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3c_zoo.store_order import memory_barrier

Doubles = NDArray[np.float64]

#: How often a row is read again before an error is raised. A try fails only if its writer collects a whole
#: rollout during the microsecond that the reading takes.
READ_TRIES = 1000


class RunningStatistics:
    """The mean and the variance of F numbers: a row for each worker, which it alone writes; readers merge all rows.

    A row has two halves, which are written in turn. Readers take the half that is not being written. So they
    never see an incomplete half, and never wait for a writer that sleeps or has died (`store_order.py`).

    Args:
        tensor: `[workers, 1 + 2·(1 + 2F)]`, float64, in shared memory if processes share it. Columns: w, the
            number of writes; then two halves with count, mean `[F]` and sum of squared deviations `[F]` each.
            Half number w mod 2 is the newest complete one.
    """

    def __init__(self, tensor: Tensor) -> None:
        self._rows: Doubles = tensor.numpy()
        self._half_size = (tensor.shape[1] - 1) // 2

    @staticmethod
    def zeros(workers: int, num_features: int) -> Tensor:
        """The tensor before any number was seen."""
        return torch.zeros((workers, 1 + 2 * (1 + 2 * num_features)), dtype=torch.float64)

    def update(self, worker: int, batch: NDArray[np.floating[Any]]) -> None:
        """Adds a batch `[B, F]` to the worker's own row."""
        if not len(batch):
            return
        row = self._rows[worker]
        wide = batch.astype(np.float64)
        mean = wide.mean(axis=0)
        theirs = np.concatenate(([len(wide)], mean, np.square(wide - mean).sum(axis=0)))
        self._write(row, merged(self._half(row, int(row[0])), theirs))

    def take_over(self, worker: int, copied: NDArray[np.float64]) -> None:
        """Replaces a worker's row by one of `copy`, `[1 + 2·(1 + 2F)]`; for a worker of another machine."""
        self._write(self._rows[worker], self._half(copied, 0))

    def _write(self, row: Doubles, half: Doubles) -> None:
        """Makes `half` the newest one of a row; only the row's one writer calls it."""
        written = int(row[0]) + 1
        memory_barrier()  # readers may still read this half, until they see the number of the other one
        self._half(row, written)[:] = half
        memory_barrier()
        row[0] = written

    def copy(self) -> Tensor:
        """A consistent copy while workers go on, with the newest complete halves as first halves."""
        rows = np.zeros_like(self._rows)
        for copy, row in zip(rows, self._rows, strict=True):
            self._half(copy, 0)[:] = self._read(row)
        return torch.from_numpy(rows)

    def gathered(self, workers: int) -> Tensor:
        """The tensor for a number of workers. If it is another number, all samples count for the first worker."""
        if workers == len(self._rows):
            return self.copy()
        rows = torch.zeros((workers, self._rows.shape[1]), dtype=torch.float64)
        rows[0, 1 : 1 + self._half_size] = torch.from_numpy(self.total())
        return rows

    def total(self) -> Doubles:
        """Count, mean `[F]` and sum of squared deviations `[F]` over all workers, `[1 + 2F]`."""
        return functools.reduce(merged, map(self._read, self._rows), np.zeros(self._half_size))

    def _half(self, row: Doubles, written: int) -> Doubles:
        start = 1 + written % 2 * self._half_size
        return row[start : start + self._half_size]

    def _read(self, row: Doubles) -> Doubles:
        """A copy of the newest complete half; the number of writes changes before the writer comes back to it."""
        for _ in range(READ_TRIES):
            written = row[0]
            memory_barrier()
            half = self._half(row, int(written)).copy()
            memory_barrier()
            if row[0] == written:
                return half
        raise RuntimeError(f"running statistics changed in each of {READ_TRIES} readings")


def merged(ours: Doubles, theirs: Doubles) -> Doubles:
    """The union of two samples (Chan, Golub & LeVeque 1979, eq. 1.5).

    A sample is an array of its count, mean `[F]` and sum of squared deviations `[F]`, `[1 + 2F]`.
    """
    n = ours[0]
    m = theirs[0]
    total = ours[0] + theirs[0]
    if total == 0:
        return ours
    mean, deviations = np.split(ours[1:], 2)
    other_mean, other_deviations = np.split(theirs[1:], 2)
    delta = other_mean - mean
    spread = np.square(delta) * (n * m / total)
    return np.concatenate(([total], mean + delta * (m / total), deviations + other_deviations + spread))
