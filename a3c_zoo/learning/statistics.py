"""Running mean and variance of observations, gathered by all workers without a lock."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Doubles = NDArray[np.float64]

#: Before the version of a row is even and unchanged; a worker that died while it wrote leaves it odd for good.
READ_TRIES = 1000


class RunningStatistics:
    """Each worker writes its own row; whoever needs the whole merges all rows.

    A row's version is odd while the row is written, so that nobody takes half of it (a sequence lock).

    Args:
        tensor: `[workers, 2 + 2F]`, float64, in shared memory where processes share it. Columns: version, count,
            mean `[F]`, sum of squared deviations `[F]`.
    """

    def __init__(self, tensor: Tensor) -> None:
        self._rows: Doubles = tensor.numpy()
        self._size = (tensor.shape[1] - 2) // 2

    @staticmethod
    def zeros(workers: int, num_features: int) -> Tensor:
        """The tensor of workers that have seen nothing."""
        return torch.zeros((workers, 2 + 2 * num_features), dtype=torch.float64)

    def update(self, worker: int, batch: NDArray[np.float32]) -> None:
        """Takes observations `[B, F]` into the worker's own row."""
        if not len(batch):
            return
        row, wide = self._rows[worker], batch.astype(np.float64)
        mean = wide.mean(axis=0)
        theirs = (float(len(wide)), mean, np.square(wide - mean).sum(axis=0))
        count, mean, deviations = merge(self._parts(row), theirs)
        row[0] += 1
        row[1], row[2 : 2 + self._size], row[2 + self._size :] = count, mean, deviations
        row[0] += 1

    def copy(self) -> Tensor:
        """The tensor with whole rows only, while workers go on; the row of one that died in the middle is empty."""
        return torch.from_numpy(np.stack([_read_patiently(row) for row in self._rows]))

    def mean_and_scale(self) -> tuple[Tensor, Tensor]:
        """Mean and 1/standard deviation over all workers, both `[F]`, float32; 0 and 1 before anything was seen."""
        total: tuple[float, Doubles, Doubles] = (0.0, np.zeros(self._size), np.zeros(self._size))
        for row in self._rows:
            if (whole := _read(row)) is not None:
                total = merge(total, self._parts(whole))
        count, mean, deviations = total
        if not count:
            return torch.zeros(self._size), torch.ones(self._size)
        scale = 1.0 / np.sqrt(deviations / count + 1e-8)
        return torch.from_numpy(mean.astype(np.float32)), torch.from_numpy(scale.astype(np.float32))

    def _parts(self, row: Doubles) -> tuple[float, Doubles, Doubles]:
        return float(row[1]), row[2 : 2 + self._size], row[2 + self._size :]


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


def _read_patiently(row: Doubles) -> Doubles:
    """`_read` even where the writer has been put to sleep in the middle; zeros after a tenth of a second."""
    for _ in range(50):
        if (whole := _read(row)) is not None:
            return whole
        time.sleep(0.002)
    return np.zeros_like(row)


def _read(row: Doubles) -> Doubles | None:
    """A copy of a row that nobody wrote meanwhile; None where its writer died in the middle."""
    for _ in range(READ_TRIES):
        version = row[0]
        copy = row.copy()
        if version % 2 == 0 and row[0] == version:
            return copy
    return None
