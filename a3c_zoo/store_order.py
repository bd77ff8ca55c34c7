"""The order in which processes see each other's stores to shared memory.

Processes hand over data without locks. The writer stores the data and then a number that makes the data valid; the
reader loads the number and then the data. Both orders must hold in the other process too:

    where                               data                               number
    processes/ring.py                   a slot                             slots filled, slots emptied
    processes/worker_process.py         the limits of a turn               number of the turn
    processes/team.py                   gradients, sums, moments           arrivals of a member
    learning/running_statistics.py      one half of a row                  how often the row was written

x86-64 shows stores and loads to other processors in program order, except that a load may come before an earlier store
(Intel SDM, volume 3A, "Memory Ordering"); no case above depends on that pair. Other processors may exchange any two of
them. There, and only there, `memory_barrier` takes a lock between data and number.
"""

from __future__ import annotations

import platform
import threading

#: Whether this processor keeps the order by itself.
KEEPS_ORDER = platform.machine().lower() in ("x86_64", "amd64")

_lock = threading.Lock()


def memory_barrier() -> None:
    """Every process sees the loads and stores before this call before those after it.

    The first round's release comes after everything before the call. The second round's acquire reads what that release
    wrote, and comes before everything after the call. No process waits for another, so none can die while it holds
    what others need.
    """
    if KEEPS_ORDER:
        return
    for _ in range(2):
        with _lock:
            pass
