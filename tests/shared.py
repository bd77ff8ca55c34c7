"""What several tests need is made once, though they may run in several processes."""

from __future__ import annotations

import os
from collections.abc import Callable
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
