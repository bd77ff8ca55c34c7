"""Workers for the tests of the pool. Each worker imports this module, so it imports little."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

from a3c_zoo.errors import EnvironmentContractError, ZooError
from a3c_zoo.learning.counters import Counters
from a3c_zoo.records import Report
from tests.waits import LIMIT_S

STEPS = 10  # of one piece of work


class AwkwardError(ZooError):
    """Cannot be unpickled: it is made of two arguments and keeps one."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what} {why}")


class CountingWorker:
    """Counts its steps; what it does besides is the plan, a fault."""

    def __init__(self, plan: Any, rank: int, state: dict[str, Any] | None, on_tick: Callable[[], None]) -> None:
        self.fault, counters = plan
        self.row, self.rank, self.on_tick = Counters(counters).row(rank), rank, on_tick
        self.rollouts = state["rollouts"] if state else 0
        if self.fault == "hang-at-start" and rank == 1:
            time.sleep(600)

    def work(self) -> None:
        is_slow = self.fault == "slow" or (self.fault == "slow learner" and self.rank == 0)
        for _ in range(10**6 if is_slow else STEPS):
            time.sleep(0.0005)
            self.on_tick()
        self.row[0] += STEPS
        self.row[3] += 1
        self.rollouts += 1
        if self.rank == 1 and self.rollouts == 3:
            misbehave(self.fault)

    def finish(self) -> None:
        pass

    def report(self) -> Report:
        metrics = {f"metric {n}": 0.0 for n in range(20_000)} if self.fault == "talk" else {}
        return Report(worker=self.rank, steps=int(self.row[0]), metrics=metrics)

    def state_dict(self) -> dict[str, Any]:
        state = {"rollouts": self.rollouts, "pid": os.getpid()}
        state |= {"environment": dict(os.environ), "threads": torch.get_num_threads()}
        return state | {"env": threading.Lock()} if self.fault == "lock" else state

    def close(self) -> None:
        if self.fault == "close":
            raise RuntimeError("cannot close")


def misbehave(fault: str) -> None:
    """What a worker does in its third rollout."""
    match fault:
        case "raise" | "close":
            raise ValueError("boom")
        case "user":
            raise EnvironmentContractError("environment 'x' returned rubbish")
        case "awkward":
            raise AwkwardError("something", "awkward")
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "segfault":
            ctypes.string_at(0)
        case "leave":
            os._exit(3)
        case "exit":
            sys.exit(4)
        case "pipe":  # to a simulator that an environment has started, and that has ended
            reader, writer = os.pipe()
            os.close(reader)
            os.write(writer, b"step")
        case "hang":
            time.sleep(600)
        case "child":  # programs that an environment starts can be terminated although the worker cannot
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            child.terminate()
            assert child.wait(LIMIT_S) == -signal.SIGTERM
            raise ValueError("its child has ended")
