"""Typed, validated configuration: the sections of every run, and the whole as one frozen record.

The models of `agent.*`, `network.*` and `env.*` are named by the entries and derive from the models here.
Each field has a description with its unit. This module imports neither torch nor gymnasium.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self, TypeVar, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    field_validator,
)

from a3c_zoo.errors import PluginError, one_line
from a3c_zoo.plugins.entries import SECTIONS

if TYPE_CHECKING:
    from a3c_zoo.plugins.entries import EnvEntry

#: The section of a run hook is called `plugins.NAME`; `config.yml` has them all below the key `plugins`.
PLUGINS = "plugins"
NEVER = 2**62
"""A number of steps that no run reaches."""
#: The largest integer of a key. Counters and tensors have 64 bits.
LARGEST = 2**63 - 1


#: Arguments of environments that no configuration gives.
GIVEN_BY_ZOO: Final = ("num_envs", "seed", "render_mode")

_Kind = TypeVar("_Kind")


class Section(BaseModel):
    """A section of the configuration. It is frozen and refuses unknown keys."""

    # A default that its key refuses would be written into config.yml, which then could not be read.
    model_config = ConfigDict(
        defer_build=True, extra="forbid", frozen=True, allow_inf_nan=False, validate_default=True
    )

    @field_validator("*", mode="wrap")
    @classmethod
    def _refuse_true_as_one(cls, value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        validated = validate(value)
        if _is_true_as_one(value, validated):
            raise ValueError("must be a number")
        if _largest(validated) > LARGEST:
            raise ValueError(f"must be at most {LARGEST:,}")
        if not _is_finite(validated):  # within a value of any type; JSON and config.yml would have null
            raise ValueError("must have finite numbers only; for no limit give a large one, such as 1e30")
        return validated


def validated(model: type[Section], values: Mapping[str, Any]) -> Section:
    """Returns a section with these values.

    Raises:
        ValidationError: the values are wrong.
        PluginError: a validator, which may be a plugin's, raised something else.
    """
    try:
        return model.model_validate(values)
    except ValidationError:
        raise
    except Exception as error:
        name = f"{model.__module__}:{model.__qualname__}"
        raise PluginError(
            f"the configuration model '{name}' failed: {one_line(error)}. Its traceback: --debug"
        ) from error


def _is_true_as_one(value: Any, validated: Any) -> bool:
    """Whether a bool, perhaps within lists and mappings (not sets), has become a number."""
    if isinstance(value, dict) and isinstance(validated, dict):
        return any(map(_is_true_as_one, value.values(), validated.values()))
    if isinstance(value, list | tuple) and isinstance(validated, list | tuple):
        return any(map(_is_true_as_one, value, validated))
    return isinstance(value, bool) and isinstance(validated, int | float) and not isinstance(validated, bool)


def _largest(value: Any) -> int:
    """The largest integer of a value, without its sign; 0 if it has none."""
    if isinstance(value, list | tuple):
        return max(map(_largest, value), default=0)
    if isinstance(value, int):
        return abs(value)
    return 0


def _is_finite(value: Any) -> bool:
    """Whether all floats of a value are finite, also those within lists and mappings."""
    if isinstance(value, list | tuple):
        return all(map(_is_finite, value))
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    return not isinstance(value, float) or math.isfinite(value)


def _is_plain(value: Any) -> bool:
    """Whether a value is a finite number, a text, a bool, None, or a list or mapping of these; keys are texts."""
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value) and all(map(_is_plain, value.values()))
    if isinstance(value, float):
        return math.isfinite(value)
    return (
        value is None or isinstance(value, bool | str) or (isinstance(value, int) and abs(value) <= LARGEST)
    )


@dataclass(frozen=True, slots=True)
class TrainOption:
    """An option of `train` and a parameter of `a3c_zoo.train`, for a key of the section `run`.

    The type of its values is that of the key; seconds are typed as `90s`, `10m` or `2h`.

    Attributes:
        name: on the command line. metavar: of its value in `--help`. help: its line there.
        on_resume: whether it may be given with `--resume`.
        default: what a new run has without it, in words; "" for what needs none.
    """

    name: str
    metavar: str | None
    help: str
    on_resume: bool = False
    default: str = ""


@dataclass(frozen=True, slots=True)
class InComparison:
    """How a comparison sets a key of the section `run`.

    Attributes:
        is_budget: its runs end by one such key; it unsets the others. Otherwise it unsets the key in every run.
    """

    is_budget: bool


#: A number that follows from the machine. A run's configuration has the number itself.
AUTO: Final = "auto"
#: Most workers that `run.workers: auto` makes if what is learned in so many steps depends on their number.
FEW_WORKERS: Final = 2
#: Largest number of `run.workers`.
MOST_WORKERS: Final = 1024


def _number_or_auto(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """A number, or `AUTO` until `Settings.config` has decided it."""
    if value == AUTO:
        return value
    return validate(value)


class RunConfig(Section):
    """Length, size, evaluations and checkpoints of a run.

    The annotation of a key says what commands do with it: `TrainOption`, `InComparison`.
    """

    workers: Annotated[
        int,
        TrainOption(
            "--workers",
            "N|auto",
            "Number of worker processes; auto: all cores that the set can use.",
            on_resume=True,
        ),
        WrapValidator(_number_or_auto),
        WithJsonSchema(
            {"anyOf": [{"type": "integer", "minimum": 1, "maximum": MOST_WORKERS}, {"enum": [AUTO]}]}
        ),
    ] = Field(
        cast("int", AUTO),
        ge=1,
        le=MOST_WORKERS,
        description="number of worker processes; auto: as many of this machine's cores as agent.teams can use; "
        "2 at most without agent.teams",
    )
    device: Annotated[
        Literal["cpu", "cuda"],
        TrainOption("--device", None, "Device of the networks.", on_resume=True, default="cpu"),
    ] = Field("cpu", description="device of the workers' networks; cuda: the GPU")
    seed: Annotated[int, TrainOption("--seed", "N", "Seed of all random numbers.")] = Field(
        0, ge=0, lt=2**63, description="seed of all random numbers of the run"
    )
    steps: Annotated[
        int | None,
        TrainOption(
            "--steps", "N", "Stop after at least N agent steps.", on_resume=True, default="the set's budget"
        ),
        InComparison(is_budget=True),
    ] = Field(
        None,
        ge=1,
        lt=NEVER,
        description="budget in agent steps of all workers, with which schedules end; null: no limit",
    )
    episodes: Annotated[
        int | None,
        TrainOption("--episodes", "N", "Stop after N episodes.", on_resume=True),
        InComparison(is_budget=True),
    ] = Field(None, ge=1, lt=NEVER, description="budget in finished episodes of all workers; null: no limit")
    time_limit_s: Annotated[
        float | None,
        TrainOption("--time-limit", "90s|10m|2h", "Stop after this training time.", on_resume=True),
        InComparison(is_budget=True),
    ] = Field(
        None,
        gt=0,
        description="budget of training time, in seconds; then a worker makes at most env.num_envs more steps; "
        "null: no limit",
    )
    stop_return: Annotated[
        float | None,
        TrainOption(
            "--stop-return",
            "X",
            "Stop at this mean return of 100 episodes.",
            on_resume=True,
            default="the environment's threshold",
        ),
    ] = Field(
        None,
        description="end at this mean return of the last 100 episodes; null: at the environment's threshold",
    )
    stop_when_solved: bool = Field(
        True, description="true: end at run.stop_return; false: end only when a budget is spent"
    )
    checkpoint_every_s: float = Field(300.0, gt=0, description="time between checkpoints, in seconds")
    checkpoint_every_steps: int | None = Field(
        None, ge=1, lt=NEVER, description="agent steps between checkpoints; null: none"
    )
    disk_patience_s: float = Field(
        3600.0, ge=0, description="a run ends if the disk takes no checkpoint for this time, in seconds"
    )
    keep_checkpoints: int | None = Field(
        5,
        ge=1,
        description="number of newest checkpoints that are kept, besides the best and one in each tenth of the budget; "
        "null: all",
    )
    evaluation_episodes: int = Field(100, ge=1, le=100_000, description="number of episodes of an evaluation")
    evaluation_envs: int = Field(
        20, ge=1, le=1024, description="environments of an evaluation, stepped together"
    )
    evaluation_patience_s: float = Field(
        600.0,
        gt=0,
        description="in an environment without a time limit: an evaluation fails if no episode ends for this time, in "
        "seconds",
    )
    evaluation_every_s: Annotated[float | None, InComparison(is_budget=False)] = Field(
        None, gt=0, description="training time between the evaluator's evaluations, in seconds; null: none"
    )
    evaluation_every_steps: Annotated[int | None, InComparison(is_budget=False)] = Field(
        None, ge=1, lt=NEVER, description="agent steps between evaluations; null: none"
    )
    evaluation_cpu_share: float = Field(
        0.05, gt=0, le=1, description="largest average share of all cores that the evaluator may use, 0 to 1"
    )
    evaluator_episodes: int = Field(
        10,
        ge=1,
        le=10_000,
        description="episodes that the evaluator plays greedily, and again with sampled actions",
    )
    film_every: Annotated[
        int | None,
        TrainOption(
            "--film-every",
            "N",
            "Film every N-th evaluation. If the set has no evaluations, there is one every 10 s.",
            on_resume=True,
        ),
        InComparison(is_budget=False),
    ] = Field(
        None,
        ge=1,
        description="N: film every N-th evaluation, starting with the first; without evaluation_every_s and "
        "evaluation_every_steps there is an evaluation every 10 s; null: film none",
    )
    worker_timeout_s: float = Field(
        300.0, gt=0, description="a worker that makes no step for this time counts as hung, in seconds"
    )
    worker_restarts: int = Field(
        3,
        ge=0,
        description="number of failed workers that are replaced within an hour; one more failure ends the run",
    )
    restarts: int = Field(
        3,
        ge=0,
        description="how often within an hour a run goes on from its newest checkpoint by itself, after a failure that "
        "no new worker cures, such as the learner's death; 0: never",
    )
    start_method: Literal["auto", "forkserver", "spawn"] = Field(
        "auto", description="start method of worker processes; auto: forkserver on Linux, spawn elsewhere"
    )

    @property
    def has_evaluator(self) -> bool:
        """Whether the run has an evaluator."""
        return self.evaluation_every_s is not None or self.evaluation_every_steps is not None

    def settled(self) -> RunConfig:
        """Returns a copy that has evaluations if it has films, which are made of evaluations."""
        needs_evaluations = self.film_every is not None and not self.has_evaluator
        if needs_evaluations:
            return self.model_copy(update={"evaluation_every_s": 10.0})
        return self

    def next_pause(self, steps: int) -> int:
        """Returns the first agent step after `steps` with a checkpoint due or the budget spent."""
        every = self.checkpoint_every_steps
        budget = NEVER if self.steps is None else self.steps
        if every is None:
            return budget
        return min(budget, (steps // every + 1) * every)


def _annotated(kind: type[_Kind]) -> dict[str, _Kind]:
    """The keys of the section `run` whose annotation has a record of this kind, with it, in their order."""
    return {
        key: record
        for key, field_info in RunConfig.model_fields.items()
        for record in field_info.metadata
        if isinstance(record, kind)
    }


#: Key of the section `run` → its option of `train`.
TRAIN_OPTIONS: Final = _annotated(TrainOption)
_IN_COMPARISON: Final = _annotated(InComparison)
#: Keys of the section `run` that end a run. A comparison gives its runs one of them.
BUDGETS: Final = tuple(key for key, use in _IN_COMPARISON.items() if use.is_budget)
#: Keys of the section `run` that a comparison unsets, so that nothing plays beside training.
BESIDE_TRAINING: Final = tuple(key for key, use in _IN_COMPARISON.items() if not use.is_budget)


class EnvConfig(Section):
    """Keys of every environment; keys that a subclass adds go to the environment's factory."""

    num_envs: int = Field(
        8,
        ge=1,
        le=4096,
        description="number of environments of each worker, stepped together; of each team, with agent.teams",
    )
    stack: Literal["auto", "own", "zoo"] = Field(
        "auto",
        description="environments to train on; zoo: the zoo's; own: made by the baseline's own library; "
        "auto: own if possible, else zoo",
    )
    wrappers: tuple[Any, ...] = Field(
        (),
        description="Gymnasium wrappers around each environment, the innermost first: module:Class, or with arguments "
        "{module:Class: {argument: value}}",
    )
    action_masks: bool = Field(
        True,
        description="act within the masks of actions that the environment gives, if it gives any; false: ignore them",
    )
    kwargs: dict[str, Any] = Field(
        {},
        description="arguments of the environment itself, by name: plain values, such as {is_slippery: false}; one of "
        "them: env.kwargs.is_slippery=false",
    )

    #: Name of a key in other programs → the key. Both may be typed.
    also_called: ClassVar[Mapping[str, str]] = {}
    #: Key → its value where a baseline trains on the zoo's environments, although its sets have another one.
    without_own_stack: ClassVar[Mapping[str, object]] = {}
    #: What an environment takes at least of the memory, in bytes, beside its observations.
    environment_bytes: ClassVar[int] = 0

    @field_validator("kwargs")
    @classmethod
    def _check_kwargs(cls, kwargs: dict[str, Any]) -> dict[str, Any]:
        for name, value in kwargs.items():
            if name in cls.model_fields or name in cls.also_called:
                raise ValueError(f"'{name}' is a key of its own: env.{cls.also_called.get(name, name)}")
            if name in GIVEN_BY_ZOO:
                raise ValueError(f"'{name}' is given by a3c-zoo: leave it out")
            if not name.isidentifier():
                raise ValueError(f"'{name}' is no name of an argument")
            if not _is_plain(value):
                raise ValueError(
                    f"'{name}' must be a number, a text, true, false, null, or a list or mapping of them"
                )
        return kwargs

    @field_validator("wrappers")
    @classmethod
    def _check_wrappers(cls, wrappers: tuple[Any, ...]) -> tuple[Any, ...]:
        for wrapper in wrappers:
            path: Any = wrapper
            arguments: Any = {}
            if isinstance(wrapper, dict) and wrapper:
                path, arguments = next(iter(wrapper.items()))
            if not (isinstance(path, str) and isinstance(arguments, dict)) or (
                wrapper != path and len(wrapper) != 1
            ):
                raise ValueError("each must read module:Class, or {module:Class: {argument: value}}")
            if ":" not in path:
                module, _, name = path.rpartition(".")
                raise ValueError(
                    f"'{path}' must read module:Class, such as {module or 'gymnasium.wrappers'}:{name}"
                )
        return wrappers

    def wrapper_calls(self) -> list[tuple[str, dict[str, Any]]]:
        """Returns the import string and the keyword arguments of each wrapper, the innermost first."""
        return [
            next(iter(wrapper.items())) if isinstance(wrapper, dict) else (wrapper, {})
            for wrapper in self.wrappers
        ]

    def factory_kwargs(self) -> dict[str, Any]:
        """Returns the keyword arguments of the factory: all keys except those of this base class."""
        return {name: value for name, value in self if name not in EnvConfig.model_fields}

    def arguments(self, entry_kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns all keyword arguments with which the environment is made.

        Args:
            entry_kwargs: `EnvEntry.kwargs`. The keys of this section come before them, and `kwargs` before both.
        """
        return {**entry_kwargs, **self.factory_kwargs(), **copy.deepcopy(self.kwargs)}


class AgentConfig(Section):
    """Base of the models of agents, which redefine the properties that differ."""

    @property
    def import_strings(self) -> tuple[str, ...]:
        """The import strings of other code that takes part in training."""
        return ()

    @property
    def takes_masks(self) -> bool:
        """Whether the agent can act within the action masks that an environment gives."""
        return True

    @property
    def squashes_actions(self) -> bool:
        """Whether Box actions are squashed to their bounds by tanh rather than clipped."""
        return False

    @property
    def first_deviation(self) -> float:
        """The standard deviation of Box actions before training, in half widths of their bounds."""
        return 1.0

    @property
    def rollout_steps(self) -> int:
        """Steps per environment between two points at which the run can evaluate, save or stop."""
        return 1

    @property
    def shares_out(self) -> bool:
        """Whether learning by steps is the same with any number of workers that `takes_workers`."""
        return False

    def members_of_team(self, workers: int) -> int:
        """How many of so many workers learn as one (`agent.teams`)."""
        return 1

    def takes_workers(self, workers: int, num_games: int) -> bool:
        """Whether the environments can be shared out among so many workers.

        Args:
            num_games: how many games `env.num_envs` environments play; of single agents, as many.
        """
        return True

    def check(self, num_envs: int) -> None:
        """Raises ConfigError if these values do not fit the number of environments of a worker."""

    def check_new(self, network: NetworkConfig | None) -> None:
        """Raises ConfigError for values that nothing would use. A run that goes on keeps those that it has."""

    def check_run(self, config: Config, entry: EnvEntry) -> None:
        """Raises ConfigError if no run can begin with a configuration: all that is known before anything is made.

        `train`, `train --dry-run` and `check` call it first.

        Args:
            config: the whole configuration. entry: its environment.
        """


class NetworkConfig(Section):
    """Base of the models of networks, which redefine the properties that differ."""

    name: str = Field("mlp", description="name of the network; see `a3c-zoo list networks`")

    @property
    def computes_in(self) -> Literal["float32", "bfloat16"]:
        """The number type of the workers' networks."""
        return "float32"

    @property
    def has_core(self) -> bool:
        """Whether the network is recurrent: its outputs depend on what it saw before."""
        return False

    @property
    def needs_background(self) -> bool:
        """Whether the background of the pictures is measured before training (`ObservationSpec.background`)."""
        return False

    def settled(self, device: str, num_envs: int) -> Self:
        """Returns a copy in which each value that depends on the machine is decided.

        Args:
            device: "cpu" or "cuda".
            num_envs: number of environments for which a worker acts at once.
        """
        return self


class OptimizerConfig(Section):
    """The optimizer of the apply stage, and base of the models of other optimizers."""

    name: str = Field("adam", description="name of the optimizer; see `a3c-zoo list optimizers`")
    learning_rate: float = Field(7e-4, gt=0, le=10, description="initial learning rate")
    schedule: Literal["constant", "linear"] = Field(
        "constant", description="change of the learning rate over time"
    )
    schedule_steps: int | None = Field(
        None,
        ge=1,
        lt=NEVER,
        description="length of a linear schedule in agent steps; null: the budget `run.steps`",
    )
    final_learning_rate: float = Field(
        0.0, ge=0, description="learning rate at and after the end of a linear schedule"
    )
    epsilon: float = Field(
        1e-5,
        ge=1e-30,  # a smaller one may be 0 in float32
        description="ε; Adam adds it to the root, RMSprop under the root (as in A3C)",
    )
    beta1: float = Field(0.9, ge=0, lt=1, description="Adam: decay of the first moment, 0 to 1")
    beta2: float = Field(0.999, ge=0, lt=1, description="Adam: decay of the second moment, 0 to 1")
    alpha: float = Field(0.99, ge=0, lt=1, description="RMSprop: decay of the mean square, 0 to 1")
    max_grad_norm: float | None = Field(
        0.5, gt=0, description="largest L2 norm of the gradient; null: no clipping"
    )
    shared_statistics: bool = Field(
        True, description="true: workers share the moments; false: each worker has its own"
    )


class HookConfig(Section):
    """Base of the models of run hooks (`HookEntry.config`)."""

    enabled: bool = Field(True, description="whether the run has these hooks")


#: The sections whose model depends on their key `name`.
NAMED: Final[dict[str, type[Section]]] = {"network": NetworkConfig, "optimizer": OptimizerConfig}


class EngineConfig(Section):
    """Base of the models of engines' settings (`EngineEntry.config`)."""


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration of a run, and the source of each value.

    Attributes:
        env_name: the environment's name. agent_name: the agent's.
        env: a section; like `agent` and `network` an instance of the model that its entry names.
        network: None for agents without this section (`AgentEntry.sections`); so is `optimizer`.
        plugins: name of a run hook → its settings; of the hooks that are on by default, or that were given
            settings.
        sources: "section.key" → its source (`cartpole/a3c.yml:7`, `-o`, `--seed`); defaults have none.
        sets_workers: `run.workers` of the set or file that gives the learning rate of a new run; None if it
            has none, or if the rate is given in another way.
        workers_why: why `run.workers: auto` has become this number; "" for a number that was given.
        decided: "section.key" of each value that this machine has decided, in place of `auto`. Another machine may
            decide otherwise.
    """

    env_name: str
    agent_name: str
    run: RunConfig
    env: EnvConfig
    agent: AgentConfig
    network: NetworkConfig | None = None
    optimizer: OptimizerConfig | None = None
    plugins: Mapping[str, HookConfig] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    sets_workers: int | None = None
    workers_why: str = field(default="", compare=False)
    decided: frozenset[str] = field(default=frozenset(), compare=False)

    def sections(self) -> dict[str, Section]:
        """Returns the sections of this run by name, in order; those of run hooks are called `plugins.NAME`."""
        named = {name: getattr(self, name) for name in SECTIONS}
        named |= {f"{PLUGINS}.{name}": section for name, section in self.plugins.items()}
        return {name: section for name, section in named.items() if section is not None}

    @property
    def teams(self) -> int:
        """How many workers learn by themselves: all, or as many as there are teams."""
        return self.run.workers // self.agent.members_of_team(self.run.workers)

    @property
    def rollout_steps(self) -> int:
        """Agent steps of one rollout of all workers."""
        return self.teams * self.env.num_envs * self.agent.rollout_steps

    @property
    def import_strings(self) -> tuple[str, ...]:
        """Import strings of wrappers and of training code: what takes part in the run beside the entries."""
        return (*(path for path, _ in self.env.wrapper_calls()), *self.agent.import_strings)

    def to_dict(self) -> dict[str, Any]:
        """Returns nested plain data, as `config.yml` holds it."""
        plain: dict[str, Any] = {"env_name": self.env_name, "agent_name": self.agent_name}
        for label, section in self.sections().items():
            place, _, name = label.partition(".")  # the name of a run hook may have more dots
            values = section.model_dump(mode="json")
            if name:
                plain.setdefault(place, {})[name] = values
            else:
                plain[place] = values
        return plain
