"""Gradient parallelism: workers collect and differentiate, the learner adds gradients up and applies them.

    workers: collect ──▶ differentiate ──gradients──▶ learner: apply

A gradient crosses as one flat tensor `[P]`, float32, clipped. The learner adds up
`agent.gradients_per_update` of them, clips the sum, and applies it.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from a3c_zoo.agents.configs import A3CGradConfig
from a3c_zoo.agents.context import OnTick, State, WorkerContext
from a3c_zoo.agents.learner import HandoverWorker, Learner, make_ring
from a3c_zoo.agents.with_workers import agent_config, train
from a3c_zoo.learning.model import Model
from a3c_zoo.learning.objective import Loss, actor_critic_loss, descend, forward
from a3c_zoo.learning.optimizers import clip_by_global_norm
from a3c_zoo.processes.ring import Layout
from a3c_zoo.records import RunContext
from a3c_zoo.store.saved_state import fitting, loading


def hand_over_gradient(worker: HandoverWorker) -> None:
    """Differentiates the complete windows, and fills one slot with the clipped gradient, unless it is not finite."""
    windows = worker.windows
    rows = worker.windows.num_steps
    model = worker.model
    wanted = worker.wants_metrics()
    model.flat.zero_gradients()
    logits, values, value = forward(model.network, windows.samples, slice(None))
    known = values.detach().numpy().reshape(-1, windows.valid.shape[1])
    returns = windows.returns(windows.values_ahead(value, known))
    metrics = descend(
        worker.context.spaces.actions,
        logits[: windows.valid.size],
        values,
        windows.rollout.actions[:rows].flatten(0, 1),
        returns - known[:rows],
        returns,
        windows.valid,
        worker.objective(),
        wanted,
        masks=windows.masks,
    )
    gradient = model.flat.wide_gradients()
    if not worker.accepts(clip_by_global_norm(gradient, worker.optimizer_config.max_grad_norm)):
        return
    model.buffers.push(worker.context.buffers)
    slot = worker.claim()
    slot["gradient"].copy_(gradient)
    worker.commit(slot)
    if wanted:
        worker.tell(metrics)


class GradientLearner(Learner):
    """Adds up the workers' gradients and applies the sum."""

    def __init__(self, context: WorkerContext, rank: int, state: State | None, on_tick: OnTick) -> None:
        super().__init__(context, rank, state, on_tick)
        assert isinstance(self.agent, A3CGradConfig)
        self._number = self.agent.gradients_per_update
        self._sum = torch.zeros_like(context.parameters)
        if state:
            with loading():
                self._sum.copy_(fitting(state["sum"], self._sum, "sum"))

    def take(self, slot: dict[str, Tensor]) -> bool:
        if len(self.versions) == 1:
            self._sum.zero_()
        self._sum.add_(slot["gradient"])
        return len(self.versions) == self._number

    def differentiate(self, want_metrics: bool) -> tuple[Tensor, dict[str, float]]:
        """Returns the sum; the workers have differentiated."""
        return self._sum, {}

    def state_dict(self) -> State:
        if self.versions:
            taken = self._sum.clone()
        else:  # the last sum has been applied
            taken = torch.zeros_like(self._sum)
        return super().state_dict() | {"sum": taken}


def layout(model: Model) -> Layout:
    """What one slot of the ring holds."""
    return {"gradient": (tuple(model.flat.initial.shape), torch.float32), "version": ((), torch.int64)}


def run_a3c_grad(context: RunContext, loss: Loss = actor_critic_loss) -> None:
    """Trains until the run says stop; `AgentEntry.run` of `a3c-grad`.

    Args:
        loss: computes the terms of the loss.
    """
    config = context.config
    agent = agent_config(context, A3CGradConfig)

    def exchange(model: Model) -> dict[str, Tensor]:
        return make_ring(config.run.workers, agent.slots, layout(model), 1, not context.serial)

    train(context, partial(HandoverWorker, hand_over_gradient), GradientLearner, exchange, loss)
