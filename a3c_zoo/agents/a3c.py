"""A3C, Hogwild: every worker collects, differentiates and applies, without a lock, on shared parameters.

    collect ──▶ differentiate ──▶ apply        all three in every worker; there is no learner

`agent.locking: apply` puts a lock around apply alone, so that its cost and its gain can be measured. The
textbook's agents `nstep` and `monte-carlo` differ only in their configuration models (`TextbookConfig`).

With `agent.clip_ratio` the loss is PPO's, and a worker passes `agent.epochs` times over the shuffled samples
of a rollout, or over its segments if the network has a recurrent core. It still applies each gradient to the
shared parameters, and pulls them before the next.

With `agent.teams` more workers learn as so many do (`agents/teams.py`).

(Mnih et al. 2016, arXiv:1602.01783, algorithm S3; Recht et al. 2011, arXiv:1106.5730, for the missing lock;
Schulman et al. 2017, arXiv:1707.06347, for the clipped ratio.)
"""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing.synchronize import Lock

from a3c_zoo.agents.configs import A3CConfig, LossConfig
from a3c_zoo.agents.context import OnTick, State, WorkerContext
from a3c_zoo.agents.teams import TeamWorker, team_memory
from a3c_zoo.agents.with_workers import CrewFactory, agent_config, train
from a3c_zoo.agents.worker import Applier, RolloutWorker
from a3c_zoo.errors import ConfigError
from a3c_zoo.learning.model import Model
from a3c_zoo.learning.objective import Loss, actor_critic_loss, differentiate
from a3c_zoo.learning.rollout import Rollout
from a3c_zoo.learning.samples import Samples, differentiate_samples
from a3c_zoo.learning.segments import Segments, differentiate_segments
from a3c_zoo.processes.lock import PatientLock
from a3c_zoo.processes.start import process_context
from a3c_zoo.processes.team import TeamMemory
from a3c_zoo.records import RunContext

Batch = slice | Samples | Segments
"""What one update learns from; a slice is of the environments of a rollout."""


class A3CWorker(RolloutWorker):
    """One worker: all three stages, over and over.

    `context.exchange` is a lock that is held while a gradient is applied, or None for none.
    """

    def __init__(self, context: WorkerContext, rank: int, state: State | None, on_tick: OnTick) -> None:
        super().__init__(context, rank, state, on_tick)
        if context.exchange is None:
            lock = None
        else:
            lock = PatientLock(context.exchange, self.on_tick_of_updates)
        self.applier = Applier(self, state, lock)
        self._size = self.agent.samples_per_update(context.config.env.num_envs)
        self._columns = update_columns(self.agent, context.config.env.num_envs)
        per_pass = len(self._columns) or self.agent.n_steps * context.config.env.num_envs // self._size
        self._num_updates = per_pass * self.agent.passes

    def work(self) -> None:
        """Collects one rollout and learns from it, in one update or several."""
        self.pull()
        rollout = self.collect()
        for number, batch in enumerate(self._batches(rollout)):
            if not _has_samples(rollout, batch):
                continue
            if number:
                self.on_tick_of_updates()  # many updates take long: the worker does not hang
            if number == 1:
                self.pull()  # by now the observation statistics have this rollout
            elif number:
                self.pull_again()
            self.model.flat.zero_gradients()
            # The last update tells how far a rollout has moved the policy. At the first one, all ratios are 1.
            wanted = number == self._num_updates - 1 and self.wants_metrics()
            metrics = self._differentiate(rollout, batch, wanted)
            applied = self.applier.apply(self.model.flat.wide_gradients(), (self.updates_at_pull,))
            if wanted:
                self.tell(metrics | applied)

    def _batches(self, rollout: Rollout) -> Iterator[Batch]:
        """What each update learns from: some environments of the rollout or, if it keeps outputs, shuffled samples."""
        if not self.agent.keeps_outputs:
            yield from self._columns
            return
        samples = self.samples(rollout)
        for _ in range(self.agent.passes):
            yield from samples.batches(self._size, self.collector.generator)

    def _differentiate(self, rollout: Rollout, batch: Batch, want_metrics: bool) -> dict[str, float]:
        network = self.model.network
        actions = self.context.spaces.actions
        objective = self.objective()
        if isinstance(batch, Samples):
            return differentiate_samples(network, actions, batch, objective, want_metrics)
        if isinstance(batch, Segments):
            return differentiate_segments(network, actions, batch, objective, want_metrics)
        return differentiate(network, actions, rollout, batch, objective, want_metrics)

    def state_dict(self) -> State:
        return super().state_dict() | self.applier.state_dict()


def _has_samples(rollout: Rollout, batch: Batch) -> bool:
    """Whether a batch has a step that counts. Without one, the optimizer would still move, by its momentum."""
    if isinstance(batch, slice):
        return bool(rollout.valid[:, batch].any())
    return bool(batch.valid.any())


def update_columns(config: LossConfig, num_envs: int) -> list[slice]:
    """Returns the environments that each update of a rollout learns from; none if samples are shuffled."""
    if config.keeps_outputs:
        return []
    width = config.samples_per_update(num_envs) // config.n_steps  # `A3CConfig.check`: nothing is left over
    return [slice(start, start + width) for start in range(0, num_envs, width)]


def run_a3c(context: RunContext, loss: Loss = actor_critic_loss, crew: CrewFactory | None = None) -> None:
    """Trains until the run says stop; `AgentEntry.run` of `a3c`, `nstep` and `monte-carlo`.

    Args:
        loss: computes the terms of the loss. crew: see `train`.
    """
    config = agent_config(context, LossConfig)
    in_teams = context.config.teams < context.config.run.workers
    if in_teams and crew is not None:
        assert isinstance(config, A3CConfig)
        raise ConfigError(
            f"agent.teams: {context.config.teams} — workers of several machines learn by themselves: "
            f"{config.cure_of_teams}"
        )

    def lock() -> Lock | None:
        is_needed = isinstance(config, A3CConfig) and config.locking == "apply" and not context.serial
        if is_needed:
            return process_context(context.config.run.start_method).Lock()
        return None

    def exchange(model: Model) -> Lock | tuple[TeamMemory, Lock | None] | None:
        if not in_teams:
            return lock()
        return team_memory(context.config, len(model.flat.initial)), lock()

    train(context, TeamWorker if in_teams else A3CWorker, None, exchange, loss, crew)
