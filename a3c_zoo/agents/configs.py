"""The agents' configuration models. No torch here: help, listings and `show` read them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from a3c_zoo.config import AgentConfig


class A3CConfig(AgentConfig):
    """Actor-critic with a rollout of `n_steps` per environment (Mnih et al. 2016)."""

    n_steps: int = Field(20, ge=1, le=100_000, description="steps per environment in one rollout (T)")
    gamma: float = Field(0.99, ge=0, le=1, description="discount of a reward per step")
    gae_lambda: float = Field(1.0, ge=0, le=1, description="λ of GAE; 1: returns to the rollout's end, as in A3C")
    entropy_coefficient: float = Field(0.01, ge=0, description="weight of the entropy bonus in the loss")
    entropy_schedule: Literal["constant", "linear"] = Field(
        "constant", description="linear: the entropy bonus falls to 0 over optimizer.schedule_steps (else run.steps)"
    )
    value_coefficient: float = Field(0.5, ge=0, description="weight of the value loss")
    normalize_advantages: bool = Field(False, description="advantages scaled to mean 0 and deviation 1 per update")
    clip_rewards: bool = Field(False, description="rewards clipped to ±1 in the loss, never in the environment")
    loss_reduction: Literal["mean", "sum"] = Field("mean", description="how the samples of an update are combined")
    update_samples: int | None = Field(
        None, ge=1, description="samples per update, a multiple of agent.n_steps; null: the whole rollout"
    )
