"""The global random generators of Python, NumPy and torch, from which environments draw."""

from __future__ import annotations

import random
from multiprocessing.connection import Connection

import numpy as np
import pytest
import torch

from a3c_zoo.processes.child import ChildProcess, end_children
from tests.waits import LIMIT_S

DRAWS = {
    "random": lambda: random.random(),
    "numpy": lambda: float(np.random.random()),
    "torch": lambda: float(torch.rand(())),
}


def draw(pipe: Connection) -> None:
    pipe.send({name: take() for name, take in DRAWS.items()})


@pytest.mark.parametrize(("start_method", "count"), [("forkserver", 3), ("spawn", 2)])
def test_each_process_draws_numbers_of_its_own(start_method: str, count: int) -> None:
    children = [ChildProcess(start_method, "draws", draw) for _ in range(count)]
    try:
        assert all(child.pipe.poll(LIMIT_S) for child in children)
        drawn = [child.pipe.recv() for child in children]
    finally:
        end_children(children, LIMIT_S)
    assert all(len({each[name] for each in drawn}) == count for name in DRAWS)
