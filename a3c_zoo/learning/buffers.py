"""What a network keeps beside its parameters, such as BatchNorm's running statistics: shared and saved with them.

Buffers are not trained. A pass in training mode changes them in place. A worker adds its changes to the
shared buffers when it hands over or applies a gradient, and copies the shared ones with each pull. Nothing is
locked, as with parameters, so a change may be lost when two workers add at the same moment.

The running statistics of BatchNorm and InstanceNorm are moving averages: a pass sets r to (1 − m)·r + m·v,
where v is that of the batch. Such a change is no sum, since it depends on r: with many workers the sum would
be of another sign than r, or grow without limit. So what the batches of a worker add is mixed with the shared
statistics, see `Buffers.push`.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from a3c_zoo.errors import ConfigError, RunDirectoryError
from a3c_zoo.store.saved_state import fitting


class Buffers:
    """The buffers of one network that its `state_dict` has.

    Args:
        module: its buffers are moved to the device. device: "cpu" or "cuda".

    Attributes:
        initial: the buffers that the module had at first, by name, in the CPU's memory.
    """

    def __init__(self, module: nn.Module, device: str) -> None:
        self._module = module
        self.initial = {name: buffer.to("cpu", copy=True) for name, buffer in buffers_of(module).items()}
        self._pulled = {name: buffer.clone() for name, buffer in self.initial.items()}
        self._norms = {
            f"{name}.".removeprefix("."): norm
            for name, norm in module.named_modules()
            if isinstance(norm, (_BatchNorm, _InstanceNorm)) and norm.track_running_stats
        }
        for norm in self._norms.values():
            if isinstance(norm, _InstanceNorm):
                norm.register_forward_hook(_count_pass)
        for buffer in module.buffers():
            buffer.data = buffer.data.to(device)

    def pull(self, shared: Mapping[str, Tensor]) -> None:
        """Copies the shared buffers into the network."""
        for name, pulled in self._pulled.items():
            pulled.copy_(shared[name])
            self._module.get_buffer(name).copy_(pulled)

    def push(self, shared: Mapping[str, Tensor]) -> None:
        """Adds to the shared buffers what the network has changed since the last pull or push; copies changed flags.

        A pass changes a running statistic s to (1 − m)·s + m·x, where m is the momentum and x the batch's
        statistic. After k passes it is now = w·pulled + u, where w = (1 − m)^k, and u is the part of these
        batches. The same passes change the shared statistic to w·shared + u = now + w·(shared − pulled).
        """
        left = self._left()
        for name, pulled in self._pulled.items():
            now = self._module.get_buffer(name).to("cpu")
            if now.dtype == torch.bool:
                changed = now
            elif name in left:
                changed = now + left[name] * (shared[name] - pulled)
            else:
                changed = shared[name] + (now - pulled)
            # Equal values are left alone: −inf − (−inf) is no number.
            shared[name].copy_(torch.where(now == pulled, shared[name], changed))
            pulled.copy_(now)

    def _left(self) -> dict[str, float]:
        """The part of each running statistic that the passes since the last pull or push have left, by name."""
        left: dict[str, float] = {}
        for prefix, norm in self._norms.items():
            assert norm.num_batches_tracked is not None
            before, after = (
                float(self._pulled[f"{prefix}num_batches_tracked"]),
                float(norm.num_batches_tracked),
            )
            if norm.momentum is None:
                part = before / max(after, 1)
            else:
                part = (1 - norm.momentum) ** (after - before)
            left |= {f"{prefix}{name}": part for name in ("running_mean", "running_var")}
        return left

    def check_precision(self, dtype: torch.dtype, network: str) -> None:
        """Raises ConfigError for running statistics in float32 beside parameters in bfloat16, which torch refuses."""
        wide = [name for name, buffer in self.initial.items() if buffer.dtype == torch.float32]
        if wide and dtype != torch.float32:
            raise ConfigError(
                f"network '{network}' keeps {wide[0]}, which needs parameters in float32: -o network.precision=float32"
            )


def _count_pass(norm: nn.Module, inputs: object, outputs: object) -> None:
    """What BatchNorm does by itself: counts the passes that change the running statistics."""
    if norm.training:
        norm.get_buffer("num_batches_tracked").add_(1)


def buffers_of(module: nn.Module) -> dict[str, Tensor]:
    """The buffers of a module that its `state_dict` has, by name."""
    saved = module.state_dict()
    return {name: buffer for name, buffer in module.named_buffers() if name in saved}


def check_saved(saved: Mapping[str, Tensor], module: nn.Module) -> None:
    """Raises RunDirectoryError if the buffers of a checkpoint are not those of this network."""
    wanted = buffers_of(module)
    if saved.keys() != wanted.keys():
        there, here = (", ".join(names)[:200] or "none" for names in (saved, wanted))
        raise RunDirectoryError(
            f"the checkpoint is of another network: its buffers are {there} there, {here} here"
        )
    for name, buffer in wanted.items():
        fitting(saved[name], buffer, f"agent.model.buffers.{name}"[:200])
