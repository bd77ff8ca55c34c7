"""Returns and advantages: pure functions on NumPy arrays `[T, N]`, float32.

All functions use these arguments. Row t belongs to the action a_t taken in state s_t:
    rewards         r_t `[T, N]`
    next_values     V(s_{t+1}) `[T, N]`; where an episode was truncated at t, V of its *final* observation
    terminated      the episode ended at t: the bootstrap is 0
    truncated       the episode was cut at t: the bootstrap is next_values[t]
Sums do not cross the end of an episode. So the row of an ignored action (NEXT_STEP autoreset) changes no
other row, and the caller masks it.

Nothing warns of numbers that are not finite: their gradient is left out, and the run tells of it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]

_without_warnings = np.errstate(over="ignore", invalid="ignore")


@_without_warnings
def gae(
    rewards: Floats,
    values: Floats,
    next_values: Floats,
    terminated: Bools,
    truncated: Bools,
    gamma: float,
    gae_lambda: float,
) -> Floats:
    """Generalised advantage estimates (Schulman et al. 2016, arXiv:1506.02438, eq. 16), `[T, N]`.

    δ_t = r_t + γ·V(s_{t+1}) − V(s_t), with V = 0 after a termination. A_t = δ_t + γλ·A_{t+1} within an
    episode and a rollout. λ = 1 gives the A3C advantage (Mnih et al. 2016, arXiv:1602.01783, algorithm S3).
    """
    advantages: Floats = rewards + gamma * next_values * ~terminated - values
    carry = np.float32(gamma * gae_lambda) * ~(terminated | truncated)
    for t in range(len(rewards) - 2, -1, -1):
        advantages[t] += carry[t] * advantages[t + 1]
    return advantages


@_without_warnings
def n_step_returns(
    rewards: Floats, next_values: Floats, terminated: Bools, truncated: Bools, gamma: float, n: int
) -> Floats:
    """Sliding windows: G_t = Σ_{k<m} γ^k r_{t+k} + γ^m V(s_{t+m}) (Sutton & Barto 2018, eq. 7.1), `[T, N]`.

    m is n, or less where the episode or the rollout ends sooner. The bootstrap is 0 after a termination. With
    n ≥ T these are the returns to the end of the rollout (A3C, Mnih et al. 2016, arXiv:1602.01783, algorithm
    S3).
    """
    length = len(rewards)
    returns = np.zeros_like(next_values)
    is_open = np.ones_like(terminated)
    for k in range(min(n, length)):
        rows = slice(0, length - k)
        ahead = slice(k, length)
        closes = terminated[ahead] | truncated[ahead]
        if k == n - 1:
            closes[:] = True
        closes[-1] = True  # the rollout's last row
        term = rewards[ahead] + gamma * next_values[ahead] * (closes & ~terminated[ahead])
        returns[rows] += np.float32(gamma**k) * term * is_open[rows]
        is_open[rows] &= ~closes
    return returns


@_without_warnings
def monte_carlo_returns(rewards: Floats, terminated: Bools, truncated: Bools, gamma: float) -> Floats:
    """Discounted returns of whole episodes, without bootstrap (Sutton & Barto 2018, section 5.1), `[T, N]`.

    A truncation counts as an end that is worth 0. Rows whose episode does not end in the rollout are partial
    sums.
    """
    returns = np.empty_like(rewards)
    ended = terminated | truncated
    following = np.zeros_like(rewards[0])
    for t in range(len(rewards) - 1, -1, -1):
        returns[t] = following = rewards[t] + gamma * following * ~ended[t]
    return returns
