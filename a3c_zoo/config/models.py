"""Typed, validated configuration: the sections every run has, and the frozen whole.

`agent.*`, `network.*` and `env.*` are validated by the models that the entries name; those models derive from
the ones here. Every field has a description, and a unit where it has one. No torch, no gymnasium.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidatorFunctionWrapHandler, field_validator

#: In the order in which they are shown and saved.
SECTIONS = ("run", "env", "agent", "network", "optimizer")
#: A step that no run reaches.
NEVER = 2**62


class Section(BaseModel):
    """A part of the configuration: unknown keys are refused, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="wrap")
    @classmethod
    def _refuse_true_as_one(cls, value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        validated = validate(value)
        if isinstance(value, bool) and isinstance(validated, int | float) and not isinstance(validated, bool):
            raise ValueError("must be a number")
        return validated


class RunConfig(Section):
    """How long, how many, and what is kept."""

    workers: int = Field(2, ge=1, le=1024, description="worker processes")
    device: Literal["cpu", "cuda"] = Field("cpu", description="where the workers' networks compute; cuda: the GPU")
    seed: int = Field(0, ge=0, lt=2**63, description="root of every random number of the run")
    steps: int | None = Field(None, ge=1, description="budget in agent steps, all workers together; null: no limit")
    episodes: int | None = Field(None, ge=1, description="budget in finished episodes, all workers together")
    time_limit_s: float | None = Field(None, gt=0, description="budget in seconds of training")
    stop_return: float | None = Field(
        None, description="end at this mean return of 100 episodes; null: at the environment's threshold"
    )
    stop_when_solved: bool = Field(
        True, description="end at run.stop_return; false: only when a budget is spent, with no evaluation on the way"
    )
    checkpoint_every_s: float = Field(300.0, gt=0, description="seconds between checkpoints")
    checkpoint_every_steps: int | None = Field(
        None, ge=1, description="agent steps between checkpoints, beside those by seconds; null: none"
    )
    evaluation_episodes: int = Field(100, ge=1, le=100_000, description="episodes of an evaluation")
    evaluation_envs: int = Field(20, ge=1, le=1024, description="environments that an evaluation plays side by side")
    evaluation_every_s: float | None = Field(
        None, gt=0, description="seconds of training between evaluations beside it, by a process of its own; null: none"
    )
    evaluation_every_steps: int | None = Field(
        None, ge=1, description="agent steps between evaluations beside training; null: none"
    )
    evaluation_cpu_share: float = Field(
        0.05, gt=0, le=1, description="of all cores, what evaluations beside training may take on average"
    )
    evaluator_episodes: int = Field(
        10, ge=1, le=10_000, description="episodes of an evaluation beside training, greedy and sampled each"
    )
    worker_timeout_s: float = Field(
        300.0, gt=0, description="seconds without a single step after which a worker counts as hung"
    )
    start_method: Literal["auto", "forkserver", "spawn"] = Field(
        "auto", description="how worker processes start; auto: forkserver on Linux, spawn elsewhere"
    )

    @property
    def has_evaluator(self) -> bool:
        """Whether an evaluator plays beside training."""
        return self.evaluation_every_s is not None or self.evaluation_every_steps is not None

    def next_pause(self, steps: int) -> int:
        """The step after `steps` at which training stands still, for a checkpoint or because the budget is spent."""
        every, budget = self.checkpoint_every_steps, NEVER if self.steps is None else self.steps
        return budget if every is None else min(budget, (steps // every + 1) * every)


class EnvConfig(Section):
    """Keys of every environment; what a subclass adds goes to the environment's factory."""

    num_envs: int = Field(8, ge=1, le=4096, description="environments of each worker, stepped together")
    stack: Literal["auto", "own", "zoo"] = Field(
        "auto",
        description="whose environments are trained on; zoo: the zoo's; own: those that a baseline's library makes; "
        "auto: own where there are such",
    )

    def factory_kwargs(self) -> dict[str, Any]:
        """What goes to the factory: every key but those of this base class."""
        return {name: value for name, value in self if name not in EnvConfig.model_fields}


class AgentConfig(Section):
    """An agent's own keys; agents derive from it."""


class NetworkConfig(Section):
    """A network's own keys; networks derive from it."""

    name: str = Field("mlp", description="network, one of `a3c-zoo list networks`")

    def settled(self, device: str, num_envs: int) -> Self:
        """The same with every value decided that depends on this machine.

        Args:
            device: "cpu" or "cuda". num_envs: for which a worker acts at a time.
        """
        return self


class OptimizerConfig(Section):
    """The apply stage."""

    name: Literal["adam", "rmsprop"] = Field("adam", description="update rule")
    learning_rate: float = Field(7e-4, gt=0, le=10, description="step size at the start")
    schedule: Literal["constant", "linear"] = Field("constant", description="how the learning rate changes")
    schedule_steps: int | None = Field(
        None, ge=1, description="agent steps over which a linear schedule falls; null: the budget `run.steps`"
    )
    final_learning_rate: float = Field(
        0.0, ge=0, description="learning rate at the end of a linear schedule, and after"
    )
    epsilon: float = Field(
        1e-5, gt=0, description="Adam: added to the root; RMSprop: added under the root (A3C's form)"
    )
    beta1: float = Field(0.9, ge=0, lt=1, description="Adam: decay of the first moment")
    beta2: float = Field(0.999, ge=0, lt=1, description="Adam: decay of the second moment")
    alpha: float = Field(0.99, ge=0, lt=1, description="RMSprop: decay of the mean square")
    max_grad_norm: float | None = Field(0.5, gt=0, description="global gradient norm limit; null: no clipping")
    shared_statistics: bool = Field(True, description="moments shared by all workers, or private to each")


@dataclass(frozen=True, slots=True)
class Config:
    """One run's whole configuration, and where each value came from.

    Attributes:
        env: the `env` section, an instance of the environment entry's model; likewise `agent` and `network`.
            `network` and `optimizer` are None for agents without them (`AgentEntry.sections`).
        env_name, agent_name: the entries' names.
        sources: "section.key" → where it was set (`cartpole/a3c.yml:7`, `-o`, `--seed`), absent: a default.
    """

    env_name: str
    agent_name: str
    run: RunConfig
    env: EnvConfig
    agent: AgentConfig
    network: NetworkConfig | None = None
    optimizer: OptimizerConfig | None = None
    sources: Mapping[str, str] = field(default_factory=dict)

    def sections(self) -> dict[str, Section]:
        """The sections that this run has, by name, in order."""
        named = {name: getattr(self, name) for name in SECTIONS}
        return {name: section for name, section in named.items() if section is not None}

    def to_dict(self) -> dict[str, Any]:
        """The nested plain form that `config.yml` holds."""
        plain = {name: section.model_dump(mode="json") for name, section in self.sections().items()}
        return {"env_name": self.env_name, "agent_name": self.agent_name, **plain}
