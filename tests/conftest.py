"""What every test needs."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def ctrl_c_still_works() -> Iterator[None]:
    """A command line that has ended ignores Ctrl-C from then on; here it ends within pytest, whose children inherit."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)
