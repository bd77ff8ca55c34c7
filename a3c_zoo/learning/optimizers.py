"""The apply stage: flat parameters, optimizers whose state may be shared, schedules, exact counters.

All parameters of a network lie in one contiguous float32 tensor and its gradients in another; the module's own
tensors are views into them. So pulling is one copy, clipping one norm and applying one call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor

from a3c_zoo.errors import DivergedError

if TYPE_CHECKING:
    from a3c_zoo.config import OptimizerConfig


def clip_by_global_norm(gradient: Tensor, max_norm: float | None) -> float:
    """Scales `gradient` `[P]` in place to an L2 norm of at most `max_norm`; returns the norm before.

    Raises:
        DivergedError: the gradient is not finite; applying it would destroy the parameters of every worker.
    """
    norm = float(torch.linalg.vector_norm(gradient))
    if not np.isfinite(norm):
        raise DivergedError("the gradient is not finite: training diverged. Try a smaller optimizer.learning_rate")
    if max_norm is not None and norm > max_norm:
        gradient.mul_(max_norm / (norm + 1e-6))
    return norm


_SMALLEST = 5e-324  # a denormal


@contextmanager
def without_denormals() -> Iterator[None]:
    """Numbers below 1.2e-38 become 0 in this thread.

    First moments of weights without a gradient (what they weigh is never positive behind its ReLU) fall below that
    within 900 updates and stay there, and a CPU works on such numbers more than ten times slower than on others. Only
    round an update: an environment computes in the same thread, and nothing changes for it.
    """
    before = _SMALLEST * 1.0 == 0.0  # torch can set this mode and not tell it
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


class Optimizer(Protocol):
    """Applies a flat gradient to the flat parameters."""

    def apply(self, gradient: Tensor, learning_rate: float) -> None:
        """Updates the parameters `[P]` in place from a gradient `[P]`."""
        ...


class Adam:
    """torch's own fused Adam kernel on the flat tensor, with state tensors that it is given.

    With the state in shared memory this is the "shared Adam" of the A3C literature. (Kingma & Ba 2015,
    arXiv:1412.6980, algorithm 1.) The kernel is called as `torch.optim.Adam(fused=True)` calls it; to make one of
    those imports torch's compiler, 1.7 s in each worker.
    """

    def __init__(self, parameters: Tensor, state: dict[str, Tensor], config: OptimizerConfig) -> None:
        self._parameters, self._state, self._config = parameters, state, config

    @torch.no_grad()
    def apply(self, gradient: Tensor, learning_rate: float) -> None:
        """One step, in place."""
        state, config = self._state, self._config
        state["step"].add_(1)
        torch._fused_adam_(
            [self._parameters],
            [gradient],
            [state["exp_avg"]],
            [state["exp_avg_sq"]],
            [],
            [state["step"]],
            lr=learning_rate,
            beta1=config.beta1,
            beta2=config.beta2,
            weight_decay=0.0,
            eps=config.epsilon,
            amsgrad=False,
            maximize=False,
        )


class RMSprop:
    """RMSprop with ε under the root, as in A3C (Mnih et al. 2016, eq. S2–S3) and TensorFlow, in place.

    g ← α·g + (1 − α)·Δθ²;  θ ← θ − η·Δθ / √(g + ε)
    """

    def __init__(self, parameters: Tensor, state: dict[str, Tensor], config: OptimizerConfig) -> None:
        self._parameters = parameters
        self._square_avg = state["square_avg"]
        self._alpha = config.alpha
        self._epsilon = config.epsilon
        self._root = torch.empty_like(parameters)

    @torch.no_grad()
    def apply(self, gradient: Tensor, learning_rate: float) -> None:
        self._square_avg.mul_(self._alpha).addcmul_(gradient, gradient, value=1 - self._alpha)
        torch.add(self._square_avg, self._epsilon, out=self._root).sqrt_()
        self._parameters.addcdiv_(gradient, self._root, value=-learning_rate)


def optimizer_state(config: OptimizerConfig, parameters: Tensor) -> dict[str, Tensor]:
    """Returns the state tensors of an optimizer that has done no step yet, made up front so they can be shared."""
    if config.name == "adam":
        return {
            "step": torch.zeros((), dtype=torch.float32),
            "exp_avg": torch.zeros_like(parameters),
            "exp_avg_sq": torch.zeros_like(parameters),
        }
    return {"square_avg": torch.zeros_like(parameters)}


def build_optimizer(config: OptimizerConfig, parameters: Tensor, state: dict[str, Tensor]) -> Optimizer:
    """Returns the optimizer that `config` names, over the given parameters `[P]` and state tensors."""
    kind = Adam if config.name == "adam" else RMSprop
    return kind(parameters, state, config)


def schedule_left(config: OptimizerConfig, steps: int, budget_steps: int | None) -> float:
    """What is left of a linear schedule after `steps` agent steps: 1 at the start, 0 from its end on.

    Its end is at `schedule_steps`, else at the run's budget; without either nothing falls.
    """
    horizon = config.schedule_steps or budget_steps
    return 1.0 if horizon is None else max(0.0, 1.0 - steps / horizon)


def learning_rate_at(config: OptimizerConfig, steps: int, budget_steps: int | None) -> float:
    """The learning rate after `steps` agent steps.

    A linear schedule falls from `learning_rate` to `final_learning_rate` and stays there; see `schedule_left`.
    """
    if config.schedule == "constant":
        return config.learning_rate
    left = schedule_left(config, steps, budget_steps)
    return config.final_learning_rate + (config.learning_rate - config.final_learning_rate) * left
