"""What every worker of a run gets, made anew or from a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import Field, InstanceOf
from torch import Tensor

from a3c_zoo.agents.configs import LossConfig
from a3c_zoo.config import Config
from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.learning.counters import EPISODES, STEPS, UPDATES, Counters
from a3c_zoo.learning.model import Model, SavedModel, Spaces
from a3c_zoo.learning.objective import Loss, actor_critic_loss
from a3c_zoo.learning.observation_statistics import ObservationStatistics
from a3c_zoo.learning.optimizers import new_moments
from a3c_zoo.learning.parameters import share
from a3c_zoo.learning.reward_statistics import RewardStatistics
from a3c_zoo.learning.space_check import check_spaces
from a3c_zoo.plugins.entries import EnvEntry, NetworkEntry, OptimizerEntry
from a3c_zoo.records import RunContext
from a3c_zoo.store.saved_state import NOT_INITIAL, fitting, from_plain, loading

State = dict[str, Any]
"""The state dictionary of a worker or learner, one part of a checkpoint."""
OnTick = Callable[[], None]
"""Called while a worker or learner works or waits; may raise to stop it."""


@dataclass(frozen=True, slots=True)
class ActingState:
    """The part of an agent's state that acting needs. resumes: how often the run was resumed."""

    model: SavedModel
    resumes: Annotated[int, Field(alias="session", ge=0)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentState(ActingState):
    """The agent's part of a checkpoint.

    Attributes:
        optimizer: moments that all workers share, empty where each worker keeps its own.
        counters: the tensor of `Counters`.
        workers: the state of each worker, the learner's last; empty after a failure, and before worker
            processes have come to their first standstill.
        reward_statistics: the tensor of `RewardStatistics`; None where rewards have a fixed scale.
    """

    resumes: Annotated[int, Field(alias="session", ge=0)]
    optimizer: dict[str, InstanceOf[Tensor]]
    counters: InstanceOf[Tensor]
    workers: list[State]
    reward_statistics: InstanceOf[Tensor] | None = None

    def shared_out(self, num_members: int) -> AgentState:
        """For another number of members: all counts and statistics so far are the first one's.

        The states of the members are left out: their environments, and with a learner what it had not applied yet.
        """
        counters = Counters.zeros(num_members)
        counters[0] = self.counters.sum(dim=0)
        rewards = self.reward_statistics
        if rewards is not None:
            rewards = RewardStatistics(rewards).gathered(num_members)
        return replace(
            self,
            model=self.model.adopted(num_members),
            counters=counters,
            workers=[],
            reward_statistics=rewards,
        )

    def copy_to(
        self, parameters: Tensor, counters: Tensor, observed: Tensor | None, rewarded: Tensor | None
    ) -> None:
        """Copies parameters, counts, and the statistics of observations and rewards, if any, into those of a run."""
        parameters.copy_(self.model.parameters)
        counters.copy_(self.counters)
        if observed is not None and self.model.statistics is not None:
            observed.copy_(self.model.statistics)
        if rewarded is not None and self.reward_statistics is not None:
            rewarded.copy_(self.reward_statistics)


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """What every worker gets; all workers share the tensors.

    Attributes:
        entry: the environment. network, optimizer: the entries that the configuration names.
        parameters: `[P]`, float32.
        moments: the optimizer's, shared by all workers; None where each worker keeps its own.
        counters: `[members, 5]`, int64 (`Counters`); a learner has the last row.
        observation_statistics: the tensor of `ObservationStatistics`, None where the network takes none.
        resumes: how often the run was resumed.
        exchange: what else the agent's processes share, such as a lock or a ring.
        buffers: what the network keeps beside its parameters, by name (`Buffers`).
        loss: computes the terms of the loss.
        reward_statistics: the tensor of `RewardStatistics`, None where rewards have a fixed scale.
    """

    entry: EnvEntry
    network: NetworkEntry
    optimizer: OptimizerEntry
    config: Config
    spaces: Spaces
    parameters: Tensor
    moments: dict[str, Tensor] | None
    counters: Tensor
    observation_statistics: Tensor | None
    resumes: int
    exchange: Any = None
    buffers: dict[str, Tensor] = field(default_factory=dict)
    loss: Loss = actor_critic_loss
    reward_statistics: Tensor | None = None

    @property
    def running_statistics(self) -> dict[str, Tensor]:
        """The tensors of statistics that this run keeps, by name: `observations`, `rewards`."""
        tensors = {"observations": self.observation_statistics, "rewards": self.reward_statistics}
        return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def agent_state(context: RunContext, spaces: Spaces, has_learner: bool) -> AgentState | None:
    """Reads and validates the checkpoint that a run goes on from; None for a new run.

    A checkpoint for acting, which another run may have written, is completed: with the run's counts, and
    without states of workers. One of another number of workers is made one of this number (`AgentState.shared_out`).

    Raises:
        RunDirectoryError: a part is missing, or does not fit the run.
    """
    config = context.config
    counts = context.acting_counts
    if context.checkpoint is None:
        return None
    assert context.network is not None
    num_members = config.run.workers + has_learner
    counters = Counters.zeros(num_members)
    with loading(*[NOT_INITIAL] if counts and not counts.steps else []):
        if counts is None:
            saved = from_plain(AgentState, context.checkpoint, "agent")
            there = len(saved.counters) if saved.counters.dim() else 0
        else:
            acting = from_plain(ActingState, context.checkpoint, "agent")
            Counters(counters).row(0)[[STEPS, UPDATES, EPISODES]] = (
                counts.steps,
                counts.updates,
                context.episodes,
            )
            model = acting.model.adopted(num_members)
            saved = AgentState(model, resumes=acting.resumes, optimizer={}, counters=counters, workers=[])
            there = num_members
        check_spaces(Spaces.from_state_dict(saved.model.spaces), spaces, context.entry.name)
        saved.model.check(spaces, context.network, config, there)
        fitting(saved.counters, Counters.zeros(there), "agent.counters")
        if saved.reward_statistics is not None:
            fitting(saved.reward_statistics, RewardStatistics.zeros(there, 1), "agent.reward_statistics")
        if len(saved.workers) not in (0, there):
            raise RunDirectoryError(
                f"agent.workers has {len(saved.workers)} states, agent.counters {there} rows"
            )
        if there != num_members:
            saved = saved.shared_out(num_members)
    return saved


def worker_context(
    context: RunContext, model: Model, exchange: Any, has_learner: bool, saved: AgentState | None, loss: Loss
) -> WorkerContext:
    """Returns what the workers of a new run get, or those of a run that goes on from its checkpoint.

    Args:
        exchange, loss: see `WorkerContext`. saved: what `agent_state` returned.
        has_learner: the last row of the counters is a learner's. It alone applies gradients, so the context
            holds the moments even where `optimizer.shared_statistics` is false.

    Raises:
        RunDirectoryError: the checkpoint's moments are not those of this run.
    """
    config = context.config
    assert config.optimizer is not None
    assert context.network is not None
    assert context.optimizer is not None
    num_members = config.run.workers + has_learner
    parameters = model.flat.initial.clone()
    counters = Counters.zeros(num_members)
    buffers = {name: buffer.clone() for name, buffer in model.buffers.initial.items()}
    moments = statistics = rewards = None
    if model.module.normalizes:
        statistics = ObservationStatistics.zeros(num_members, model.spaces.observations.num_features)
    if isinstance(config.agent, LossConfig) and config.agent.reward_scale == "auto":
        rewards = RewardStatistics.zeros(num_members, 1)
    if config.optimizer.shared_statistics or has_learner:
        moments = new_moments(context.optimizer, parameters, config.optimizer)
    if saved:
        saved.copy_to(parameters, counters, statistics, rewards)
        buffers = {name: saved.model.buffers[name].clone() for name in buffers}
        if context.acting_counts is None:
            fill(moments or {}, saved.optimizer)
    if not context.serial:
        optional = [tensor for tensor in (statistics, rewards) if tensor is not None]
        share(parameters, counters, *optional, *buffers.values(), *(moments or {}).values())
    return WorkerContext(
        entry=context.entry,
        network=context.network,
        optimizer=context.optimizer,
        config=config,
        spaces=model.spaces,
        parameters=parameters,
        moments=moments,
        counters=counters,
        observation_statistics=statistics,
        resumes=saved.resumes + 1 if saved else 0,
        exchange=exchange,
        buffers=buffers,
        loss=loss,
        reward_statistics=rewards,
    )


def fill(moments: Mapping[str, Tensor], saved: Mapping[str, Any]) -> None:
    """Copies an optimizer's saved moments into its own; see `loading`."""
    with loading():
        if saved.keys() != moments.keys():
            there, here = (", ".join(sorted(map(str, names))) or "none" for names in (saved, moments))
            raise RunDirectoryError(f"its moments are {there} there, {here} here")
        for name, tensor in moments.items():
            tensor.copy_(fitting(saved[name], tensor, f"moment {name}"))
