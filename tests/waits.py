"""How long a test waits for an event, in one place.

A test waits for an event and goes on as soon as it comes. The limit only ends a test that hangs, so it is generous:
on a busy machine a process may need twenty times as long as on an idle one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

#: Longest wait for one event, in seconds. The limit of a whole test (setup.cfg, `timeout`) is larger.
LIMIT_S = 150.0


def wait_until(condition: Callable[[], Any], limit_s: float = LIMIT_S) -> Any:
    """Waits until a condition holds and returns its value.

    Raises:
        AssertionError: the condition did not hold within `limit_s` seconds.
    """
    deadline_s = time.monotonic() + limit_s
    while not (value := condition()):
        assert time.monotonic() < deadline_s, f"nothing within {limit_s:g} s"
        time.sleep(0.02)
    return value
