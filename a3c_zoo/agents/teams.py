"""Teams of workers (`agent.teams`): how environments and samples are dealt out, and what members share.

    member: collect ─▶ differentiate its part of an update ─▶ sum of the team ─▶ the leader: apply, as in `a3c`

A team learns as one worker with all its environments would. With as many workers as teams, each worker is a team, and
`a3c` trains as without teams. A member of a larger team has `env.num_envs / members` environments, and contributes
`1 / members` of the samples of each update, drawn from its own rollout. Advantages are normalised over the whole
update. Teams learn beside each other as workers do without teams: nobody waits for another team.
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
from a3c_zoo.learning.update_parts import WholeUpdate, merged_moments, moments_of_updates
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
        if self.team.is_leader:
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
        moments = merged_moments(self.team.exchange(own))
        self.pull()  # by now the observation statistics have the rollouts of all members of this team
        for number, (chosen, of_update) in enumerate(zip(choices, moments, strict=True)):
            whole = WholeUpdate.of(of_update)
            if not whole.num_valid:
                continue
            if number:
                self.on_tick_of_updates()
                self._pull_again()
            wanted = self.team.is_leader and number == len(choices) - 1 and self.wants_metrics()
            self.model.flat.zero_gradients()
            metrics = self._differentiate_part(samples.chosen(chosen), whole, wanted)
            total = self.team.sum(self.model.flat.wide_gradients())
            if self.applier is not None and total is not None:
                metrics |= self.applier.apply(total, (self.updates_at_pull,))
            self.team.made()
            if wanted:
                self.tell(metrics)

    def _pull_again(self) -> None:
        """Copies what the last update has changed, and no statistics: those of an update stay as they were."""
        self.model.flat.pull(self.context.parameters)
        self.model.buffers.pull(self.context.buffers)
        self.updates_at_pull = self.counters.updates

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

    The segments of a recurrent core have the steps that they have without teams.
    """
    agent = config.agent
    num_envs = config.env.num_envs
    assert isinstance(agent, A3CConfig)
    members = config.run.workers // config.teams
    own = {"update_samples": agent.samples_per_update(num_envs) // members}
    if config.network is not None and config.network.has_core:
        own["segment_steps"] = agent.steps_of_segment(num_envs)
    return replace(
        config,
        env=config.env.model_copy(update={"num_envs": num_envs // members}),
        agent=agent.model_copy(update=own),
    )


def team_memory(config: Config, num_parameters: int) -> TeamMemory:
    """What the members of all teams of a run share. Raises ConfigError if there is no room."""
    agent = config.agent
    assert isinstance(agent, A3CConfig)
    workers = config.run.workers
    num_envs = config.env.num_envs
    num_updates = agent.passes * agent.n_steps * num_envs // agent.samples_per_update(num_envs)
    has_own_core = available_cores() >= workers
    return TeamMemory.zeros(config.teams, workers // config.teams, num_parameters, num_updates, has_own_core)
