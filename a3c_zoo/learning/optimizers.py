"""The apply stage: optimizers over flat parameters, clipping, and schedules.

An optimizer works on one tensor of parameters `[P]` and one gradient `[P]`. Its moments (the tensors that it
keeps from update to update) are made up front and handed to it, so that all workers can share them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from a3c_zoo.config import OptimizerConfig
from a3c_zoo.errors import PluginError
from a3c_zoo.plugins.entries import OptimizerEntry, building, load_factory


class Optimizer(Protocol):
    """The interface of the classes that `OptimizerEntry.factory` names.

    Args:
        parameters: `[P]`, float32; updated in place. In a run they are in shared memory.
        moments: the tensors that `moments` returned, new or from a checkpoint; the optimizer may only change
            them in place. They are shared by all workers, unless `optimizer.shared_statistics` is false.
        config: the `optimizer` section.
    """

    def __init__(
        self, parameters: Tensor, moments: Mapping[str, Tensor], config: OptimizerConfig
    ) -> None: ...

    @staticmethod
    def moments(parameters: Tensor, config: OptimizerConfig) -> dict[str, Tensor]:
        """Returns the moments before the first update, by name; a checkpoint keeps them under these names."""
        ...

    def apply(self, gradient: Tensor, learning_rate: float) -> None:
        """Makes one update in place from a gradient `[P]`, float32, which is left as it is."""
        ...


def optimizer_class(entry: OptimizerEntry) -> type[Optimizer]:
    """Imports the optimizer of an entry."""
    return cast("type[Optimizer]", load_factory(f"optimizer '{entry.name}'", entry.factory))


def new_moments(entry: OptimizerEntry, parameters: Tensor, config: OptimizerConfig) -> dict[str, Tensor]:
    """Returns an optimizer's moments before the first update. Raises PluginError for anything else."""
    title = f"optimizer '{entry.name}'"
    kind = optimizer_class(entry)
    with building(title):
        moments: Any = kind.moments(parameters, config)
    rule = f"{title}: moments must return a dict of tensors by name"
    if not isinstance(moments, dict):
        raise PluginError(f"{rule}, not a {type(moments).__name__}")
    for name, moment in moments.items():
        if not (isinstance(name, str) and isinstance(moment, Tensor)):
            raise PluginError(f"{rule}; {name!r} is of type {type(moment).__name__}")
    return moments


def new_optimizer(
    entry: OptimizerEntry, parameters: Tensor, moments: Mapping[str, Tensor], config: OptimizerConfig
) -> Optimizer:
    """Makes the optimizer of an entry. Raises PluginError if it fails, or if its `apply` cannot be called."""
    title = f"optimizer '{entry.name}'"
    kind = optimizer_class(entry)
    with building(title):
        made = kind(parameters, moments, config)
    try:
        inspect.signature(made.apply).bind(parameters, config.learning_rate)
    except (AttributeError, TypeError) as error:
        raise PluginError(f"{title} needs a method apply(gradient, learning_rate): {error}") from error
    except ValueError:
        pass  # compiled code may have no signature
    return made


class Adam:
    """torch's fused Adam kernel on the flat tensors (Kingma & Ba 2015, arXiv:1412.6980, algorithm 1).

    With shared moments this is the "shared Adam" of the A3C literature. The kernel is called as
    `torch.optim.Adam(fused=True)` calls it. That class is not used because making one imports torch's
    compiler, which takes 1.7 s in each worker.
    """

    def __init__(self, parameters: Tensor, moments: Mapping[str, Tensor], config: OptimizerConfig) -> None:
        self._parameters = parameters
        self._moments = moments
        self._config = config

    @staticmethod
    def moments(parameters: Tensor, config: OptimizerConfig) -> dict[str, Tensor]:
        return {
            "step": torch.zeros((), dtype=torch.float32),
            "exp_avg": torch.zeros_like(parameters),
            "exp_avg_sq": torch.zeros_like(parameters),
        }

    @torch.no_grad()
    def apply(self, gradient: Tensor, learning_rate: float) -> None:
        """Makes one update of the parameters and moments in place from a gradient `[P]`, float32."""
        moments = self._moments
        config = self._config
        moments["step"].add_(1)
        torch._fused_adam_(
            [self._parameters],
            [gradient],
            [moments["exp_avg"]],
            [moments["exp_avg_sq"]],
            [],
            [moments["step"]],
            lr=learning_rate,
            beta1=config.beta1,
            beta2=config.beta2,
            weight_decay=0.0,
            eps=config.epsilon,
            amsgrad=False,
            maximize=False,
        )


class RMSprop:
    """RMSprop with ε under the root, as in A3C (Mnih et al. 2016, eq. S2–S3) and TensorFlow.

    g ← α·g + (1 − α)·Δθ²;  θ ← θ − η·Δθ / √(g + ε)

    torch.optim.RMSprop is not used because it adds ε outside the root.
    """

    def __init__(self, parameters: Tensor, moments: Mapping[str, Tensor], config: OptimizerConfig) -> None:
        self._parameters = parameters
        self._square_avg = moments["square_avg"]
        self._alpha = config.alpha
        self._epsilon = config.epsilon
        self._root = torch.empty_like(parameters)

    @staticmethod
    def moments(parameters: Tensor, config: OptimizerConfig) -> dict[str, Tensor]:
        return {"square_avg": torch.zeros_like(parameters)}

    @torch.no_grad()
    def apply(self, gradient: Tensor, learning_rate: float) -> None:
        self._square_avg.mul_(self._alpha).addcmul_(gradient, gradient, value=1 - self._alpha)
        torch.add(self._square_avg, self._epsilon, out=self._root).sqrt_()
        self._parameters.addcdiv_(gradient, self._root, value=-learning_rate)


def clip_by_global_norm(gradient: Tensor, max_norm: float | None) -> float:
    """Scales `gradient` `[P]` in place to an L2 norm of at most `max_norm`; returns the norm before.

    If the norm is not finite, the gradient must not be applied: it would destroy the parameters of every
    worker.
    """
    norm = float(torch.linalg.vector_norm(gradient))
    if max_norm is not None and norm > max_norm:
        gradient.mul_(max_norm / (norm + 1e-6))
    return norm


_SMALLEST = 5e-324  # a denormal


@contextmanager
def without_denormals() -> Iterator[None]:
    """Within the context, float32 results below 1.2e-38 (denormal numbers) become 0 in this thread.

    A weight behind a ReLU that is never active has no gradient. Its first moment falls below 1.2e-38 within
    900 updates and stays there, and a CPU computes with such numbers more than ten times slower. The mode is
    set around an update only, because environments compute in the same thread and must not be affected.
    """
    before = _SMALLEST * 1.0 == 0.0  # torch can set this mode, but cannot tell it
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def schedule_left(config: OptimizerConfig, steps: int, budget_steps: int | None) -> float:
    """The fraction of a linear schedule that is left after `steps` agent steps: 1 at the start, 0 at its end and after.

    The schedule ends at `schedule_steps`, by default at the run's budget. Without either it stays at 1.
    """
    horizon = config.schedule_steps or budget_steps
    if horizon is None:
        return 1.0
    return max(0.0, 1.0 - steps / horizon)


def learning_rate_at(config: OptimizerConfig, steps: int, budget_steps: int | None) -> float:
    """The learning rate after `steps` agent steps.

    A linear schedule falls from `learning_rate` to `final_learning_rate` and stays there (`schedule_left`).
    """
    if config.schedule == "constant":
        return config.learning_rate
    left = schedule_left(config, steps, budget_steps)
    return config.final_learning_rate + (config.learning_rate - config.final_learning_rate) * left
