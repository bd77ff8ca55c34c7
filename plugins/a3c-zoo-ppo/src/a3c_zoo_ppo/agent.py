"""PPO: the workers of `a3c`, with the clipped objective (Schulman et al. 2017, arXiv:1707.06347, eq. 7)."""

from __future__ import annotations

from functools import partial

import torch
from a3c_zoo.agents import agent_config, run_a3c
from a3c_zoo.learning import LossInputs, LossTerms, Objective
from a3c_zoo.records import RunContext

from a3c_zoo_ppo import PPOConfig


def clipped_loss(limit: float, samples: LossInputs, objective: Objective) -> LossTerms:
    """min(r · A, clip(r, 1 − ε, 1 + ε) · A) where r = π(a|s) / π_acted(a|s) and ε = `limit`; for values (R − V)²."""
    ratios, advantages = samples.ratios(), samples.advantages
    gain = torch.minimum(ratios * advantages, ratios.clamp(1 - limit, 1 + limit) * advantages)
    error = (samples.returns - samples.values).square()
    return LossTerms(gain, error, lambda: {"clip_fraction": ((ratios - 1).abs() > limit).float()})


def run(context: RunContext) -> None:
    """Trains until the run says stop."""
    run_a3c(context, partial(clipped_loss, agent_config(context, PPOConfig).clip_ratio))
