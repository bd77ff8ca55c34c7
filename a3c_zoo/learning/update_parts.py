"""Updates that several processes make of the rollouts of all: what each must know of the whole.

The loss of an update is a mean over its valid samples. So the gradients of its parts add up to the gradient of the
whole only if each loss is divided by the number of all samples. The same holds for the mean and the deviation by which
advantages are normalised. If an update has samples of some processes alone, these are those of the rollouts of
all: the samples of a few environments alone are too noisy a measure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class WholeUpdate:
    """An update with all its parts: how many valid samples it has; mean and deviation by which it is normalised."""

    num_valid: int
    mean: float
    deviation: float


def whole_updates(of_members: Doubles, group: slice, per_pass: int) -> list[WholeUpdate]:
    """The U updates of a group of members.

    Args:
        of_members: the moments of what each contributes to its updates, `[members, U, 3]`.
        group: those who make the updates together. per_pass: how many updates have each sample once.
    """
    of_updates = merged_moments(of_members[group])
    if len(of_members[group]) < len(of_members):
        of_updates[:, 1:] = _mean_and_variance(merged_moments(of_members[:, :per_pass].reshape(-1, 1, 3)))
    else:
        of_updates[:, 1:] = _mean_and_variance(of_updates)
    return [
        WholeUpdate(int(count), mean, math.sqrt(variance)) for count, mean, variance in of_updates.tolist()
    ]


def _mean_and_variance(moments: Doubles) -> Doubles:
    """From moments `[U, 3]`, `[U, 2]`."""
    return np.stack((moments[:, 1], moments[:, 2] / np.maximum(moments[:, 0], 1)), axis=-1)


def moments_of_updates(advantages: Tensor, valid: Tensor, choices: Sequence[Tensor]) -> Doubles:
    """Number, mean and sum of squared deviations of the valid advantages in each of U updates, `[U, 3]`.

    Args:
        advantages, valid: of samples `[B]`, or of segments `[L, M]`.
        choices: the samples or segments of each update, as numbers of the last dimension; equally many in each.
    """
    chosen = torch.stack(tuple(choices))
    taken = advantages[..., chosen].movedim(-2, 0).flatten(1).double()
    weight = valid[..., chosen].movedim(-2, 0).flatten(1).double()
    count = weight.sum(1)
    mean = (taken * weight).sum(1) / count.clamp(min=1)
    squares = ((taken - mean[:, None]).square() * weight).sum(1)
    return torch.stack((count, mean, squares), dim=1).numpy()


@np.errstate(over="ignore", invalid="ignore")  # as in `returns.py`
def merged_moments(parts: Doubles) -> Doubles:
    """The moments of whole updates, `[U, 3]`, from those of their parts, `[parts, U, 3]`.

    Squared deviations are those within the parts and those between them (Chan, Golub & LeVeque 1979, eq. 1.5).
    """
    count = parts[..., 0]
    mean = parts[..., 1]
    squares = parts[..., 2]
    total = count.sum(axis=0)
    whole_mean = (count * mean).sum(axis=0) / np.maximum(total, 1)
    between = (count * np.square(mean - whole_mean)).sum(axis=0)
    return np.stack((total, whole_mean, squares.sum(axis=0) + between), axis=-1)
