"""Checks that the environments of a run fit into memory, before they are made."""

from __future__ import annotations

from math import prod

from a3c_zoo import hardware
from a3c_zoo.errors import ConfigError
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
    needed, available = workers * (rollout + update + num_envs * own), hardware.available_memory()
    if needed <= available:
        return
    cures = "env.num_envs, agent.n_steps or run.workers" if workers > 1 else "env.num_envs or agent.n_steps"
    raise ConfigError(
        f"{workers} × {num_envs} environments need at least {_giga(needed)} of memory, {_giga(available)} are free "
        f"(each worker: {_giga(rollout)} for the observations of a rollout, {_giga(update)} for those of an update, "
        f"{_giga(num_envs * own)} for the environments). Lower {cures}"
    )


def check_handover_memory(layout_bytes: int, *, workers: int, slots: int, batch_slots: int) -> None:
    """The same check for the ring between workers and a learner, and for the learner's batch.

    Args:
        layout_bytes: size of one slot. slots: number of slots of each worker.
        batch_slots: number of slots that the learner gathers.

    Raises:
        ConfigError: they cannot fit.
    """
    ring, batch, available = workers * slots * layout_bytes, batch_slots * layout_bytes, hardware.available_memory()
    if ring + batch <= available:
        return
    raise ConfigError(
        f"what workers hand over to the learner needs {_giga(ring + batch)} of memory, {_giga(available)} are free "
        f"({workers} × {slots} slots of {_giga(layout_bytes)}, and {_giga(batch)} that the learner gathers). "
        "Lower agent.slots, agent.n_steps, agent.batch_size or env.num_envs"
    )


def _giga(number: int) -> str:
    return f"{number / 1e9:,.1f} GB"
