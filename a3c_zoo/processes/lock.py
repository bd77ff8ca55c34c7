"""A lock that all workers share; if its holder dies, nobody hangs."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.synchronize import Lock

#: How often a waiting process checks the stop signal, in seconds.
CHECK_EVERY_S = 0.1


class PatientLock:
    """One worker's view of the lock, for `with`.

    If the holder dies, the lock stays locked. The parent sees the death and says stop, and then `on_wait`
    raises.

    Args:
        lock: multiprocessing's. on_wait: called every tenth of a second while another worker holds the lock.
    """

    def __init__(self, lock: Lock, on_wait: Callable[[], None]) -> None:
        self._lock = lock
        self._on_wait = on_wait

    def __enter__(self) -> None:
        while not self._lock.acquire(timeout=CHECK_EVERY_S):
            self._on_wait()

    def __exit__(self, *exception: object) -> None:
        self._lock.release()
