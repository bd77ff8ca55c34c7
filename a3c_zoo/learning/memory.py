"""Checks that a run fits into memory, before anything large is made."""

from __future__ import annotations

from math import prod

from a3c_zoo import hardware
from a3c_zoo.errors import ConfigError
from a3c_zoo.hardware import giga
from a3c_zoo.learning.spaces import ObservationSpec

#: Memory of an environment with images beside its observations, in bytes (an Atari emulator of ale-py 0.12).
IMAGE_ENVIRONMENT_BYTES = 1_400_000


def check_memory(
    spec: ObservationSpec,
    *,
    workers: int,
    num_envs: int,
    stored_steps: int,
    update_samples: int = 0,
    number_bytes: int = 4,
) -> None:
    """Compares a lower bound of the memory that a run needs with the memory that is free.

    Networks, optimizers and libraries are not counted.

    Args:
        spec: of one observation. num_envs: environments of each worker.
        stored_steps: observations that a worker stores for each environment, beside the newest one.
        update_samples: observations that become floating point at once for an update, in the CPU's memory.
        number_bytes: size of a floating point number: 4, or 2 in bfloat16.

    Raises:
        ConfigError: the run cannot fit.
    """
    size, elements = spec.dtype.itemsize * prod(spec.shape), prod(spec.shape)
    own = size + (IMAGE_ENVIRONMENT_BYTES if spec.kind == "image" else 0)
    rollout, update = (stored_steps + 1) * num_envs * size, update_samples * elements * number_bytes
    check_fits(
        f"{workers} × {num_envs} environments need at least",
        workers * (rollout + update + num_envs * own),
        f"each worker: {giga(rollout)} for the observations of a rollout, {giga(update)} for those of an update, "
        f"{giga(num_envs * own)} for the environments",
        "env.num_envs, agent.n_steps or run.workers" if workers > 1 else "env.num_envs or agent.n_steps",
    )


def check_fits(subject: str, needed: int, parts: str, cures: str) -> None:
    """Raises ConfigError if fewer bytes are free than `subject` needs; `cures` names the keys to lower."""
    available = hardware.available_memory()
    if needed > available:
        raise ConfigError(f"{subject} {giga(needed)} of memory, {giga(available)} are free ({parts}). Lower {cures}")
