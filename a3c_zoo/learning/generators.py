"""torch's global random generator, lent to one user at a time: runs may be side by side in threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_LOCK = threading.RLock()


@contextmanager
def lent_generator() -> Iterator[None]:
    """Within the context the generator may be seeded and drawn from. Afterwards it is as it was before."""
    with _LOCK, torch.random.fork_rng(devices=[]):
        yield
