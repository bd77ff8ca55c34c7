"""Running mean and deviation of observations, with which networks normalise them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from a3c_zoo.learning.running_statistics import RunningStatistics


class ObservationStatistics(RunningStatistics):
    """The running statistics of the F features of an observation."""

    def mean_and_scale(self) -> tuple[Tensor, Tensor]:
        """Mean and 1/standard deviation over all workers, both `[F]`, float32; 0 and 1 without observations."""
        total = self.total()
        count = total[0]
        mean, deviations = np.split(total[1:], 2)
        if not count:
            return torch.zeros(len(mean)), torch.ones(len(mean))
        scale = 1.0 / np.sqrt(deviations / count + 1e-8)
        return torch.from_numpy(mean.astype(np.float32)), torch.from_numpy(scale.astype(np.float32))
