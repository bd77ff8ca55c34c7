"""What several tests need is made once, though they may run in several processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import filelock
import pytest


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
