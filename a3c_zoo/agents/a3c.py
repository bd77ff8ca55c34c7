"""A3C, Hogwild: every worker collects, differentiates and applies, without a lock, on shared parameters.

    collect ──▶ differentiate ──▶ apply        all three in every worker; there is no learner

With `agent.locking: apply` a lock stands round apply alone, so that what it costs or gains can be measured.

(Mnih et al. 2016, arXiv:1602.01783, algorithm S3; Recht et al. 2011, arXiv:1106.5730, for the missing lock.)
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from multiprocessing.synchronize import Lock
from typing import Any

from a3c_zoo.agents.configs import A3CConfig
from a3c_zoo.agents.plan import Plan
from a3c_zoo.agents.training import objective_of, train, update_columns
from a3c_zoo.agents.worker import RolloutWorker
from a3c_zoo.learning.model import Model
from a3c_zoo.learning.objective import differentiate
from a3c_zoo.learning.shared import (
    build_optimizer,
    clip_by_global_norm,
    learning_rate_at,
    optimizer_state,
    schedule_left,
)
from a3c_zoo.processes.lock import PatientLock
from a3c_zoo.processes.start import process_context
from a3c_zoo.records import RunContext


class A3CWorker(RolloutWorker):
    """One worker: all three stages, over and over."""

    def __init__(self, plan: Plan, rank: int, state: dict[str, Any] | None, on_tick: Callable[[], None]) -> None:
        agent, optimizer = plan.config.agent, plan.config.optimizer
        assert isinstance(agent, A3CConfig)
        assert optimizer is not None
        super().__init__(plan, rank, state, on_tick, agent.n_steps)
        self._objective, self._optimizer_config = objective_of(agent), optimizer
        self._optimizer_state = plan.optimizer_state or (
            state["optimizer"] if state else optimizer_state(optimizer, plan.parameters)
        )
        self._optimizer = build_optimizer(optimizer, plan.parameters, self._optimizer_state)
        self._columns = update_columns(agent, plan.config.env.num_envs)
        self._lock = nullcontext() if plan.exchange is None else PatientLock(plan.exchange, on_tick)

    def work(self) -> None:
        """Collects one rollout and learns from it, in one update or several."""
        self.pull()
        self.collect()
        for number, columns in enumerate(self._columns):
            if number:
                self.pull()
            self._update(columns)

    def _update(self, columns: slice) -> None:
        plan, flat = self.plan, self.model.flat
        wanted, steps = self.wants_statistics(), self.counters.steps
        objective = self._objective.at(schedule_left(self._optimizer_config, steps, plan.config.run.steps))
        flat.zero_gradients()
        statistics = differentiate(
            self.model.network, plan.spaces.actions, self.collector.rollout, columns, objective, wanted
        )
        gradient = flat.wide_gradients()
        norm = clip_by_global_norm(gradient, self._optimizer_config.max_grad_norm)
        rate = learning_rate_at(self._optimizer_config, steps, plan.config.run.steps)
        with self._lock:
            self.staleness.append(self.counters.updates - self.updates_at_pull)
            self._optimizer.apply(gradient, rate)
            self.row[1] += 1
        if wanted:
            self.tell({**statistics, "grad_norm": norm, "learning_rate": rate})

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        if self.plan.optimizer_state is None:
            state["optimizer"] = {name: tensor.clone() for name, tensor in self._optimizer_state.items()}
        return state


def run(context: RunContext) -> None:
    """Trains until the run says stop; `AgentEntry.run` of `a3c`."""
    config = context.config.agent
    assert isinstance(config, A3CConfig)
    update_columns(config, context.config.env.num_envs)

    def exchange(model: Model) -> Lock | None:
        is_needed = config.locking == "apply" and not context.serial
        return process_context(context.config.run.start_method).Lock() if is_needed else None

    train(context, A3CWorker, n_steps=config.n_steps, update_samples=config.update_samples, exchange=exchange)
