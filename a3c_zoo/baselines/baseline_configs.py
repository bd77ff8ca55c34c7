"""The baselines' configuration models. No torch here: help, listings and `show` read them.

Keys have stable-baselines3's own names, so that its documentation and RL Zoo's settings can be read beside them. What
RL Zoo writes as `lin_0.001` is a value of 0.001 and the schedule `linear`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from a3c_zoo.config import AgentConfig

Schedule = Literal["constant", "linear"]
Widths = list[Annotated[int, Field(ge=1, le=65_536)]]


class SB3Config(AgentConfig):
    """What stable-baselines3's on-policy algorithms have in common."""

    policy: Literal["MlpPolicy", "CnnPolicy", "MultiInputPolicy"] = Field(
        "MlpPolicy", description="policy class: vectors, images, or dictionaries of them"
    )
    net_arch: Widths | dict[Literal["pi", "vf"], Widths] | None = Field(
        None, description="widths of the hidden layers, of policy and value alike or {pi: […], vf: […]}; null: SB3's"
    )
    activation: Literal["tanh", "relu", "elu", "gelu"] | None = Field(
        None, description="activation function (activation_fn); null: SB3's"
    )
    ortho_init: bool | None = Field(None, description="orthogonal initial weights; null: SB3's")
    log_std_init: float | None = Field(
        None, description="initial log standard deviation of continuous actions; null: SB3's"
    )
    learning_rate: float = Field(7e-4, gt=0, le=10, description="step size, at the start")
    learning_rate_schedule: Schedule = Field("constant", description="linear: falls to 0 over agent.schedule_steps")
    schedule_steps: int | None = Field(
        None, ge=1, description="agent steps over which linear schedules fall; null: the budget `run.steps`"
    )
    n_steps: int = Field(5, ge=1, le=1_000_000, description="steps per environment in one rollout")
    gamma: float = Field(0.99, ge=0, le=1, description="discount of a reward per step")
    gae_lambda: float = Field(1.0, ge=0, le=1, description="λ of GAE")
    ent_coef: float = Field(0.0, ge=0, description="weight of the entropy bonus in the loss")
    vf_coef: float = Field(0.5, ge=0, description="weight of the value loss")
    max_grad_norm: float = Field(0.5, gt=0, description="global gradient norm limit")
    normalize_advantage: bool = Field(False, description="advantages scaled to mean 0 and deviation 1 per update")
    clip_rewards: bool = Field(
        False, description="rewards clipped to -1, 0 or 1 for learning; returns are the environment's own"
    )
    use_sde: bool = Field(False, description="state-dependent exploration, for continuous actions")
    sde_sample_freq: int = Field(
        -1, ge=-1, description="steps between new exploration noise (use_sde); -1: once per rollout"
    )

    @property
    def rollout_steps(self) -> int:
        return self.n_steps


class SB3A2CConfig(SB3Config):
    """stable-baselines3's A2C; every default is its own."""

    use_rms_prop: bool = Field(True, description="RMSprop rather than Adam")
    rms_prop_eps: float = Field(1e-5, gt=0, description="RMSprop: added to the root of the mean square")
    rms_prop_tf_like: bool = Field(
        False, description="RMSprop as TensorFlow's (RMSpropTFLike): epsilon under the root, mean square from 1"
    )


class SB3PPOConfig(SB3Config):
    """stable-baselines3's PPO; every default is its own."""

    learning_rate: float = Field(3e-4, gt=0, le=10, description="step size, at the start")
    n_steps: int = Field(2048, ge=1, le=1_000_000, description="steps per environment in one rollout")
    gae_lambda: float = Field(0.95, ge=0, le=1, description="λ of GAE")
    normalize_advantage: bool = Field(True, description="advantages scaled to mean 0 and deviation 1 per minibatch")
    batch_size: int = Field(64, ge=1, description="samples of a minibatch")
    n_epochs: int = Field(10, ge=1, le=10_000, description="passes over each rollout")
    clip_range: float = Field(0.2, gt=0, description="how far the ratio of new to old probability may leave 1")
    clip_range_schedule: Schedule = Field("constant", description="linear: falls to 0 over agent.schedule_steps")
    target_kl: float | None = Field(
        None, gt=0, description="KL divergence from which a rollout's passes are cut short; null: never"
    )


class RandomConfig(AgentConfig):
    """Random actions."""

    n_steps: int = Field(32, ge=1, le=100_000, description="steps per environment between two looks at the budgets")

    @property
    def rollout_steps(self) -> int:
        return self.n_steps
