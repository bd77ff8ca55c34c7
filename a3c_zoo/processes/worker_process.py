"""What runs in the process of a worker, and the commands that it follows.

The parent tells each worker what to do in a row of cells in shared memory, `[3]`, int64, which the parent
alone writes: the turn, and the steps and the episodes of the run at which the turn ends.
"""

from __future__ import annotations

import pickle
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from torch import Tensor

from a3c_zoo.errors import ZooError, trace_of, type_and_message
from a3c_zoo.learning.counters import TICKS, Counters
from a3c_zoo.processes.crew import REPORT_EVERY_S, CutShort, Worker, WorkerFactory
from a3c_zoo.processes.faults import UnsavableStateError
from a3c_zoo.store.saved_state import UNPICKLABLE
from a3c_zoo.store_order import memory_barrier

#: What the first cell holds: STOP, or the number of a turn. Workers stand still in odd turns and work in even
#: ones. Two fixed values for standing and working would not do: a worker that sleeps while it is told to
#: work, and then to stand still again, would take the second standstill for the first. A negative odd number
#: is a turn of standing still, too; the worker does not finish its rollout.
STOP = 0


class StopWork(BaseException):
    """Raised inside a worker, between two environment steps, when the parent says stop."""


def worker_main(
    pipe: Connection,
    cells: Tensor,
    counters: Tensor,
    factory: WorkerFactory,
    worker_context: Any,
    rank: int,
    state: bytes,
) -> None:
    """What runs in the process of a worker.

    Args:
        pipe: to the parent. cells: the worker's commands. counters: of all workers. state: pickled.
    """
    commands = cells.numpy()
    all_counters = Counters(counters)
    row = all_counters.row(rank)

    def on_tick() -> None:
        row[TICKS] += 1
        if commands[0] <= STOP:
            if commands[0] == STOP:
                raise StopWork
            raise CutShort

    try:
        worker = factory(worker_context, rank, pickle.loads(state), on_tick)
        try:
            with suppress(StopWork):
                _work(worker, commands, all_counters, row, pipe)
            _send(pipe, "report", worker.report())
        finally:
            worker.close()
    except StopWork:
        pass  # the parent says stop, or has gone
    except BaseException as error:
        trace = trace_of(error)
        # A fault of the user travels as itself, any other as its traceback.
        portable = None
        if isinstance(error, ZooError):
            with suppress(Exception):  # a plugin's exception class may be one that cannot be pickled
                portable = pickle.loads(pickle.dumps(error))
        with suppress(OSError):  # the parent has gone, or the environment has closed what is not its own
            pipe.send_bytes(pickle.dumps(("error", (portable, trace, type_and_message(error)))))
        raise SystemExit(1) from None


def _work(worker: Worker, cells: Any, counters: Counters, row: Any, pipe: Connection) -> None:
    """Works in even turns and stands still in odd ones, until the parent says stop."""
    _send(pipe, "ready", None)
    _wait_for_turn_after(1, cells)
    reported_s = time.monotonic()
    while (turn := int(cells[0])) != STOP:
        if turn % 2:  # −3 % 2 is 1, too
            worker.finish()
            _send(pipe, "parked", (worker.report(), worker.state_dict(), abs(turn)))
            _wait_for_turn_after(turn, cells)
            continue
        is_turn_over = _is_turn_over(cells, counters)
        if not is_turn_over:
            with suppress(CutShort):
                worker.work()
        now = time.monotonic()
        if is_turn_over or now - reported_s >= REPORT_EVERY_S:
            reported_s = now
            _send(pipe, "report", worker.report())
        if is_turn_over:
            while cells[0] == turn and _is_turn_over(cells, counters):  # a death may take episodes back
                row[TICKS] += 1
                time.sleep(0.001)
            memory_barrier()


def _is_turn_over(cells: Any, counters: Counters) -> bool:
    """Whether the run has the steps or the episodes at which this turn of work ends."""
    return bool(counters.steps >= cells[1] or counters.episodes >= cells[2])


def _wait_for_turn_after(turn: int, cells: Any) -> None:
    """Waits while this turn lasts. It has no limit of its own: the parent's end, or its stop, ends it."""
    while cells[0] == turn:
        time.sleep(0.001)
    memory_barrier()


def _send(pipe: Connection, kind: str, content: Any) -> None:
    """Sends the parent a message.

    Raises:
        StopWork: the parent has gone. UnsavableStateError: the worker's state in the message cannot be
        pickled.
    """
    try:
        message = pickle.dumps((kind, content))
    except UNPICKLABLE as error:
        if kind != "parked":
            raise
        raise UnsavableStateError(
            f"the state of a worker cannot be saved: {type_and_message(error)}. An environment's get_state() may "
            "return tensors, finite numbers, strings, lists and dicts"
        ) from error
    try:
        pipe.send_bytes(message)
    except BrokenPipeError:  # of this pipe; an environment's own broken pipe is its failure
        raise StopWork from None
