"""Workers that differentiate and apply by themselves, on shared parameters, without a learner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from a3c_zoo.agents.apply import Applier
from a3c_zoo.agents.configs import LossConfig
from a3c_zoo.agents.context import WorkerContext, fill
from a3c_zoo.agents.training import objective_of
from a3c_zoo.agents.worker import RolloutWorker
from a3c_zoo.learning.objective import differentiate
from a3c_zoo.learning.optimizers import optimizer_state
from a3c_zoo.processes.lock import PatientLock


class HogwildWorker(RolloutWorker):
    """A worker that can update the shared parameters; agents say when, and from which part of its rollout.

    `plan.exchange` is a lock under which updates are applied, or None for none.
    """

    def __init__(
        self,
        plan: WorkerContext,
        rank: int,
        state: dict[str, Any] | None,
        on_tick: Callable[[], None],
        cut_at_end: bool = False,
    ) -> None:
        agent, optimizer = plan.config.agent, plan.config.optimizer
        assert isinstance(agent, LossConfig)
        assert optimizer is not None
        super().__init__(plan, rank, state, on_tick, agent.n_steps, cut_at_end)
        self._objective = objective_of(agent)
        self._optimizer_state = plan.optimizer_state or optimizer_state(optimizer, plan.parameters)
        if state and plan.optimizer_state is None:
            fill(self._optimizer_state, state.get("optimizer", {}))
        lock = None if plan.exchange is None else PatientLock(plan.exchange, on_tick)
        self._applier = Applier(self, self._optimizer_state, lock)

    def update(self, columns: slice) -> None:
        """One update from the environments `columns` of the rollout."""
        model, wanted = self.model, self.wants_statistics()
        model.flat.zero_gradients()
        statistics = differentiate(
            model.network,
            self.plan.spaces.actions,
            self.collector.rollout,
            columns,
            self.at_schedule(self._objective),
            wanted,
        )
        applied = self._applier.apply(model.flat.wide_gradients(), (self.updates_at_pull,))
        if wanted:
            self.tell(statistics | applied)

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        if self.plan.optimizer_state is None:
            state["optimizer"] = {name: tensor.clone() for name, tensor in self._optimizer_state.items()}
        return state
