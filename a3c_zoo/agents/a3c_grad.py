"""Gradient parallelism: workers collect and differentiate, the learner adds gradients up and applies them.

    workers: collect ──▶ differentiate ──gradients──▶ learner: apply

A gradient crosses as one flat tensor `[P]`, float32, clipped. The learner adds up `agent.gradients_per_update` of them,
clips the sum, and applies it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from a3c_zoo.agents.configs import A3CGradConfig
from a3c_zoo.agents.context import WorkerContext, misfit
from a3c_zoo.agents.learner import Learner, WindowWorker, check_handover, make_ring, rows_in_memory
from a3c_zoo.agents.training import objective_of, train
from a3c_zoo.learning.model import Model
from a3c_zoo.learning.objective import descend, forward
from a3c_zoo.learning.optimizers import clip_by_global_norm
from a3c_zoo.processes.crew import Worker
from a3c_zoo.processes.ring import Layout
from a3c_zoo.records import RunContext


class GradientWorker(WindowWorker):
    """Collects, differentiates, and hands over the gradient."""

    def __init__(
        self, plan: WorkerContext, rank: int, state: dict[str, Any] | None, on_tick: Callable[[], None]
    ) -> None:
        super().__init__(plan, rank, state, on_tick)
        assert isinstance(plan.config.agent, A3CGradConfig)
        assert plan.config.optimizer is not None
        self._objective, self._max_norm = objective_of(plan.config.agent), plan.config.optimizer.max_grad_norm

    def hand_over(self) -> None:
        """Clips the gradient of the complete windows and puts it into the ring."""
        plan, windows, rows = self.plan, self.windows, self.windows.num_steps
        wanted = self.wants_statistics()
        self.model.flat.zero_gradients()
        logits, values, value = forward(self.model.network, windows.samples, slice(None))
        known = values.detach().numpy().reshape(-1, windows.valid.shape[1])
        returns = windows.returns(windows.values_ahead(value, known))
        statistics = descend(
            plan.spaces.actions,
            logits[: windows.valid.size],
            values,
            windows.rollout.actions[:rows].flatten(0, 1),
            returns - known[:rows],
            returns,
            windows.valid,
            self.at_schedule(self._objective),
            wanted,
        )
        gradient = self.model.flat.wide_gradients()
        clip_by_global_norm(gradient, self._max_norm)
        slot = self.ring.claim(self.rank, self.on_tick)
        slot["gradient"].copy_(gradient)
        slot["version"].fill_(self.updates_at_pull)
        self.ring.commit(self.rank)
        if wanted:
            self.tell(statistics)


class GradientLearner(Learner):
    """Adds up the workers' gradients and applies the sum."""

    def __init__(
        self, plan: WorkerContext, rank: int, state: dict[str, Any] | None, on_tick: Callable[[], None]
    ) -> None:
        super().__init__(plan, rank, state, on_tick)
        assert isinstance(plan.config.agent, A3CGradConfig)
        self._number = plan.config.agent.gradients_per_update
        self._sum = torch.zeros_like(plan.parameters)
        if state:
            try:
                self._sum.copy_(state["sum"])
            except (KeyError, RuntimeError) as error:
                raise misfit(error) from error

    def take(self, slot: dict[str, Tensor]) -> bool:
        self._sum.add_(slot["gradient"])
        return len(self.versions) == self._number

    def learn(self) -> None:
        wanted = self.wants_statistics()
        applied = self.apply(self._sum)
        self._sum.zero_()
        if wanted:
            self.tell(applied)

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"sum": self._sum.clone()}


def build(plan: WorkerContext, rank: int, state: dict[str, Any] | None, on_tick: Callable[[], None]) -> Worker:
    """A worker, or the learner, whose rank is the last."""
    return (GradientLearner if rank == plan.config.run.workers else GradientWorker)(plan, rank, state, on_tick)


def layout(model: Model) -> Layout:
    """What one slot of the ring holds."""
    return {"gradient": (tuple(model.flat.initial.shape), torch.float32), "version": ((), torch.int64)}


def run(context: RunContext) -> None:
    """Trains until the run says stop; `AgentEntry.run` of `a3c-grad`."""
    config, agent = context.config, context.config.agent
    assert isinstance(agent, A3CGradConfig)
    check_handover(config)

    def exchange(model: Model) -> dict[str, Tensor]:
        return make_ring(config, agent.slots, layout(model), 1, not context.serial)

    samples = agent.n_steps * config.env.num_envs
    train(
        context,
        build,
        n_steps=rows_in_memory(agent),
        update_samples=samples,
        exchange=exchange,
        has_learner=True,
    )
