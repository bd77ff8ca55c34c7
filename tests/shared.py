"""What several tests need is made once, though they may run in several processes."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import filelock
import pytest

from a3c_zoo.plugins.registry import get_registry

#: Baselines that train as sb3-a2c does: one module trains all of them.
LIKE_A2C = ("recurrent-ppo", "sb3-dqn", "sb3-ppo")


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Returns a folder that `make` has filled, for the first process of the suite that asks (pytest-xdist)."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with filelock.FileLock(folder.with_suffix(".lock")):
        if not folder.with_suffix(".made").exists():
            folder.mkdir()
            make(folder)
            folder.with_suffix(".made").touch()
    return folder


def all_agents() -> list[Any]:
    """All agents and baselines as parameters of a test. Those that another one stands for are slow."""
    names = sorted(get_registry().agents)
    return [pytest.param(name, marks=pytest.mark.slow) if name in LIKE_A2C else name for name in names]


@contextmanager
def closed(folder: Path, mode: int = 0) -> Iterator[None]:
    """A folder has another mode, which binds root, too. It is open again later, so that pytest can delete it."""
    before = folder.stat().st_mode
    folder.chmod(mode)
    try:
        with _like_others() if os.geteuid() == 0 else nullcontext():
            yield
    finally:
        folder.chmod(before)


@contextmanager
def _like_others() -> Iterator[None]:
    """This thread of root meets the permissions of files as other users do: it lacks two capabilities meanwhile."""
    libc, head = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3; this thread
    had = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice
    libc.capget(head, had)
    less = (ctypes.c_uint32 * 6)(had[0] & ~0b110, *had[1:])  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    libc.capset(head, less)
    try:
        yield
    finally:
        libc.capset(head, had)
