"""The apply stage: a gradient in, the shared parameters changed."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext

from torch import Tensor

from a3c_zoo.agents.worker import Member
from a3c_zoo.learning.optimizers import build_optimizer, clip_by_global_norm, learning_rate_at, without_denormals


class Applier:
    """Applies gradients to the shared parameters, in the name of one worker or learner.

    Args:
        member: whose updates are counted, and whose staleness is noted. state: the optimizer's.
        lock: held while a gradient is applied.
    """

    def __init__(
        self, member: Member, state: dict[str, Tensor], lock: AbstractContextManager[object] | None = None
    ) -> None:
        assert member.plan.config.optimizer is not None
        self._member, self._config = member, member.plan.config.optimizer
        self._optimizer = build_optimizer(self._config, member.plan.parameters, state)
        self._lock = lock or nullcontext()

    def apply(self, gradient: Tensor, versions: Iterable[int]) -> dict[str, float]:
        """Clips a gradient `[P]` in place and applies it, at the rate that the schedule has come to.

        Args:
            versions: how many updates the parameters had seen with which each part of the gradient was made.

        Returns:
            Its norm before clipping, and the rate.
        """
        member, config = self._member, self._config
        norm = clip_by_global_norm(gradient, config.max_grad_norm)
        rate = learning_rate_at(config, member.counters.steps, member.plan.config.run.steps)
        with self._lock:
            updates = member.counters.updates
            member.staleness.extend(updates - version for version in versions)
            with without_denormals():
                self._optimizer.apply(gradient, rate)
            member.row[1] += 1
        return {"grad_norm": norm, "learning_rate": rate}
