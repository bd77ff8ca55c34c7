"""Checks that a run fits into memory, and that a network is of its checkpoint's size, before anything large is made."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from a3c_zoo import hardware
from a3c_zoo.errors import ConfigError, RunDirectoryError
from a3c_zoo.hardware import giga
from a3c_zoo.learning.spaces import ObservationSpec
from a3c_zoo.store.saved_state import tensors_of

#: Numbers that any network may make, whatever its size.
FREE_NUMBERS = 1_000_000


def check_memory(
    spec: ObservationSpec,
    *,
    workers: int,
    num_envs: int,
    stored_steps: int,
    update_samples: int = 0,
    number_bytes: int = 4,
    environment_bytes: int = 0,
) -> None:
    """Compares a lower bound of the memory that a run needs with the memory that is free.

    Networks, optimizers and libraries are not counted.

    Args:
        spec: of one observation. num_envs: environments of each worker.
        stored_steps: observations that a worker stores for each environment, beside the newest one.
        update_samples: observations that become floating point at once for an update, in the CPU's memory.
        number_bytes: size of a floating point number: 4, or 2 in bfloat16.
        environment_bytes: what an environment takes at least, beside its observations.

    Raises:
        ConfigError: the run cannot fit.
    """
    size = spec.dtype.itemsize * prod(spec.shape)
    elements = prod(spec.shape)
    own = size + environment_bytes
    rollout = (stored_steps + 1) * num_envs * size
    update = update_samples * elements * number_bytes
    keys = "env.num_envs or agent.n_steps"
    if workers > 1:
        keys = "env.num_envs, agent.n_steps or run.workers"
    check_fits(
        f"{workers} × {num_envs} environments need at least",
        workers * (rollout + update + num_envs * own),
        f"each worker: {giga(rollout)} for the observations of a rollout, {giga(update)} for those of an update, "
        f"{giga(num_envs * own)} for the environments",
        keys,
    )


def check_fits(subject: str, needed: int, parts: str, cures: str) -> None:
    """Raises ConfigError if fewer bytes are free than `subject` needs; `cures` names the keys to lower."""
    available = hardware.available_memory()
    if needed > available:
        raise ConfigError(
            f"{subject} {giga(needed)} of memory, {giga(available)} are free ({parts}). Lower {cures}"
        )


class SizeLimit(TorchFunctionMode):
    """Within the context torch makes at most about as many numbers as a checkpoint holds (see `FREE_NUMBERS`).

    A stranger's checkpoint may name a network of any size. It is not built if its numbers are not there.
    """

    def __init__(self, content: Any) -> None:
        super().__init__()
        self._there = sum(tensor.numel() for _, tensor in tensors_of(content))
        self._left = 2 * self._there + FREE_NUMBERS

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Raises RunDirectoryError for a tensor that is too large, of `torch.empty(sizes)`, as layers make theirs."""
        is_one_size = bool(args) and isinstance(args[0], tuple | list)
        sizes = (kwargs or {}).get("size", args[0] if is_one_size else args)
        if (
            sizes
            and func not in (torch.tensor, torch.as_tensor)
            and all(isinstance(size, int) for size in sizes)
        ):
            self._left -= prod(sizes)
            if self._left < 0:
                raise RunDirectoryError(
                    f"the checkpoint is of a smaller network: it has {self._there:,} numbers"
                )
        return func(*args, **(kwargs or {}))
