"""What agents put together: members with a model and exact counts, workers that collect, and the apply stage."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from typing import Any

import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from a3c_zoo.agents.configs import LossConfig
from a3c_zoo.agents.context import OnTick, State, WorkerContext, fill
from a3c_zoo.errors import ConfigError, DivergedError
from a3c_zoo.learning.collector import Collector
from a3c_zoo.learning.contract import CheckedEnvironment
from a3c_zoo.learning.counters import EPISODES, REPLACED, STEPS, UPDATES, Counters
from a3c_zoo.learning.environments import closed_on_failure, make_vector_env
from a3c_zoo.learning.model import Model
from a3c_zoo.learning.networks import seed_passes
from a3c_zoo.learning.objective import Objective
from a3c_zoo.learning.observation_statistics import ObservationStatistics
from a3c_zoo.learning.optimizers import (
    clip_by_global_norm,
    learning_rate_at,
    new_moments,
    new_optimizer,
    schedule_left,
    without_denormals,
)
from a3c_zoo.learning.reward_statistics import REWARD_LIMIT, DiscountedReturns, RewardStatistics
from a3c_zoo.learning.rollout import Rollout
from a3c_zoo.learning.samples import Samples, samples_of
from a3c_zoo.learning.segments import Segments, segments_of
from a3c_zoo.learning.spaces import check_supported
from a3c_zoo.processes.crew import CutShort
from a3c_zoo.records import Episode, Report, RunContext
from a3c_zoo.seeds import SEED_ENV, SEED_SAMPLING, seed_for
from a3c_zoo.store.saved_state import fitting, loading, not_finite

#: Seconds between two updates whose metrics are computed: often enough for a plot, and cheap.
METRICS_EVERY_S = 0.05

#: If so many gradients of one worker or learner in a row are not finite, the run ends. One rollout of PPO may
#: give dozens of them; parameters that have diverged give no others.
MOST_SKIPPED_IN_A_ROW = 100

#: Staleness is reported over this many of its newest values.
STALENESS_WINDOW = 1000


def make_env(context: RunContext | WorkerContext, rank: int = 0) -> VectorEnv[Any, Any, Any]:
    """Makes the environments of a run, or of one of its workers: `env.num_envs` of them, stepped together.

    Args:
        rank: the worker's number; the environments of each rank have a seed of their own.

    Raises:
        ZooError: the environment cannot be made, or it is not a VectorEnv; or the agent does not act in its actions
            (`AgentEntry.spaces`). The message has its name.
    """
    config = context.config
    env = make_vector_env(
        context.entry, config.env, config.env.num_envs, seed_for(config.run.seed, SEED_ENV, rank)
    )
    if isinstance(context, WorkerContext):  # the run has looked at its spaces
        return env
    with closed_on_failure(env):
        actions = env.single_action_space
        check_supported(actions, context.supported_spaces, config.agent_name, context.entry.name)
    return env


class Member:
    """What workers and learners have in common: a model, exact counts and a report.

    Methods without a docstring are those of `a3c_zoo.processes.crew.Worker`.

    Args:
        context: what all members share. rank: the member's number.
        on_tick: called while the member works or waits; may raise to stop it.

    Attributes:
        agent: the configuration of the agent. row: the member's own row of the counters, `[5]`.
        staleness: its newest values, in updates.
    """

    def __init__(self, context: WorkerContext, rank: int, on_tick: OnTick) -> None:
        config = context.config
        assert isinstance(config.agent, LossConfig)
        assert config.optimizer is not None
        self.context = context
        self.rank = rank
        self.on_tick = on_tick
        self.agent = config.agent
        self.optimizer_config = config.optimizer
        self.model = Model(context.spaces, context.network, config, config.run.device)
        self.counters = Counters(context.counters)
        self.row = self.counters.row(rank)
        self.staleness: deque[float] = deque(maxlen=STALENESS_WINDOW)
        self._objective = replace(objective_of(config.agent), loss=context.loss)
        self._report = Report(worker=rank)
        self._next_metrics_s = 0.0
        self._skipped_in_a_row = 0

    def finish(self) -> None:
        """A worker has nothing left to do at a standstill."""

    def on_tick_of_updates(self) -> None:
        """Called instead of `on_tick` once a rollout is counted: what it holds is learned from or handed over whole."""
        with suppress(CutShort):
            self.on_tick()

    def objective(self) -> Objective:
        """The loss, with coefficients as scheduled for now."""
        left = schedule_left(self.optimizer_config, self.counters.steps, self.context.config.run.steps)
        return self._objective.at(left)

    def wants_metrics(self) -> bool:
        """Whether the metrics of the next update are due: then they are computed and given to `tell`."""
        return time.monotonic() >= self._next_metrics_s

    def accepts(self, norm: float) -> bool:
        """Whether a gradient of this L2 norm may be applied; counts the gradients that are not finite.

        Raises:
            DivergedError: too many in a row are not finite (`MOST_SKIPPED_IN_A_ROW`).
        """
        if math.isfinite(norm):
            self._skipped_in_a_row = 0
            return True
        self._report.skipped += 1
        self._skipped_in_a_row += 1
        if self._skipped_in_a_row == MOST_SKIPPED_IN_A_ROW:
            raise DivergedError(
                f"{MOST_SKIPPED_IN_A_ROW} gradients in a row are not finite: training diverged. "
                "Try a smaller optimizer.learning_rate"
            )
        return False

    def tell(self, metrics: dict[str, float]) -> None:
        """Puts the metrics of an update into the next report, with the mean and 95th percentile of staleness.

        Metrics that are not finite are left out, and the run tells of them. If loss or gradient are not finite,
        it tells of the update that is skipped instead.
        """
        self._next_metrics_s = time.monotonic() + METRICS_EVERY_S
        finite = {name: value for name, value in metrics.items() if math.isfinite(value)}
        self._report.metrics |= finite
        unusable = metrics.keys() - finite.keys()
        if not unusable & {"loss_total", "grad_norm"}:
            self._report.not_finite |= unusable
        if self.staleness:
            ordered = sorted(self.staleness)
            self._report.metrics |= {
                "staleness": float(sum(ordered) / len(ordered)),
                "staleness_p95": float(ordered[-(-95 * len(ordered) // 100) - 1]),  # by nearest rank
            }

    def report(self) -> Report:
        report = self._report
        self._report = Report(worker=self.rank)
        report.steps = self.counters.steps
        report.updates = self.counters.updates
        return report

    def state_dict(self) -> State:
        return {}

    def close(self) -> None:
        """Nothing to close."""


class RolloutWorker(Member):
    """A worker that pulls parameters and collects rollouts; agents derive from it and define `work`.

    Args:
        state: a state dictionary to go on from, or None. Others: see `Member`; `on_tick` is called after
            every environment step.
    """

    def __init__(self, context: WorkerContext, rank: int, state: State | None, on_tick: OnTick) -> None:
        super().__init__(context, rank, on_tick)
        config = context.config
        agent = self.agent
        seed = context.config.run.seed
        replaced = int(self.row[REPLACED])
        path = [rank, context.resumes]
        if replaced:
            path.append(replaced)
        start = self.model.network.start(config.env.num_envs)
        with closed_on_failure(make_env(context, rank)) as env:
            self.collector = Collector(
                CheckedEnvironment(env, context.entry.name, context.spaces.observations),
                context.spaces.actions,
                agent.n_steps,
                seed_for(seed, SEED_ENV, *path),
                torch.Generator().manual_seed(seed_for(seed, SEED_SAMPLING, *path)),
                on_tick,
                agent.cut_at_end,
                start,
                agent.keeps_outputs
                and start is None,  # with a core, one pass over the rollout computes them anew
                agent.noise_correlation,
                context.entry.num_agents,
            )
            if agent.acts_live:
                self.model.flat.attach(context.parameters)
            self._discounted = DiscountedReturns(config.env.num_envs, agent.gamma)
            self._collected_s: float | None = None  # when the last rollout ended; None after a standstill
            if state:
                self._load(state)

    def _load(self, state: State) -> None:
        with loading():
            self.collector.load_state_dict(state["collector"])
            if "discounted_returns" in state:
                newest = torch.from_numpy(self._discounted.newest)
                newest.copy_(fitting(state["discounted_returns"], newest, "discounted_returns"))

    def pull(self) -> None:
        """Copies the shared parameters, observation statistics and buffers into the worker's own network."""
        if self.model.network.has_modes:
            seed_passes(self.model.network, int(torch.randint(2**62, (), generator=self.collector.generator)))
        if self.agent.acts_live:
            self.model.pull_statistics(self.context.observation_statistics)
            self.model.buffers.pull(self.context.buffers)
        else:
            self.model.pull(
                self.context.parameters, self.context.observation_statistics, self.context.buffers
            )
        self.updates_at_pull = self.counters.updates

    def pull_again(self) -> None:
        """Copies what updates have changed, and no observation statistics: later updates of a rollout see the same."""
        if not self.agent.acts_live:
            self.model.flat.pull(self.context.parameters)
        self.model.buffers.pull(self.context.buffers)
        self.updates_at_pull = self.counters.updates

    def collect(self) -> Rollout:
        """Collects one rollout, adds it to the counters, and its episodes to the report.

        Raises:
            ConfigError: the agent learns from whole episodes, and one is longer than a rollout.
        """
        steps_before = self.counters.steps
        began_s = time.perf_counter()
        episodes = self.collector.collect(self.model.network)
        self._add_seconds(began_s)
        rollout = self.collector.rollout
        if self.context.observation_statistics is not None:
            seen = self.context.spaces.observations.encode(rollout.observations[:-1]).numpy()
            ObservationStatistics(self.context.observation_statistics).update(self.rank, seen[rollout.valid])
        if self.context.reward_statistics is not None:
            self._scale_rewards(rollout, RewardStatistics(self.context.reward_statistics))
        counts = rollout.valid.sum(axis=1)
        self.row[STEPS] += counts.sum()
        self.row[EPISODES] += len(episodes)
        if episodes:
            now = time.monotonic()
            steps = steps_before + counts.cumsum()
            self._report.episodes += [
                Episode(e.episode_return, e.length, int(steps[e.row]), now, self.rank, e.agent_returns)
                for e in episodes
            ]
        if self.agent.whole_episodes and not self.collector.ended[0]:
            raise ConfigError(
                f"an episode of '{self.context.entry.name}' is longer than {int(counts.sum()):,} steps, the memory "
                "for one. Set more aside (-o agent.n_steps=…), cut episodes short (env.max_episode_steps, where "
                "there is one), or use agent nstep"
            )
        return rollout

    def samples(self, rollout: Rollout) -> Samples | Segments:
        """What shuffled updates of a rollout learn from: single samples or, with a recurrent core, segments."""
        network = self.model.network
        actions = self.context.spaces.actions
        objective = self.objective()
        if rollout.states is None:
            return samples_of(rollout, network, actions, objective)
        length = self.agent.steps_of_segment(self.context.config.env.num_envs)
        return segments_of(rollout, network, actions, objective, length)

    def _add_seconds(self, began_s: float) -> None:
        """Adds the seconds of a rollout that began at `began_s`, and of learning from the one before, to the report.

        The first rollout, and the first one after a standstill, are left out: there was no learning before them.
        """
        ended_s = time.perf_counter()
        if self._collected_s is not None:
            env_s = self.collector.env_s
            acting_s = ended_s - began_s - env_s
            learning_s = began_s - self._collected_s
            seconds = self._report.seconds
            for part, part_s in (("environment", env_s), ("acting", acting_s), ("learning", learning_s)):
                seconds[part] = seconds.get(part, 0.0) + part_s
        self._collected_s = ended_s

    def _scale_rewards(self, rollout: Rollout, statistics: RewardStatistics) -> None:
        """Adds the returns of a rollout to the statistics; the loss divides its rewards by the deviation."""
        statistics.update(self.rank, self._discounted.add(rollout))
        deviation = statistics.deviation()
        self._objective = replace(self._objective, reward_scale=1 / deviation)
        self._report.metrics["reward_deviation"] = deviation

    def state_dict(self) -> State:
        self._collected_s = None  # a standstill is no learning
        state: State = {"collector": self.collector.state_dict()}
        # Without the state of its environments a resumed worker begins new episodes, whose returns begin at
        # 0.
        if self.context.reward_statistics is not None and "env" in state["collector"]:
            state["discounted_returns"] = torch.from_numpy(self._discounted.newest.copy())
        return state

    def close(self) -> None:
        self.collector.close()


class Applier:
    """Applies gradients to the shared parameters on behalf of one worker or learner.

    Args:
        member: its updates are counted, and its staleness is noted.
        state: a state dictionary of the member with the moments to go on from, or None.
        lock: held while a gradient is applied; None for no lock.
    """

    def __init__(
        self, member: Member, state: State | None = None, lock: AbstractContextManager[object] | None = None
    ) -> None:
        context = member.context
        self._config = member.optimizer_config
        moments = context.moments
        self._own_moments: dict[str, Tensor] | None = None
        if moments is None:
            self._own_moments = moments = new_moments(context.optimizer, context.parameters, self._config)
            if state:
                fill(moments, state.get("optimizer", {}))
        self._optimizer = new_optimizer(context.optimizer, context.parameters, moments, self._config)
        self._member = member
        self._budget = context.config.run.steps
        self._lock = lock or nullcontext()

    def apply(self, gradient: Tensor, versions: Iterable[int]) -> dict[str, float]:
        """Clips a gradient `[P]` in place and applies it at the scheduled learning rate, unless it is not finite.

        Args:
            versions: for each part of the gradient, the count of updates when its parameters were pulled.

        Returns:
            Metrics: the gradient's norm before clipping, and the learning rate.

        Raises:
            DivergedError: see `Member.accepts`.
        """
        member = self._member
        context = self._member.context
        config = self._config
        norm = clip_by_global_norm(gradient, config.max_grad_norm)
        rate = learning_rate_at(config, member.counters.steps, self._budget)
        if not member.accepts(norm):
            return {"grad_norm": norm, "learning_rate": rate}
        with self._lock:
            updates = member.counters.updates
            member.staleness.extend(updates - version for version in versions)
            with without_denormals():
                self._optimizer.apply(gradient, rate)
            member.model.buffers.push(context.buffers)
            member.row[UPDATES] += 1
        return {"grad_norm": norm, "learning_rate": rate}

    def state_dict(self) -> State:
        """A copy of the member's own moments, under `optimizer`; empty where all workers share theirs.

        Raises:
            DivergedError: a moment is not finite.
        """
        if self._own_moments is None:
            return {}
        if place := not_finite(self._own_moments):
            raise DivergedError(
                f"the moment {place} of a worker has numbers that are not finite: training diverged"
            )
        return {"optimizer": {name: tensor.clone() for name, tensor in self._own_moments.items()}}


def objective_of(config: LossConfig) -> Objective:
    """The loss that an agent's configuration asks for."""
    values = config.objective_values()
    if values["reward_scale"] == "auto":  # the worker replaces the scale as soon as it knows the deviation
        values |= {"reward_scale": 1.0, "reward_limit": REWARD_LIMIT}
    return Objective(**values)
