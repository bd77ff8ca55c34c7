"""Child processes: their global random generators, from which environments draw, and processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
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


def start_a_process(pipe: Connection) -> None:
    for target, ends in ((print, True), (signal.pause, False)):
        process = multiprocessing.get_context("fork").Process(target=target)
        process.start()
        if not ends:
            process.terminate()
        process.join(LIMIT_S)
        pipe.send(process.exitcode)
    multiprocessing.get_context("fork").Process(target=signal.pause).start()
    os._exit(0)  # that process lives on


def test_an_environment_may_start_processes() -> None:
    child = ChildProcess("forkserver", "starts", start_a_process)
    try:
        assert child.pipe.poll(LIMIT_S)
        assert child.pipe.recv() == 0
        assert child.pipe.poll(LIMIT_S)
        assert child.pipe.recv() == -signal.SIGTERM
        assert child.pipe.poll(LIMIT_S)
        with pytest.raises(EOFError):  # the end of the child is met at once
            child.pipe.recv()
    finally:
        end_children([child], LIMIT_S)


@pytest.mark.parametrize(("start_method", "count"), [("forkserver", 3), ("spawn", 2)])
def test_each_process_draws_numbers_of_its_own(start_method: str, count: int) -> None:
    children = [ChildProcess(start_method, "draws", draw) for _ in range(count)]
    try:
        assert all(child.pipe.poll(LIMIT_S) for child in children)
        drawn = [child.pipe.recv() for child in children]
    finally:
        end_children(children, LIMIT_S)
    assert all(len({each[name] for each in drawn}) == count for name in DRAWS)
