"""The apply stage: a gradient in, the shared parameters changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import Tensor

from a3c_zoo.agents.context import fill
from a3c_zoo.agents.worker import Member
from a3c_zoo.learning.optimizers import clip_by_global_norm, learning_rate_at, optimizer_class, without_denormals


class Applier:
    """Applies gradients to the shared parameters on behalf of one worker or learner.

    Args:
        member: its updates are counted, and its staleness is noted.
        state: a state dictionary of the member with the moments to go on from, or None.
        lock: held while a gradient is applied; None for no lock.
    """

    def __init__(
        self,
        member: Member,
        state: Mapping[str, Any] | None,
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        context, self._config = member.context, member.optimizer_config
        optimizer, moments = optimizer_class(context.optimizer), context.moments
        self._own_moments: dict[str, Tensor] | None = None
        if moments is None:
            self._own_moments = moments = optimizer.moments(context.parameters, self._config)
            if state:
                fill(moments, state.get("optimizer", {}))
        self._optimizer = optimizer(context.parameters, moments, self._config)
        self._member, self._budget, self._lock = member, context.config.run.steps, lock or nullcontext()

    def apply(self, gradient: Tensor, versions: Iterable[int]) -> dict[str, float]:
        """Clips a gradient `[P]` in place and applies it at the scheduled learning rate.

        Args:
            versions: for each part of the gradient, the count of updates when its parameters were pulled.

        Returns:
            Metrics: the gradient's norm before clipping, and the learning rate.
        """
        member, config = self._member, self._config
        norm = clip_by_global_norm(gradient, config.max_grad_norm)
        rate = learning_rate_at(config, member.counters.steps, self._budget)
        with self._lock:
            updates = member.counters.updates
            member.staleness.extend(updates - version for version in versions)
            with without_denormals():
                self._optimizer.apply(gradient, rate)
            member.row[1] += 1
        return {"grad_norm": norm, "learning_rate": rate}

    def state_dict(self) -> dict[str, Any]:
        """A copy of the member's own moments, under `optimizer`; empty where all workers share theirs."""
        if self._own_moments is None:
            return {}
        return {"optimizer": {name: tensor.clone() for name, tensor in self._own_moments.items()}}
