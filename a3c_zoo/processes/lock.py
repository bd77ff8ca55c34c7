"""A lock that all workers share, and that hangs nobody if its holder dies."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.synchronize import Lock

#: Seconds after which who waits looks whether it shall stop.
LOOK_EVERY_S = 0.1


class PatientLock:
    """One worker's view of the lock, for `with`.

    If the holder dies, the lock stays locked: the parent sees the death, says stop, and `on_wait` raises.

    Args:
        lock: multiprocessing's. on_wait: called every tenth of a second while another one holds it.
    """

    def __init__(self, lock: Lock, on_wait: Callable[[], None]) -> None:
        self._lock, self._on_wait = lock, on_wait

    def __enter__(self) -> None:
        while not self._lock.acquire(timeout=LOOK_EVERY_S):
            self._on_wait()

    def __exit__(self, *exception: object) -> None:
        self._lock.release()
