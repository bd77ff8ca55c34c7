"""Configuration models of the baselines. They do not import torch, because `show` reads them.

Keys have stable-baselines3's own names, so its documentation and RL Zoo's settings apply. RL Zoo's
`lin_0.001` is a value of 0.001 with the schedule `linear`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from a3c_zoo.config import AgentConfig
from a3c_zoo.errors import ConfigError

if TYPE_CHECKING:
    from a3c_zoo.config import Config, RunConfig
    from a3c_zoo.plugins.entries import EnvEntry

Schedule = Literal["constant", "linear"]
Widths = Annotated[list[Annotated[int, Field(ge=1, le=65_536)]], Field(max_length=100)]


class SB3Config(AgentConfig):
    """Keys of all algorithms of stable-baselines3.

    Attributes:
        algorithm: import string of the algorithm.
    """

    algorithm: ClassVar[str]

    policy: Literal["auto", "MlpPolicy", "CnnPolicy", "MultiInputPolicy"] = Field(
        "auto",
        description="policy class: for vectors, images of 36 × 36 pixels or more, or dictionaries of them; auto: what "
        "fits the observations",
    )
    net_arch: Widths | dict[Literal["pi", "vf"], Widths] | None = Field(
        None, description="widths of the hidden layers, or {pi: […], vf: […]}; null: SB3's default"
    )
    activation: Literal["tanh", "relu", "elu", "gelu"] | None = Field(
        None, description="activation function (activation_fn); null: SB3's default"
    )
    learning_rate: float = Field(7e-4, gt=0, le=10, description="initial learning rate")
    learning_rate_schedule: Schedule = Field(
        "constant", description="linear: falls to 0 over agent.schedule_steps"
    )
    schedule_steps: int | None = Field(
        None, ge=1, description="length of linear schedules in agent steps; null: the budget `run.steps`"
    )
    gamma: float = Field(0.99, ge=0, le=1, description="discount per step, 0 to 1")
    max_grad_norm: float = Field(0.5, gt=0, description="largest L2 norm of the gradient")
    clip_rewards: bool = Field(False, description="learn from the sign of each reward; returns stay raw")
    normalize: bool | Literal["observations", "rewards"] = Field(
        False,
        description="scale observations and rewards, or only one of them, by their running statistics (VecNormalize); "
        "returns stay raw",
    )
    torch_threads: int | None = Field(
        None,
        ge=1,
        le=1024,
        description="number of torch's threads; null: one or all, whichever is faster where the session runs",
    )
    vec_env: Literal["auto", "dummy", "subproc"] = Field(
        "auto",
        description="what steps stable-baselines3's own environments: dummy, DummyVecEnv, one after the other; "
        "subproc, SubprocVecEnv, each in a process; auto: whichever is faster where the session runs",
    )

    def check_run(self, config: Config, entry: EnvEntry) -> None:
        """Raises ConfigError for games of several agents, a schedule without an end, or a wrong `vec_env`."""
        if entry.num_agents > 1:
            raise ConfigError(
                f"{entry.num_agents} agents play each game of '{entry.name}', and baseline '{config.agent_name}' "
                "cannot leave out the steps of those who have left it. --agent a3c and --agent random can"
            )
        if self.linear_keys and not self.length_of_schedules(config.run):
            raise ConfigError(
                f"agent.{self.linear_keys[0]} — needs agent.schedule_steps, or a budget: --steps N"
            )
        if self.vec_env == "subproc" and config.env.stack != "own":
            raise ConfigError(
                "agent.vec_env: subproc — SubprocVecEnv steps stable-baselines3's own environments: set env.stack=own"
            )

    @property
    def takes_masks(self) -> bool:
        return False

    @property
    def linear_keys(self) -> list[str]:
        """What falls over the length of schedules, as messages have it."""
        keys = [name for name in type(self).model_fields if name.endswith("_schedule")]
        return [f"{key}: linear" for key in keys if getattr(self, key) == "linear"]

    def length_of_schedules(self, run: RunConfig) -> int:
        """The length of linear schedules in agent steps; 0 if nothing gives it."""
        return self.schedule_steps or run.steps or 0

    def updates(self, num_envs: int) -> tuple[int, int]:
        """How many updates follow a rollout, and how many samples each has."""
        return 1, self.rollout_steps * num_envs

    def policy_for(self, kind: Literal["Mlp", "Cnn", "MultiInput"]) -> str:
        """The policy class for a kind of observations, unless `policy` names one."""
        return f"{kind}Policy" if self.policy == "auto" else self.policy

    @property
    def import_strings(self) -> tuple[str, ...]:
        return (self.algorithm,)


class SB3OnPolicyConfig(SB3Config):
    """Keys of the on-policy algorithms of stable-baselines3."""

    ortho_init: bool | None = Field(None, description="orthogonal initial weights; null: SB3's default")
    log_std_init: float | None = Field(
        None, description="initial log standard deviation of continuous actions; null: SB3's default"
    )
    n_steps: int = Field(5, ge=1, le=1_000_000, description="steps per environment in one rollout")
    gae_lambda: float = Field(1.0, ge=0, le=1, description="λ of GAE, 0 to 1")
    ent_coef: float = Field(0.0, ge=0, description="weight of the entropy bonus in the loss")
    vf_coef: float = Field(0.5, ge=0, description="weight of the value loss")
    normalize_advantage: bool = Field(
        False, description="scale advantages to mean 0 and deviation 1 in each update"
    )
    use_sde: bool = Field(False, description="state-dependent exploration of continuous actions")
    sde_sample_freq: int = Field(
        -1, ge=-1, description="steps between two samples of the noise of use_sde; -1: one sample per rollout"
    )

    @property
    def rollout_steps(self) -> int:
        return self.n_steps


class SB3A2CConfig(SB3OnPolicyConfig):
    """stable-baselines3's A2C, with SB3's defaults."""

    algorithm = "stable_baselines3:A2C"

    use_rms_prop: bool = Field(True, description="true: RMSprop; false: Adam")
    rms_prop_eps: float = Field(1e-5, gt=0, description="RMSprop: ε, added to the root of the mean square")
    rms_prop_tf_like: bool = Field(
        False,
        description="RMSprop as in TensorFlow (RMSpropTFLike): ε under the root, mean square starts at 1",
    )


class SB3PPOConfig(SB3OnPolicyConfig):
    """stable-baselines3's PPO, with SB3's defaults."""

    algorithm = "stable_baselines3:PPO"

    learning_rate: float = Field(3e-4, gt=0, le=10, description="initial learning rate")
    n_steps: int = Field(2048, ge=1, le=1_000_000, description="steps per environment in one rollout")
    gae_lambda: float = Field(0.95, ge=0, le=1, description="λ of GAE, 0 to 1")
    normalize_advantage: bool = Field(
        True, description="scale advantages to mean 0 and deviation 1 in each minibatch"
    )
    batch_size: int = Field(64, ge=1, description="samples of a minibatch")
    n_epochs: int = Field(10, ge=1, le=10_000, description="number of passes over each rollout")
    clip_range: float = Field(
        0.2, gt=0, description="largest distance from 1 of the ratio of new to old probabilities"
    )
    clip_range_schedule: Schedule = Field(
        "constant", description="linear: falls to 0 over agent.schedule_steps"
    )
    target_kl: float | None = Field(
        None, gt=0, description="stop the passes over a rollout at this KL divergence; null: never"
    )

    def updates(self, num_envs: int) -> tuple[int, int]:
        samples = self.n_steps * num_envs
        return self.n_epochs * -(-samples // self.batch_size), min(self.batch_size, samples)


class RecurrentPPOConfig(SB3PPOConfig):
    """sb3-contrib's RecurrentPPO, PPO with an LSTM, with its defaults."""

    algorithm = "sb3_contrib:RecurrentPPO"

    policy: Literal["auto", "MlpLstmPolicy", "CnnLstmPolicy", "MultiInputLstmPolicy"] = Field(  # type: ignore[assignment]
        "auto",
        description="policy class: for vectors, images of 36 × 36 pixels or more, or dictionaries of them; auto: what "
        "fits the observations",
    )

    def policy_for(self, kind: Literal["Mlp", "Cnn", "MultiInput"]) -> str:
        return f"{kind}LstmPolicy" if self.policy == "auto" else self.policy

    n_steps: int = Field(128, ge=1, le=1_000_000, description="steps per environment in one rollout")
    batch_size: int = Field(128, ge=1, description="samples of a minibatch")
    lstm_hidden_size: int = Field(256, ge=1, le=65_536, description="units of each LSTM")
    n_lstm_layers: int = Field(1, ge=1, le=100, description="layers of each LSTM")
    enable_critic_lstm: bool = Field(True, description="the value has an LSTM of its own")
    shared_lstm: bool = Field(
        False, description="the value reads the policy's LSTM; needs enable_critic_lstm: false"
    )


class SB3DQNConfig(SB3Config):
    """stable-baselines3's DQN, with SB3's defaults."""

    algorithm = "stable_baselines3:DQN"

    # SB3's DQN has one network.
    net_arch: Widths | None = Field(None, description="widths of the hidden layers; null: SB3's default")
    learning_rate: float = Field(1e-4, gt=0, le=10, description="initial learning rate")
    max_grad_norm: float = Field(10.0, gt=0, description="largest L2 norm of the gradient")
    buffer_size: int = Field(
        1_000_000, ge=1, le=1_000_000_000, description="agent steps that the replay buffer holds"
    )
    learning_starts: int = Field(100, ge=0, description="agent steps with random actions before it learns")
    batch_size: int = Field(32, ge=1, description="samples of an update")
    tau: float = Field(
        1.0, gt=0, le=1, description="part of the target network that each change replaces, 0 to 1"
    )
    train_freq: int = Field(
        4, ge=1, le=1_000_000, description="steps per environment between two rounds of updates"
    )
    gradient_steps: int = Field(
        1,
        ge=-1,
        le=1_000_000,
        description="updates in a round; -1: one for each step since the last round",
    )
    target_update_interval: int = Field(
        10_000, ge=1, description="agent steps between two changes of the target network"
    )
    exploration_fraction: float = Field(
        0.1,
        gt=0,
        le=1,
        description="part of agent.schedule_steps over which the share of random actions falls, 0 to 1",
    )
    exploration_initial_eps: float = Field(
        1.0, ge=0, le=1, description="share of random actions at the start"
    )
    exploration_final_eps: float = Field(0.05, ge=0, le=1, description="share of random actions at the end")

    @property
    def rollout_steps(self) -> int:
        return self.train_freq

    @property
    def linear_keys(self) -> list[str]:
        return [*super().linear_keys, "exploration_fraction"]

    def updates(self, num_envs: int) -> tuple[int, int]:
        updates = self.gradient_steps
        if updates < 0:
            updates = self.train_freq * num_envs
        return updates, self.batch_size


class RandomConfig(AgentConfig):
    """Keys of random actions."""

    n_steps: int = Field(
        32, ge=1, le=100_000, description="steps per environment between two checks of the budgets"
    )

    @property
    def rollout_steps(self) -> int:
        return self.n_steps
