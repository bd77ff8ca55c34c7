"""What runs in the process of a worker."""

from __future__ import annotations

import pickle
import time
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from torch import Tensor

from a3c_zoo.errors import ZooError
from a3c_zoo.learning.counters import Counters
from a3c_zoo.processes.child import settle_in
from a3c_zoo.processes.commands import STOP, CommandCells, StopWork
from a3c_zoo.processes.crew import REPORT_EVERY_S, Worker, WorkerFactory


def worker_main(
    pipe: Connection,
    cells: Tensor,
    counters: Tensor,
    factory: WorkerFactory,
    worker_context: Any,
    rank: int,
    state: bytes,
) -> None:
    """A worker process from its first line to its last.

    Args:
        pipe: to the parent. cells: the worker's row of `Commands`. counters: of all workers. state: pickled.
    """
    settle_in()
    commands = CommandCells(cells, Counters(counters), rank)
    try:
        worker = factory(worker_context, rank, pickle.loads(state), commands.on_tick())
        try:
            _work(worker, commands, pipe)
        finally:
            worker.close()
    except StopWork:
        pass  # the parent says stop, or has gone
    except BaseException as error:
        # A fault of the user travels as itself, any other as its traceback.
        content = (_portable(error) if isinstance(error, ZooError) else None, traceback.format_exc())
        with suppress(BrokenPipeError):
            pipe.send_bytes(pickle.dumps(("error", content)))
        raise SystemExit(1) from None


def _work(worker: Worker, commands: CommandCells, pipe: Connection) -> None:
    """Works in even turns and stands still in odd ones, until the parent says stop."""
    _send(pipe, "ready", None)
    commands.wait_for_turn_after(1)
    reported_s = time.monotonic()
    while (turn := commands.turn) != STOP:
        if turn % 2:
            worker.finish()
            _send(pipe, "parked", (worker.report(), worker.state_dict()))
            commands.wait_for_turn_after(turn)
            continue
        is_turn_over = commands.is_turn_over
        if not is_turn_over:
            worker.work()
        now = time.monotonic()
        if is_turn_over or now - reported_s >= REPORT_EVERY_S:
            reported_s = now
            _send(pipe, "report", worker.report())
        if is_turn_over:
            commands.wait_for_turn_after(turn)


def _send(pipe: Connection, kind: str, content: Any) -> None:
    """Sends the parent a message; raises StopWork if it has gone."""
    try:
        pipe.send_bytes(pickle.dumps((kind, content)))
    except BrokenPipeError:  # of this pipe; an environment's own broken pipe is its failure
        raise StopWork from None


def _portable(error: ZooError) -> ZooError | None:
    """The error as the parent will see it; None if a plugin's exception class cannot be pickled."""
    try:
        return pickle.loads(pickle.dumps(error))  # type: ignore[no-any-return]
    except Exception:
        return None
