"""Workers that differentiate and apply by themselves, on shared parameters, without a learner."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from a3c_zoo.agents.configs import LossConfig
from a3c_zoo.agents.plan import Plan
from a3c_zoo.agents.training import objective_of
from a3c_zoo.agents.worker import RolloutWorker
from a3c_zoo.learning.objective import differentiate
from a3c_zoo.learning.shared import (
    build_optimizer,
    clip_by_global_norm,
    learning_rate_at,
    optimizer_state,
    schedule_left,
)
from a3c_zoo.processes.lock import PatientLock


class HogwildWorker(RolloutWorker):
    """A worker that can update the shared parameters; agents say when, and from which part of its rollout.

    `plan.exchange` is a lock under which updates are applied, or None for none.
    """

    def __init__(
        self,
        plan: Plan,
        rank: int,
        state: dict[str, Any] | None,
        on_tick: Callable[[], None],
        cut_at_end: bool = False,
    ) -> None:
        agent, optimizer = plan.config.agent, plan.config.optimizer
        assert isinstance(agent, LossConfig)
        assert optimizer is not None
        super().__init__(plan, rank, state, on_tick, agent.n_steps, cut_at_end)
        self._objective, self._optimizer_config = objective_of(agent), optimizer
        self._optimizer_state = plan.optimizer_state or (
            state["optimizer"] if state else optimizer_state(optimizer, plan.parameters)
        )
        self._optimizer = build_optimizer(optimizer, plan.parameters, self._optimizer_state)
        self._lock = nullcontext() if plan.exchange is None else PatientLock(plan.exchange, on_tick)

    def update(self, columns: slice) -> None:
        """One update from the environments `columns` of the rollout."""
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
