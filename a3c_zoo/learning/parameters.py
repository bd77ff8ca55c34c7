"""All parameters of a network in one flat tensor, and tensors in shared memory."""

from __future__ import annotations

import errno
import os

import torch
from torch import Tensor, nn

from a3c_zoo.errors import ConfigError


class FlatParameters:
    """A module's parameters and gradients as views of two flat tensors.

    A module in bfloat16 has a bfloat16 copy of the parameters, which every pull renews. torch's autocast
    would cast in every call instead, which costs more than it saves for small networks and batches.

    Call `zero_gradients`, not `module.zero_grad`: since torch 2.0 the latter sets the `.grad` tensors to
    None, and `gradients` would silently go stale.

    Args:
        module: its parameters are replaced by views. dtype: float32 or bfloat16. device: "cpu" or "cuda".

    Attributes:
        initial: the parameters that the module had at first, `[P]`, float32, in the CPU's memory.
        values: all parameters, `[P]`, dtype, on the device. gradients: their gradients, of the same shape and
            dtype.
    """

    def __init__(self, module: nn.Module, dtype: torch.dtype = torch.float32, device: str = "cpu") -> None:
        parameters = list(module.parameters())
        self.initial = torch.cat([p.detach().reshape(-1).float() for p in parameters])
        self.values = self.initial.to(device, dtype, copy=True)
        self.gradients = torch.zeros_like(self.values)
        is_same = self.gradients.dtype == self.initial.dtype and self.gradients.device == self.initial.device
        if is_same:
            self._wide = self.gradients
        else:
            self._wide = torch.zeros_like(self.initial)
        self._parameters = parameters
        self.attach(self.values)
        for p, gradient in zip(
            parameters, torch.split(self.gradients, [p.numel() for p in parameters]), strict=True
        ):
            p.grad = gradient.view(p.shape)

    def attach(self, values: Tensor) -> None:
        """Makes the module's parameters views of `values` `[P]`. If these are shared, it sees every update at once."""
        self.values = values
        for p, part in zip(
            self._parameters, torch.split(values, [p.numel() for p in self._parameters]), strict=True
        ):
            p.data = part.view(p.shape)

    def pull(self, shared: Tensor) -> None:
        """Copies the shared parameters `[P]` into the module."""
        self.values.copy_(shared)

    def wide_gradients(self) -> Tensor:
        """The gradients `[P]` as float32 in the CPU's memory, to be clipped and applied; always the same tensor."""
        if self._wide is not self.gradients:
            self._wide.copy_(self.gradients)
        return self._wide

    def zero_gradients(self) -> None:
        """Sets every gradient to 0, in place."""
        self.gradients.zero_()


def share(*tensors: Tensor) -> None:
    """Moves tensors to shared memory, in place. Their files are unlinked at once, so none can be left behind.

    Raises:
        ConfigError: shared memory has no room for them.
    """
    for tensor in tensors:
        try:
            tensor.share_memory_()  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            # torch reserves the memory, so no process fails later for the lack of it.
            size = tensor.numel() * tensor.element_size()
            reason = str(error).splitlines()[0]
            fault = f"has no room for {size:,} bytes more"
            cure = "Make it larger (docker run --shm-size=1g), or lower run.workers, env.num_envs or agent.n_steps"
            if os.strerror(errno.EFBIG) in reason:
                cure = "Raise the limit of file sizes: ulimit -f unlimited"
            if os.strerror(errno.EROFS) in reason:
                fault = "cannot be written"
                cure = "Mount it for writing: docker run --tmpfs /dev/shm"
            raise ConfigError(f"shared memory (/dev/shm) {fault}: {reason}. {cure}") from error
