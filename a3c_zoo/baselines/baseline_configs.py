"""Configuration models of the baselines. They do not import torch, because `show` reads them.

Keys have stable-baselines3's own names, so its documentation and RL Zoo's settings apply. RL Zoo's `lin_0.001` is a
value of 0.001 with the schedule `linear`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from a3c_zoo.config import AgentConfig

Schedule = Literal["constant", "linear"]
Widths = list[Annotated[int, Field(ge=1, le=65_536)]]


class SB3Config(AgentConfig):
    """Keys of all on-policy algorithms of stable-baselines3."""

    policy: Literal["MlpPolicy", "CnnPolicy", "MultiInputPolicy"] = Field(
        "MlpPolicy", description="policy class: for vectors, images, or dictionaries of them"
    )
    net_arch: Widths | dict[Literal["pi", "vf"], Widths] | None = Field(
        None, description="widths of the hidden layers, or {pi: […], vf: […]}; null: SB3's default"
    )
    activation: Literal["tanh", "relu", "elu", "gelu"] | None = Field(
        None, description="activation function (activation_fn); null: SB3's default"
    )
    ortho_init: bool | None = Field(None, description="orthogonal initial weights; null: SB3's default")
    log_std_init: float | None = Field(
        None, description="initial log standard deviation of continuous actions; null: SB3's default"
    )
    learning_rate: float = Field(7e-4, gt=0, le=10, description="initial learning rate")
    learning_rate_schedule: Schedule = Field("constant", description="linear: falls to 0 over agent.schedule_steps")
    schedule_steps: int | None = Field(
        None, ge=1, description="length of linear schedules in agent steps; null: the budget `run.steps`"
    )
    n_steps: int = Field(5, ge=1, le=1_000_000, description="steps per environment in one rollout")
    gamma: float = Field(0.99, ge=0, le=1, description="discount per step, 0 to 1")
    gae_lambda: float = Field(1.0, ge=0, le=1, description="λ of GAE, 0 to 1")
    ent_coef: float = Field(0.0, ge=0, description="weight of the entropy bonus in the loss")
    vf_coef: float = Field(0.5, ge=0, description="weight of the value loss")
    max_grad_norm: float = Field(0.5, gt=0, description="largest L2 norm of the gradient")
    normalize_advantage: bool = Field(False, description="scale advantages to mean 0 and deviation 1 in each update")
    clip_rewards: bool = Field(False, description="learn from the sign of each reward; returns stay raw")
    use_sde: bool = Field(False, description="state-dependent exploration of continuous actions")
    sde_sample_freq: int = Field(
        -1, ge=-1, description="steps between two samples of the noise of use_sde; -1: one sample per rollout"
    )

    @property
    def rollout_steps(self) -> int:
        return self.n_steps


class SB3A2CConfig(SB3Config):
    """stable-baselines3's A2C, with SB3's defaults."""

    use_rms_prop: bool = Field(True, description="true: RMSprop; false: Adam")
    rms_prop_eps: float = Field(1e-5, gt=0, description="RMSprop: ε, added to the root of the mean square")
    rms_prop_tf_like: bool = Field(
        False, description="RMSprop as in TensorFlow (RMSpropTFLike): ε under the root, mean square starts at 1"
    )


class SB3PPOConfig(SB3Config):
    """stable-baselines3's PPO, with SB3's defaults."""

    learning_rate: float = Field(3e-4, gt=0, le=10, description="initial learning rate")
    n_steps: int = Field(2048, ge=1, le=1_000_000, description="steps per environment in one rollout")
    gae_lambda: float = Field(0.95, ge=0, le=1, description="λ of GAE, 0 to 1")
    normalize_advantage: bool = Field(True, description="scale advantages to mean 0 and deviation 1 in each minibatch")
    batch_size: int = Field(64, ge=1, description="samples of a minibatch")
    n_epochs: int = Field(10, ge=1, le=10_000, description="number of passes over each rollout")
    clip_range: float = Field(0.2, gt=0, description="largest distance from 1 of the ratio of new to old probabilities")
    clip_range_schedule: Schedule = Field("constant", description="linear: falls to 0 over agent.schedule_steps")
    target_kl: float | None = Field(
        None, gt=0, description="stop the passes over a rollout at this KL divergence; null: never"
    )


class RandomConfig(AgentConfig):
    """Keys of random actions."""

    n_steps: int = Field(32, ge=1, le=100_000, description="steps per environment between two checks of the budgets")

    @property
    def rollout_steps(self) -> int:
        return self.n_steps
