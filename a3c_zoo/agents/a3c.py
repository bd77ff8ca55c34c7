"""A3C, Hogwild: every worker collects, differentiates and applies, without a lock, on shared parameters.

    collect ──▶ differentiate ──▶ apply        all three in every worker; there is no learner

(Mnih et al. 2016, arXiv:1602.01783, algorithm S3; Recht et al. 2011, arXiv:1106.5730, for the missing lock.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from a3c_zoo.agents.configs import A3CConfig
from a3c_zoo.config import Config
from a3c_zoo.entries import EnvEntry, NetworkEntry
from a3c_zoo.errors import ConfigError, RunDirectoryError
from a3c_zoo.learning.environments import SEED_ENV, SEED_SAMPLING, make_vector_env, seed_for
from a3c_zoo.learning.memory import check_memory
from a3c_zoo.learning.model import Model, ModelPolicy, Spaces, probe_spaces, saved_model
from a3c_zoo.learning.objective import Objective, differentiate
from a3c_zoo.learning.rollout import Collector
from a3c_zoo.learning.shared import (
    Counters,
    build_optimizer,
    clip_by_global_norm,
    learning_rate_at,
    optimizer_state,
    share,
)
from a3c_zoo.learning.statistics import RunningStatistics
from a3c_zoo.processes.crew import Crew, supervise
from a3c_zoo.processes.pool import WorkerPool
from a3c_zoo.processes.serial import SerialCrew
from a3c_zoo.records import Episode, Report, RunContext, Snapshot

#: Seconds between two updates whose statistics are computed: often enough for a plot, too seldom to cost.
STATISTICS_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Plan:
    """What every worker gets; the tensors are shared by all.

    Attributes:
        parameters: `[P]`, float32. optimizer_state: of all workers, or None where each keeps its own.
        counters: `[workers, 3]`, int64; see `Counters`. statistics: of the observations, as `RunningStatistics` has
            them, None where the network wants none. session: how often this run has been resumed.
    """

    entry: EnvEntry
    network: NetworkEntry
    config: Config
    spaces: Spaces
    parameters: Tensor
    optimizer_state: dict[str, Tensor] | None
    counters: Tensor
    statistics: Tensor | None
    session: int


class A3CWorker:
    """One worker: all three stages, over and over."""

    def __init__(self, plan: Plan, rank: int, state: dict[str, Any] | None, on_tick: Callable[[], None]) -> None:
        config, seed = plan.config, plan.config.run.seed
        assert isinstance(config.agent, A3CConfig)
        assert config.optimizer is not None
        self._plan, self._rank, self._optimizer_config = plan, rank, config.optimizer
        self._objective = objective_of(config.agent)
        self._model = Model(plan.spaces, plan.network, config, config.run.device)
        self._counters = Counters(plan.counters)
        self._row = self._counters.row(rank)
        self._optimizer_state = plan.optimizer_state or (
            state["optimizer"] if state else optimizer_state(config.optimizer, plan.parameters)
        )
        self._optimizer = build_optimizer(config.optimizer, plan.parameters, self._optimizer_state)
        env = make_vector_env(plan.entry, config.env, config.env.num_envs, seed_for(seed, SEED_ENV, rank))
        self._collector = Collector(
            env,
            plan.entry.name,
            plan.spaces.observations,
            plan.spaces.actions,
            config.agent.n_steps,
            seed_for(seed, SEED_ENV, rank, plan.session),
            torch.Generator().manual_seed(seed_for(seed, SEED_SAMPLING, rank, plan.session)),
            on_tick,
        )
        if state:
            try:
                self._collector.load_state_dict(state["collector"])
            except (KeyError, RuntimeError, ValueError) as error:
                raise misfit(error) from error
        self._columns = update_columns(config.agent, config.env.num_envs)
        self._report = Report(worker=rank)
        self._next_statistics_s = 0.0

    def work(self) -> None:
        """Collects one rollout and learns from it, in one update or several."""
        self._pull()
        self._collect()
        for number, columns in enumerate(self._columns):
            if number:
                self._pull()
            self._update(columns)

    def _pull(self) -> None:
        self._model.pull(self._plan.parameters, self._plan.statistics)
        self._updates_at_pull = self._counters.updates

    def _collect(self) -> None:
        steps_before = self._counters.steps
        episodes = self._collector.collect(self._model.network)
        rollout = self._collector.rollout
        if self._plan.statistics is not None:
            seen = self._plan.spaces.observations.encode(rollout.observations[:-1]).numpy()
            RunningStatistics(self._plan.statistics).update(self._rank, seen[rollout.valid])
        counts = rollout.valid.sum(axis=1)
        self._row[0] += counts.sum()
        if episodes:
            now, steps = time.monotonic(), steps_before + counts.cumsum()
            self._report.episodes += [
                Episode(e.episode_return, e.length, int(steps[e.row]), now, self._rank) for e in episodes
            ]

    def _update(self, columns: slice) -> None:
        plan, flat = self._plan, self._model.flat
        wanted = time.monotonic() >= self._next_statistics_s
        flat.zero_gradients()
        statistics = differentiate(
            self._model.network, plan.spaces.actions, self._collector.rollout, columns, self._objective, wanted
        )
        gradient = flat.wide_gradients()
        norm = clip_by_global_norm(gradient, self._optimizer_config.max_grad_norm)
        rate = learning_rate_at(self._optimizer_config, self._counters.steps, plan.config.run.steps)
        staleness = self._counters.updates - self._updates_at_pull
        self._optimizer.apply(gradient, rate)
        self._row[1] += 1
        if wanted:
            self._next_statistics_s = time.monotonic() + STATISTICS_EVERY_S
            self._report.metrics = {
                **statistics,
                "grad_norm": norm,
                "learning_rate": rate,
                "staleness": float(staleness),
            }

    def report(self) -> Report:
        report, self._report = self._report, Report(worker=self._rank)
        report.steps, report.updates = self._counters.steps, self._counters.updates
        return report

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {"collector": self._collector.state_dict()}
        if self._plan.optimizer_state is None:
            state["optimizer"] = {name: tensor.clone() for name, tensor in self._optimizer_state.items()}
        return state

    def close(self) -> None:
        self._collector.env.close()


def misfit(error: Exception) -> RunDirectoryError:
    """The error for a checkpoint whose tensors are not those of this run."""
    return RunDirectoryError(f"the checkpoint does not fit the run's config.yml: {error}")


def objective_of(config: A3CConfig) -> Objective:
    """The loss that an agent's configuration asks for."""
    return Objective(
        gamma=config.gamma,
        gae_lambda=config.gae_lambda,
        entropy_coefficient=config.entropy_coefficient,
        value_coefficient=config.value_coefficient,
        normalize_advantages=config.normalize_advantages,
        clip_rewards=config.clip_rewards,
        loss_sum=config.loss_reduction == "sum",
    )


def update_columns(config: A3CConfig, num_envs: int) -> list[slice]:
    """Which environments each update of a rollout learns from: `update_samples` samples at a time.

    Raises:
        ConfigError: `update_samples` does not divide the rollout into whole environments.
    """
    per_update = config.update_samples or config.n_steps * num_envs
    width, rest = divmod(per_update, config.n_steps)
    if rest or width > num_envs or num_envs % width:
        raise ConfigError(
            f"agent.update_samples: {per_update} — a rollout of n_steps {config.n_steps} × num_envs {num_envs} splits "
            f"into updates of n_steps × k samples, where k divides num_envs"
        )
    return [slice(start, start + width) for start in range(0, num_envs, width)]


def check_schedule(config: Config) -> None:
    """Raises ConfigError for a linear schedule that has nothing to fall over."""
    optimizer = config.optimizer
    if optimizer and optimizer.schedule == "linear" and not (optimizer.schedule_steps or config.run.steps):
        raise ConfigError("optimizer.schedule: linear — needs optimizer.schedule_steps, or a budget: --steps N")


def run(context: RunContext) -> None:
    """Trains until the run says stop; `AgentEntry.run` of `a3c`."""
    config, saved = context.config, context.checkpoint
    assert isinstance(config.agent, A3CConfig)
    assert context.network is not None
    update_columns(config.agent, config.env.num_envs)
    check_schedule(config)
    spaces = probe_spaces(context.entry, context.network, config, context.supported_spaces)
    check_memory(
        spaces.observations,
        workers=config.run.workers,
        num_envs=config.env.num_envs,
        n_steps=config.agent.n_steps,
        update_samples=config.agent.update_samples or config.agent.n_steps * config.env.num_envs,
        number_bytes=2 if getattr(config.network, "precision", "") == "bfloat16" else 4,
    )
    model = Model.create(spaces, context.network, config)
    plan = _plan(context, model)
    counters = Counters(plan.counters)
    states = saved["workers"] if saved else None
    crew: Crew = (
        SerialCrew(A3CWorker, plan, config.run.workers, states)
        if context.serial
        else WorkerPool(
            A3CWorker,
            plan,
            counters,
            states,
            config.run.start_method,
            config.run.worker_timeout_s,
            config.run.next_pause,
        )
    )

    def acting() -> dict[str, Any]:
        return {"model": saved_model(model, plan.parameters, plan.statistics)}

    def state() -> dict[str, Any]:
        return {
            **acting(),
            "optimizer": {k: v.clone() for k, v in (plan.optimizer_state or {}).items()},
            "counters": plan.counters.clone(),
            "session": plan.session,
            "workers": crew.states(),
        }

    def policy(seed: int) -> ModelPolicy:
        model.pull(plan.parameters, plan.statistics)
        return ModelPolicy(model, seed)

    supervise(crew, context, Snapshot(policy, state, acting))


def _plan(context: RunContext, model: Model) -> Plan:
    config, saved, is_shared = context.config, context.checkpoint, not context.serial
    assert config.optimizer is not None
    assert context.network is not None
    parameters, optimizer = model.flat.initial.clone(), None
    counters = torch.zeros((config.run.workers, 3), dtype=torch.int64)
    statistics = None
    if model.normalizes:
        statistics = RunningStatistics.zeros(config.run.workers, model.spaces.observations.num_features)
    if config.optimizer.shared_statistics:
        optimizer = optimizer_state(config.optimizer, parameters)
    if saved:
        model.check_shapes(saved["model"]["shapes"])
        try:
            parameters.copy_(saved["model"]["parameters"])
            counters.copy_(saved["counters"])
            if statistics is not None:
                statistics.copy_(saved["model"]["statistics"])
            for name, tensor in (optimizer or {}).items():
                tensor.copy_(saved["optimizer"][name])
        except (KeyError, RuntimeError, TypeError) as error:
            raise misfit(error) from error
    if is_shared:
        share(parameters, counters, *([] if statistics is None else [statistics]), *(optimizer or {}).values())
    session = saved["session"] + 1 if saved else 0
    return Plan(
        context.entry,
        context.network,
        config,
        model.spaces,
        parameters,
        optimizer,
        counters,
        statistics,
        session,
    )


def load(entry: EnvEntry, network: NetworkEntry | None, config: Config, state: Mapping[str, Any]) -> ModelPolicy:
    """Rebuilds the policy of a checkpoint; `AgentEntry.load` of `a3c`."""
    assert network is not None
    model = Model(Spaces.from_state_dict(state["model"]["spaces"]), network, config)
    model.load(state["model"])
    return ModelPolicy(model, config.run.seed)
