"""Teams of workers (`agent.teams`): how environments and samples are dealt out, and what members share.

    member: collect ─▶ wait for the team ─▶ differentiate ─▶ apply, as in `a3c` ─▶ … ─▶ wait for the team

A team has the environments of one worker, and makes as many updates of as many samples. With as many workers as teams,
each worker is a team, and `a3c` trains as without teams. A member of a larger team has `env.num_envs / members`
environments, and a group of members makes each update together: each differentiates its part, drawn from its own
rollout, and one applies the sum (`Team.sum`). The whole team is a group, or several groups make their updates beside
each other (`agent.team_updates`). Nobody waits for another team.
"""

from __future__ import annotations

from dataclasses import replace

from a3c_zoo.agents.configs import A3CConfig
from a3c_zoo.agents.context import OnTick, State, WorkerContext
from a3c_zoo.agents.worker import Applier, RolloutWorker
from a3c_zoo.config import Config
from a3c_zoo.hardware import available_cores
from a3c_zoo.learning.rollout import Rollout
from a3c_zoo.learning.samples import Samples, differentiate_samples
from a3c_zoo.learning.segments import Segments, differentiate_segments
from a3c_zoo.learning.update_parts import WholeUpdate, moments_of_updates, whole_updates
from a3c_zoo.processes.crew import CutShort
from a3c_zoo.processes.lock import PatientLock
from a3c_zoo.processes.team import Team, TeamMemory


class TeamWorker(RolloutWorker):
    """A member of a team. `context.config` has the environments and samples of a member (`config_of_member`).

    `context.exchange` is the memory of all teams, and a lock that is held while a sum is applied, or None.
    """

    def __init__(self, context: WorkerContext, rank: int, state: State | None, on_tick: OnTick) -> None:
        memory, lock = context.exchange
        self.team = Team(memory, rank, self.on_tick_of_updates)
        super().__init__(context, rank, state, self._ticking_in_team(on_tick))
        self.applier = None
        if self.team.applies:
            self.applier = Applier(self, state, lock and PatientLock(lock, self.on_tick_of_updates))
        self._size = self.agent.samples_per_update(context.config.env.num_envs)

    def _ticking_in_team(self, on_tick: OnTick) -> OnTick:
        """`on_tick`, which also ends a rollout that another member has left."""

        def tick() -> None:
            on_tick()
            self.team.check()

        return tick

    def work(self) -> None:
        """Collects one rollout and learns from it with the team; returns soon if the leader has not begun one."""
        if not self.team.begin():
            return
        self.pull()
        try:
            rollout = self.collect()
            self._learn(rollout)
        except CutShort:
            self.team.leave()
            raise

    def finish(self) -> None:
        """The team does not wait for a member that stands still before it has seen the newest rollout begin."""
        if self.team.is_behind:
            self.team.leave()

    def _learn(self, rollout: Rollout) -> None:
        samples = self.samples(rollout)
        choices = [
            chosen
            for _ in range(self.agent.passes)
            for chosen in samples.shuffled(self._size, self.collector.generator)
        ]
        own = moments_of_updates(samples.advantages, samples.valid, choices)
        updates = whole_updates(self.team.exchange(own), self.team.group, len(choices) // self.agent.passes)
        self.pull()  # by now the observation statistics have the rollouts of all members of this team
        for number, (chosen, whole) in enumerate(zip(choices, updates, strict=True)):
            if not whole.num_valid:
                continue
            if number:
                self.on_tick_of_updates()
                self.pull_again()
            wanted = self.team.applies and number == len(choices) - 1 and self.wants_metrics()
            self.model.flat.zero_gradients()
            metrics = self._differentiate_part(samples.chosen(chosen), whole, wanted)
            total = self.team.sum(self.model.flat.wide_gradients())
            if self.applier is not None and total is not None:
                metrics |= self.applier.apply(total, (self.updates_at_pull,))
            self.team.made()
            if wanted:
                self.tell(metrics)
        self.team.end()

    def _differentiate_part(
        self, batch: Samples | Segments, whole: WholeUpdate, want_metrics: bool
    ) -> dict[str, float]:
        network = self.model.network
        actions = self.context.spaces.actions
        objective = self.objective()
        if isinstance(batch, Segments):
            return differentiate_segments(network, actions, batch, objective, want_metrics, whole)
        return differentiate_samples(network, actions, batch, objective, want_metrics, whole)

    def state_dict(self) -> State:
        state = super().state_dict()
        if self.applier is not None:
            state |= self.applier.state_dict()
        return state


def config_of_member(config: Config) -> Config:
    """The configuration that a member of a team works by: with its part of the environments and of an update.

    The segments of a recurrent core have the steps that they have without teams. Adam's β₁ is `decay_beside`.
    """
    agent = config.agent
    num_envs = config.env.num_envs
    assert isinstance(agent, A3CConfig)
    members = config.run.workers // config.teams
    own = {"update_samples": agent.samples_per_update(num_envs) // group_size(config)}
    if config.network is not None and config.network.has_core:
        own["segment_steps"] = agent.steps_of_segment(num_envs)
    optimizer = config.optimizer
    assert optimizer is not None
    beside = config.run.workers // group_size(config)
    return replace(
        config,
        env=config.env.model_copy(update={"num_envs": num_envs // members}),
        agent=agent.model_copy(update=own),
        optimizer=optimizer.model_copy(update={"beta1": decay_beside(optimizer.beta1, config.teams, beside)}),
    )


def decay_beside(beta1: float, usual: int, beside: int) -> float:
    """Adam's β₁ for so many who make updates beside each other, if it is `beta1` for the usual number.

    The first moment is a mean of gradients, of which the newest are β₁ / (1 − β₁) updates old on average. Each was
    usual − 1 updates old already when it was applied, because others had changed the parameters meanwhile. More of
    them make gradients older, and the moment is made younger by as much. It keeps a mean of two (β₁ ½) at least, or
    `beta1` if that is less. That many who go beside each other act like momentum is known of plain gradient descent
    (Mitliagkas et al. 2016, arXiv:1605.09774).
    """
    if beside <= usual:
        return beta1
    age = max(1.0, beta1 / (1 - beta1) - (beside - usual))
    return min(beta1, age / (1 + age))


def group_size(config: Config) -> int:
    """How many members of a team make an update together."""
    agent = config.agent
    assert isinstance(agent, A3CConfig)
    has_core = config.network is not None and config.network.has_core
    return agent.members_of_update(config.run.workers, config.env.num_envs, has_core)


def team_memory(config: Config, num_parameters: int) -> TeamMemory:
    """What the members of all teams of a run share. Raises ConfigError if there is no room."""
    agent = config.agent
    assert isinstance(agent, A3CConfig)
    workers = config.run.workers
    num_envs = config.env.num_envs
    members = workers // config.teams
    size = group_size(config)
    updates_of_team = agent.passes * agent.n_steps * num_envs // agent.samples_per_update(num_envs)
    has_own_core = available_cores() >= workers
    return TeamMemory.zeros(
        config.teams, members, size, num_parameters, updates_of_team * size // members, has_own_core
    )
