"""Networks on a GPU. Shared parameters, rollouts and optimizer stay in the CPU's memory."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from a3c_zoo.errors import ConfigError


def check_device(device: str) -> None:
    """Raises ConfigError if torch cannot compute on a device, "cpu" or "cuda", of this machine."""
    if device == "cpu" or torch.cuda.is_available():
        return
    build = "is the CPU build" if torch.version.cuda is None else f"is built for CUDA {torch.version.cuda}"
    raise ConfigError(
        f"run.device: {device} — no CUDA device is available here (torch {torch.__version__} {build}). "
        "Train on the CPU: leave --device out, or use --device cpu"
    )


class OnDevice:
    """A network on a device for callers on the CPU: arguments are copied to the device, results are copied back.

    Gradients flow back through the copies. Frames are copied as uint8; logits, values and their gradients are small.
    """

    def __init__(self, module: nn.Module, device: str) -> None:
        self._module, self._device = module, torch.device(device)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._module, name)
        if not inspect.ismethod(attribute):
            return attribute
        call = functools.partial(self._call, attribute)
        setattr(self, name, call)  # the next access finds it directly
        return call

    def _call(self, method: Any, *arguments: Any) -> Any:
        there = pytree.tree_map_only(Tensor, lambda tensor: tensor.to(self._device), arguments)
        return pytree.tree_map_only(Tensor, lambda tensor: tensor.cpu(), method(*there))
