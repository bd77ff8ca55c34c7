"""The global random generators: torch's is lent to one user at a time, and a process of our own seeds them all."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch

_LOCK = threading.RLock()


@contextmanager
def lent_generator(others: Sequence[torch.Generator] = ()) -> Iterator[None]:
    """Within the context torch's generator may be seeded and drawn from. Afterwards it is as it was before.

    Runs may be side by side in threads.

    Args:
        others: generators of other devices for which the same holds.
    """
    with _LOCK, torch.random.fork_rng(devices=[]):
        before = [other.get_state() for other in others]
        try:
            yield
        finally:
            for other, state in zip(others, before, strict=True):
                other.set_state(state)


def global_generator(device: str) -> torch.Generator:
    """torch's own generator of a device in use, "cpu" or "cuda"."""
    if device == "cpu":
        return torch.default_generator
    return torch.cuda.default_generators[torch.cuda.current_device()]


def seed_process(seed: int | None = None) -> None:
    """Seeds the global generators of Python, NumPy and torch, which environments may draw from.

    A fork begins with its parent's numbers: without this, all workers would play the same random episodes.

    Args:
        seed: 31 bits; None for one that the system chooses.
    """
    if seed is None:
        seed = random.SystemRandom().getrandbits(31)
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)
