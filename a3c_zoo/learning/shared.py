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
from torch import Tensor, nn

from a3c_zoo.errors import DivergedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from a3c_zoo.config import OptimizerConfig


class FlatParameters:
    """A module's parameters and gradients as views into two flat tensors.

    A module in bfloat16 keeps a bfloat16 copy of the parameters, made anew by every pull, rather than casting in every
    call (autocast): for small networks and batches that costs more than it gives.

    Args:
        module: whose parameters they become. dtype: float32 or bfloat16, in which it computes. device: where.

    Attributes:
        initial: the parameters as the module was made, `[P]`, float32, in the CPU's memory.
        values: all parameters, `[P]`, dtype, on the device. gradients: their gradients, likewise.

    The module's `.grad` tensors are never replaced: call `zero_gradients`, not `module.zero_grad`, which sets them
    to None since torch 2.0 and would leave `gradients` stale in silence.
    """

    def __init__(self, module: nn.Module, dtype: torch.dtype = torch.float32, device: str = "cpu") -> None:
        parameters = list(module.parameters())
        self.initial = torch.cat([p.detach().reshape(-1).float() for p in parameters])
        self.values = self.initial.to(device, dtype, copy=True)
        self.gradients = torch.zeros_like(self.values)
        is_same = self.gradients.dtype == self.initial.dtype and self.gradients.device == self.initial.device
        self._wide = self.gradients if is_same else torch.zeros_like(self.initial)
        self._parameters = parameters
        self.attach(self.values)
        for p, gradient in zip(parameters, torch.split(self.gradients, [p.numel() for p in parameters]), strict=True):
            p.grad = gradient.view(p.shape)

    def attach(self, values: Tensor) -> None:
        """Makes the module's parameters views of `values` `[P]`: of the shared ones, it then sees every update."""
        self.values = values
        for p, part in zip(self._parameters, torch.split(values, [p.numel() for p in self._parameters]), strict=True):
            p.data = part.view(p.shape)

    def pull(self, shared: Tensor) -> None:
        """Copies the shared parameters `[P]` into the module."""
        self.values.copy_(shared)

    def wide_gradients(self) -> Tensor:
        """The gradients `[P]` as float32 on the CPU, where they are clipped and applied: always the same tensor."""
        if self._wide is not self.gradients:
            self._wide.copy_(self.gradients)
        return self._wide

    def zero_gradients(self) -> None:
        """Sets every gradient to 0, in place."""
        self.gradients.zero_()


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


class Counters:
    """Exact counters without a lock: each worker writes its own row and reads the sum of all.

    Attributes:
        tensor: `[workers, 4]`, int64, in shared memory where processes share it. Columns: agent steps, updates,
            ticks (environment steps and looks while waiting, by which a hung worker is told from a slow one), and
            finished episodes.
    """

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self._rows: NDArray[np.int64] = tensor.numpy()

    @staticmethod
    def zeros(num_workers: int) -> Tensor:
        """The tensor of workers that have done nothing."""
        return torch.zeros((num_workers, 4), dtype=torch.int64)

    def row(self, worker: int) -> NDArray[np.int64]:
        """The row `[4]` that this worker alone writes."""
        row: NDArray[np.int64] = self._rows[worker]
        return row

    @property
    def steps(self) -> int:
        """Agent steps of all workers."""
        return int(self._rows[:, 0].sum())

    @property
    def updates(self) -> int:
        """Updates of all workers."""
        return int(self._rows[:, 1].sum())

    @property
    def ticks(self) -> NDArray[np.int64]:
        """Ticks of each worker, `[workers]`."""
        return self._rows[:, 2].copy()

    @property
    def episodes(self) -> int:
        """Finished episodes of all workers."""
        return int(self._rows[:, 3].sum())


def share(*tensors: Tensor) -> None:
    """Moves tensors to shared memory, in place. Their files are unlinked at once: nothing can be left behind."""
    for tensor in tensors:
        tensor.share_memory_()  # type: ignore[no-untyped-call]
