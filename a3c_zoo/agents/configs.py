"""The agents' configuration models. No torch here: help, listings and `show` read them."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from a3c_zoo.config import AgentConfig
from a3c_zoo.errors import ConfigError

if TYPE_CHECKING:
    from a3c_zoo.config import Config, NetworkConfig, OptimizerConfig, RunConfig
    from a3c_zoo.plugins.entries import EnvEntry

#: Most steps of a segment that is not configured: long enough for gradients through time, short enough for an
#: update of 64 samples to hold several.
LONGEST_SEGMENT = 16


class LossConfig(AgentConfig):
    """The rollout and the actor-critic loss: what every agent with workers has.

    Attributes (what the agent is, not keys):
        cut_at_end: a rollout ends with its episode, if that ends before `n_steps`.
        whole_episodes: a rollout is an episode, and returns are not bootstrapped.
    """

    cut_at_end: ClassVar[bool] = False
    whole_episodes: ClassVar[bool] = False
    #: What makes an agent act with a copy of the parameters; "" if nothing does.
    cure_of_acting_live: ClassVar[str] = ""

    n_steps: int = Field(20, ge=1, le=100_000, description="steps per environment in one rollout (T)")
    gamma: float = Field(0.99, ge=0, le=1, description="discount of a reward per step")
    entropy_coefficient: float = Field(0.01, ge=0, description="weight of the entropy bonus in the loss")
    entropy_schedule: Literal["constant", "linear"] = Field(
        "constant",
        description="linear: the entropy bonus falls to 0 over optimizer.schedule_steps (else run.steps)",
    )
    value_coefficient: float = Field(0.5, ge=0, description="weight of the value loss")
    normalize_advantages: bool = Field(
        False, description="scale advantages to mean 0 and deviation 1 per update; a3c-grad: per gradient"
    )
    clip_rewards: bool = Field(
        False, description="clip rewards to ±1 in the loss; the environment's stay as they are"
    )
    reward_scale: Annotated[float, Field(ge=1e-30, le=1e30)] | Literal["auto"] = Field(
        1.0,
        description="factor of every reward in the loss, before rewards are clipped; auto: 1 / the running standard "
        "deviation of the discounted return, and scaled rewards are limited to ±10; reported returns stay raw",
    )
    squash_actions: bool = Field(
        False, description="squash Box actions to their bounds by tanh; false: clip them"
    )
    initial_deviation: float = Field(
        1.0, gt=0, le=10, description="σ of Box actions before training, in half widths of the bounds"
    )
    noise_correlation: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="correlation of the noise of Box actions from step to step in training; evaluations have none",
    )
    loss_reduction: Literal["mean", "sum"] = Field(
        "mean", description="how the samples of an update are combined"
    )

    @property
    def acts_live(self) -> bool:
        """Whether a worker acts with the shared parameters themselves, not with a copy."""
        return False

    @property
    def squashes_actions(self) -> bool:
        return self.squash_actions

    @property
    def first_deviation(self) -> float:
        return self.initial_deviation

    @property
    def keeps_outputs(self) -> bool:
        """Whether a rollout keeps the outputs of the network that acted; the samples of an update are then shuffled."""
        return False

    @property
    def passes(self) -> int:
        """How often a worker passes over the samples of a rollout; several passes need `keeps_outputs`."""
        return 1

    def steps_of_segment(self, num_envs: int) -> int:
        """L, the steps of one environment that a core unrolls, if samples are shuffled with a recurrent core.

        The largest number up to `LONGEST_SEGMENT` that divides a rollout and an update.
        """
        both = gcd(self.n_steps, self.samples_per_update(num_envs))
        return max(length for length in range(1, LONGEST_SEGMENT + 1) if both % length == 0)

    @property
    def rollout_steps(self) -> int:
        return self.n_steps

    @property
    def stored_steps(self) -> int:
        """How many observations a worker stores for each environment, beside the newest one."""
        return self.n_steps + self.cut_at_end  # a step that the environment may ignore, see `Collector`

    def samples_per_update(self, num_envs: int) -> int:
        """How many samples a worker differentiates at once."""
        return self.n_steps * num_envs

    def check_run(self, config: Config, entry: EnvEntry) -> None:
        """Raises ConfigError for a schedule without an end, or a network that cannot learn as these keys say."""
        if config.network is None or config.optimizer is None:
            return
        self._check_schedule(config.optimizer, config.run)
        self._check_live(config.agent_name, config.network, config.run.device)
        if config.network.has_core and self.keeps_outputs:
            self._check_unrolled(config.env.num_envs)

    def _check_schedule(self, optimizer: OptimizerConfig, run: RunConfig) -> None:
        if optimizer.schedule_steps or run.steps:
            return
        for key, schedule in (
            ("optimizer.schedule", optimizer.schedule),
            ("agent.entropy_schedule", self.entropy_schedule),
        ):
            if schedule == "linear":
                raise ConfigError(f"{key}: linear — needs optimizer.schedule_steps, or a budget: --steps N")

    def _check_live(self, agent_name: str, network: NetworkConfig, device: str) -> None:
        """An agent that acts live computes with the shared parameters."""
        precision = network.computes_in
        if not self.acts_live or (precision == "float32" and device == "cpu"):
            return
        cures = []
        if precision != "float32":
            cures.append("-o network.precision=float32")
        if device != "cpu":
            cures.append("--device cpu")
        raise ConfigError(
            f"agent '{agent_name}' acts with the shared parameters, float32 in the CPU's memory, but its network "
            f"computes in {precision} on {device}: {self.cure_of_acting_live}{' '.join(cures)}"
        )

    def _check_unrolled(self, num_envs: int) -> None:
        """Segments of one step teach a core nothing over time."""
        if self.n_steps == 1 or self.steps_of_segment(num_envs) > 1:
            return
        raise ConfigError(
            f"agent.n_steps: {self.n_steps} — the recurrent core would learn from segments of one step: no number from "
            f"2 to {LONGEST_SEGMENT} divides both n_steps and the {self.samples_per_update(num_envs)} samples of an "
            "update. Choose multiples of 16, such as -o agent.n_steps=128 -o agent.update_samples=64"
        )

    def objective_values(self) -> dict[str, Any]:
        """The values of the fields of `a3c_zoo.learning.Objective` by name; models with more keys of the loss add them.

        `reward_scale` may be "auto".
        """
        return {
            "gamma": self.gamma,
            "gae_lambda": 1.0,
            "entropy_coefficient": self.entropy_coefficient,
            "value_coefficient": self.value_coefficient,
            "normalize_advantages": self.normalize_advantages,
            "clip_rewards": self.clip_rewards,
            "reward_scale": self.reward_scale,
            "loss_sum": self.loss_reduction == "sum",
            "anneal_entropy": self.entropy_schedule == "linear",
            "whole_episodes": self.whole_episodes,
        }


class A3CConfig(LossConfig):
    """Actor-critic with a rollout of `n_steps` per environment (Mnih et al. 2016)."""

    gae_lambda: float = Field(
        1.0, ge=0, le=1, description="λ of GAE; 1: returns to the rollout's end, as in A3C"
    )
    update_samples: int | None = Field(
        None,
        ge=1,
        description="samples per update, a multiple of agent.n_steps; with agent.clip_ratio a divisor of the rollout's "
        "samples, or more than these for the whole rollout; null: the whole rollout",
    )
    clip_ratio: float | None = Field(
        None,
        gt=0,
        description="ε of PPO: a sample gives no gradient once the new probability over the old one has moved past "
        "1 + ε (advantage > 0) or 1 − ε (advantage < 0); updates are made of shuffled samples. null: A3C's loss",
    )
    segment_steps: int | None = Field(
        None,
        ge=1,
        description="steps of one environment that a recurrent core unrolls in an update, with agent.clip_ratio; it "
        "divides agent.n_steps and the samples of an update; null: the most up to 16",
    )
    epochs: int = Field(1, ge=1, le=100, description="passes over a rollout; several need agent.clip_ratio")
    locking: Literal["none", "apply"] = Field(
        "none",
        description="none: workers update the parameters at the same time; apply: one at a time, under a lock",
    )
    teams: int | None = Field(
        None,
        ge=1,
        le=1024,
        description="teams into which more workers than these are dealt; a team has env.num_envs environments in all, "
        "and makes as many updates as one worker would, once all of it have collected; needs agent.clip_ratio; "
        "null: each worker learns by itself",
    )
    team_updates: Literal["together", "beside"] = Field(
        "together",
        description="together: all members of a team make each update, and learn as one worker would (fewer members, "
        "beside others, if an update has no equal parts for all); beside: members make updates at the same time, which "
        "is faster and needs more steps",
    )

    @model_validator(mode="after")
    def _passes(self) -> Self:
        if self.clip_ratio is None:
            self._refuse_what_needs_a_ratio()
        if self.team_updates == "beside" and self.teams is None:
            ratio = " -o agent.clip_ratio=0.2" if self.clip_ratio is None else ""
            raise ValueError(
                f"team_updates: beside — there are no teams: -o agent.teams=2{ratio}. "
                "Without teams: -o agent.team_updates=together"
            )
        return self

    def _refuse_what_needs_a_ratio(self) -> None:
        """Raises ValueError for all keys that need `clip_ratio`; its message says how to leave all of them out."""
        needing = []
        without = []
        if self.epochs > 1:
            needing.append(f"epochs: {self.epochs}")
            without.append("-o agent.epochs=1")
        if self.segment_steps is not None:
            needing.append(f"segment_steps: {self.segment_steps}")
            without.append("-o agent.segment_steps=null")
        if self.teams is not None:
            needing.append(f"teams: {self.teams}")
            without.append(self.cure_of_teams)
        if not needing:
            return
        if self.update_samples is not None and self.update_samples % self.n_steps:
            without.append("-o agent.update_samples=null")  # not even A3C's updates, see `check`
        verb = "need" if len(needing) > 1 else "needs"
        raise ValueError(
            f"{', '.join(needing)} — {verb} a clip ratio: -o agent.clip_ratio=0.2. Without one: {' '.join(without)}"
        )

    @property
    def cure_of_teams(self) -> str:
        """The options with which each worker learns by itself."""
        if self.team_updates == "beside":
            return "-o agent.teams=null -o agent.team_updates=together"
        return "-o agent.teams=null"

    @property
    def keeps_outputs(self) -> bool:
        return self.clip_ratio is not None

    @property
    def passes(self) -> int:
        return self.epochs

    def samples_per_update(self, num_envs: int) -> int:
        rollout = super().samples_per_update(num_envs)
        if self.update_samples is None or (self.keeps_outputs and self.update_samples > rollout):
            return rollout
        return self.update_samples

    def steps_of_segment(self, num_envs: int) -> int:
        return self.segment_steps or super().steps_of_segment(num_envs)

    def objective_values(self) -> dict[str, Any]:
        return super().objective_values() | {"gae_lambda": self.gae_lambda, "clip_ratio": self.clip_ratio}

    def members_of_team(self, workers: int) -> int:
        if self.teams is None or workers <= self.teams:
            return 1
        return workers // self.teams

    def _check_unrolled(self, num_envs: int) -> None:
        if self.segment_steps is None:  # else they were asked for
            super()._check_unrolled(num_envs)

    @property
    def shares_out(self) -> bool:
        return self.teams is not None

    def takes_workers(self, workers: int, num_games: int) -> bool:
        if self.teams is None or workers <= self.teams:
            return True
        return not (workers % self.teams or num_games % self.members_of_team(workers))

    def members_of_update(self, workers: int, num_envs: int, has_core: bool) -> int:
        """How many members of a team make an update together, each with an equal part of its samples.

        Together these are all, or as many as can have a part: with a recurrent core a whole segment. Beside each other
        they are as few as have the samples of two updates, so at most half of the updates of a pass are made at the
        same time.

        Args:
            workers: a number that `takes_workers`. num_envs: `env.num_envs`. has_core: of the network.
        """
        members = self.members_of_team(workers)
        own = self.n_steps * num_envs // members
        per_update = self.samples_per_update(num_envs)
        smallest_part = self.steps_of_segment(num_envs) if has_core else 1
        # A rollout of the team is a multiple of an update (`check`), so this number divides the members.
        fewest = per_update // gcd(per_update, own)
        sizes = [
            size
            for size in range(fewest, members + 1, fewest)
            if members % size == 0 and per_update % (size * smallest_part) == 0
        ]
        if self.team_updates == "together":
            return sizes[-1]
        return next((size for size in sizes if own * size >= 2 * per_update), sizes[-1])

    def check_new(self, network: NetworkConfig | None) -> None:
        """Raises ConfigError for segments of a network without a recurrent core, which nothing would unroll."""
        if self.segment_steps is None or network is None or network.has_core:
            return
        cure = ""
        if "recurrent" in type(network).model_fields:
            cure = "-o network.recurrent=lstm. Without segments: "
        raise ConfigError(
            f"agent.segment_steps: {self.segment_steps} — network '{network.name}' has no recurrent core: {cure}"
            "-o agent.segment_steps=null"
        )

    def check(self, num_envs: int) -> None:
        """Raises ConfigError for samples of an update, or for steps of a segment, that do not split a rollout.

        If samples are not shuffled, an update takes those of some environments.
        """
        self._check_segments(num_envs)
        per_update = self.samples_per_update(num_envs)
        samples = self.n_steps * num_envs
        rollout = f"agent.update_samples: {per_update} — {{}} n_steps {self.n_steps} × num_envs {num_envs}"
        if self.keeps_outputs:
            if samples % per_update:
                raise ConfigError(f"{rollout.format('must divide a rollout:')} = {samples} samples")
        elif per_update % self.n_steps or samples % per_update:
            text = "splits into updates of n_steps × k samples, where k divides num_envs"
            raise ConfigError(f"{rollout.format('a rollout of')} {text}")

    def _check_segments(self, num_envs: int) -> None:
        if self.segment_steps is None:
            return
        for size, name in (
            (self.n_steps, "agent.n_steps"),
            (self.samples_per_update(num_envs), "the samples of an update, agent.update_samples"),
        ):
            if size % self.segment_steps:
                raise ConfigError(f"agent.segment_steps: {self.segment_steps} — must divide {name}: {size}")


class HandoverConfig(LossConfig):
    """Agents whose workers hand over to a learner; their returns come from sliding windows."""

    cure_of_acting_live: ClassVar[str] = "-o agent.pull=rollout, or "

    n_steps: int = Field(4, ge=1, le=100_000, description="steps per environment in one rollout (T)")
    reward_steps: int = Field(4, ge=1, le=10_000, description="steps of a return before its bootstrap (n)")
    pull: Literal["rollout", "live"] = Field(
        "rollout",
        description="parameters that a worker acts with; rollout: a copy, made before each rollout; live: the shared "
        "parameters, which may change at any time",
    )
    slots: int = Field(
        2,
        ge=1,
        le=1024,
        description="slots of each worker in the ring; a worker waits while all its slots are full",
    )

    @property
    def acts_live(self) -> bool:
        return self.pull == "live"

    @property
    def stored_steps(self) -> int:
        return 2 * self.n_steps + self.reward_steps  # a rollout, and the windows over it


class A3CDataConfig(HandoverConfig):
    """Data parallelism: workers collect, the learner differentiates and applies."""

    transfer: Literal["microbatches", "transitions"] = Field(
        "microbatches",
        description="contents of a slot; microbatches: a rollout, with returns that the worker has bootstrapped; "
        "transitions: one transition, which the learner bootstraps",
    )
    batch_size: int = Field(
        128,
        ge=1,
        le=1_000_000,
        description="samples per update; microbatches: a multiple of agent.n_steps × env.num_envs",
    )

    def check_run(self, config: Config, entry: EnvEntry) -> None:
        """Also for a batch that is no multiple of a micro-batch, or transitions that would feed a recurrent core."""
        super().check_run(config, entry)
        num_envs = config.env.num_envs
        rows = self.n_steps * num_envs
        if self.transfer == "microbatches" and self.batch_size % rows:
            smaller = self.batch_size // rows * rows
            numbers = " or ".join(f"{size}" for size in (smaller, smaller + rows) if size)
            raise ConfigError(
                f"agent.batch_size: {self.batch_size} — must be a multiple of a micro-batch: n_steps {self.n_steps} × "
                f"num_envs {num_envs} = {rows} samples: choose {numbers}"
            )
        if self.transfer == "transitions" and config.network is not None and config.network.has_core:
            raise ConfigError(
                "agent.transfer: transitions — a transition doesn't tell a recurrent core what preceded it. Hand over "
                "whole rollouts (-o agent.transfer=microbatches), or leave the core out"
            )


class A3CGradConfig(HandoverConfig):
    """Gradient parallelism: workers collect and differentiate, the learner applies."""

    n_steps: int = Field(8, ge=1, le=100_000, description="steps per environment in one rollout (T)")
    gradients_per_update: int = Field(
        2, ge=1, le=1024, description="gradients that are added up for an update"
    )


class TextbookConfig(LossConfig):
    """The keys of the textbook's CartPole agents (Zai & Brown 2020, chapter 5).

    γ, coefficients and the summed loss are its numbers; the sets `cartpole/*-classic` have all of them.
    A worker has one environment, acts with the shared parameters themselves, and pulls only observation
    statistics.
    """

    cut_at_end: ClassVar[bool] = True

    gamma: float = Field(0.95, ge=0, le=1, description="discount of a reward per step")
    entropy_coefficient: float = Field(0.0, ge=0, description="weight of the entropy bonus in the loss")
    value_coefficient: float = Field(0.1, ge=0, description="weight of the value loss")
    loss_reduction: Literal["mean", "sum"] = Field(
        "sum", description="how the samples of an update are combined"
    )
    termination_reward: float | None = Field(
        None,
        description="replaces the reward of a step that terminates an episode, in the loss; null: keep it",
    )
    normalize_returns: bool = Field(False, description="divide returns by their L2 norm over the rollout")

    @property
    def acts_live(self) -> bool:
        return True

    def objective_values(self) -> dict[str, Any]:
        return super().objective_values() | {
            "termination_reward": self.termination_reward,
            "normalize_returns": self.normalize_returns,
        }


class NStepConfig(TextbookConfig):
    """Rollouts of at most `n_steps`, cut at the episode's end; bootstrapped where they are cut before."""

    n_steps: int = Field(
        100,
        ge=1,
        le=100_000,
        description="largest number of steps of a rollout (N), which ends with its episode",
    )


class MonteCarloConfig(TextbookConfig):
    """Whole episodes; nothing is bootstrapped."""

    whole_episodes: ClassVar[bool] = True

    n_steps: int = Field(
        1000,
        ge=1,
        le=1_000_000,
        description="largest number of steps of an episode, for which memory is reserved",
    )
